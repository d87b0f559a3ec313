package fanout

import "time"

// outage is what the hub notes about a source that is away. Owned by Run.
type outage struct {
	since time.Time // zero: the source is there
	err   error
	dark  []uint32 // topics that have lost their source in this turn, while others have theirs
	lit   []uint32 // and those that have it again
	parts int      // topics that have no source at the moment, while others have theirs
}

// away notes that no ticks come, and tells the loops once.
func (h *Hub) away(err error) {
	o := &h.outage
	if !o.since.IsZero() {
		return
	}
	o.since, o.err = h.opt.Now(), err
	h.tellAll(&SourceState{Lost: true, Since: o.since, Err: err})
}

// back notes that every subscription is confirmed again.
func (h *Hub) back() {
	o := &h.outage
	if o.since.IsZero() {
		return
	}
	h.tellAll(&SourceState{Since: h.opt.Now()})
	o.since, o.err = time.Time{}, nil
}

func (h *Hub) tellAll(e Event) {
	for i := range h.boxes {
		h.boxes[i].add(e)
	}
}

// darken notes a topic whose part of the source is lost.
func (h *Hub) darken(f *feed) {
	if !f.dark {
		f.dark = true
		h.outage.parts++
		h.outage.dark = append(h.outage.dark, f.number)
	}
}

// lighten notes a topic that a subscription gives again.
func (h *Hub) lighten(f *feed) {
	if f.dark {
		f.dark = false
		h.outage.parts--
		h.outage.lit = append(h.outage.lit, f.number)
	}
}

// stale counts the topics that no ticks come for at the moment.
func (h *Hub) stale() int {
	if !h.outage.since.IsZero() {
		return len(h.topics)
	}
	return h.outage.parts
}

// tellTopics tells the loops which topics have lost their source in this turn, and
// which have it again, both at once.
func (h *Hub) tellTopics() {
	o := &h.outage
	if len(o.dark) > 0 {
		h.tellAll(&SourceState{Lost: true, Since: h.opt.Now(), Topics: o.dark})
		o.dark = nil
	}
	if len(o.lit) > 0 {
		h.tellAll(&SourceState{Since: h.opt.Now(), Topics: o.lit})
		o.lit = nil
	}
}
