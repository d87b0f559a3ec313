package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sealcast/sealcast/internal/testnet"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// market is a gateway's memory of topics, for as many connections as come.
type market struct {
	t    *testing.T
	over atomic.Bool // everything is published

	mu     sync.Mutex // held by the script of a connection: the one before may still be at its end
	random *rand.Rand
	topics []*published
	left   int // ticks still to be published
}

// lastWord is the time of the heartbeat after which nothing comes.
const lastWord = 1234567

// published is a topic that remembers some of its ticks.
type published struct {
	name       string
	epoch, seq uint64
	oldest     uint64 // that it still has
}

// payloadOf tells ticks apart.
func payloadOf(name string, epoch, seq uint64) string {
	return fmt.Sprintf("%s %d/%d", name, epoch, seq)
}

func newMarket(t *testing.T, seed byte) *market {
	m := &market{t: t, random: rand.New(rand.NewChaCha8([32]byte{seed})), left: 300}
	for _, name := range []string{"a", "b", "c"} {
		m.topics = append(m.topics, &published{name: name, epoch: m.random.Uint64N(1<<53-1) + 1, oldest: 1})
	}
	return m
}

// publish is one tick of a topic; the memory of older ones may end.
func (m *market) publish(number int) wire.BatchItem {
	p := m.topics[number]
	p.seq++
	m.left--
	if m.random.IntN(10) == 0 {
		p.oldest = p.seq + 1 - min(uint64(m.random.IntN(5)), p.seq+1-p.oldest)
	}
	return m.item(number, p.seq)
}

func (m *market) item(number int, seq uint64) wire.BatchItem {
	p := m.topics[number]
	return tickItem(uint32(number)+1, seq, 0, payloadOf(p.name, p.epoch, seq))
}

// meanwhile is what happens while nobody is connected.
func (m *market) meanwhile() {
	for i, p := range m.topics {
		for range m.random.IntN(4) {
			m.publish(i)
		}
		if m.random.IntN(10) == 0 {
			p.epoch, p.seq, p.oldest = p.epoch+1, 0, 1
		}
	}
}

// serve is one connection.
func (m *market) serve(p *peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meanwhile()
	if p.connected() == nil {
		return
	}
	f := p.request()
	if f.GetSubscribe() == nil {
		return
	}
	p.send(m.answer(f.GetSubscribe()))
	for i, position := range m.since(f.GetSubscribe()) {
		for seq := position + 1; seq <= m.topics[i].seq; seq++ {
			p.batch(m.item(i, seq))
		}
	}
	for m.left > 0 {
		if m.step(p) != nil {
			return
		}
	}
	var heads []*wire.TopicHead
	for i, topic := range m.topics {
		heads = append(heads, topicHead(uint32(i)+1, topic.seq))
	}
	m.over.Store(true)
	last := heartbeatFrame(heads...)
	last.GetHeartbeat().TimeUs = lastWord
	p.send(last)
	p.wait()
}

// since is where the client comes back to, by topic, where that can be done.
func (m *market) since(s *wire.Subscribe) map[int]uint64 {
	found := map[int]uint64{}
	for i, topic := range m.topics {
		for _, at := range s.GetSince() {
			if at.GetTopic() == topic.name && at.GetEpoch() == topic.epoch && at.GetSeq()+1 >= topic.oldest {
				found[i] = at.GetSeq()
			}
		}
	}
	return found
}

func (m *market) answer(s *wire.Subscribe) *wire.ServerFrame {
	var filters []string
	for _, x := range s.GetSubscriptions() {
		filters = append(filters, x.GetFilter())
	}
	var states []*wire.TopicState
	found := m.since(s)
	for i, topic := range m.topics {
		next := state(uint32(i)+1, topic.name, topic.epoch, topic.seq+1)
		if at, ok := found[i]; ok {
			next.NextSeq, next.Recovered = at+1, true
		}
		states = append(states, next)
	}
	return subscribedFrame(s.GetId(), filters, states...)
}

