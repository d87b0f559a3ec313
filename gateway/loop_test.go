package gateway

import (
	"net"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire/topic"
)

type noHub struct{}

func (noHub) Attach(fanout.Loop) fanout.LoopID                      { return 0 }
func (noHub) Recall(fanout.LoopID, fanout.Recall) (t fanout.Ticket) { return 1 }
func (noHub) Acquire(fanout.LoopID, topic.Filter) (t fanout.Ticket) { return 1 }
func (noHub) Release(fanout.LoopID, topic.Filter)                   {}

// startEcho serves the unencrypted echo on one loop.
func startEcho(t *testing.T) (*Gateway, string) {
	t.Helper()
	return startEchoOn(t, SocketOptions{}, 0)
}

func startEchoOn(t *testing.T, sockets SocketOptions, unsent int) (*Gateway, string) {
	t.Helper()
	g, err := New(Options{Loops: 1, Hub: noHub{}, Log: zap.NewNop(), Unsent: unsent, Settings: Settings{
		Echo:      EchoOptions{Enabled: true, Unencrypted: true, MaxMessage: 1 << 16},
		Limits:    Limits{Fragments: 8},
		Slow:      SlowOptions{Queue: 1 << 20, Timeout: time.Minute},
		Heartbeat: HeartbeatOptions{Interval: time.Minute, Timeout: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("127.0.0.1:0", sockets)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	t.Cleanup(func() {
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return g, "ws://" + ln.Addr().String() + "/echo"
}

func dialEcho(t *testing.T, url string) net.Conn {
	t.Helper()
	c, _, _, err := ws.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func echoes(c net.Conn) error {
	if err := wsutil.WriteClientText(c, []byte("hello")); err != nil {
		return err
	}
	_, err := wsutil.ReadServerText(c)
	return err
}

func TestPanicCostsOneConnection(t *testing.T) {
	g, url := startEcho(t)
	victim, neighbour := dialEcho(t, url), dialEcho(t, url)
	if err := echoes(victim); err != nil {
		t.Fatal(err)
	}
	for _, l := range *g.loops.Load() {
		l.call(func() {
			for _, c := range l.index.conns.all() {
				if c.id == 1 {
					l.serve(c, func(*conn) { panic("on purpose") })
				}
			}
		})
		l.call(func() { panic("on purpose, without a connection") })
	}
	// A loop may see what came from a socket before what is in its mailbox.
	for deadline := time.Now().Add(10 * time.Second); g.Stats().Panics != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d panics counted", g.Stats().Panics)
		}
	}
	if err := echoes(victim); err == nil {
		t.Error("the connection that panicked still answers")
	}
	if err := echoes(neighbour); err != nil {
		t.Errorf("neighbour: %v", err)
	}
}

// A panic while many sessions are served leaves none of them with a hole in its
// ticks: they are cut, and come back.
func TestPanicInAHandOverCutsEverySubscriber(t *testing.T) {
	g, url := startEcho(t)
	neighbour := dialEcho(t, url)
	if err := echoes(neighbour); err != nil {
		t.Fatal(err)
	}
	cut := make(chan bool, 1)
	for _, l := range *g.loops.Load() {
		l.call(func() {
			for _, c := range l.index.conns.all() {
				c.sub = &subscriber{}
			}
		})
		l.Post([]fanout.Event{(*fanout.Reset)(nil)})
		l.call(func() { cut <- len(l.index.conns.all()) == 0 })
	}
	if !<-cut {
		t.Error("a session that takes ticks is still there")
	}
	if n := g.Stats().Panics; n != 1 {
		t.Errorf("%d panics counted", n)
	}
}

func TestDeadLoopEndsServe(t *testing.T) {
	g, err := New(Options{Loops: 1, Hub: noHub{}, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	hang := make(chan struct{})
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for len(*g.loops.Load()) == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, l := range *g.loops.Load() {
		// Silent for long, and busy for longer than the clock takes to look.
		l.call(func() { l.lastTurn.Store(-int64(2 * deadAfter)); <-hang })
	}
	if err := <-served; err != ErrStopped {
		t.Fatalf("Serve returned %v", err)
	}
	_ = c.Close()
	close(hang)
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}
