package fanout

import "time"

// maxRested bounds the topics of which nothing but their place is known. Beyond it
// all of them are let go, and come back under another number and epoch.
const maxRested = 100_000

// rest is what remains of a topic that was forgotten because nothing happened: it
// comes back under its number, and, if the source has given it all the time, where
// it was, so that nobody takes its silence for a loss.
type rest struct {
	number      uint32
	epoch, next uint64
	cover       *subscription // nil: ticks may have been lost
	age         uint64
}

// sweep lets kept ticks go that are too old, and forgets topics that nobody follows
// by name, of which nothing is kept any more, and for which no tick has come for a
// while.
func (h *Hub) sweep() {
	now := h.opt.Now()
	before := now.Add(-h.opt.TopicIdle).UnixMicro()
	for _, f := range h.topics {
		h.expire(f, now)
		if f.node.want == nil && f.past.count == 0 && f.touched < before {
			h.send(&f.loops, &Forgotten{Topic: f.number})
			h.lay(f)
			h.forget(f)
		}
	}
	h.count.gauge(h)
	h.flush()
}

// expire lets a topic's ticks go that are older than its rule keeps them, but not
// the last value.
func (h *Hub) expire(f *feed, now time.Time) {
	if f.rule == nil || f.rule.MaxAge <= 0 {
		return
	}
	least := 0
	if f.rule.Snapshot {
		least = 1
	}
	for before := now.Add(-f.rule.MaxAge).UnixMicro(); f.past.count > least && f.past.first.received < before; {
		h.store.drop(f)
	}
}

// lay notes where a topic is that is about to be forgotten.
func (h *Hub) lay(f *feed) {
	if h.rested == nil || len(h.rested) >= maxRested {
		h.rested = make(map[string]rest)
	}
	r := rest{number: f.number, epoch: f.epoch, next: f.next, cover: f.cover}
	if r.cover != nil {
		r.age = r.cover.age
	}
	h.rested[f.name] = r
}

// uncover notes that ticks of forgotten topics may have been lost: they come back in
// another epoch.
func (h *Hub) uncover() {
	for name, r := range h.rested {
		r.cover = nil
		h.rested[name] = r
	}
}

// wakeUp takes up a topic again where it was. It reports false if that is not known.
func (h *Hub) wakeUp(f *feed) bool {
	r, ok := h.rested[f.name]
	if !ok {
		return false
	}
	delete(h.rested, f.name)
	f.number = r.number
	if r.cover != nil && f.cover == r.cover && f.cover.age == r.age {
		f.epoch, f.next = r.epoch, r.next
	}
	return true
}