// step sends a batch, a gap, a reset or a heartbeat.
func (m *market) step(p *peer) error {
	i := m.random.IntN(len(m.topics))
	topic := m.topics[i]
	switch m.random.IntN(12) {
	case 0:
		from := topic.seq + 1
		for range 1 + m.random.IntN(3) {
			m.publish(i)
		}
		topic.oldest = topic.seq + 1
		return p.raw(p.sealed(wire.KindRecord, p.plain(gapFrame(uint32(i)+1, topic.epoch, from, topic.seq))))
	case 1:
		topic.epoch, topic.seq, topic.oldest = topic.epoch+1, 0, 1
		return p.raw(p.sealed(wire.KindRecord, wire.AppendBatchFrame(nil,
			[]wire.BatchItem{resetItem(uint32(i)+1, topic.epoch, 1, wire.Cause_CAUSE_SOURCE_LOST)})))
	case 2:
		return p.raw(p.sealed(wire.KindRecord, p.plain(heartbeatFrame(topicHead(uint32(i)+1, topic.seq)))))
	}
	var items []wire.BatchItem
	for range 1 + m.random.IntN(5) {
		items = append(items, m.publish(m.random.IntN(len(m.topics))))
	}
	return p.raw(p.sealed(wire.KindRecord, wire.AppendBatchFrame(nil, items)))
}

// witness holds what a client is told against itself: within an epoch, every
// sequence number is a tick or in a gap, exactly once and in order.
type witness struct {
	at            map[string]Position
	ticks, resets int
	lost          uint64
}

func (w *witness) see(e Event) error {
	switch e := e.(type) {
	case *Tick:
		w.ticks++
		if string(e.Payload) != payloadOf(e.Topic, e.Epoch, e.Seq) {
			return fmt.Errorf("tick %s %d/%d holds %q", e.Topic, e.Epoch, e.Seq, e.Payload)
		}
		return w.move(e.Topic, e.Epoch, e.Seq, e.Seq)
	case *Gap:
		w.lost += e.To - e.From + 1
		return w.move(e.Topic, e.Epoch, e.From, e.To)
	case *Reset:
		w.resets++
		w.at[e.Topic] = Position{e.Topic, e.Epoch, e.NextSeq - 1}
	case *TopicsAdded:
		for _, s := range e.Topics {
			if _, known := w.at[s.Topic]; !known {
				w.at[s.Topic] = Position{s.Topic, s.Epoch, s.NextSeq - 1}
			}
		}
	}
	return nil
}

func (w *witness) move(topic string, epoch, from, to uint64) error {
	at := w.at[topic]
	if at.Epoch != epoch || at.Seq+1 != from {
		return fmt.Errorf("%s: after %d/%d comes %d/%d", topic, at.Epoch, at.Seq, epoch, from)
	}
	w.at[topic] = Position{topic, epoch, to}
	return nil
}

// Under a random schedule of disconnects, at any byte of handshake or records,
// no tick is dropped silently and none comes twice or out of order.
func TestNothingIsLostSilently(t *testing.T) {
	var ticks, lost, resets, cuts int
	for seed := range byte(12) {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := cutAtRandom(t, seed)
				ticks, lost, resets = ticks+w.ticks, lost+int(w.lost), resets+w.resets
				cuts += w.cuts
			})
		})
	}
	if ticks < 1000 || lost == 0 || resets == 0 || cuts < 100 {
		t.Errorf("%d ticks, %d lost, %d resets, %d cuts: that proves little", ticks, lost, resets, cuts)
	}
}

type witnessed struct {
	witness
	cuts int
}

func cutAtRandom(t *testing.T, seed byte) witnessed {
	m := newMarket(t, seed)
	g := newFakeGateway(t, m.serve)
	g.pair = inMemory
	opts := g.options()
	opts.PostQuantum = session.PostQuantumOff
	schedule := rand.New(rand.NewChaCha8([32]byte{seed, 1}))
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := g.dial(ctx, network, addr)
		if m.over.Load() || err != nil {
			return conn, err
		}
		return &testnet.Cut{Conn: conn, Left: 1 + schedule.IntN(1500)}, nil
	}
	w := witnessed{witness: witness{at: map[string]Position{}}}
	var c *Client
	for { // the first connection is the program's own affair
		var err error
		if c, err = Open(t.Context(), testURL, opts); err == nil {
			break
		}
	}
	defer c.Close(t.Context())
	if err := c.Subscribe("*"); err != nil {
		t.Fatal(err)
	}
	for {
		e, err := c.Next(t.Context())
		if err == nil {
			err = w.see(e)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.(*Disconnected); ok {
			w.cuts++
		}
		if beat, ok := e.(*Heartbeat); ok && beat.Time.UnixMicro() == lastWord {
			m.compare(w.at)
			return w
		}
	}
}

// compare wants the client to stand where the gateway does, once all is said.
func (m *market) compare(at map[string]Position) {
	for _, p := range m.topics {
		if at[p.name] != (Position{p.name, p.epoch, p.seq}) {
			m.t.Errorf("the client stands at %v, the gateway at %d/%d of %s", at[p.name], p.epoch, p.seq, p.name)
		}
	}
}
