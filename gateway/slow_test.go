package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// dialSmall makes the client's kernel buffer small, so that it is felt soon
// when it does not read.
func dialSmall(t *testing.T, s *server) *client.Conn {
	t.Helper()
	opts := s.options()
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(16 << 10)
		}
		return c, err
	}
	c, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func numbered(i, size int) []byte {
	p := bytes.Repeat([]byte{byte(i)}, size)
	p[0], p[1] = byte(i>>8), byte(i)
	return p
}

// A client that pauses gets everything once it reads again, and its neighbour
// on the same loop nothing less.
func TestSlowClientCatchesUpWithoutLoss(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops, o.Slow.Queue = 1, 32<<20 })
	slow, brisk := dialSmall(t, s), s.dial(t)
	for _, c := range []*client.Conn{slow, brisk} {
		if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
	}
	const ticks, size = 400, 40_000
	for i := range ticks {
		s.hub.publish("md:a", numbered(i, size))
		if got := nextTick(t, brisk); !bytes.Equal(got.Payload, numbered(i, size)) {
			t.Fatalf("brisk client: tick %d differs", i)
		}
	}
	// Answers to requests line up behind the waiting ticks.
	subscribed := make(chan error, 1)
	go func() {
		_, err := slow.Subscribe(t.Context(), "md:b")
		subscribed <- err
	}()
	for i := range ticks {
		if got := nextTick(t, slow); !bytes.Equal(got.Payload, numbered(i, size)) || got.Skipped != 0 {
			t.Fatalf("slow client: tick %d differs", i)
		}
	}
	if err := <-subscribed; err != nil {
		t.Fatal(err)
	}
	s.hub.publish("md:b", []byte("last"))
	if got := nextTick(t, slow); string(got.Payload) != "last" {
		t.Fatalf("got %d bytes of %s", len(got.Payload), got.Topic)
	}
}

func TestClientWhoseQueueIsFullEndsWith4413(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Slow.Queue, o.Slow.Overflow = 1<<20, gateway.OverflowClose })
	c := dialSmall(t, s)
	if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	for i := 0; s.Stats().TooSlow == 0; i++ {
		s.hub.publish("md:a", numbered(i, 100_000))
		if i > 1000 {
			t.Fatal("100 MB are queued")
		}
	}
	wantEnd(t, c, wire.CloseTooSlow)
}

func TestClientWithoutProgressEndsWith4413(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Slow.Timeout = 300 * time.Millisecond; o.Slow.Queue = 64 << 20 })
	c := dialSmall(t, s)
	if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		s.hub.publish("md:a", numbered(i, 100_000))
	}
	eventually(t, "session ended", func() bool { return s.Stats().TooSlow == 1 })
	wantEnd(t, c, wire.CloseTooSlow)
}

// wantEnd reads until the gateway's sealed goodbye.
func wantEnd(t *testing.T, c *client.Conn, code wire.CloseCode) {
	t.Helper()
	for {
		_, err := c.Next(t.Context())
		var end *client.ClosedError
		if errors.As(err, &end) {
			if end.Code != code || !end.Final {
				t.Fatalf("ended by %v (final %v), want %v", end, end.Final, code)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTickLargerThanTheQueueIsTakenWhenEmpty(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Slow.Queue = 1000 })
	c := dialSmall(t, s)
	if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		s.hub.publish("md:a", numbered(i, wire.MaxTick))
		if got := nextTick(t, c); !bytes.Equal(got.Payload, numbered(i, wire.MaxTick)) {
			t.Fatalf("tick %d differs", i)
		}
	}
}

func TestShutdownSaysGoodbyeToEverySession(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.DrainWindow = 500 * time.Millisecond })
	var clients []*client.Conn
	for range 20 {
		clients = append(clients, s.dial(t))
	}
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	for _, c := range clients {
		wantEnd(t, c, wire.CloseRestart)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Connections; n != 0 {
		t.Fatalf("%d connections left", n)
	}
	if _, err := client.Dial(t.Context(), s.url("/ws"), s.options()); !errors.Is(err, client.ErrUnreachable) {
		t.Fatalf("a new client got %v", err)
	}
}

// A client that is behind when the gateway stops gets what waits for it, nothing
// newer, and then its goodbye.
func TestDrainSendsTheBacklogFirst(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops, o.Slow.Queue = 1, 32<<20 })
	slow := dialSmall(t, s)
	if _, err := slow.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	const ticks, size = 200, 40_000
	for i := range ticks {
		s.hub.publish("md:a", numbered(i, size))
	}
	eventually(t, "a queue", func() bool { return s.Stats().Queues.SlowSessions == 1 })
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		stopped <- s.Shutdown(ctx)
	}()
	eventually(t, "out of its cohort", func() bool {
		topics, _, err := s.Topics(t.Context(), 0, 10)
		return err == nil && (len(topics) == 0 || topics[0].Subscribers == 0)
	})
	s.hub.publish("md:a", []byte("too late"))
	for i := range ticks {
		if got := nextTick(t, slow); !bytes.Equal(got.Payload, numbered(i, size)) || got.Skipped != 0 {
			t.Fatalf("tick %d differs", i)
		}
	}
	wantEnd(t, slow, wire.CloseRestart)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// The goodbyes are spread over the window, and so is the coming back.
func TestDrainIsSpread(t *testing.T) {
	const window = time.Second
	s := start(t, func(o *gateway.Options) { o.DrainWindow = window })
	const n = 40
	type end struct {
		at        time.Time
		reconnect time.Duration
	}
	ends := make(chan end, n)
	for range n {
		c := s.dial(t)
		go func() {
			for {
				_, err := c.Next(context.Background())
				var closed *client.ClosedError
				if errors.As(err, &closed) {
					ends <- end{time.Now(), closed.ReconnectAfter}
					return
				}
			}
		}()
	}
	from := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	told, back := map[time.Duration]int{}, map[time.Duration]int{}
	for range n {
		e := <-ends
		told[e.at.Sub(from)/(window/4)]++
		back[e.reconnect/(window/4)]++
		if e.reconnect >= window {
			t.Errorf("come back after %v", e.reconnect)
		}
	}
	if len(told) < 3 || len(back) < 3 {
		t.Errorf("quarters of the window with goodbyes: %v, with returns: %v", told, back)
	}
}
