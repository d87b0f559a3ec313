package gateway

import (
	"slices"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// index is what one loop knows of topics and of who follows them:
//
//	topic number → filters that match it → cohorts that hold the filter → members
//
// so that neither a topic nor a filter costs anything per session.
type index struct {
	conns     roster
	topics    map[uint32]*loopTopic
	filters   map[topic.Filter]*heldFilter
	patterns  []*heldFilter // those of filters that are patterns
	cohorts   map[string]*cohort
	asked     map[fanout.Ticket]*request // that wait for what the hub remembers
	touched   []*cohort                  // whose batch has to be looked at when the turn ends
	collected int                        // bytes of ticks since batches were looked at
	turn      uint64                     // marks cohorts that an event has reached already
	lastID    uint32                     // of held filters
	lastTopic uint32                     // no number in topics has been above it

	cursors     cursors
	compressors []*compressor // that sessions have agreed on
	lastSerial  uint32        // of compressors
}

// loopTopic is a topic at the loop's point in the order of events.
type loopTopic struct {
	fanout.TopicState // NextSeq and Epoch as of the last event
	filters           []*heldFilter
	rule              *policy
	ruledBy           *ruleTable // that rule was looked up in; nil: none yet
	pace              *pace      // of the rule; nil: none yet
	head, headTurn    uint64     // the last tick that went to cohorts, and when
	mark              uint64     // turn in which at was set
	at                int        // scratch of whoever set mark: where its tick stands, or a sequence number
}

// heldFilter is a filter that at least one session of the loop holds or waits for.
type heldFilter struct {
	topic.Filter
	id        uint32
	ticket    fanout.Ticket // of the acquisition; events with another one are stale
	refs      int           // sessions that hold it or wait for it
	confirmed bool
	turn      uint64 // when it was last marked, see newTopics
	refused   error  // why the source gives it no longer, nor the hub
	topics    []*loopTopic
	cohorts   []*cohort
	waiting   []*request // until confirmed
}

func newIndex() index {
	return index{
		topics:  make(map[uint32]*loopTopic),
		filters: make(map[topic.Filter]*heldFilter),
		cohorts: make(map[string]*cohort),
		asked:   make(map[fanout.Ticket]*request),
	}
}

// nextTurn is a number that nothing is marked with yet.
func (x *index) nextTurn() uint64 {
	x.turn++
	return x.turn
}

// hold counts one more session on a filter and asks the hub for it if it is the first.
func (l *loop) hold(f topic.Filter) *heldFilter {
	h, ok := l.index.filters[f]
	if !ok {
		l.index.lastID++
		h = &heldFilter{Filter: f, id: l.index.lastID}
		l.index.filters[f] = h
		if f.IsPattern() {
			l.index.patterns = append(l.index.patterns, h)
		}
		h.ticket = l.gateway.opts.Hub.Acquire(l.id, f)
	}
	h.refs++
	return h
}

// letGo gives one session's hold back; after the last the hub is told.
func (l *loop) letGo(h *heldFilter) {
	if h.refs--; h.refs > 0 {
		return
	}
	l.drop(h)
	if h.refused == nil {
		l.gateway.opts.Hub.Release(l.id, h.Filter)
	}
}

// drop forgets a filter and the topics that nothing else matches.
func (l *loop) drop(h *heldFilter) {
	x := &l.index
	delete(x.filters, h.Filter)
	x.patterns = without(x.patterns, h)
	for _, t := range h.topics {
		t.filters = without(t.filters, h)
		if len(t.filters) == 0 {
			delete(x.topics, t.Number)
			if t.pace != nil {
				t.pace.take(l)
			}
		}
	}
}

// forget drops a topic that is idle and comes only by patterns. What rates hold
// back of it goes before.
func (l *loop) forget(number uint32) {
	t, ok := l.index.topics[number]
	if !ok {
		return
	}
	l.letPass(t)
	rule := t.policy(l.settings().rules)
	for _, h := range t.filters {
		h.topics = without(h.topics, t)
		for _, co := range h.cohorts {
			if p := co.paces[t]; p != nil {
				if held, ok := p.take(l); ok {
					l.put(co, held, rule)
				}
				delete(co.paces, t)
			}
		}
	}
	delete(l.index.topics, number)
}

// without removes the first v, not keeping the order.
func without[T comparable](s []T, v T) []T {
	i := slices.Index(s, v)
	if i < 0 {
		return s
	}
	last := len(s) - 1
	s[i] = s[last]
	clear(s[last:])
	return s[:last]
}

// learn enters a topic that a filter matches.
func (x *index) learn(h *heldFilter, s fanout.TopicState) {
	t, ok := x.topics[s.Number]
	if !ok {
		t = &loopTopic{TopicState: s}
		x.topics[s.Number] = t
		x.lastTopic = max(x.lastTopic, s.Number)
	}
	if !slices.Contains(t.filters, h) {
		t.filters = append(t.filters, h)
		h.topics = append(h.topics, t)
	}
}

// learnOpened enters a new topic under every confirmed filter that matches it.
func (x *index) learnOpened(s fanout.TopicState) {
	if f, err := topic.ParseFilter(s.Name); err == nil {
		if h, ok := x.filters[f]; ok && h.confirmed {
			x.learn(h, s)
		}
	}
	for _, h := range x.patterns {
		if h.confirmed && h.Match(s.Name) {
			x.learn(h, s)
		}
	}
}

// distinct leaves each topic once, and no more than maxFresh. It works in topics itself.
func (x *index) distinct(topics []*loopTopic) []*loopTopic {
	turn, out := x.nextTurn(), topics[:0]
	for _, t := range topics {
		if t.mark != turn && len(out) < maxFresh {
			t.mark = turn
			out = append(out, t)
		}
	}
	clear(topics[len(out):])
	return out
}

func (t *loopTopic) proto() *wire.TopicState { return protoState(t.TopicState) }

func protoState(s fanout.TopicState) *wire.TopicState {
	return &wire.TopicState{Number: s.Number, Name: s.Name, Epoch: s.Epoch, NextSeq: s.NextSeq}
}
