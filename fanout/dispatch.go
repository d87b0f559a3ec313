package fanout

import "math/bits"

// loopSet is a set of LoopIDs.
type loopSet [MaxLoops / 64]uint64

func (s *loopSet) add(id LoopID)      { s[id/64] |= 1 << (id % 64) }
func (s *loopSet) remove(id LoopID)   { s[id/64] &^= 1 << (id % 64) }
func (s *loopSet) has(id LoopID) bool { return s[id/64]&(1<<(id%64)) != 0 }
func (s loopSet) empty() bool         { return s == loopSet{} }

func (s *loopSet) unite(t *loopSet) {
	for i := range s {
		s[i] |= t[i]
	}
}

// outbox collects the events of one turn for one loop.
type outbox struct {
	loop    Loop
	events  []Event
	last    int // events of the turn before, as a guess for the next one
	filters int // confirmed filters of the loop
}

func (b *outbox) add(e Event) {
	if b.events == nil {
		b.events = make([]Event, 0, max(b.last, 1))
	}
	b.events = append(b.events, e)
}

// send puts an event into the outboxes of the loops.
//
// out 3 — one reference per loop that has subscribers, whatever their number.
func (h *Hub) send(loops *loopSet, e Event) {
	for i, word := range loops {
		for ; word != 0; word &= word - 1 {
			h.boxes[i*64+bits.TrailingZeros64(word)].add(e)
		}
	}
}

// flush posts each loop's events of this turn at once.
func (h *Hub) flush() {
	for i := range h.boxes {
		b := &h.boxes[i]
		if b.events == nil {
			continue
		}
		events := b.events
		b.events, b.last = nil, len(events)
		b.loop.Post(events)
	}
}
