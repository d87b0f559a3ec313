package fanout

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// The model: every message carries the number that it has among its topic's
// messages, so that what a loop sees can be compared with what was published.

// world is the truth that all loops share.
type world struct {
	published map[string]int    // messages per topic so far
	numbers   map[uint32]string // what a topic number has stood for
	ids       map[epochSeq]int  // which message a sequence number stands for
	reconnect int               // connections so far
	unsettled bool              // a loss is in the queue: what is confirmed now may be gone already
}

type epochSeq struct {
	number uint32
	epoch  uint64
	seq    uint64
}

// message is what a payload says about itself.
func (w *world) message(name string) string {
	w.published[name]++
	return fmt.Sprintf("%d@%d", w.published[name], w.reconnect)
}

// loopModel checks the events of one loop against the world. It behaves as an
// event loop has to: it knows topics by Opened and Confirmed and forgets them
// with the filters that match them.
type loopModel struct {
	t     *testing.T
	id    int
	world *world
	calm  bool // nothing may be lost, so nothing may be reset

	tickets   map[topic.Filter]Ticket
	confirmed map[topic.Filter]bool
	topics    map[uint32]*seen
	due       map[string]int // messages published when the topic began to be delivered
	excused   map[string]bool
	ticks     int
	memory    memoryModel
}

// seen is what the loop knows of a topic.
type seen struct {
	TopicState
	id   int // of the last message; 0: none yet
	link string
}

func newLoopModel(t *testing.T, id int, w *world, calm bool) *loopModel {
	return &loopModel{
		t: t, id: id, world: w, calm: calm,
		tickets:   make(map[topic.Filter]Ticket),
		confirmed: make(map[topic.Filter]bool),
		topics:    make(map[uint32]*seen),
		due:       make(map[string]int),
		excused:   make(map[string]bool),
	}
}

func (m *loopModel) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("loop %d: %s", m.id, fmt.Sprintf(format, args...))
}

func (m *loopModel) wants(name string) bool {
	for f := range m.confirmed {
		if f.Match(name) {
			return true
		}
	}
	return false
}

func (m *loopModel) release(f topic.Filter) {
	delete(m.tickets, f)
	delete(m.confirmed, f)
	for number, s := range m.topics {
		if !m.wants(s.Name) {
			delete(m.topics, number)
		}
	}
	for name := range m.due {
		if !m.wants(name) {
			delete(m.due, name)
			delete(m.excused, name)
		}
	}
}

// Post implements Loop.
func (m *loopModel) Post(events []Event) {
	for _, e := range events {
		switch e := e.(type) {
		case *Tick:
			m.tick(e)
		case *Reset:
			m.reset(e)
		case *Opened:
			if m.wants(e.Name) {
				if m.topics[e.Number] != nil {
					m.fail("%s opened twice", e.Name)
				}
				m.learn(e.TopicState)
			}
		case *Confirmed:
			m.confirm(e)
		case *Refused:
			if m.tickets[e.Filter] == e.Ticket {
				m.release(e.Filter)
			}
		case *Recalled:
			m.recalled(e)
		}
	}
}

func (m *loopModel) learn(s TopicState) {
	if name, ok := m.world.numbers[s.Number]; ok && name != s.Name {
		m.fail("number %d stands for %s and for %s", s.Number, name, s.Name)
	}
	if s.Epoch == 0 || s.Epoch >= 1<<53 || s.NextSeq == 0 {
		m.fail("topic state %+v", s)
	}
	m.world.numbers[s.Number] = s.Name
	if known := m.topics[s.Number]; known != nil {
		if known.TopicState != s {
			m.fail("topic %+v is said to be %+v", known.TopicState, s)
		}
		return
	}
	m.topics[s.Number] = &seen{TopicState: s}
}

func (m *loopModel) confirm(e *Confirmed) {
	if m.tickets[e.Filter] != e.Ticket {
		return // an earlier acquisition, released since
	}
	if m.confirmed[e.Filter] {
		m.fail("%s confirmed twice", e.Filter)
	}
	m.confirmed[e.Filter] = true
	for _, s := range e.Topics {
		if !e.Filter.Match(s.Name) {
			m.fail("%s confirmed with %s", e.Filter, s.Name)
		}
		m.learn(s)
	}
	for name, n := range m.world.published {
		if _, ok := m.due[name]; !ok && e.Filter.Match(name) {
			m.due[name] = n
			m.excused[name] = m.world.unsettled
		}
	}
}

