package gateway_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

var rekey = testenv.Rekey()

// scriptedHub stands in for fanout.Hub: it confirms at once and publishes what
// a test tells it to, in order.
type scriptedHub struct {
	// order is held, before mu, by what hands something over: the hub may wait in
	// there for a loop, which may Release meanwhile.
	order   sync.Mutex
	mu      sync.Mutex
	loops   []fanout.Loop
	tickets fanout.Ticket
	held    []map[topic.Filter]bool // per loop
	topics  map[string]*fanout.TopicState
	hold    bool // do not confirm
	waiting []func()
	deny    string // a filter to refuse

	remember    func(fanout.Recall) []fanout.Memory // nil: nothing
	holdRecalls func(post func())                   // nil: they are answered at once

	ticketOf map[topic.Filter]fanout.Ticket // the latest
}

func newScriptedHub() *scriptedHub {
	return &scriptedHub{topics: map[string]*fanout.TopicState{}, ticketOf: map[topic.Filter]fanout.Ticket{}}
}

func (h *scriptedHub) Attach(l fanout.Loop) fanout.LoopID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loops = append(h.loops, l)
	h.held = append(h.held, map[topic.Filter]bool{})
	return fanout.LoopID(len(h.loops) - 1)
}

func (h *scriptedHub) Acquire(id fanout.LoopID, f topic.Filter) fanout.Ticket {
	h.order.Lock()
	defer h.order.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickets++
	ticket := h.tickets
	h.ticketOf[f] = ticket
	if f.String() == h.deny {
		h.loops[id].Post([]fanout.Event{&fanout.Refused{Filter: f, Ticket: ticket, Err: errDenied}})
		return ticket
	}
	confirm := func() {
		h.held[id][f] = true
		if !f.IsPattern() {
			h.state(f.String())
		}
		var topics []fanout.TopicState
		for name, s := range h.topics {
			if f.Match(name) {
				topics = append(topics, *s)
			}
		}
		h.loops[id].Post([]fanout.Event{&fanout.Confirmed{Filter: f, Ticket: ticket, Topics: topics}})
	}
	if h.hold {
		h.waiting = append(h.waiting, confirm)
	} else {
		confirm()
	}
	return ticket
}

func (h *scriptedHub) Recall(id fanout.LoopID, r fanout.Recall) fanout.Ticket {
	h.order.Lock()
	defer h.order.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tickets++
	answer := &fanout.Recalled{Ticket: h.tickets}
	if h.remember != nil {
		answer.Memories = h.remember(r)
	}
	post := func() { h.loops[id].Post([]fanout.Event{answer}) }
	if h.holdRecalls != nil {
		h.holdRecalls(post)
	} else {
		post()
	}
	return answer.Ticket
}

func (h *scriptedHub) Release(id fanout.LoopID, f topic.Filter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held[id], f)
}

// confirmHeld lets go of what hold kept back.
func (h *scriptedHub) confirmHeld() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.waiting {
		f()
	}
	h.waiting, h.hold = nil, false
}

func (h *scriptedHub) heldFilters() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.held {
		n += len(m)
	}
	return n
}

func (h *scriptedHub) state(name string) (s *fanout.TopicState, fresh bool) {
	s, ok := h.topics[name]
	if !ok {
		s = &fanout.TopicState{Number: uint32(len(h.topics) + 1), Name: name, Epoch: 7, NextSeq: 1}
		h.topics[name] = s
	}
	return s, !ok
}

// publish hands over one tick per payload, all in one wake-up.
func (h *scriptedHub) publish(name string, payloads ...[]byte) {
	h.order.Lock()
	defer h.order.Unlock()
	h.mu.Lock()
	events := h.ticks(name, payloads...)
	loops := h.following(name)
	h.mu.Unlock()
	for _, l := range loops {
		l.Post(events)
	}
}

