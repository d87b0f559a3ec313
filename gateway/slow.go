package gateway

import (
	"slices"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// Slow sessions: those whose socket has not taken what was sealed for it. What
// comes then waits unsealed, is merged or dropped there, and the client is told.

const (
	// lowWater is how much may lie unsent in gnet's buffer when more is sealed for
	// a slow session: what is sealed grows old and cannot be merged any more.
	lowWater = 16 << 10
	// slowChunk is how much is sealed for it at a time.
	slowChunk = 32 << 10
	// lookEvery is how often the kernel is asked what it has not sent, in ms.
	lookEvery = 200
	// noticeAfter is how long a session is slow, in ms, before it is told, if
	// nothing was merged or dropped before.
	noticeAfter = 1000
)

const (
	queueFull   = "too slow: slow.queue is full"
	totalFull   = "too slow: slow.total is reached, and more waits for this client than for others"
	nothingMore = "too slow: nothing taken within slow.timeout"
)

// slowSessions are those of a loop.
type slowSessions struct {
	conns []*conn
	bytes int // that wait for them
}

// isSlow tells whether new frames have to wait.
func (c *conn) isSlow() bool {
	return c.sub.slow != nil && len(c.sub.slow.queue) > 0 || c.gc.OutboundBuffered() > highWater
}

// backlog is the session's, made if it has none.
func (l *loop) backlog(c *conn) *backlog {
	if c.sub.slow == nil {
		c.sub.slow = &backlog{base: firstNumber, total: &l.slow.bytes, began: l.now, moved: l.now}
		l.slow.conns = append(l.slow.conns, c)
		if !l.hasSlow.Swap(true) {
			l.gateway.hasten()
		}
	}
	return c.sub.slow
}

// enqueue keeps entries for a slow session. It reports false when they exceed the
// bound, and the session has to end.
func (l *loop) enqueue(c *conn, entries []entry) bool {
	b := l.backlog(c)
	for i := range entries {
		if !l.wait(b, entries[i]) {
			return false
		}
	}
	return true
}

// wait keeps one entry. Where no other tick waits there is room for one of any size.
func (l *loop) wait(b *backlog, e entry) bool {
	limit := l.settings().Slow.Queue
	_, isTick := e.what.(*fanout.Tick)
	latest := isTick && e.topic.policy(l.settings().rules).latest
	if latest && b.replace(e) {
		l.tellSlow(b)
		return b.bytes <= limit || b.ticks == 1 || l.overflow(b)
	}
	for b.bytes+entryBytes(&e) > limit && (!isTick || b.ticks > 0) {
		if !l.overflow(b) {
			return false
		}
	}
	b.append(e, latest)
	return true
}

// overflow drops what waits for a session, if the settings want that rather than
// its end: ticks of topics whose policy is every, which there may be any number of,
// and the others only if there are none. It reports whether there is room now.
func (l *loop) overflow(b *backlog) bool {
	if l.settings().Slow.Overflow == OverflowClose {
		return false
	}
	gaps, dropped := b.drop(l, false)
	if dropped == 0 {
		gaps, dropped = b.drop(l, true)
	}
	l.stats.gaps.Add(uint64(gaps))
	l.stats.dropped.Add(dropped)
	l.tellSlow(b)
	return dropped > 0
}

// makeRoom keeps what waits for all sessions of the loop within its share of
// slow.total: the one that most waits for overflows. It is called where nothing is
// appended for a session.
func (l *loop) makeRoom() {
	share := l.settings().Slow.Total / l.gateway.loopCount()
	for share > 0 && l.slow.bytes > share {
		var most *conn
		for _, c := range l.slow.conns {
			if c.sub != nil && c.sub.slow != nil && (most == nil || c.sub.slow.bytes > most.sub.slow.bytes) {
				most = c
			}
		}
		if most == nil {
			return
		}
		l.stats.overTotal.Add(1)
		if !l.overflow(most.sub.slow) {
			l.serve(most, func(c *conn) { c.end(wire.CloseTooSlow, totalFull) })
		}
	}
}

// tellSlow tells the client, before everything that waits for it, that it is slow.
func (l *loop) tellSlow(b *backlog) {
	if b.told {
		return
	}
	b.told = true
	if x := l.control(notice(&wire.Notice{Kind: wire.Notice_KIND_SLOW, Text: "the client takes less than comes"})); x != nil {
		b.announce(x)
	}
}

func notice(n *wire.Notice) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Notice{Notice: n}}
}

