package e2e

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// What 15,000 sessions cost that do nothing but live: memory of the process after
// a forced collection, which must not become more, and time of the processors with
// heartbeats as by default, which is reported: it depends on what else runs. In
// `make test` there are fewer, and nothing but their living is judged.
func TestIdleSessions(t *testing.T) {
	for id, limit := range map[suite.ID]int{suite.AES128GCM: 2 << 10, suite.ChaCha20Poly1305: 2 << 10} {
		t.Run(id.String(), func(t *testing.T) {
			if testenv.Long() {
				idleSessions(t, id, 15_000, 30*time.Second, limit)
			} else {
				idleSessions(t, id, 200, 2*time.Second, 0)
			}
		})
	}
}

// idleSessions wants n sessions to stay, and below limit bytes each if there is one.
func idleSessions(t *testing.T, id suite.ID, n int, watched time.Duration, limit int) {
	sets := []string{"admin.pprof=true", "cipher.post_quantum=off", "limits.handshakes_per_second=0"}
	if limit == 0 {
		sets = append(sets, "heartbeat.interval=500ms", "heartbeat.timeout=20s")
	}
	g := serve(t, fromRedis(redistest.Start(t), sets...)) // without the demo feed
	opts := g.options()
	opts.Suites, opts.PostQuantum, opts.DialTimeout = []suite.ID{id}, session.PostQuantumOff, patience
	warm := gatherIdle(t, g, opts, 50, 0) // what the first sessions need is no cost of later ones
	warm.leave()
	before := g.settled()
	idle := gatherIdle(t, g, opts, n, 1)
	defer idle.leave()
	// Expanded keys are kept for sessions in use, a heartbeat counts.
	eventually(t, patience, "few keys expanded", func() bool { return g.metric("sealcast_ciphers") < float64(n)/4 || limit == 0 })
	after := g.settled()
	perSession := (after.rss - before.rss) / n
	busy, from := g.cpu(), time.Now()
	select {
	case <-time.After(watched):
	case err := <-idle.ended:
		t.Fatalf("a session ended: %v", err)
	}
	share := 100 * (g.cpu() - busy).Seconds() / time.Since(from).Seconds()
	t.Logf("%d sessions: %d bytes of memory each (heap and stacks in use: %d), %.2f %% of a core",
		n, perSession, (after.inUse-before.inUse)/n, share)
	if limit > 0 && perSession > limit {
		t.Errorf("want at most %d bytes", limit)
	}
}

// idlers are clients that take what comes and answer pings.
type idlers struct {
	conns   []*client.Conn
	running sync.WaitGroup
	ended   chan error // the first end that nobody wanted
	leaving chan struct{}
}

// gatherIdle connects n clients from an address of their own, each with one
// subscription.
func gatherIdle(t *testing.T, g *gateway, opts client.Options, n, from int) *idlers {
	t.Helper()
	all := &idlers{conns: make([]*client.Conn, n), ended: make(chan error, n), leaving: make(chan struct{})}
	opts.NetDial = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+from))}}
		return d.DialContext(ctx, network, address)
	}
	var dialing sync.WaitGroup
	for w := range 2 * runtime.GOMAXPROCS(0) {
		dialing.Go(func() {
			for i := w; i < n && !t.Failed(); i += 2 * runtime.GOMAXPROCS(0) {
				c, err := dialPatiently(t.Context(), g.url(), opts)
				if err == nil {
					_, err = c.Subscribe(t.Context(), "idle:one")
				}
				if err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
				all.conns[i] = c
				all.running.Go(func() { all.live(c) })
			}
		})
	}
	dialing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// dialPatiently tries again where the gateway, or this machine, was too busy.
func dialPatiently(ctx context.Context, url string, opts client.Options) (c *client.Conn, err error) {
	for range 5 {
		c, err = client.Dial(ctx, url, opts)
		closed, ok := errors.AsType[*client.ClosedError](err)
		if !ok || closed.Code != wire.CloseTooLate && closed.Code != wire.CloseTryLater {
			break
		}
	}
	return c, err
}

func (a *idlers) live(c *client.Conn) {
	for {
		if _, err := c.Next(context.Background()); err != nil {
			select {
			case <-a.leaving:
			case a.ended <- err:
			}
			return
		}
	}
}

func (a *idlers) leave() {
	close(a.leaving)
	for _, c := range a.conns {
		_ = c.Close(context.Background())
	}
	a.running.Wait()
}

// memory is what a process has, in bytes.
type memory struct {
	rss   int
	inUse int // of the heap and of stacks, by the runtime's own account
}

// settled forces collections until the process has given back what it can.
func (g *gateway) settled() memory {
	g.t.Helper()
	last := memory{rss: 1 << 62}
	for range 30 {
		for range 2 {
			if a := g.get("/debug/pprof/heap?gc=1"); a.status != 200 {
				g.t.Fatalf("no forced collection: %d %s", a.status, a.body)
			}
		}
		time.Sleep(500 * time.Millisecond) // the runtime gives memory back by and by
		now := memory{int(g.metric("process_resident_memory_bytes")),
			int(g.metric("go_memstats_heap_inuse_bytes") + g.metric("go_memstats_stack_inuse_bytes"))}
		if now.rss > last.rss-64<<10 {
			return now
		}
		last = now
	}
	return last
}

// metric is the value of a metric without labels.
func (g *gateway) metric(name string) float64 {
	g.t.Helper()
	for line := range strings.Lines(g.get("/metrics").body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				g.t.Fatal(err)
			}
			return v
		}
	}
	g.t.Fatalf("there is no metric %s", name)
	return 0
}

// cpu is the time that the process has had a processor.
func (g *gateway) cpu() time.Duration {
	return time.Duration(g.metric("process_cpu_seconds_total") * float64(time.Second))
}
