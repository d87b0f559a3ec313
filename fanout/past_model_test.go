package fanout

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/wire/topic"
)

// memoryModel is what a loop of the model remembers in order to check what the
// hub remembers: every place at which a client could have left.
type memoryModel struct {
	places []place
	asked  map[Ticket]asking
	sure   uint64 // this many ticks of a:** are always kept
	// what was seen
	recovered, lost, values, stale int
}

// place is a position, and the message that stood there.
type place struct {
	Position
	id int
}

type asking struct {
	filters []topic.Filter
	since   map[string]place
}

func (m *memoryModel) saw(name string, epoch, seq uint64, id int) {
	m.places = append(m.places, place{Position{name, epoch, seq}, id})
}

// recall asks for some of a loop's filters, with positions of any age, or none.
func (s *story) recall() {
	id := s.random.IntN(len(s.models))
	m := s.models[id]
	ask := asking{since: map[string]place{}}
	for f := range m.confirmed {
		if s.random.IntN(4) > 0 {
			ask.filters = append(ask.filters, f)
		}
	}
	places := m.memory.places[len(m.memory.places)/2*s.random.IntN(2):]
	for range min(s.random.IntN(12), len(places)) {
		p := places[s.random.IntN(len(places))]
		ask.since[p.Topic] = p
	}
	r := Recall{Filters: ask.filters}
	for _, p := range ask.since {
		r.Since = append(r.Since, p.Position)
	}
	if m.memory.asked == nil {
		m.memory.asked = map[Ticket]asking{}
	}
	m.memory.asked[s.hub.Recall(LoopID(id), r)] = ask
}

// recalled checks an answer against the loop's own view at this point.
func (m *loopModel) recalled(e *Recalled) {
	ask, ok := m.memory.asked[e.Ticket]
	if !ok {
		m.fail("an answer to a question that was never asked")
	}
	delete(m.memory.asked, e.Ticket)
	told := map[uint32]bool{}
	for i := range e.Memories {
		x := &e.Memories[i]
		if _, twice := told[x.Topic]; twice {
			m.fail("topic %d stands twice in one answer", x.Topic)
		}
		told[x.Topic] = x.Recovered
		if s := m.topics[x.Topic]; s != nil { // else its filter was released meanwhile
			m.checkMemory(s, x, ask)
		}
	}
	for number, s := range m.topics {
		p, known := ask.since[s.Name]
		matches := slices.ContainsFunc(ask.filters, func(f topic.Filter) bool { return f.Match(s.Name) })
		sure := uint64(0)
		if strings.HasPrefix(s.Name, "a:") {
			sure = m.memory.sure
		}
		if known && matches && p.Epoch == s.Epoch && s.NextSeq-1-p.Seq <= sure && !told[number] {
			m.fail("%s: little was missed after %d, and not recovered", s.Name, p.Seq)
		}
	}
}

func (m *loopModel) checkMemory(s *seen, x *Memory, ask asking) {
	if !x.Recovered {
		m.checkValue(s, x, ask)
		return
	}
	m.memory.recovered++
	p, known := ask.since[s.Name]
	if !known || p.Epoch != s.Epoch || x.Epoch != s.Epoch || x.Since != p.Seq || x.Stale {
		m.fail("%s: recovered %+v from %+v", s.Name, x, p)
	}
	if got, want := uint64(len(x.Ticks)), s.NextSeq-1-p.Seq; got != want {
		m.fail("%s: %d ticks recovered, %d were missed", s.Name, got, want)
	}
	id := p.id
	for i, t := range x.Ticks {
		if t.Seq != p.Seq+1+uint64(i) || messageOf(t) != id+1 {
			m.fail("%s: seq %d is message %d, after %d", s.Name, t.Seq, messageOf(t), id)
		}
		id = messageOf(t)
	}
	if s.id != 0 && id != s.id {
		m.fail("%s: recovered up to message %d, live up to %d", s.Name, id, s.id)
	}
}

func (m *loopModel) checkValue(s *seen, x *Memory, ask asking) {
	if len(x.Ticks) != 1 {
		m.fail("%s: %d last values", s.Name, len(x.Ticks))
	}
	t := x.Ticks[0]
	current := x.Epoch == s.Epoch && t.Seq+1 == s.NextSeq
	switch {
	case !x.Stale && !current:
		m.fail("%s: value %d of epoch %d is not the last one, and not called stale", s.Name, t.Seq, x.Epoch)
	case current && s.id != 0 && messageOf(t) != s.id:
		m.fail("%s: value is message %d, the last one was %d", s.Name, messageOf(t), s.id)
	}
	if x.Stale {
		m.memory.stale++
	}
	m.memory.values++
	p, known := ask.since[s.Name]
	if known && p.Epoch == s.Epoch && current && s.NextSeq-1-p.Seq <= 1 {
		m.fail("%s: %+v could have been recovered with its last tick", s.Name, p)
	}
	if known {
		m.memory.lost++
	}
}

func messageOf(t *Tick) int {
	number, _, _ := strings.Cut(string(t.Payload), "@")
	id, _ := strconv.Atoi(number)
	return id
}

// Whoever comes back gets exactly what it missed, or the last value and the
// truth, at every cut point and with everything going on around it.
func TestModelMemory(t *testing.T) {
	rules := []Rule{{Match: filter("a:**"), Snapshot: true, History: 5}, {Match: filter("*"), History: 3}, {Match: filter("*:b"), Snapshot: true}}
	stories := 100
	if testing.Short() {
		stories = 20
	}
	for _, opt := range []Options{{Rules: rules}, {Rules: rules, HistoryBytes: 4000}, {Rules: rules, WholeSource: true}} {
		for _, calm := range []bool{true, false} {
			var sum memoryModel
			for seed := range uint64(stories) {
				s := newStory(t, seed, opt, calm)
				for _, m := range s.models {
					if opt.HistoryBytes == 0 {
						m.memory.sure = 5
					}
				}
				if calm {
					s.begin()
				}
				for range 500 {
					s.step(calm)
				}
				s.finish(t)
				for _, m := range s.models {
					sum.recovered += m.memory.recovered
					sum.lost += m.memory.lost
					sum.values += m.memory.values
					sum.stale += m.memory.stale
				}
				if st := s.hub.Stats(); st.Kept.Bytes > s.hub.opt.HistoryBytes || opt.HistoryBytes == 0 && st.Kept.Evicted > 0 {
					t.Fatalf("stats %+v", st)
				}
			}
			if sum.recovered < stories || sum.values < stories || sum.lost < stories/4 || calm != (sum.stale == 0) {
				t.Errorf("calm %v, %d bytes: too little happened: %+v", calm, opt.HistoryBytes, sum)
			}
		}
	}
}
