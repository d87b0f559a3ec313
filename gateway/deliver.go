package gateway

import (
	"github.com/sealcast/sealcast/wire"
)

const (
	// writeChunk is how much is sealed for a session before its socket is
	// looked at again.
	writeChunk = 256 << 10
	// highWater is how much may lie unsent in gnet's buffer, which has no limit
	// of its own, before a session counts as slow and nothing more is sealed for it.
	highWater = 64 << 10
)

// seat is a session's place among those that are served together.
type seat struct {
	cohort *cohort
	member *member // nil: the session was never in a group
	place  int32   // in cohort.members
	takes  bool    // the client asked for groups
	barred bool    // topics are being taken away: it counts as sent away from the cohort that it leaves
	asking bool    // the hub has been asked for the first of the requests
}

// subscriber is what a push session in service holds on its loop. Most sessions do
// nothing most of the time: what only few have stands behind pointers.
type subscriber struct {
	filters  []holding   // in order of id, the cohort's own
	requests []*request  // that wait for the source, or for what the hub remembers; nil: none
	codec    *compressor // of batches; nil: none
	seat

	perSecond      int32 // records that the client may send, as it was told
	records, pings allowance

	slow  *backlog // nil: the session keeps up
	round round

	who   identity
	login *login // Connect or Refresh whose token is being verified; nil: none
}

// deliver gives one session the frames of its cohort. What its socket does not
// take now is kept as entries, not as sealed bytes.
func (l *loop) deliver(c *conn, entries []entry) {
	defer l.rescue(c)
	if c.phase != phaseOpen {
		return
	}
	next := 0
	if !c.isSlow() {
		next = l.writeFrames(c)
	}
	if next < len(entries) && c.phase == phaseOpen && !l.enqueue(c, entries[next:]) {
		l.serve(c, func(c *conn) { c.end(wire.CloseTooSlow, queueFull) })
	}
}

// writeFrames is out 7 and out 8 — it seals the frames of the arena for c and
// writes them, one write if they fit writeChunk, until the socket has enough. It
// returns the index of the first entry that was not sent.
func (l *loop) writeFrames(c *conn) int {
	s := &l.scratch
	s.out = s.out[:0]
	done, ticks, merged := 0, 0, uint64(0)
	for i := range s.frames {
		f := &s.frames[i]
		if !f.mark || c.takesMark() {
			l.sendArena(c, i)
		}
		done, ticks, merged = f.to, ticks+f.ticks, merged+f.merged
		if len(s.out) < writeChunk && i < len(s.frames)-1 {
			continue
		}
		c.flushOut()
		s.out = s.out[:0]
		if c.phase != phaseOpen || c.gc.OutboundBuffered() > highWater {
			break
		}
	}
	l.stats.delivered.Add(uint64(ticks))
	if merged > 0 {
		l.stats.merged.Add(merged)
	}
	return done
}
