package gateway

import (
	"encoding/binary"
	"slices"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
)

// tickOverhead is what a waiting tick is counted for beyond its payload.
const tickOverhead = 64

// entry is one thing on its way to sessions, in order: *fanout.Tick,
// *fanout.Reset, *fanout.Opened, or for one session alone *lastValue, *control
// and *seam.
type entry any

// cohort is the sessions of one loop whose subscriptions and codecs are equal: a
// batch is built and compressed once for all of them.
type cohort struct {
	key     string
	filters []*heldFilter // in order of id
	codec   *compressor   // nil: none
	members []*conn
	first   int     // member to be served first next time
	pending []entry // since the last flush
	turn    uint64  // of the last event that reached it
}

// cohortKey is equal exactly for equal sets of filters, which must be in order of
// id, and equal codecs.
func cohortKey(filters []*heldFilter, codec *compressor) string {
	serial := uint32(0) // of no compressor; always there, or it could be taken for a filter
	if codec != nil {
		serial = codec.serial
	}
	key := binary.BigEndian.AppendUint32(make([]byte, 0, 4*len(filters)+4), serial)
	for _, h := range filters {
		key = binary.BigEndian.AppendUint32(key, h.id)
	}
	return string(key)
}

// join makes c a member of the cohort of its filters. Nothing may be pending.
func (l *loop) join(c *conn, filters []*heldFilter) {
	l.leave(c)
	c.sub.filters = filters
	if len(filters) == 0 {
		return
	}
	key := cohortKey(filters, c.sub.codec)
	co, ok := l.index.cohorts[key]
	if !ok {
		co = &cohort{key: key, filters: filters, codec: c.sub.codec}
		l.index.cohorts[key] = co
		for _, h := range filters {
			h.cohorts = append(h.cohorts, co)
		}
	}
	c.sub.cohort, c.sub.place = co, len(co.members)
	co.members = append(co.members, c)
}

// leave takes c out of its cohort; an empty cohort goes.
func (l *loop) leave(c *conn) {
	co := c.sub.cohort
	if co == nil {
		return
	}
	c.sub.cohort = nil
	last := len(co.members) - 1
	moved := co.members[last]
	co.members[c.sub.place] = moved
	moved.sub.place = c.sub.place
	co.members[last] = nil
	co.members = co.members[:last]
	if last > 0 {
		return
	}
	delete(l.index.cohorts, co.key)
	for _, h := range co.filters {
		h.cohorts = without(h.cohorts, co)
	}
}

// handOver is out 4 — the events of one wake-up collect per cohort, then each
// cohort is served.
func (l *loop) handOver(events []fanout.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case *fanout.Tick:
			if t, ok := l.index.topics[e.Topic]; ok {
				t.NextSeq = e.Seq + 1
				l.collect(t, e)
			}
		case *fanout.Reset:
			if t, ok := l.index.topics[e.Topic]; ok {
				t.Epoch, t.NextSeq = e.Epoch, e.NextSeq
				l.collect(t, e)
			}
		case *fanout.Opened:
			l.index.learnOpened(e.TopicState)
			if t, ok := l.index.topics[e.Number]; ok {
				l.collect(t, e)
			}
		case *fanout.Confirmed:
			l.flush()
			l.confirmed(e)
		case *fanout.Refused:
			l.flush()
			l.refused(e)
		case *fanout.Recalled:
			l.flush()
			l.recalled(e)
		case *fanout.SourceState: // admin's /readyz tells it
		default:
			l.gateway.log.DPanic("unknown event from the hub", zap.Any("event", e))
		}
	}
	l.flush()
}

// collect appends an event to each cohort that follows the topic, once even if
// several of its filters match.
func (l *loop) collect(t *loopTopic, e entry) {
	l.index.turn++
	for _, h := range t.filters {
		for _, co := range h.cohorts {
			if co.turn == l.index.turn {
				continue
			}
			co.turn = l.index.turn
			if len(co.pending) == 0 {
				l.index.dirty = append(l.index.dirty, co)
			}
			co.pending = append(co.pending, e)
		}
	}
}

// flush serves every cohort with something pending, starting with another member
// each time, so that none is always last.
func (l *loop) flush() {
	for _, co := range l.index.dirty {
		l.serveCohort(co)
		clear(co.pending)
		co.pending = co.pending[:0]
	}
	clear(l.index.dirty)
	l.index.dirty = l.index.dirty[:0]
}

func (l *loop) serveCohort(co *cohort) {
	l.build(co.pending, co.codec)
	first := co.first % max(len(co.members), 1)
	co.first = first + 1
	// A copy: a write may close a member, which changes the list.
	members := append(l.scratch.members[:0], co.members[first:]...)
	members = append(members, co.members[:first]...)
	l.scratch.members = members
	for _, c := range members {
		l.deliver(c, co.pending)
	}
	clear(members)
}

func sortFilters(filters []*heldFilter) {
	slices.SortFunc(filters, func(a, b *heldFilter) int { return int(a.id) - int(b.id) })
}
