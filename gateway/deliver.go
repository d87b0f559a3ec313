package gateway

import (
	"github.com/sealcast/sealcast/fanout"
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

const queueFull = "too slow: slow.queue is full"

// subscriber is what a push session in service holds on its loop.
type subscriber struct {
	filters  []holding   // in order of id
	requests []*request  // that wait for the source, or for what the hub remembers
	asking   *request    // of these, the one that the hub has been asked for
	codec    *compressor // of batches; nil: none
	cohort   *cohort
	place    int // in cohort.members

	perSecond      int // records that the client may send, as it was told
	records, pings allowance

	// While the session is slow: shared, unsealed entries, oldest first.
	queue     []entry
	bytes     int
	slowSince int64 // of the last progress, ms of the loop's clock
	unsent    int   // bytes in gnet's buffer then
	listed    bool  // in loop.slow
	bridging  bool  // there is a *seam in queue

	who   identity
	login *login // Connect or Refresh whose token is being verified; nil: none
}

// slowSessions are those of a loop.
type slowSessions struct {
	conns []*conn
}

// control is a message that had to line up behind a slow session's ticks.
type control struct{ plaintext []byte }

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

// isSlow tells whether new frames have to wait.
func (c *conn) isSlow() bool {
	return len(c.sub.queue) > 0 || c.gc.OutboundBuffered() > highWater
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
		c.sendRecord(wire.KindRecord, s.arena[f.start:f.end])
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

// enqueue keeps entries for a slow session. It reports false when they exceed the
// bound, and the session has to end. An empty queue takes one entry of any size.
func (l *loop) enqueue(c *conn, entries []entry) bool {
	sub := c.sub
	if !sub.listed {
		sub.listed, sub.slowSince = true, l.now
		l.slow.conns = append(l.slow.conns, c)
		l.hasSlow.Store(true)
	}
	for i := range entries {
		n := entryBytes(&entries[i])
		if len(sub.queue) > 0 && sub.bytes+n > l.settings().Slow.Queue {
			return false
		}
		sub.queue = append(sub.queue, entries[i])
		sub.bytes += n
	}
	return true
}

func entryBytes(e *entry) int {
	switch x := e.what.(type) {
	case *fanout.Tick:
		return len(x.Payload) + tickOverhead
	case *control:
		return len(x.plaintext) + tickOverhead
	case *lastValue:
		return len(x.Payload) + tickOverhead
	}
	return tickOverhead
}

// serveSlow looks at every slow session: writes what its socket takes, lets go
// of those that have caught up, ends those without progress.
func (l *loop) serveSlow() {
	slow, waiting := l.slow.conns, 0
	l.slow.conns = nil
	for _, c := range slow {
		if l.catchUp(c) {
			l.slow.conns = append(l.slow.conns, c)
			waiting += c.sub.bytes
		}
	}
	l.hasSlow.Store(len(l.slow.conns) > 0)
	l.stats.slowSessions.Store(int64(len(l.slow.conns)))
	l.stats.slowBytes.Store(int64(waiting))
}

// catchUp reports whether the session is still slow.
func (l *loop) catchUp(c *conn) bool {
	defer l.rescue(c)
	for c.phase == phaseOpen && len(c.sub.queue) > 0 && c.gc.OutboundBuffered() <= highWater {
		l.sendQueued(c)
	}
	if c.phase != phaseOpen {
		return false
	}
	c.noteProgress()
	if len(c.sub.queue) == 0 {
		c.sub.listed, c.sub.queue = false, nil
		l.serve(c, l.proceed)
		return false // or listed anew
	}
	if l.now-c.sub.slowSince > l.settings().Slow.Timeout.Milliseconds() {
		l.serve(c, func(c *conn) { c.end(wire.CloseTooSlow, "too slow: nothing taken within slow.timeout") })
		return false
	}
	return true
}

// noteProgress looks at what the socket has taken: also a client too slow for
// anything new to be sealed is alive as long as its backlog shrinks.
func (c *conn) noteProgress() {
	unsent := c.gc.OutboundBuffered()
	if unsent < c.sub.unsent {
		c.sub.slowSince, c.lastLife = c.loop.now, c.loop.now
	}
	c.sub.unsent = unsent
}

// sendQueued seals one chunk of a slow session's queue.
func (l *loop) sendQueued(c *conn) {
	sub := c.sub
	done := 0
	if s, ok := sub.queue[0].what.(*seam); ok {
		l.sendSeam(c, s)
		sub.bridging = len(s.entries) > 0
		if !sub.bridging {
			done = 1
		}
	} else {
		l.build(sub.queue[:chunk(sub.queue)], sub.codec)
		done = l.writeFrames(c)
	}
	if c.phase != phaseOpen {
		return
	}
	for i := range sub.queue[:done] {
		sub.bytes -= entryBytes(&sub.queue[i])
	}
	clear(sub.queue[:done])
	sub.queue = sub.queue[done:]
	sub.slowSince, c.lastLife = l.now, l.now
}