func (m *loopModel) reset(e *Reset) {
	s := m.topics[e.Topic]
	if s == nil {
		return
	}
	if m.calm {
		m.fail("%s was reset (%v) though nothing was lost", s.Name, e.Cause)
	}
	if e.Epoch == s.Epoch || e.Cause == wire.Cause_CAUSE_UNSPECIFIED {
		m.fail("%s: reset %+v of %+v", s.Name, e, s)
	}
	s.Epoch, s.NextSeq, s.id = e.Epoch, e.NextSeq, 0
	m.excused[s.Name] = true
}

func (m *loopModel) tick(e *Tick) {
	s := m.topics[e.Topic]
	if s == nil {
		if name := m.world.numbers[e.Topic]; name == "" || m.wants(name) {
			m.fail("tick of topic %d %q, which was not announced", e.Topic, name)
		}
		return
	}
	number, link, _ := strings.Cut(string(e.Payload), "@")
	id, _ := strconv.Atoi(number)
	switch {
	case e.Seq != s.NextSeq:
		m.fail("%s: seq %d, expected %d", s.Name, e.Seq, s.NextSeq)
	case s.id != 0 && id != s.id+1:
		m.fail("%s: message %d after %d without a reset", s.Name, id, s.id)
	case s.id != 0 && link != s.link:
		m.fail("%s: messages of two connections in one epoch", s.Name)
	}
	if known, ok := m.world.ids[epochSeq{e.Topic, s.Epoch, e.Seq}]; ok && known != id {
		m.fail("%s: seq %d is message %d here and %d elsewhere", s.Name, e.Seq, id, known)
	}
	m.world.ids[epochSeq{e.Topic, s.Epoch, e.Seq}] = id
	if due := m.due[s.Name]; id > due+1 && !m.excused[s.Name] {
		m.fail("%s: first message is %d, but from %d on all were due", s.Name, id, due+1)
	}
	m.due[s.Name] = max(m.due[s.Name], id)
	s.id, s.link = id, link
	m.memory.saw(s.Name, s.Epoch, e.Seq, id)
	s.NextSeq++
	m.ticks++
}

// lost excuses what is lost with a connection, as far as topics are concerned
// that the loop has never heard of; all others must be reset.
func (m *loopModel) lost() {
	for name := range m.world.published {
		m.excused[name] = true
	}
}

// story is one random run.
type story struct {
	*fakeRedis
	world  *world
	models []*loopModel
	names  []string
}

func newStory(t *testing.T, seed uint64, opt Options, calm bool) *story {
	const loops = 3
	opt.Random = rand.NewPCG(seed, 1)
	r, _ := newFake(t, opt, 0)
	r.random = rand.New(rand.NewPCG(seed, 2))
	s := &story{
		fakeRedis: r,
		world:     &world{published: make(map[string]int), numbers: make(map[uint32]string), ids: make(map[epochSeq]int)},
	}
	for i := range loops {
		m := newLoopModel(t, i, s.world, calm)
		s.models = append(s.models, m)
		r.hub.Attach(m)
	}
	for _, a := range []string{"a", "b", ""} {
		for _, b := range []string{"", ":a", ":b", ":a:a", ":b:b"} {
			if a+b != "" {
				s.names = append(s.names, a+b)
				s.world.published[a+b] = 0
			}
		}
	}
	return s
}

func (s *story) randomFilter() topic.Filter {
	segments := []string{"a", "b", "*", "*", ""}
	for {
		text := ""
		for n := 1 + s.random.IntN(3); n > 0; n-- {
			segment := segments[s.random.IntN(len(segments))]
			if n == 1 && s.random.IntN(3) == 0 {
				segment = "**"
			}
			text += segment
			if n > 1 {
				text += ":"
			}
		}
		if f, err := topic.ParseFilter(text); err == nil {
			return f
		}
	}
}

