package loadgen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// The ways to begin a session.
const (
	BeginNew     = "new"     // a full handshake, X25519 alone
	BeginHybrid  = "hybrid"  // and ML-KEM-768
	BeginResumed = "resumed" // with a ticket of the connection before, hybrid too
)

// LoadTicks is a handshake case while ticks flow to others; without, they are alone.
const LoadTicks = "with ticks"

// Handshake is connections that are made, and ended as soon as they are there:
// Of.Connections at a time, or at a rate.
type Handshake struct {
	Of   report.Case // Variant is one of the ways to begin
	Rate float64     // connections a second; 0: as many as possible
	// TickRate are the ticks a second that flow meanwhile to Listeners subscribers, if Of.Load is LoadTicks.
	TickRate  float64
	Listeners int
}

// Run implements Case.
func (h *Handshake) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	own := *env
	own.PostQuantum = session.PostQuantumPreferred
	if h.Of.Variant == BeginNew {
		own.PostQuantum = session.PostQuantumOff
	}
	cfg, err := own.pushConfig(env.Gateways[0], h.Of.Suite)
	if err != nil {
		return nil, err
	}
	r, err := begin(env, h.Of, h.Of.Connections+h.Listeners)
	if err != nil {
		return nil, err
	}
	defer r.crew.stop()
	r.took, r.open = 0, h.Rate > 0
	traffic, err := h.traffic(ctx, r)
	if err != nil {
		return nil, err
	}
	callers := make([][]*caller, len(r.crew.stations))
	for i := range h.Of.Connections {
		k := i % len(callers)
		c := &caller{cfg: cfg, gw: env.Gateways[0], index: i, resumes: h.Of.Variant == BeginResumed, from: env.source(i), mask: env.mask(i)}
		callers[k] = append(callers[k], c)
	}
	if err := r.rehearse(ctx, callers); err != nil {
		return nil, err
	}
	r.measure(ctx, func(s *station, from, to int64) {
		for k := range callers {
			if r.crew.stations[k] == s {
				h.start(s, callers[k], from, to, env.Seed)
			}
		}
		traffic.begin(ctx, r, s, to)
	}, func(*station) bool { return true })
	if err := traffic.end(); err != nil {
		return nil, err
	}
	found, err := r.result(h.Rate)
	if err == nil {
		traffic.note(&found[0], r)
	}
	return found, err
}

// start begins the load of one station.
func (h *Handshake) start(s *station, mine []*caller, from, to int64, seed uint64) {
	for _, c := range mine {
		c.until, c.open = to, h.Rate > 0
	}
	if h.Rate > 0 {
		share := h.Rate * float64(len(mine)) / float64(h.Of.Connections)
		s.pacers = append(s.pacers, newCycle(mine, share, from, to, seed))
		return
	}
	for _, c := range mine {
		c.call(s.loop.Now())
	}
}

// rehearse has every caller connect once, so that mistakes show before anything
// is measured and those that resume have a ticket.
func (r *run) rehearse(ctx context.Context, callers [][]*caller) error {
	for k, s := range r.crew.stations {
		r.crew.want += len(callers[k])
		s.loop.Call(func() {
			for _, c := range callers[k] {
				s.waiting = append(s.waiting, func(s *station) (*reactor.Conn, error) {
					c.st = s
					return c.dialNow(s.loop.Now())
				})
			}
		})
	}
	return r.connect(ctx, 30*time.Second)
}

// caller makes one connection after the other.
type caller struct {
	member
	stream   *peer.Stream
	cfg      *peer.Config
	gw       *Gateway
	from     netip.Addr
	mask     [4]byte
	index    int
	resumes  bool
	ticket   *session.ClientTicket
	practice bool    // over: what follows is measured
	open     bool    // calls at given times
	until    int64   // closed loop: calls until then
	calling  bool    // a call is under way
	intended int64   // when it was to begin
	held     []int64 // intended times of calls that wait for it
}

// due implements paced.
func (c *caller) due(intended, now int64) {
	if c.calling {
		c.held = append(c.held, intended)
		return
	}
	c.st.rec.Left(intended, intended, now)
	c.call(intended)
}

// call begins a call that was intended for then.
func (c *caller) call(intended int64) {
	if _, err := c.dialNow(intended); err != nil {
		c.st.count(&peer.Error{Kind: peer.KindConnect, Err: err})
		c.calling = false
	}
}

func (c *caller) dialNow(intended int64) (*reactor.Conn, error) {
	st := c.st
	c.member = member{st: st, peer: peer.New(c.cfg, st.shared, c.mask), role: c, handler: c}
	c.calling, c.intended = true, intended
	c.stream = peer.NewStream(c.peer)
	if c.resumes {
		c.peer.Resume(c.ticket)
	}
	return c.dial(st, c.gw, c.from)
}

// Ready implements peer.Handler: the session is there.
func (c *caller) Ready() (err error) {
	if c.practice {
		c.ready = true
		if rec := c.st.rec; rec != nil {
			rec.Record(c.intended, c.st.loop.Now())
		}
		if c.resumes && !c.peer.Session().Peer().Resumed {
			return &peer.Error{Kind: peer.KindRefused, Err: fmt.Errorf("the ticket was refused")}
		}
		if !c.resumes {
			c.done()
			return nil
		}
	}
	c.conn.Out, err = c.peer.AppendConnect(c.conn.Out, "")
	return err
}

