package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// startSealed serves the sealed echo; before runs before the first client comes.
func startSealed(t testing.TB, before func(*Gateway)) (url string, opts client.Options) {
	t.Helper()
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{Loops: 1, Realm: "default", Hub: noHub{}, Log: zap.NewNop(), Settings: Settings{
		Suites:    suite.Policy{Enabled: []suite.ID{suite.AES128GCM}, Hardware: suite.Detect()},
		Session:   &session.GatewayConfig{Key: key},
		Echo:      EchoOptions{Enabled: true, MaxMessage: 1 << 16},
		Limits:    Limits{Fragments: 8},
		Slow:      SlowOptions{Queue: 1 << 20, Timeout: time.Minute},
		Heartbeat: HeartbeatOptions{Interval: time.Minute, Timeout: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before(g)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = g.Shutdown(ctx)
	})
	return "ws://" + ln.Addr().String() + "/echo",
		client.Options{Pins: []session.PublicKey{key.Public()}, Suites: []suite.ID{suite.AES128GCM}}
}

func TestFullWorkersAreToldAsTryAgainLater(t *testing.T) {
	url, opts := startSealed(t, func(g *Gateway) {
		g.workers.close()
		g.workers = &workers{log: g.log, queue: make(chan *task), network: make(chan *task), cancel: func() {}} // nobody takes anything
	})
	_, err := client.DialEcho(t.Context(), url, opts)
	var end *client.ClosedError
	if !errors.As(err, &end) || end.Code != wire.CloseTryLater {
		t.Fatalf("got %v", err)
	}
}

func TestPanicInAHandshakeCostsOneConnection(t *testing.T) {
	url, opts := startSealed(t, nil)
	w := newWorkers(zap.NewNop())
	defer w.close()
	bad := &task{} // neither job nor login: that panics
	w.do(bad, bad.run)
	if !bad.panicked {
		t.Fatal("the panic is not noted")
	}
	if _, err := client.DialEcho(t.Context(), url, opts); err != nil {
		t.Fatal(err)
	}
}

// TestEchoesWhileAllWorkersAreBlocked: established sessions feel nothing of a
// handshake that takes long, however many wait behind it.
func TestEchoesWhileAllWorkersAreBlocked(t *testing.T) {
	const newcomers, echoes = 40, 500
	var gate sync.RWMutex
	var g *Gateway
	url, opts := startSealed(t, func(started *Gateway) {
		g = started
		g.workers.close()
		g.workers = &workers{log: g.log, queue: make(chan *task, handshakeQueue), network: make(chan *task), cancel: func() {}}
		for range runtime.GOMAXPROCS(0) {
			g.workers.wg.Go(func() {
				for task := range g.workers.queue {
					gate.RLock()
					g.workers.do(task, task.run)
					gate.RUnlock()
					task.conn.loop.mail.put(letter{done: task}, 0)
				}
			})
		}
	})
	opts.DialTimeout = time.Minute
	e, err := client.DialEcho(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	gate.Lock()
	var inside atomic.Int64
	var all sync.WaitGroup
	for range newcomers {
		all.Go(func() {
			late, err := client.DialEcho(t.Context(), url, opts)
			if err != nil {
				t.Error(err)
				return
			}
			inside.Add(1)
			_ = late.Close(context.Background())
		})
	}
	for g.Stats().Queues.Handshakes < newcomers-runtime.GOMAXPROCS(0) {
		time.Sleep(time.Millisecond) // the others are with the workers
	}
	var took []time.Duration
	for i := range echoes {
		from := time.Now()
		if err := e.Send(t.Context(), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if back, err := e.Receive(t.Context()); err != nil || back[0] != byte(i) {
			t.Fatal(back, err)
		}
		took = append(took, time.Since(from))
	}
	if n := inside.Load(); n > 0 {
		t.Errorf("%d handshakes were done by workers that are blocked", n)
	}
	gate.Unlock()
	all.Wait()
	slices.Sort(took)
	t.Logf("%d echoes while %d handshakes waited: median %v, longest %v", echoes, newcomers, took[echoes/2], took[echoes-1])
}

// BenchmarkEchoDuringHandshakes measures what established sessions feel of
// newcomers: round trips of one message on one connection.
func BenchmarkEchoDuringHandshakes(b *testing.B) {
	for name, perSecond := range map[string]int{"none": 0, "500-per-second": 500} {
		b.Run(name, func(b *testing.B) {
			url, opts := startSealed(b, nil)
			e, err := client.DialEcho(b.Context(), url, opts)
			if err != nil {
				b.Fatal(err)
			}
			stop := storm(b, url, opts, perSecond)
			payload := make([]byte, 64)
			var took []time.Duration
			for b.Loop() {
				from := time.Now()
				if err := e.Send(context.Background(), payload); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Receive(context.Background()); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(from))
			}
			done := stop()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "handshakes/s")
		})
	}
}

// storm dials at a rate, whatever the gateway's answer takes, until stop, which
// tells how many handshakes were completed.
func storm(b *testing.B, url string, opts client.Options, perSecond int) (stop func() int64) {
	if perSecond == 0 {
		return func() int64 { return 0 }
	}
	var done atomic.Int64
	quit := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			go func() {
				e, err := client.DialEcho(context.Background(), url, opts)
				if err != nil {
					return
				}
				done.Add(1)
				_ = e.Close(context.Background())
			}()
		}
	}()
	return func() int64 { close(quit); return done.Load() }
}
