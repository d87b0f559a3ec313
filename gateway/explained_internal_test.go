package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
	"github.com/sealcast/sealcast/wire/topic"
)

// modelClient is a client as docs/protocol.md section 6 wants it. Whatever it is
// sent it must be able to explain.
type modelClient struct {
	w       *world
	socket  *modelSocket
	sess    *session.Session
	topics  map[uint32]*modelView
	held    map[string]bool
	asked   map[uint32][]string
	lastID  uint32
	blocked bool // does not read
	ended   bool

	slow, sourceLost bool
	dropNext         bool // the next batch is lost on the way
	counts
}

// counts are what has happened to a client.
type counts struct{ ticks, merged, gaps, resets, values, losses, found, notices int }

// modelView is where a client stands in a topic.
type modelView struct {
	name  string
	epoch uint64
	last  uint64
	lost  uint64 // up to here ticks were taken from the client by the test
	held  bool
}

func (c *modelClient) fail(format string, args ...any) {
	c.w.t.Helper()
	c.w.t.Fatalf("client %d: %s", c.socket.conn.id, fmt.Sprintf(format, args...))
}

// read takes up to n bytes off the socket and understands all frames that are whole.
func (c *modelClient) read(n int) {
	s := c.socket
	for budget := n; ; {
		op, payload, rest, ok := cutFrame(s.unread)
		size := len(s.unread) - len(rest)
		if !ok || size > budget && budget < n {
			return
		}
		budget -= size
		s.unread = rest
		switch op {
		case ws.OpBinary:
			c.record(bytes.Clone(payload))
		case ws.OpClose:
			c.ended = true
			return
		}
	}
}

func (c *modelClient) record(msg []byte) {
	kind, plain, err := c.sess.Open(msg)
	if err != nil {
		c.fail("record: %v", err)
	}
	if kind != wire.KindRecord {
		return
	}
	var f *wire.ServerFrame
	if wire.Codec(plain[0]) == wire.CodecNone {
		f, err = wire.ParseServerFrame(plain)
	} else {
		f, err = unpacked(plain)
	}
	if err != nil {
		c.fail("frame: %v", err)
	}
	c.understand(f)
}

// unpacked reads a compressed batch.
func unpacked(plain []byte) (*wire.ServerFrame, error) {
	id, f, err := wire.ParsePacked(plain)
	if err != nil {
		return nil, err
	}
	d, err := codec.NewDecoder(id, nil, 1<<20)
	if err == nil {
		f.GetBatch().Payloads, err = d.Decode(nil, f.GetBatch().Payloads)
	}
	return f, err
}

func (c *modelClient) understand(f *wire.ServerFrame) {
	switch m := f.Message.(type) {
	case *wire.ServerFrame_Subscribed:
		for _, name := range m.Subscribed.Filters {
			c.held[name] = true
		}
		c.announced(m.Subscribed.Topics)
	case *wire.ServerFrame_Unsubscribed:
		for _, name := range m.Unsubscribed.Filters {
			delete(c.held, name)
		}
		for _, v := range c.topics {
			v.held = v.held && c.matches(v.name)
		}
	case *wire.ServerFrame_Topics:
		c.announced(m.Topics.Topics)
	case *wire.ServerFrame_Snapshot:
		for _, x := range m.Snapshot.Values {
			v := c.view(x.Topic)
			c.values++
			if !bytes.Equal(x.Payload, payloadOf(v.name, x.Epoch, x.Seq)) {
				c.fail("value %q", x.Payload)
			}
		}
	case *wire.ServerFrame_Batch:
		c.batch(m.Batch)
	case *wire.ServerFrame_Gap:
		c.gap(m.Gap)
	case *wire.ServerFrame_Notice:
		c.notice(m.Notice)
	case *wire.ServerFrame_Heartbeat:
		for _, h := range m.Heartbeat.Heads {
			if v := c.view(h.Topic); v.held && h.Seq > v.last {
				c.missing(v, h.Seq)
			}
		}
	case *wire.ServerFrame_Error:
		if !strings.HasPrefix(m.Error.Text, "not subscribed") { // that is in order: given back twice, or too soon
			c.fail("error: %v", m.Error)
		}
	}
}

func (c *modelClient) notice(n *wire.Notice) {
	c.notices++
	switch n.Kind {
	case wire.Notice_KIND_SOURCE_LOST, wire.Notice_KIND_SOURCE_BACK:
		for _, number := range n.Topics {
			c.view(number)
		}
		c.sourceLost = n.Kind == wire.Notice_KIND_SOURCE_LOST
	case wire.Notice_KIND_SLOW:
		c.slow = true
	case wire.Notice_KIND_CAUGHT_UP:
		if !c.slow {
			c.fail("caught up without having been slow")
		}
		c.slow = false
	}
}

