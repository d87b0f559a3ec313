package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/session"
)

// With 256 descriptors and 400 connection attempts at once, established sessions
// keep their ticks, and newcomers are taken again within a second of room.
func TestDescriptorsRunOut(t *testing.T) {
	t.Run("limit worked out", func(t *testing.T) { descriptorsRunOut(t, 0) })
	t.Run("limit set too high", func(t *testing.T) { descriptorsRunOut(t, 0, "limits.connections=100000") })
	// Accepting itself fails when others have taken what the gateway keeps in reserve.
	t.Run("reserve used up", func(t *testing.T) { descriptorsRunOut(t, 150) })
}

// descriptorsRunOut leaves less than 256 descriptors: so many go to connections
// to the admin interface.
func descriptorsRunOut(t *testing.T, atAdmin int, sets ...string) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, append(sets, "loops=2")...), shell("ulimit -n 256"))
	stream := openStream(t, g, r)
	opts := g.options()
	opts.PostQuantum = session.PostQuantumOff // 400 handshakes at once are enough for this machine
	occupyAdmin(t, g, atAdmin)

	opts.DialTimeout = 5 * time.Second
	conns, refusals := storm(t, g, opts, 400)
	t.Logf("%d of 400 were taken; %v", len(conns), refusals)
	// Not 256 - atAdmin: the admin interface closes connections that say nothing, and a slow storm then has their room.
	if len(conns) < 50 || len(conns) > 256 {
		t.Errorf("%d of 400 were taken, want 50 to 256", len(conns))
	}
	stream.stillFlows()

	for _, c := range conns[:20] {
		_ = c.Close(t.Context())
	}
	late := takenAgain(t, g, opts)
	if _, err := late.Subscribe(t.Context(), "**"); err != nil {
		t.Error(err)
	}
	for _, c := range append(conns[20:], late) {
		_ = c.Close(t.Context())
	}
	stream.close()
}

// occupyAdmin opens connections to the admin interface that say nothing.
func occupyAdmin(t *testing.T, g *gateway, n int) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", g.admin)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// takenAgain wants a newcomer to get in within a second from now.
func takenAgain(t *testing.T, g *gateway, opts client.Options) (late *client.Conn) {
	t.Helper()
	room := time.Now()
	opts.DialTimeout = time.Second
	eventually(t, time.Second, "a newcomer taken after there was room", func() (ok bool) {
		var err error
		late, err = client.Dial(t.Context(), g.url(), opts)
		return err == nil
	})
	t.Logf("a newcomer was taken %v after there was room", time.Since(room))
	return late
}

// storm dials n times at once and returns the connections and how often which
// error came.
func storm(t *testing.T, g *gateway, opts client.Options, n int) (conns []*client.Conn, refusals map[string]int) {
	opts.NetDial = dialedBefore(t, g.listen, n)
	refusals = map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			conn, err := client.Dial(t.Context(), g.url(), opts)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				conns = append(conns, conn)
				return
			}
			if errors.Is(err, client.ErrNotGateway) || errors.Is(err, client.ErrOptions) {
				t.Errorf("dial: %v", err)
			}
			refusals[kindOf(err)]++
		})
	}
	all.Wait()
	return conns, refusals
}

// kindOf is an error without what differs each time.
func kindOf(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Sprintf("%s: %v", op.Op, op.Err)
	}
	return err.Error()
}

// dialedBefore opens n TCP connections at once and then hands them out, so that
// they all knock at the same time, however long a handshake takes.
func dialedBefore(t *testing.T, address string, n int) func(context.Context, string, string) (net.Conn, error) {
	type dialed struct {
		net.Conn
		error
	}
	ready := make(chan dialed, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			c, err := net.DialTimeout("tcp", address, patience)
			ready <- dialed{c, err}
		})
	}
	all.Wait()
	t.Cleanup(func() {
		for len(ready) > 0 {
			if d := <-ready; d.error == nil {
				_ = d.Conn.Close()
			}
		}
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := <-ready
		return d.Conn, d.error
	}
}

// stream is ticks without end, published one after the other, and clients that
// must miss none.
type stream struct {
	*audience
	sent    int
	stop    chan struct{}
	stopped chan struct{}
}

const streamTicks = 100_000 // more than any test waits for

// openStream subscribes 8 clients and begins to publish.
func openStream(t *testing.T, g *gateway, r *redistest.Server) *stream {
	t.Helper()
	var all script
	for i := range streamTicks {
		all = append(all, tick{fmt.Sprintf("stream:%d", i%5), fmt.Sprint(i)})
	}
	s := &stream{audience: gather(t, g.url(), g.options(), 8, all, "stream:*"), stop: make(chan struct{}), stopped: make(chan struct{})}
	c := r.Connect()
	go func() {
		defer close(s.stopped)
		for s.sent < streamTicks {
			select {
			case <-s.stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if _, err := c.Try("PUBLISH", all[s.sent].topic, all[s.sent].payload); err != nil {
				t.Error(err)
				return
			}
			s.sent++
		}
	}()
	s.stillFlows()
	return s
}

// stillFlows waits until each client has got 20 further ticks.
func (s *stream) stillFlows() {
	s.t.Helper()
	most := int64(0)
	for _, m := range s.members {
		most = max(most, m.received.Load())
	}
	s.await(int(most) + 20)
	for i, m := range s.members {
		if m.received.Load() < most+20 {
			s.t.Errorf("client %d has ended", i)
		}
	}
}

// close stops publishing and makes sure that every client has got everything.
func (s *stream) close() {
	s.t.Helper()
	close(s.stop)
	<-s.stopped
	s.await(s.sent)
	for _, m := range s.members {
		_ = m.conn.Close(context.Background())
	}
	s.running.Wait()
	for i, m := range s.members {
		if n := m.received.Load(); n != int64(s.sent) || !errors.Is(m.err, client.ErrClosed) {
			s.t.Errorf("client %d: %d of %d ticks, %v", i, n, s.sent, m.err)
		}
	}
}