func (s *story) toggle() {
	id := s.random.IntN(len(s.models))
	m := s.models[id]
	if len(m.tickets) > 4 || (len(m.tickets) > 0 && s.random.IntN(2) == 0) {
		for f := range m.tickets {
			m.release(f)
			s.hub.Release(LoopID(id), f)
			return
		}
	}
	f := s.randomFilter()
	if m.tickets[f] == 0 {
		m.tickets[f] = s.hub.Acquire(LoopID(id), f)
	}
}

// step does something at random. What is more likely comes first.
func (s *story) step(calm bool) {
	switch n := s.random.IntN(100); {
	case n < 45:
		name := s.names[s.random.IntN(len(s.names))]
		s.publish(name, s.world.message(name))
	case n < 60:
		s.toggle()
	case n < 65 && len(s.hub.opt.Rules) > 0:
		s.recall()
	case n < 80:
		s.answer()
	case n < 97 || calm:
		s.world.unsettled = s.hub.turn() && s.world.unsettled
	case n < 98 && len(s.subs) > 0:
		s.denied[s.subs[s.random.IntN(len(s.subs))]] = true // takes effect after a reconnect
	case n < 99:
		clear(s.denied)
	case s.up:
		s.disconnect()
		s.world.unsettled = true
		for _, m := range s.models {
			m.lost()
		}
	default:
		s.begin()
	}
}

func (s *story) begin() {
	s.world.reconnect++
	s.connect()
}

// finish lets everything come to rest and checks that every loop gets what it is due.
func (s *story) finish(t *testing.T) {
	clear(s.denied)
	if !s.up {
		s.begin()
	}
	s.settle()
	s.world.unsettled = false
	for _, name := range s.names {
		s.publish(name, s.world.message(name))
		s.settle()
	}
	for _, m := range s.models {
		for f := range m.tickets {
			if !m.confirmed[f] {
				t.Errorf("loop %d: %s was never confirmed", m.id, f)
			}
		}
		for _, name := range s.names {
			if m.wants(name) && m.due[name] != s.world.published[name] {
				t.Errorf("loop %d: last message of %s is %d, got %d", m.id, name, s.world.published[name], m.due[name])
			}
		}
	}
	s.checkCover(t)
	for id, m := range s.models {
		for f := range m.tickets {
			s.hub.Release(LoopID(id), f)
		}
	}
	s.settle()
	h := s.hub
	if len(h.opt.Rules) > 0 {
		return // they stay subscribed
	}
	if len(h.topics) != 0 || len(h.root.children) != 0 || len(h.cover.subs) != 0 || len(h.cover.missing) != 0 || len(s.subs) != 0 {
		t.Errorf("left after the last release: %d topics, %d subscriptions, at the source %q", len(h.topics), len(h.cover.subs), s.subs)
	}
}

// checkCover checks that the source gives what is wanted, with no subscription inside another.
func (s *story) checkCover(t *testing.T) {
	for _, a := range s.hub.cover.subs {
		for _, b := range s.hub.cover.subs {
			if a != b && a.state != idle && b.state != idle && a.filter.Covers(b.filter) {
				t.Errorf("subscribed to %s and, inside it, to %s", a.filter, b.filter)
			}
		}
	}
	if err := s.hub.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// Each loop sees each matching tick exactly once, in order; without faults of
// the source no tick is lost and no topic reset, however filters come and go.
func TestModelCalm(t *testing.T) {
	runStories(t, Options{}, true)
}

func TestModelWholeSource(t *testing.T) {
	runStories(t, Options{WholeSource: true}, true)
}

// With lost connections and refused subscriptions every loss is explained.
func TestModelStorm(t *testing.T) {
	runStories(t, Options{}, false)
}

// With a queue that is too small, too.
func TestModelOverflow(t *testing.T) {
	runStories(t, Options{QueueTicks: 3}, false)
}

func runStories(t *testing.T, opt Options, calm bool) {
	stories, steps := 150, 600
	if testing.Short() {
		stories = 20
	}
	ticks := 0
	for seed := range uint64(stories) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			s := newStory(t, seed, opt, calm)
			if calm {
				s.begin()
			}
			for range steps {
				s.step(calm)
			}
			s.finish(t)
			for _, m := range s.models {
				ticks += m.ticks
			}
		})
	}
	if ticks < stories*50 {
		t.Errorf("only %d ticks were delivered in %d stories", ticks, stories)
	}
}
