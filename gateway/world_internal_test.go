package gateway

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// A world is one loop of a gateway without sockets, goroutines and clocks: a model
// hub, and clients that follow docs/protocol.md by themselves. What happens in it
// depends on the seed alone, but for keys.
type world struct {
	t       testing.TB
	rng     *mathrand.Rand
	g       *Gateway
	l       *loop
	hub     *modelHub
	key     *session.StaticKey
	clients []*modelClient
	lastID  uint64
}

// worldRules: what may be merged, what not, and what has a rate.
var worldRules = []struct {
	match  string
	latest bool
	rate   float64
}{{"latest:**", true, 0}, {"paced:**", true, 100}, {"every:**", false, 0}}

func newWorld(t testing.TB, seed uint64, change func(*Settings)) *world {
	t.Helper()
	w := &world{t: t, rng: mathrand.New(mathrand.NewPCG(seed, 5))}
	w.hub = &modelHub{w: w, held: map[topic.Filter]bool{}, topics: map[string]*modelTopic{}}
	var err error
	if w.key, err = session.GenerateStaticKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	s := Settings{
		Session:   &session.GatewayConfig{Key: w.key},
		Limits:    Limits{Subscriptions: 100},
		Slow:      SlowOptions{Queue: 4 << 10, Total: 64 << 10, Timeout: time.Hour},
		Heartbeat: HeartbeatOptions{Interval: time.Hour, Timeout: 2 * time.Hour},
		Batch:     BatchOptions{MaxDelay: 5 * time.Millisecond, MaxTicks: 16, MaxBytes: 2 << 10},
		Compress:  CompressOptions{Codecs: []wire.Codec{wire.CodecSnappy}, MinBytes: 64},
	}
	for _, r := range worldRules {
		f, err := topic.ParseFilter(r.match)
		if err != nil {
			t.Fatal(err)
		}
		s.Topics = append(s.Topics, TopicRule{Match: f, Compress: DefaultClass, Latest: r.latest, MaxRate: r.rate})
	}
	if change != nil {
		change(&s)
	}
	w.g = &Gateway{opts: Options{Hub: w.hub, Loops: 1}, log: zap.NewNop(), admission: newAdmission()}
	w.g.access = newAccess()
	w.g.live.Store(&live{Settings: s, rules: newRuleTable(s.Topics, s.Batch)})
	w.l = &loop{gateway: w.g, el: &modelEventLoop{}, started: time.Now(), live: w.g.live.Load(), now: 1, index: newIndex(),
		ciphers: record.NewPool(record.DefaultPoolSize, record.DefaultPoolIdle)}
	w.l.stats.times.init()
	return w
}

// pass lets time go by: alarms ring, slow sessions are looked at.
func (w *world) pass(d time.Duration) {
	w.l.alarms.now += int64(d)
	w.l.now += d.Milliseconds()
	w.turn(nil)
	w.l.serveSlow()
}

// turn hands events over, as one turn of the loop.
func (w *world) turn(events []fanout.Event) {
	w.l.handOver(events)
	w.l.alarms.ring(w.l)
	w.l.closeBatches()
}

// deliver hands over the first n events that the hub has posted.
func (w *world) deliver(n int) {
	n = min(n, len(w.hub.posted))
	events := w.hub.posted[:n]
	w.hub.posted = w.hub.posted[n:]
	w.turn(events)
}

type modelEventLoop struct{ gnet.EventLoop }

func (*modelEventLoop) Close(gc gnet.Conn) error {
	gc.(*modelSocket).conn.onClosed(nil)
	return nil
}

// modelSocket is a socket whose peer reads when the test says so.
type modelSocket struct {
	gnet.Conn
	conn   *conn
	unread []byte
	kernel int // so much of it is not in gnet's buffer
}

// modelScale makes a byte of a model socket count as many, because the bounds of
// gnet's buffer are large and the ticks here are small.
const modelScale = 100

func (s *modelSocket) Write(p []byte) (int, error) {
	s.unread = append(s.unread, p...)
	return len(p), nil
}
func (s *modelSocket) OutboundBuffered() int { return modelScale * max(len(s.unread)-s.kernel, 0) }
func (s *modelSocket) Fd() int               { return -1 }

// modelHub stands in for fanout.Hub: it keeps its word on order, on last values and
// on the last ticks of each topic.
type modelHub struct {
	w       *world
	tickets fanout.Ticket
	held    map[topic.Filter]bool
	topics  map[string]*modelTopic
	names   []string
	posted  []fanout.Event
}

type modelTopic struct {
	fanout.TopicState
	past []*fanout.Tick // of this epoch, the last few
}

const modelHistory = 12

func (h *modelHub) Attach(fanout.Loop) fanout.LoopID { return 0 }

func (h *modelHub) Acquire(_ fanout.LoopID, f topic.Filter) fanout.Ticket {
	h.tickets++
	if !f.IsPattern() {
		if m, fresh := h.topic(f.String()); fresh && h.wanted(m.Name) {
			h.posted = append(h.posted, &fanout.Opened{TopicState: m.TopicState})
		}
	}
	h.held[f] = true
	e := &fanout.Confirmed{Filter: f, Ticket: h.tickets}
	for _, name := range h.names {
		if f.Match(name) {
			e.Topics = append(e.Topics, h.topics[name].TopicState)
		}
	}
	h.posted = append(h.posted, e)
	return h.tickets
}

func (h *modelHub) Release(_ fanout.LoopID, f topic.Filter) { delete(h.held, f) }