// done ends a call that was good, and begins the next one.
func (c *caller) done() {
	c.leaving = true
	c.conn.Close(true) // a reset: a thousand closes a second would use all ports up
	c.peer.Close()
	c.next()
}

func (c *caller) next() {
	c.calling = false
	now := c.st.loop.Now()
	switch {
	case !c.practice:
		c.practice = true
	case len(c.held) > 0:
		intended := c.held[0]
		c.held = c.held[1:]
		c.st.rec.Left(intended, now, now)
		c.call(intended)
	case !c.open && now < c.until:
		c.call(now)
	}
}

// Data implements reactor.Handler as member does, but a call that fails is
// followed by the next.
func (c *caller) Data(conn *reactor.Conn, b []byte) int {
	n, err := c.peer.Receive(&conn.Out, b, c)
	if err != nil {
		c.failed(err)
	}
	return n
}

// Closed implements reactor.Handler.
func (c *caller) Closed(_ *reactor.Conn, err error) {
	if err != nil {
		c.failed(&peer.Error{Kind: peer.KindConnect, Err: err})
	}
}

func (c *caller) failed(err error) {
	if c.leaving {
		return
	}
	c.leaving = true
	c.conn.Close(true)
	if !c.practice {
		c.calling = false
		c.st.refused(err)
		return
	}
	c.st.count(err)
	c.ticket = nil
	c.next()
}

// Message implements peer.Handler.
func (c *caller) Message(kind wire.Kind, plaintext []byte) error {
	return c.stream.Take(kind, plaintext, c)
}

// Connected implements peer.Listener: it brings the ticket of the next call.
func (c *caller) Connected(m *wire.Connected) (err error) {
	if c.ticket, err = c.peer.KeepTicket(m); err != nil {
		return &peer.Error{Kind: peer.KindRecord, Err: err}
	}
	if c.resumes && c.ticket == nil {
		return &peer.Error{Kind: peer.KindRefused, Err: fmt.Errorf("the gateway gives no tickets: resumption.enabled")}
	}
	if !c.practice {
		c.arrive()
	}
	c.done()
	return nil
}

// Subscribed, Refused and Tick implement peer.Listener; callers never subscribe.
func (c *caller) Subscribed(*wire.Subscribed) error { return nil }

// Refused implements peer.Listener.
func (c *caller) Refused(e *wire.Error) error {
	return &peer.Error{Kind: peer.KindRefused, Err: fmt.Errorf("code %d: %s", e.GetCode(), e.GetText())}
}

// Tick implements peer.Listener.
func (c *caller) Tick(uint32, []byte) error { return nil }

// traffic is ticks that flow beside what is measured; nil is none.
type traffic struct {
	feed    *feed
	clients []*subscriber
	begun   bool
}

// tickSize is the size of ticks that only flow beside.
const tickSize = 200

// traffic connects the listeners.
func (h *Handshake) traffic(ctx context.Context, r *run) (*traffic, error) {
	if h.Of.Load != LoadTicks {
		return nil, nil
	}
	env := r.env
	if env.Publish == nil {
		return nil, ErrNoSource
	}
	cfg, err := env.pushConfig(env.Gateways[0], h.Of.Suite)
	if err != nil {
		return nil, err
	}
	t := &traffic{clients: make([]*subscriber, h.Listeners)}
	t.feed = newFeed(env, "beside"+strconv.FormatInt(time.Now().UnixNano(), 36), 1, h.TickRate, tickSize, func(*rand.Rand) int { return tickSize })
	r.crew.enlist(h.Listeners, func(i int) func(*station) (*reactor.Conn, error) {
		return func(s *station) (*reactor.Conn, error) {
			c := &subscriber{filters: t.feed.topics, feed: t.feed}
			c.rec = func() *measure.Recorder { return s.beside }
			t.clients[i] = c
			return c.start(s, cfg, env.Gateways[0], env, h.Of.Connections+i, c)
		}
	})
	return t, r.connect(ctx, 30*time.Second)
}

// begin is called for each station, on its loop.
func (t *traffic) begin(ctx context.Context, r *run, s *station, to int64) {
	if t == nil {
		return
	}
	if s.beside = measure.NewRecorder(r.window); !t.begun {
		t.begun = true
		t.feed.begin(ctx, r.crew.stations[0].loop, to)
	}
}

func (t *traffic) end() error {
	if t == nil {
		return nil
	}
	return t.feed.end()
}

// note adds how the ticks fared.
func (t *traffic) note(out *report.Result, r *run) {
	if t == nil {
		return
	}
	var recorders []*measure.Recorder
	r.crew.each(func(s *station) { recorders = append(recorders, s.beside) })
	f := measure.Merge(recorders)
	l := latencyOf(f.Latency)
	out.Counts = map[string]uint64{"ticks delivered beside": f.Came, "ticks P50 µs": uint64(l.P50), "ticks P99 µs": uint64(l.P99)}
}
