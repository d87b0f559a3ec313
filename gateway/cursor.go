package gateway

import (
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// Cursors, with a source of streams: behind a cohort's batch stands where in the
// streams it ends, so that a client can go on from there at any gateway.

// cursors is what a loop knows of the streams.
type cursors struct {
	latest spot
	here   spot     // before the tick that is being collected: latest, or where a rule's rate began to hold it
	holds  schedule // of the rules' rates, by the number of the spot before
}

// spot is a point in the streams that the hub has come to. Spots of one loop
// are numbered in their order.
type spot struct {
	number int64
	mark   *fanout.Mark // nil: the hub has told none yet
}

// reach notes that all of the hub's events up to the mark are in cohorts' batches,
// sent, or held back.
func (l *loop) reach(m *fanout.Mark) {
	x := &l.index.cursors
	x.latest = spot{number: x.latest.number + 1, mark: m}
	x.here = x.latest
}

// holdsBack notes that a pace begins to hold a tick back: until it lets go of it, no
// cursor that stands behind the tick may be sent to those for whom it is held.
func (l *loop) holdsBack(p *pace) {
	p.before = l.index.cursors.here
	l.holdsOf(p).set(&p.hold, p.before.number)
}

// holdsOf is where a pace's hold stands: with its cohort's, or with those of all.
func (l *loop) holdsOf(p *pace) *schedule {
	if p.cohort != nil {
		return &p.cohort.holds
	}
	return &l.index.cursors.holds
}

// collectHeld collects a tick that a rule's pace has let go of. A cohort's pace that
// holds it again does so since the rule's began to.
func (l *loop) collectHeld(p *pace, e entry, rule *policy) {
	x := &l.index.cursors
	x.here = p.before
	l.collect(p.topic, e, rule)
	x.here = x.latest
}

// mark is the latest cursor that stands behind nothing that is held back from the
// cohort; nil: none.
func (l *loop) mark(co *cohort) *fanout.Mark {
	x := &l.index.cursors
	return x.holds.earliest(co.holds.earliest(x.latest)).mark
}

// earliest is the spot before the first of the holds, or at if that is earlier.
func (x *schedule) earliest(at spot) spot {
	if len(x.heap) > 0 && x.heap[0].at < at.number {
		return x.heap[0].owner.(*pace).before
	}
	return at
}

// addMark puts a cursor behind the frames of a cohort's batch, if it has moved.
func (l *loop) addMark(co *cohort, entries int) {
	m := l.mark(co)
	if m == nil || m == co.marked {
		return
	}
	co.marked = m
	f := plainFrame{from: entries, to: entries, mark: true}
	l.addFrame(wire.AppendCursorFrame(l.scratch.arena, m.Cursor), f)
}

// takesMark tells whether a cursor may be sent to a session: not before its
// requests are answered, or it would stand behind what they recover.
func (c *conn) takesMark() bool { return len(c.sub.requests) == 0 }

// cursor is where a session stands in the streams that has been sent all there
// was; nil: it has not, or there are no streams.
func (c *conn) cursor() []byte {
	co := c.sub.cohort
	if co == nil || len(co.pending.entries) > 0 || c.isSlow() || !c.takesMark() {
		return nil
	}
	if m := c.loop.mark(co); m != nil {
		return m.Cursor
	}
	return nil
}

// sendMark tells a session that has just been granted a request where it stands.
func (c *conn) sendMark() {
	if cursor := c.cursor(); cursor != nil && c.phase == phaseOpen {
		c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Batch{Batch: &wire.Batch{Cursor: cursor}}})
	}
}
