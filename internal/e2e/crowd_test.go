package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// uncompressed keeps ticks as large as they are.
const uncompressed = "compress.codecs=[none]"

// size is few in `make test` and many with SEALCAST_LONG=1.
func size(few, many int) int {
	if testenv.Long() {
		return many
	}
	return few
}

// crowdOptions are those of clients of which there are many: cheap handshakes, and
// a small buffer in the kernel, so that it shows soon when they do not read.
func crowdOptions(g *gateway) client.Options {
	opts := g.options()
	opts.Suites, opts.PostQuantum = []suite.ID{suite.AES128GCM}, session.PostQuantumOff
	opts.NetDial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return c, err
	}
	return opts
}

// connectAll connects n clients, several at a time, and subscribes them.
func connectAll(t *testing.T, url string, opts client.Options, n int, filters ...string) []*client.Conn {
	t.Helper()
	conns := make([]*client.Conn, n)
	var dialing sync.WaitGroup
	workers := 2 * runtime.GOMAXPROCS(0)
	for w := range workers {
		dialing.Go(func() {
			for i := w; i < n && !t.Failed(); i += workers {
				c, err := dialPatiently(t.Context(), url, opts)
				if err == nil {
					_, err = c.Subscribe(t.Context(), filters...)
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				conns[i] = c
			}
		})
	}
	dialing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close(context.Background())
		}
	})
	return conns
}

// SIGTERM with many sessions, some of which have a megabyte waiting for them: each
// gets what waits for it and its Goodbye, and the gateway ends with status 0.
func TestStopWithManySessions(t *testing.T) {
	const window, behindPayload, backlog = 2 * time.Second, 10 << 10, 100
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "drain.window="+window.String(), "drain.timeout=1m", "slow.timeout=30s", uncompressed))
	crowd := connectAll(t, g.url(), crowdOptions(g), size(200, 5000), "crowd:quiet")
	behind := connectAll(t, g.url(), crowdOptions(g), size(10, 50), "crowd:large")
	source := r.Connect()
	for i := range backlog {
		source.Publish("crowd:large", strconv.Itoa(i)+string(make([]byte, behindPayload)))
	}
	eventually(t, patience, "sessions that are behind", func() bool { return int(g.metric("sealcast_slow_sessions")) == len(behind) })

	began := time.Now()
	g.signal(syscall.SIGTERM)
	var reading sync.WaitGroup
	var latest atomic.Int64
	for _, c := range crowd {
		reading.Go(func() {
			ticks, err := readToEnd(c)
			latest.Store(max(latest.Load(), int64(time.Since(began))))
			checkRestart(t, ticks, err, 0)
		})
	}
	for _, c := range behind {
		reading.Go(func() {
			ticks, err := readToEnd(c)
			checkRestart(t, ticks, err, backlog)
		})
	}
	reading.Wait()
	g.expect(0, `"stopped"`)
	t.Logf("%d sessions and %d that were behind: told within %v, ended after %v", len(crowd), len(behind),
		time.Duration(latest.Load()).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// readToEnd counts ticks until the connection ends.
func readToEnd(c *client.Conn) (ticks int, err error) {
	for {
		event, err := c.Next(context.Background())
		if err != nil {
			return ticks, err
		}
		if _, ok := event.(*client.Tick); ok {
			ticks++
		}
	}
}

func checkRestart(t *testing.T, ticks int, err error, want int) {
	closed, ok := errors.AsType[*client.ClosedError](err)
	if !ok || closed.Code != wire.CloseRestart || !closed.Final || ticks != want {
		t.Errorf("%d ticks, want %d; ended by %v", ticks, want, err)
	}
}

// A tenth of the subscribers stop reading: each of them ends with 4413, and the
// others get every tick. How late the ticks are is reported, with and without.
func TestSomeStopReading(t *testing.T) {
	n := size(60, 1000)
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "slow.queue=64KiB", "slow.timeout=2s", "batch.max_delay=0s", uncompressed))
	roomy := crowdOptions(g)
	roomy.NetDial = nil
	brisk := connectAll(t, g.url(), roomy, n-n/10, "stop:a")
	stopped := connectAll(t, g.url(), crowdOptions(g), n/10, "stop:nothing")
	const ticks, payload = 300, 2 << 10
	quiet := deliver(t, r, brisk, ticks, payload, 0)
	for _, c := range stopped {
		if _, err := c.Subscribe(t.Context(), "stop:a"); err != nil {
			t.Fatal(err)
		}
	}
	loud := deliver(t, r, brisk, ticks, payload, ticks)
	eventually(t, patience, "an end with 4413 of those that do not read, and of nobody else", func() bool {
		return int(g.metric("sealcast_slow_sessions")) == 0 && int(g.metric("sealcast_slow_queue_bytes")) == 0 &&
			int(g.metric(`sealcast_closes_total{by="gateway",code="4413"}`)) == len(stopped)
	})
	t.Logf("%d subscribers, %d of them stop: median and 99 %% of the others %v and %v, before that %v and %v", n, len(stopped),
		loud[len(loud)/2], loud[len(loud)*99/100], quiet[len(quiet)/2], quiet[len(quiet)*99/100])
}