func (c *modelClient) view(number uint32) *modelView {
	v := c.topics[number]
	if v == nil {
		c.fail("topic %d was never announced", number)
	}
	return v
}

func (c *modelClient) matches(name string) bool {
	for f := range c.held {
		if filter, err := topic.ParseFilter(f); err == nil && filter.Match(name) {
			return true
		}
	}
	return false
}

func (c *modelClient) announced(states []*wire.TopicState) {
	for _, s := range states {
		v := c.topics[s.Number]
		if v != nil && v.held && v.epoch == s.Epoch {
			continue
		}
		c.topics[s.Number] = &modelView{name: s.Name, epoch: s.Epoch, last: s.NextSeq - 1, held: true}
	}
}

// missing finds that ticks up to seq did not come. They must be among those that
// the test has taken away.
func (c *modelClient) missing(v *modelView, seq uint64) {
	if seq > v.lost {
		c.fail("%s: ticks %d to %d of epoch %d are nowhere", v.name, v.last+1, seq, v.epoch)
	}
	c.found++
	v.last = seq
}

func (c *modelClient) batch(b *wire.Batch) {
	drop := c.dropNext && len(b.Resets) == 0
	entries, err := new(wire.Splitter).Split(b)
	for i := range entries {
		h := &entries[i]
		v := c.view(h.Topic)
		switch {
		case !v.held:
		case h.Reset != nil:
			c.resets++
			v.epoch, v.last, v.lost = h.Reset.Epoch, h.Reset.NextSeq-1, 0
		case h.Seq <= v.last:
		case drop:
			if v.lost <= v.last {
				c.losses++
			}
			v.lost = max(v.lost, h.Seq)
		default:
			c.tick(v, h)
		}
	}
	if err != nil {
		c.fail("batch: %v", err)
	}
	c.dropNext = c.dropNext && !drop
}

func (c *modelClient) tick(v *modelView, h *wire.Entry) {
	if first := h.Seq - h.Skipped; first > v.last+1 {
		c.missing(v, first-1)
	}
	if !bytes.Equal(h.Payload, payloadOf(v.name, v.epoch, h.Seq)) {
		c.fail("%s: tick %d of epoch %d holds %q", v.name, h.Seq, v.epoch, h.Payload)
	}
	if v.name[0] == 'e' && h.Skipped != 0 {
		c.fail("%s: %d ticks were merged into %d", v.name, h.Skipped, h.Seq)
	}
	c.ticks++
	c.merged += int(h.Seq - v.last - 1)
	if v.lost > v.last {
		v.lost = 0
	}
	v.last = h.Seq
}

func (c *modelClient) gap(g *wire.Gap) {
	v := c.view(g.Topic)
	if !v.held || v.epoch != g.Epoch || g.To <= v.last {
		return
	}
	if g.From > v.last+1 {
		c.missing(v, g.From-1)
	}
	if !c.slow {
		c.fail("%s: a gap from %d to %d although the client is not slow", v.name, g.From, g.To)
	}
	c.gaps++
	v.last = g.To
}

var worldFilters = []string{"latest:**", "latest:a", "latest:b", "paced:*", "paced:a", "every:**", "every:a", "every:b", "**", "*:a"}

func (c *modelClient) subscribe(since []*wire.Position) {
	rng := c.w.rng
	c.lastID++
	m := &wire.Subscribe{Id: c.lastID, Since: since}
	for range 1 + rng.IntN(2) {
		s := &wire.Subscription{Filter: worldFilters[rng.IntN(len(worldFilters))]}
		if rng.IntN(3) == 0 {
			s.MaxRate = float64(20 + rng.IntN(200))
		}
		if rng.IntN(3) == 0 {
			s.MaxAgeMs = 1 + rng.Uint32N(50)
		}
		m.Subscriptions = append(m.Subscriptions, s)
	}
	if since != nil {
		m.Subscriptions = []*wire.Subscription{{Filter: "**"}}
	}
	c.w.l.serve(c.socket.conn, func(x *conn) { x.subscribe(m) })
}

func (c *modelClient) unsubscribe() {
	for name := range c.held {
		c.lastID++
		c.w.l.serve(c.socket.conn, func(x *conn) { x.unsubscribe(&wire.Unsubscribe{Id: c.lastID, Filters: []string{name}}) })
		return
	}
}

