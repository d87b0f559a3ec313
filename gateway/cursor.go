package gateway

import (
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// Cursors, with a source of streams: behind a cohort's batch stands where in the
// streams it ends, so that a client can go on from there at any gateway.

// cursors is what a loop knows of the streams.
type cursors struct {
	latest *fanout.Mark // nil: none yet
	holds  []hold       // in the order in which they began
}

// hold is a tick that a rate holds back: until it is sent, no cursor may stand
// behind it.
type hold struct {
	pace   *pace
	number uint64
	before *fanout.Mark // the last one when the hold began
}

// reach notes that all of the hub's events up to the mark are in cohorts' batches,
// sent, or held back.
func (l *loop) reach(m *fanout.Mark) { l.index.cursors.latest = m }

// holdsBack notes that a pace begins to hold a tick back.
func (l *loop) holdsBack(p *pace) {
	x := &l.index.cursors
	p.holds++
	if x.latest != nil {
		x.holds = append(x.holds, hold{pace: p, number: p.holds, before: x.latest})
	}
}

// mark is the latest cursor that stands behind nothing that is held back; nil: none.
func (l *loop) mark() *fanout.Mark {
	x := &l.index.cursors
	for len(x.holds) > 0 {
		h := &x.holds[0]
		if h.pace.holds == h.number && h.pace.alarm.place != 0 {
			return h.before
		}
		*h = hold{}
		x.holds = x.holds[1:]
	}
	return x.latest
}

// addMark puts a cursor behind the frames of a cohort's batch, if it has moved.
func (l *loop) addMark(co *cohort, entries int) {
	m := l.mark()
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
	if m := c.loop.mark(); m != nil {
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