// deliver publishes numbered ticks and wants each client to get all of them, from
// first on; how long each took comes back in order.
func deliver(t *testing.T, r *redistest.Server, to []*client.Conn, ticks, payload, first int) (took []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var reading sync.WaitGroup
	for i, c := range to {
		reading.Go(func() {
			var mine []time.Duration
			for len(mine) < ticks && !t.Failed() {
				event, err := c.Next(t.Context())
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				tick, ok := event.(*client.Tick)
				if !ok {
					continue
				}
				if tick.Skipped != 0 || int(binary.BigEndian.Uint64(tick.Payload[8:])) != first+len(mine) {
					t.Errorf("client %d: tick %d, %d skipped, instead of %d", i, binary.BigEndian.Uint64(tick.Payload[8:]), tick.Skipped, first+len(mine))
					return
				}
				mine = append(mine, time.Duration(time.Now().UnixNano()-int64(binary.BigEndian.Uint64(tick.Payload))))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	source := r.Connect()
	defer source.Close()
	for i := range ticks {
		b := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
		b = binary.BigEndian.AppendUint64(b, uint64(first+i))
		source.Publish("stop:a", string(append(b, make([]byte, payload)...)))
		time.Sleep(5 * time.Millisecond)
	}
	reading.Wait()
	if t.Failed() {
		t.FailNow()
	}
	slices.Sort(took)
	return took
}

// SIGHUP, again and again, while ticks flow to many sessions: none ends, and each
// gets every tick.
func TestReloadWithManySessions(t *testing.T) {
	n := size(100, 2000)
	r := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	settings := func(i int) {
		s := []string{
			"batch: {max_delay: 0s}\n",
			"batch: {max_delay: 20ms, max_ticks: 2}\nslow: {queue: 1MiB, timeout: 20s}\nheartbeat: {interval: 1s}\nlimits: {messages_per_second: 1}\ncipher: {rekey: {records: 10}}\n",
		}[i%2]
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Error(err)
		}
	}
	settings(0)
	g := serve(t, fromRedis(r), func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--config", file) })
	opts := crowdOptions(g)
	opts.NetDial = nil
	crowd := connectAll(t, g.url(), opts, n, "stop:a")
	over, reloads := make(chan struct{}), 0
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			settings(reloads + 1)
			g.signal(syscall.SIGHUP)
			for reloads++; strings.Count(g.stderr.String(), `"settings reloaded"`) < reloads; {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
	})
	deliver(t, r, crowd, 300, 100, 0)
	close(over)
	reloading.Wait()
	if got := int(g.metric("sealcast_connections")); got != n || reloads < 2 {
		t.Errorf("%d of %d sessions after %d reloads", got, n, reloads)
	}
	t.Logf("%d ticks to each of %d sessions, %d reloads meanwhile", 300, n, reloads)
}

// kill -9 and a restart: all clients come back by themselves, at times of their
// own, and get ticks again.
func TestKilledGatewayComesBack(t *testing.T) {
	n := size(30, 500)
	r := redistest.Start(t)
	key := t.TempDir() + "/gateway.key"
	start(t, "sealcast", []string{"keygen", "-o", key}).expect(0)
	first := serve(t, fromRedis(r, "key_file="+key))
	opts := crowdOptions(first)
	var clients []*client.Client
	for range n {
		c, err := client.Open(t.Context(), first.url(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		if err := c.Subscribe("kill:**"); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	back := make(chan time.Time, n)
	ticked := make(chan int, n)
	for i, c := range clients {
		go follow(t, c, i, back, ticked)
	}
	first.signal(syscall.SIGKILL)
	first.end()
	second := serve(t, fromRedis(r, "key_file="+key, "listen="+first.listen))
	restarted := time.Now()
	var times []time.Duration
	for range n {
		select {
		case at := <-back:
			times = append(times, at.Sub(restarted))
		case <-time.After(patience):
			t.Fatalf("%d of %d clients are back", len(times), n)
		}
	}
	slices.Sort(times)
	t.Logf("back after the restart: the first %v, half %v, the last %v", times[0], times[n/2], times[n-1])
	if times[n-1] == times[0] || testenv.Long() && times[n-1] > 5*time.Second {
		t.Errorf("the last is back %v after the restart, the first %v", times[n-1], times[0])
	}
	source := r.Connect()
	eventually(t, patience, "subscriptions", func() bool {
		return source.Do("PUBSUB", "NUMPAT") != "0" && int(second.metric("sealcast_connections")) == n
	})
	seen := map[int]bool{}
	for len(seen) < n {
		source.Publish("kill:a", "alive")
		select {
		case i := <-ticked:
			seen[i] = true
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// follow tells when a client is connected again, and once that it got a tick after that.
func follow(t *testing.T, c *client.Client, i int, back chan<- time.Time, ticked chan<- int) {
	returned, told := false, false
	for {
		event, err := c.Next(t.Context())
		if err != nil {
			return // the test is over
		}
		switch event.(type) {
		case *client.Connected:
			if !returned {
				returned = true
				back <- time.Now()
			}
		case *client.Tick:
			if returned && !told {
				told = true
				ticked <- i
			}
		}
	}
}
