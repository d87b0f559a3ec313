package fanout

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
)

// scripted is a server that answers each command as the test says. It serves
// one connection at a time.
func scripted(t *testing.T, answer func(c net.Conn, command []string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			for {
				command, err := readCommand(r)
				if err != nil {
					break
				}
				answer(c, command)
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func readCommand(r *bufio.Reader) ([]string, error) {
	var args []string
	for left := 1; left > 0; left-- {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		if line[0] == '*' {
			left += n
			continue
		}
		text := make([]byte, n+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args = append(args, strings.ToLower(string(text[:n])))
	}
	return args, nil
}

// ordinary answers what an ordinary Redis of the old protocol does.
func ordinary(c net.Conn, command []string) {
	switch command[0] {
	case "ping":
		fmt.Fprint(c, "+PONG\r\n")
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe":
		fmt.Fprintf(c, "*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:1\r\n", len(command[0]), command[0], len(command[1]), command[1])
	default:
		fmt.Fprint(c, "-ERR unknown command\r\n")
	}
}

// A message that takes longer than PING and its answer would is no silence, as
// long as bytes come.
func TestLinkSlowMessageIsNoLoss(t *testing.T) {
	addr := scripted(t, func(c net.Conn, command []string) {
		ordinary(c, command)
		if command[0] != "subscribe" {
			return
		}
		fmt.Fprint(c, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$8\r\n")
		for _, b := range "12345678" {
			time.Sleep(60 * time.Millisecond)
			fmt.Fprintf(c, "%c", b)
		}
		fmt.Fprint(c, "\r\n")
	})
	opt := quick(addr)
	opt.Redis.PingAfter, opt.Redis.PingTimeout = 100*time.Millisecond, 100*time.Millisecond
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("a")
	l.seen("a", "12345678")
	if st := h.Stats(); st.Lost != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestLinkPingKeepsQuietConnection(t *testing.T) {
	pings := make(chan struct{}, 100)
	addr := scripted(t, func(c net.Conn, command []string) {
		ordinary(c, command)
		if command[0] == "ping" {
			pings <- struct{}{}
		}
	})
	opt := quick(addr)
	opt.Redis.PingAfter = 10 * time.Millisecond
	opt.Redis.Canary = time.Hour // the server gives no messages
	h := startLive(t, opt)
	for range 5 {
		select {
		case <-pings:
		case <-time.After(patience):
			t.Fatal("no PING")
		}
	}
	if st := h.Stats(); st.Lost != 0 || h.Ready() != nil {
		t.Errorf("stats %+v, ready %v", st, h.Ready())
	}
}

// An error that refuses no subscription ends the connection.
func TestLinkUnexpectedError(t *testing.T) {
	failed := false
	addr := scripted(t, func(c net.Conn, command []string) {
		if command[0] == "subscribe" && !failed {
			failed = true
			fmt.Fprint(c, "-ERR broken\r\n")
			return
		}
		ordinary(c, command)
	})
	h := startLive(t, quick(addr))
	l := h.loop()
	l.acquire("a")
	l.confirmed("a")
	if st := h.Stats(); st.Lost != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestLinkNotRedis(t *testing.T) {
	addr := scripted(t, func(c net.Conn, _ []string) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	startLive(t, quick(addr)).waitNotReady("HTTP/1.1 400")
}

func TestLinkUnknownHost(t *testing.T) {
	h := startLive(t, quick("no-such-host.invalid:1"))
	eventually(t, "failed", func() bool { return !strings.Contains(h.Ready().Error(), errStarting.Error()) })
	if text := h.Ready().Error(); !strings.HasPrefix(text, "redis no-such-host.invalid:1: ") {
		t.Errorf("Ready: %s", text)
	}
}

func TestRedisOverTLS(t *testing.T) {
	s := redistest.Start(t)
	web := httptest.NewUnstartedServer(nil) // only for its certificate
	web.StartTLS()
	defer web.Close()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	go forward(tls.NewListener(inner, &tls.Config{Certificates: web.TLS.Certificates}), s.Addr)

	opt := quick(inner.Addr().String())
	opt.Redis.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	startLive(t, opt).waitNotReady("certificate signed by unknown authority")
	opt.Redis.TLS.RootCAs.AddCert(web.Certificate())
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("a")
	l.confirmed("a")
	s.Connect().Publish("a", "1")
	l.seen("a", "1")
}

// forward copies each connection of the listener to the address and back.
func forward(l net.Listener, addr string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", addr)
		if err != nil {
			_ = from.Close()
			continue
		}
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

func TestRunEndsWhileConnecting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and stays silent
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	opt := quick(l.Addr().String())
	opt.Redis.DialTimeout = time.Minute
	h := NewHub(opt)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("Run waits for a silent server")
	}
}

func TestPauseGrowsWithinBounds(t *testing.T) {
	opt := Options{}.withDefaults()
	random := newRandom(opt.Random)
	for failures, longest := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		longest *= time.Millisecond
		for range 50 {
			if p := pause(&opt.Redis, random, failures); p < longest/2 || p > longest {
				t.Errorf("pause after %d failures: %v", failures, p)
			}
		}
	}
	if p := pause(&opt.Redis, random, 1<<30); p > time.Second {
		t.Errorf("pause %v", p)
	}
}