// topicsPerNotice bounds a Notice, so that it stays below 64 KiB.
const topicsPerNotice = 10_000

// tellSourceState tells sessions that the source of what they follow is away, or back.
func (l *loop) tellSourceState(e *fanout.SourceState) {
	n := &wire.Notice{Kind: wire.Notice_KIND_SOURCE_BACK, Text: "the gateway's source is back"}
	if e.Lost {
		n = &wire.Notice{Kind: wire.Notice_KIND_SOURCE_LOST, Text: "the gateway's source is away: values may be out of date"}
	}
	if e.Topics == nil {
		if x := l.control(notice(n)); x != nil {
			for _, a := range l.affected(nil) {
				l.tell(a.cohort, x)
			}
		}
		return
	}
	for _, a := range l.affected(e.Topics) {
		for n.Topics = range slices.Chunk(a.topics, topicsPerNotice) {
			if x := l.control(notice(n)); x != nil {
				l.tell(a.cohort, x)
			}
		}
	}
}

// affected is a cohort that follows some of the topics that something is said of.
type affected struct {
	cohort *cohort
	topics []uint32
}

// affected finds the cohorts that follow topics, and which; nil: all of them.
func (l *loop) affected(topics []uint32) (all []affected) {
	if topics == nil {
		for _, co := range l.index.cohorts {
			all = append(all, affected{cohort: co})
		}
		return all
	}
	places := make(map[*cohort]int)
	for _, number := range topics {
		t := l.index.topics[number]
		if t == nil {
			continue
		}
		turn := l.index.nextTurn()
		for _, h := range t.filters {
			for _, co := range h.cohorts {
				if co.turn == turn {
					continue
				}
				co.turn = turn
				at, ok := places[co]
				if !ok {
					at = len(all)
					places[co], all = at, append(all, affected{cohort: co})
				}
				all[at].topics = append(all[at].topics, number)
			}
		}
	}
	return all
}

// tell sends a cohort's members a message, behind what the cohort has collected: or
// a topic might be named before it is announced.
func (l *loop) tell(co *cohort, x *control) {
	if len(co.pending.entries) > 0 {
		l.serveCohort(co)
	}
	for _, c := range slices.Clone(co.members) {
		l.serve(c, func(c *conn) { c.sendControl(x) })
	}
}

// control encodes a message that lines up behind ticks; nil if that fails.
func (l *loop) control(f *wire.ServerFrame) *control {
	plain, err := wire.AppendServerFrame(nil, f)
	if err != nil {
		l.gateway.log.Error("message not encoded", zap.Error(err))
		return nil
	}
	return &control{plaintext: plain, fence: isFence(f)}
}

// isFence tells whether ticks may not move from behind a message to before it.
func isFence(f *wire.ServerFrame) bool {
	switch f.Message.(type) {
	case *wire.ServerFrame_Heartbeat, *wire.ServerFrame_Notice, *wire.ServerFrame_Pong:
		return false
	}
	return true
}

// serveSlow looks at every slow session: writes what its socket takes, lets go
// of those that have caught up, ends those without progress. All of them stay in
// the list meanwhile, for makeRoom; who is listed anew stands behind them.
func (l *loop) serveSlow() {
	kept, listed := 0, len(l.slow.conns)
	for i := range listed {
		if c := l.slow.conns[i]; l.catchUp(c) {
			l.slow.conns[kept] = c
			kept++
		}
	}
	l.slow.conns = slices.Delete(l.slow.conns, kept, listed)
	l.makeRoom()
	l.hasSlow.Store(len(l.slow.conns) > 0)
	l.stats.slowSessions.Store(int64(len(l.slow.conns)))
	l.stats.slowBytes.Store(int64(l.slow.bytes))
}

