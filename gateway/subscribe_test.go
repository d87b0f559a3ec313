package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

func TestSubscribeWaitsForTheSource(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.set(func(h *scriptedHub) { h.hold = true })
	c := s.dial(t)
	answered := make(chan client.Subscription, 1)
	go func() {
		sub, err := c.Subscribe(t.Context(), "md:a", "md:b:*")
		if err != nil {
			t.Error(err)
		}
		answered <- sub
	}()
	eventually(t, "both filters asked for", func() bool { return s.hub.waits() == 2 })
	select {
	case <-answered:
		t.Fatal("answered before the source confirmed")
	case <-time.After(50 * time.Millisecond):
	}
	s.hub.confirmHeld()
	if sub := <-answered; len(sub.Filters) != 2 {
		t.Fatalf("confirmed %v", sub.Filters)
	}
	s.hub.publish("md:b:x", []byte("1"))
	if got := nextTick(t, c); got.Topic != "md:b:x" {
		t.Fatalf("tick of %s", got.Topic)
	}
}

func TestSessionThatEndsWhileItWaitsLeavesNothing(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.set(func(h *scriptedHub) { h.hold = true })
	c := s.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { eventually(t, "asked for", func() bool { return s.hub.waits() == 1 }); cancel() }()
	if _, err := c.Subscribe(ctx, "md:a"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_ = c.Close(context.Background())
	eventually(t, "connection gone", func() bool { return s.Stats().Connections == 0 })
	s.hub.confirmHeld() // late, and for a ticket that nobody holds
	other := s.dial(t)
	if _, err := other.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	s.hub.publish("md:a", []byte("1"))
	nextTick(t, other)
}

func TestRefusedFilterIsToldAndTheRestGranted(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.set(func(h *scriptedHub) { h.deny = "secret:*" })
	c := s.dial(t)
	sub, err := c.Subscribe(t.Context(), "secret:*", "md:a")
	if err != nil || len(sub.Refused) != 1 || sub.Refused[0].Code != wire.CloseForbidden {
		t.Fatalf("got %+v, %v", sub, err)
	}
	if len(sub.Filters) != 1 || sub.Filters[0] != "md:a" {
		t.Fatalf("granted %v", sub.Filters)
	}
	s.hub.publish("md:a", []byte("1"))
	nextTick(t, c)
}

func TestFilterWithdrawnLaterIsTold(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "md:a", "md:b"); err != nil {
		t.Fatal(err)
	}
	s.hub.withdraw("md:a")
	for {
		ev, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := ev.(*client.Refused); ok {
			if r.Filter != "md:a" {
				t.Fatalf("refused %s", r.Filter)
			}
			break
		}
	}
	s.hub.publish("md:a", []byte("no"))
	s.hub.publish("md:b", []byte("yes"))
	if got := nextTick(t, c); string(got.Payload) != "yes" {
		t.Fatalf("got %q", got.Payload)
	}
}

func TestSubscriptionLimit(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.Subscriptions = 2 })
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "a", "b", "a"); err != nil {
		t.Fatal(err)
	}
	_, err := c.Subscribe(t.Context(), "c")
	var refused *client.RequestError
	if !errors.As(err, &refused) || refused.Code != wire.CloseTooMany {
		t.Fatalf("got %v", err)
	}
	if err := c.Unsubscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
}

func TestResetStandsInTickOrder(t *testing.T) {
	s := start(t, nil)
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	s.hub.publish("md:a", []byte("1"))
	s.hub.reset("md:a")
	s.hub.publish("md:a", []byte("2"))
	before := nextTick(t, c)
	ev, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reset, ok := ev.(*client.Reset)
	if !ok || reset.Cause != wire.Cause_CAUSE_SOURCE_LOST {
		t.Fatalf("got %#v", ev)
	}
	epoch := before.Epoch
	if after := nextTick(t, c); after.Seq != 1 || after.Epoch == epoch || string(after.Payload) != "2" {
		t.Fatalf("got %+v", after)
	}
}

func TestHeartbeatKeepsAnIdleSession(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Heartbeat = gateway.HeartbeatOptions{Interval: 150 * time.Millisecond, Timeout: 700 * time.Millisecond}
	})
	c := s.dial(t)
	for range 6 { // each Next answers the ping that came with the heartbeat before
		ev, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(*client.Heartbeat); !ok {
			t.Fatalf("got %#v", ev)
		}
	}
	time.Sleep(1200 * time.Millisecond) // nobody reads, so nobody answers
	wantEnd(t, c, wire.CloseHeartbeatLost)
}

var _ gateway.Hub = (*scriptedHub)(nil)
var _ gateway.Hub = (*fanout.Hub)(nil)

func (h *scriptedHub) set(change func(*scriptedHub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *scriptedHub) waits() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting)
}

// withdraw refuses a filter that was confirmed.
func (h *scriptedHub) withdraw(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, _ := topic.ParseFilter(name)
	for id, l := range h.loops {
		if h.held[id][f] {
			delete(h.held[id], f)
			l.Post([]fanout.Event{&fanout.Refused{Filter: f, Ticket: h.ticketOf[f], Err: errDenied}})
		}
	}
}