// prepare makes the events of a later hand-over to every loop.
func (h *scriptedHub) prepare(name string, payloads ...[]byte) (handOver func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.ticks(name, payloads...)
	return func() {
		for _, l := range h.loops {
			l.Post(events)
		}
	}
}

func (h *scriptedHub) ticks(name string, payloads ...[]byte) []fanout.Event {
	s, fresh := h.state(name)
	var events []fanout.Event
	if fresh {
		events = append(events, &fanout.Opened{TopicState: *s})
	}
	for _, p := range payloads {
		events = append(events, &fanout.Tick{Topic: s.Number, Seq: s.NextSeq, ReceivedUS: time.Now().UnixMicro(),
			Payload: p})
		s.NextSeq++
	}
	return events
}

// following are the loops that hold a filter which matches.
func (h *scriptedHub) following(name string) (loops []fanout.Loop) {
	for id, l := range h.loops {
		for f := range h.held[id] {
			if f.Match(name) {
				loops = append(loops, l)
				break
			}
		}
	}
	return loops
}

func (h *scriptedHub) reset(name string) {
	h.order.Lock()
	defer h.order.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	s, _ := h.state(name)
	s.Epoch, s.NextSeq = s.Epoch+1, 1
	for _, l := range h.following(name) {
		l.Post([]fanout.Event{&fanout.Reset{Topic: s.Number, Epoch: s.Epoch, NextSeq: 1, Cause: wire.Cause_CAUSE_SOURCE_LOST}})
	}
}

// server is a gateway on a loopback port.
type server struct {
	*gateway.Gateway
	hub  *scriptedHub
	key  *session.StaticKey
	addr string
	// groups: batches are sealed once for sessions that take it
	groups bool
}

func defaultOptions(t testing.TB) gateway.Options {
	return gateway.Options{
		Loops:   2,
		Realm:   "default",
		Version: "test",
		Log:     zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
		Settings: gateway.Settings{
			Suites:    suite.Policy{Enabled: []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305, suite.SM4GCM}, AllowPlain: true, Hardware: suite.Detect()},
			Echo:      gateway.EchoOptions{Enabled: true, Unencrypted: true, MaxMessage: 1 << 20},
			Limits:    gateway.Limits{Subscriptions: 100, Message: 64 << 10, Fragments: 1024},
			Slow:      gateway.SlowOptions{Queue: 4 << 20, Timeout: 10 * time.Second},
			Heartbeat: gateway.HeartbeatOptions{Interval: 25 * time.Second, Timeout: 75 * time.Second},
			Batch:     gateway.BatchOptions{MaxTicks: 256, MaxBytes: 16 << 10},
		},
	}
}

func start(t testing.TB, change func(*gateway.Options)) *server {
	t.Helper()
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{hub: newScriptedHub(), key: key}
	opts := defaultOptions(t)
	opts.Hub, opts.Session = s.hub, &session.GatewayConfig{Key: key, HardwareAES: opts.Suites.Hardware.AES}
	opts.GroupSeal = testenv.Groups()
	if change != nil {
		change(&opts)
	}
	if opts.Session.Limits == (record.Limits{}) {
		opts.Session.Limits = rekey
	}
	s.groups = opts.GroupSeal
	if s.Gateway, err = gateway.New(opts); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

func (s *server) url(path string) string { return fmt.Sprintf("ws://%s%s", s.addr, path) }

func (s *server) options(suites ...suite.ID) client.Options {
	return client.Options{Suites: suites, Pins: []session.PublicKey{s.key.Public()}, Name: "test", Rekey: rekey}
}

func (s *server) dial(t testing.TB, suites ...suite.ID) *client.Conn {
	t.Helper()
	c, err := client.Dial(t.Context(), s.url("/ws"), s.options(suites...))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// nextTick skips everything but ticks.
func nextTick(t testing.TB, c *client.Conn) *client.Tick {
	t.Helper()
	for {
		ev, err := c.Next(t.Context())
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		if tick, ok := ev.(*client.Tick); ok {
			return tick
		}
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// fatal ends a test that could not be set up.
func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