func (h *modelHub) Recall(_ fanout.LoopID, r fanout.Recall) fanout.Ticket {
	h.tickets++
	e := &fanout.Recalled{Ticket: h.tickets}
	for _, name := range h.names {
		if slices.ContainsFunc(r.Filters, func(f topic.Filter) bool { return f.Match(name) }) {
			if m := h.topics[name].memory(r.Since); m != nil {
				e.Memories = append(e.Memories, *m)
			}
		}
	}
	h.posted = append(h.posted, e)
	return h.tickets
}

func (m *modelTopic) memory(since []fanout.Position) *fanout.Memory {
	for _, p := range since {
		if p.Topic == m.Name && p.Epoch == m.Epoch && p.Seq < m.NextSeq {
			if missed := int(m.NextSeq - 1 - p.Seq); missed <= len(m.past) {
				return &fanout.Memory{Topic: m.Number, Epoch: m.Epoch, Since: p.Seq, Recovered: true, Ticks: m.past[len(m.past)-missed:]}
			}
		}
	}
	if len(m.past) == 0 {
		return nil
	}
	return &fanout.Memory{Topic: m.Number, Epoch: m.Epoch, Ticks: m.past[len(m.past)-1:]}
}

func (h *modelHub) topic(name string) (m *modelTopic, fresh bool) {
	m, ok := h.topics[name]
	if !ok {
		m = &modelTopic{TopicState: fanout.TopicState{Number: uint32(len(h.topics) + 1), Name: name, Epoch: 1000, NextSeq: 1}}
		h.topics[name] = m
		h.names = append(h.names, name)
	}
	return m, !ok
}

func (h *modelHub) wanted(name string) bool {
	for f := range h.held {
		if f.Match(name) {
			return true
		}
	}
	return false
}

// payloadOf is the only payload that a tick can have.
func payloadOf(name string, epoch, seq uint64) []byte {
	p := fmt.Appendf(nil, "%s/%d/%d ", name, epoch, seq)
	for n := int(seq%7) * 20; n > 0; n-- {
		p = append(p, 'x')
	}
	return p
}

func (h *modelHub) publish(name string) {
	m, fresh := h.topic(name)
	p := payloadOf(name, m.Epoch, m.NextSeq)
	tick := &fanout.Tick{Topic: m.Number, Seq: m.NextSeq, ReceivedUS: time.Now().UnixMicro(),
		Payload: p}
	if h.wanted(name) {
		if fresh {
			h.posted = append(h.posted, &fanout.Opened{TopicState: m.TopicState})
		}
		h.posted = append(h.posted, tick)
	}
	m.NextSeq++
	m.past = append(m.past, tick)
	m.past = m.past[max(0, len(m.past)-modelHistory):]
}

func (h *modelHub) reset(name string) {
	m, fresh := h.topic(name)
	if fresh || !h.wanted(name) {
		return
	}
	m.Epoch, m.NextSeq, m.past = m.Epoch+1, 1, nil
	h.posted = append(h.posted, &fanout.Reset{Topic: m.Number, Epoch: m.Epoch, NextSeq: 1, Cause: wire.Cause_CAUSE_SOURCE_LOST})
}

// handshake establishes a session in memory.
func (w *world) handshake(id suite.ID) (gw, cl *session.Session) {
	w.t.Helper()
	must := func(err error) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	b := session.Binding{Role: session.RolePush, Realm: "r", Offered: []string{id.Protocol()}, Selected: id.Protocol()}
	gw, err := session.NewGateway(w.l.settings().Session, w.l.ciphers, b)
	must(err)
	cl, err = session.NewClient(&session.ClientConfig{Pins: []session.PublicKey{w.key.Public()}},
		record.NewPool(record.DefaultPoolSize, record.DefaultPoolIdle), b)
	must(err)
	job, err := cl.Start()
	for _, s := range []*session.Session{cl, gw, cl} {
		must(err)
		job.Run()
		var msg []byte
		msg, err = s.Complete(job)
		must(err)
		if next := map[*session.Session]*session.Session{cl: gw, gw: cl}[s]; len(msg) > 0 {
			job, err = next.Receive(msg)
		}
	}
	return gw, cl
}

// connect makes a client with an established session.
func (w *world) connect(c *modelClient) {
	w.t.Helper()
	gw, cl := w.handshake(suite.AES128GCM)
	w.lastID++
	s := &modelSocket{kernel: 2 << 10}
	s.conn = &conn{id: w.lastID, gc: s, loop: w.l, sess: gw, role: session.RolePush, phase: phaseConnect}
	w.l.index.conns.add(s.conn)
	w.g.conns.Add(1)
	*c = modelClient{w: w, socket: s, sess: cl, topics: map[uint32]*modelView{}, held: map[string]bool{}, asked: map[uint32][]string{}}
	var codecs []uint32
	if w.rng.IntN(2) == 0 {
		codecs = []uint32{uint32(wire.CodecSnappy)}
	}
	w.l.serve(s.conn, func(x *conn) { x.connect(&wire.Connect{Codecs: codecs}) })
}

// cutFrame takes one frame of the gateway from the front.
func cutFrame(in []byte) (op ws.OpCode, payload, rest []byte, ok bool) {
	if len(in) < 2 {
		return 0, nil, in, false
	}
	size, n := 2, int(in[1])
	switch {
	case n == 126 && len(in) >= 4:
		size, n = 4, int(binary.BigEndian.Uint16(in[2:]))
	case n == 127 && len(in) >= 10:
		size, n = 10, int(binary.BigEndian.Uint64(in[2:]))
	case n >= 126:
		return 0, nil, in, false
	}
	if len(in) < size+n {
		return 0, nil, in, false
	}
	return ws.OpCode(in[0] & 15), in[size : size+n], in[size+n:], true
}
