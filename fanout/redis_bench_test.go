package fanout

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/internal/redistest"
)

// BenchmarkRedis is what a tick costs the Redis server, in processor time of
// its own: publishing alone, and for each gateway that is subscribed. The
// server's work is measured, not this process's.
func BenchmarkRedis(b *testing.B) {
	server := redistest.Start(b)
	for _, gateways := range []int{0, 1, 4, 16} {
		b.Run(fmt.Sprintf("gateways=%d", gateways), func(b *testing.B) {
			for range gateways {
				listenOnly(b, server, "md:a:ticker")
			}
			benchRedis(b, server)
		})
	}
}

func benchRedis(b *testing.B, server *redistest.Server) {
	const portion = 200 // commands that are sent together
	command := fmt.Sprintf("*3\r\n$7\r\nPUBLISH\r\n$11\r\nmd:a:ticker\r\n$100\r\n%s\r\n", strings.Repeat("x", 100))
	portions := []byte(strings.Repeat(command, portion))
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	published, before := 0, processorTime(b, server)
	for b.Loop() {
		if _, err := conn.Write(portions); err != nil {
			b.Fatal(err)
		}
		for answers, buf := 0, make([]byte, 4096); answers < portion; {
			n, err := conn.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			answers += strings.Count(string(buf[:n]), "\n")
		}
		published += portion
	}
	b.ReportMetric((processorTime(b, server)-before)/float64(published)*1e6, "server-µs/tick")
}

// listenOnly is a subscriber that reads and drops.
func listenOnly(b *testing.B, server *redistest.Server, channel string) {
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "SUBSCRIBE %s\r\n", channel); err != nil {
		b.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is closed
}

// processorTime is what the server has used up, in seconds.
func processorTime(b *testing.B, server *redistest.Server) (total float64) {
	b.Helper()
	for line := range strings.Lines(server.Do("INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += seconds
		}
	}
	if total == 0 {
		b.Fatal("the server does not tell its processor time")
	}
	return total
}