var errDenied = errors.New("the source does not allow it")

func TestClientThatOnlyListensStays(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Heartbeat = gateway.HeartbeatOptions{Interval: 150 * time.Millisecond, Timeout: 700 * time.Millisecond}
	})
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.hub.publish("md:a", []byte("1"))
		nextTick(t, c)
	}
}

// Who asks again for a filter that still waits is not told that it holds.
func TestRepeatedSubscribeWaitsToo(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.set(func(h *scriptedHub) { h.hold = true })
	c := s.dial(t)
	answers := make(chan client.Subscription, 2)
	for range 2 {
		go func() {
			sub, err := c.Subscribe(t.Context(), "md:a")
			if err != nil {
				t.Error(err)
			}
			answers <- sub
		}()
	}
	eventually(t, "asked for", func() bool { return s.hub.waits() == 1 })
	select {
	case <-answers:
		t.Fatal("answered before the source confirmed")
	case <-time.After(200 * time.Millisecond):
	}
	s.hub.confirmHeld()
	for range 2 {
		if sub := <-answers; len(sub.Filters) != 1 {
			t.Errorf("confirmed %v", sub.Filters)
		}
	}
}

// A session's heartbeats are what its client was told, whatever is reloaded later.
func TestReloadKeepsASessionsHeartbeats(t *testing.T) {
	var settings gateway.Settings
	s := start(t, func(o *gateway.Options) {
		o.Heartbeat = gateway.HeartbeatOptions{Interval: 100 * time.Millisecond, Timeout: 5 * time.Second}
		settings = o.Settings
	})
	c := s.dial(t)
	settings.Heartbeat = gateway.HeartbeatOptions{Interval: time.Hour, Timeout: 3 * time.Hour}
	s.Reload(settings)
	for range 3 {
		if _, err := c.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if told := s.dial(t).Info().HeartbeatInterval; told != time.Hour {
		t.Fatalf("a new session is told %v", told)
	}
}

// Sessions with and without a codec never share a stream, whatever their filters' numbers.
func TestCodecIsNeverTakenForAFilter(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Loops = 1
		o.Compress = gateway.CompressOptions{Codecs: []wire.Codec{wire.CodecZstd}}
	})
	plain := s.options()
	plain.Codecs = []wire.Codec{wire.CodecNone}
	a, err := client.Dial(t.Context(), s.url("/ws"), plain)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	if _, err := a.Subscribe(t.Context(), "md:a"); err != nil { // filter 1
		t.Fatal(err)
	}
	if _, err := a.Subscribe(t.Context(), "md:b"); err != nil { // filter 2
		t.Fatal(err)
	}
	b := s.dial(t) // compressor 1
	if _, err := b.Subscribe(t.Context(), "md:b"); err != nil {
		t.Fatal(err)
	}
	s.hub.publish("md:a", []byte("1"))
	s.hub.publish("md:b", []byte("2"))
	for _, want := range []string{"1", "2"} {
		if got := nextTick(t, a); string(got.Payload) != want {
			t.Fatalf("the plain client got %q, want %q", got.Payload, want)
		}
	}
	if got := nextTick(t, b); string(got.Payload) != "2" {
		t.Fatalf("the other client got %q", got.Payload)
	}
}

func TestWaitingRequestsAreBounded(t *testing.T) {
	s := start(t, nil)
	s.hub.set(func(h *scriptedHub) { h.hold = true })
	c := s.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := make(chan error, 100)
	for range 100 {
		go func() {
			if _, err := c.Subscribe(ctx, "md:a"); ctx.Err() == nil {
				refused <- err
			}
		}()
	}
	for range 100 - 64 {
		var e *client.RequestError
		if err := <-refused; !errors.As(err, &e) || e.Code != wire.CloseTooMany {
			t.Fatalf("got %v", err)
		}
	}
}

// A repeated filter that the source refuses is refused to both who asked.
func TestRepeatedFilterIsRefusedTwice(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.set(func(h *scriptedHub) { h.hold = true })
	c := s.dial(t)
	answers := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.Subscribe(t.Context(), "md:a")
			answers <- err
		}()
	}
	eventually(t, "asked for", func() bool { return s.hub.waits() == 1 })
	time.Sleep(100 * time.Millisecond) // for the second request to be there too
	s.hub.refuseHeld("md:a")
	for range 2 {
		var e *client.RequestError
		if err := <-answers; !errors.As(err, &e) || e.Code != wire.CloseForbidden {
			t.Fatalf("got %v", err)
		}
	}
}

// refuseHeld answers what hold kept back with a refusal.
func (h *scriptedHub) refuseHeld(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, _ := topic.ParseFilter(name)
	for _, l := range h.loops {
		l.Post([]fanout.Event{&fanout.Refused{Filter: f, Ticket: h.ticketOf[f], Err: errDenied}})
	}
	h.waiting, h.hold = nil, false
}