// catchUp reports whether the session is still slow.
func (l *loop) catchUp(c *conn) bool {
	defer l.rescue(c)
	if c.phase != phaseOpen {
		return false
	}
	b := c.sub.slow
	for c.phase == phaseOpen && len(b.queue) > 0 && c.gc.OutboundBuffered() <= lowWater {
		l.sendQueued(c, b)
	}
	if c.phase != phaseOpen {
		return false
	}
	if len(b.queue) == 0 && c.gc.OutboundBuffered() <= highWater {
		c.sub.slow = nil
		l.serve(c, func(c *conn) { l.caughtUp(c, b) })
		return false // or listed anew
	}
	timeout := l.settings().Slow.Timeout.Milliseconds()
	c.noteProgress(b, min(lookEvery, timeout/4))
	if l.now-b.moved > timeout {
		l.serve(c, func(c *conn) { c.end(wire.CloseTooSlow, nothingMore) })
		return false
	}
	if l.now-b.began > noticeAfter {
		l.tellSlow(b)
	}
	return true
}

// noteProgress looks now and then at what the client has taken: also one too slow
// for anything new to be sealed is alive as long as its backlog shrinks.
func (c *conn) noteProgress(b *backlog, every int64) {
	now := c.loop.now
	if now-b.looked < every {
		return
	}
	unsent := c.gc.OutboundBuffered() + kernelUnsent(c.gc.Fd())
	if unsent < b.unsent {
		b.moved, c.lastLife = now, now
	}
	b.unsent, b.looked = unsent, now
}

// sendQueued seals one chunk of a slow session's queue.
func (l *loop) sendQueued(c *conn, b *backlog) {
	done := 0
	if s, ok := b.queue[0].what.(*seam); ok {
		l.sendSeam(c, s)
		if len(s.entries) == 0 {
			done = 1
		}
	} else {
		done = chunk(b.queue, slowChunk)
		l.build(b.queue[:done], c.sub.codec)
		if len(l.scratch.frames) > 0 {
			done = l.writeFrames(c)
		}
	}
	if c.phase != phaseOpen {
		return
	}
	b.taken(done)
	b.moved, c.lastLife = l.now, l.now
}

// caughtUp tells the client what its slowness cost, asks for the last values of
// topics that have lost ticks, and goes on with what it has asked for.
func (l *loop) caughtUp(c *conn, b *backlog) {
	if b.told {
		c.send(notice(&wire.Notice{Kind: wire.Notice_KIND_CAUGHT_UP, Text: "the client has taken all that waited",
			Merged: b.merged, Dropped: b.dropped}))
	}
	if c.phase != phaseOpen {
		return
	}
	l.recallFresh(c, b.fresh)
	l.proceed(c)
}

// maxFresh bounds the topics whose last values a session asks for after it was slow.
const maxFresh = 10_000

// recallFresh asks the hub for the last values of topics.
func (l *loop) recallFresh(c *conn, topics []*loopTopic) {
	var ask fanout.Recall
	for _, t := range l.index.distinct(topics) {
		if f, err := topic.ParseFilter(t.Name); err == nil {
			ask.Filters = append(ask.Filters, f)
		}
	}
	if ask.Filters != nil {
		l.index.asked[l.gateway.opts.Hub.Recall(l.id, ask)] = &request{conn: c, fresh: true}
	}
}

// refreshed sends last values of topics that have lost ticks, if they are still held.
func (l *loop) refreshed(c *conn, memories []fanout.Memory) {
	l.index.turn++
	for i := range c.sub.filters {
		c.sub.filters[i].turn = l.index.turn
	}
	var entries []entry
	for i := range memories {
		m := &memories[i]
		t := l.index.topics[m.Topic]
		if m.Recovered || t == nil || !slices.ContainsFunc(t.filters, func(h *heldFilter) bool { return h.turn == l.index.turn }) {
			continue
		}
		entries = appendValues(entries, m)
	}
	l.bridge(c, entries)
}