// comeBack breaks the connection and recovers on another one.
func (c *modelClient) comeBack() {
	c.socket.conn.onClosed(nil)
	var since []*wire.Position
	for _, v := range c.topics {
		if v.held {
			since = append(since, &wire.Position{Topic: v.name, Epoch: v.epoch, Seq: v.last})
		}
	}
	before := c.counts
	if c.lostSome() {
		before.losses, before.found = 0, 0 // what was under way to be found is not
	}
	c.w.connect(c)
	c.counts = before
	c.subscribe(since)
}

func (c *modelClient) lostSome() bool {
	for _, v := range c.topics {
		if v.held && v.lost > v.last {
			return true
		}
	}
	return false
}

func (w *world) act() {
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch n := w.rng.IntN(100); {
	case c.ended || n < 2:
		c.comeBack()
	case n < 8:
		c.subscribe(nil)
	case n < 11:
		if len(c.held) > 0 {
			c.unsubscribe()
		}
	case n < 16:
		c.blocked = !c.blocked
	case n < 17:
		c.dropNext = true
	case n < 18:
		w.hub.reset(w.topicName())
	case n < 20:
		w.l.serve(c.socket.conn, (*conn).heartbeat)
	case n < 40:
		w.deliver(w.rng.IntN(12))
	case n < 55:
		w.pass(time.Duration(w.rng.IntN(8000)) * time.Microsecond)
	case n < 65:
		if !c.blocked {
			c.read(200 + w.rng.IntN(5000))
		}
	default:
		for range 1 + w.rng.IntN(6) {
			w.hub.publish(w.topicName())
		}
	}
}

func (w *world) topicName() string {
	return []string{"latest", "paced", "every"}[w.rng.IntN(3)] + ":" + string(rune('a'+w.rng.IntN(6)))
}

// settle lets everything arrive.
func (w *world) settle() {
	for range 30 {
		w.deliver(len(w.hub.posted))
		w.pass(60 * time.Millisecond)
		for _, c := range w.clients {
			if c.ended {
				c.comeBack()
			}
			c.blocked, c.dropNext = false, false
			c.read(1 << 20)
			w.l.serve(c.socket.conn, (*conn).heartbeat)
			c.read(1 << 20)
		}
	}
}

// verdict: every client stands where the hub stands, and has found every loss.
func (w *world) verdict() (sum counts) {
	for _, c := range w.clients {
		for _, v := range c.topics {
			m := w.hub.topics[v.name]
			if v.held && (v.epoch != m.Epoch || v.last != m.NextSeq-1) {
				c.fail("%s: at %d/%d, the hub at %d/%d", v.name, v.epoch, v.last, m.Epoch, m.NextSeq-1)
			}
		}
		if c.lostSome() {
			c.fail("a loss was not found")
		}
		sum.add(&c.counts)
	}
	if w.l.slow.bytes != 0 || len(w.l.slow.conns) != 0 {
		w.t.Fatalf("%d bytes wait for %d sessions at the end", w.l.slow.bytes, len(w.l.slow.conns))
	}
	return sum
}

func (s *counts) add(c *counts) {
	s.ticks, s.merged, s.gaps, s.resets = s.ticks+c.ticks, s.merged+c.merged, s.gaps+c.gaps, s.resets+c.resets
	s.values, s.losses, s.found, s.notices = s.values+c.values, s.losses+c.losses, s.found+c.found, s.notices+c.notices
}

// TestEverythingIsExplained: clients join, subscribe, unsubscribe, change options,
// stop reading, break off and recover while ticks come at every point between; each
// can explain what it was sent, each loss that is put in is found, and in the end
// nobody lacks anything.
func TestEverythingIsExplained(t *testing.T) {
	seeds, steps := uint64(40), 2000
	switch {
	case testenv.Long():
		seeds, steps = 120, 4000
	case testenv.Race: // several times as slow
		seeds = 12
	}
	var sum counts
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, func(s *Settings) {
				s.Batch.MaxDelay = []time.Duration{0, 2 * time.Millisecond, 20 * time.Millisecond}[seed%3]
				s.Padding = []int{0, 64}[seed%2]
			})
			for range 6 {
				c := new(modelClient)
				w.connect(c)
				w.clients = append(w.clients, c)
			}
			for range steps {
				w.act()
			}
			w.settle()
			got := w.verdict()
			sum.add(&got)
		})
	}
	t.Logf("%+v", sum)
	if sum.ticks == 0 || sum.merged == 0 || sum.gaps == 0 || sum.resets == 0 || sum.values == 0 || sum.found == 0 || sum.notices == 0 {
		t.Errorf("something never happened: %+v", sum)
	}
}
