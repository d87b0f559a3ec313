package gateway

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/wire"
)

const (
	// enoughCollected is how many bytes of ticks collect before batches that are
	// full go out within the turn.
	enoughCollected = 1 << 20
	// keepScratch is how much of a scratch buffer survives a turn that needed more.
	keepScratch = 1 << 20
	// keepBuffers is how many bytes of free frame buffers a loop keeps.
	keepBuffers = 4 << 20
)

// loop is the state of one event loop. Everything in it is touched by that loop
// alone, except where a field says otherwise.
type loop struct {
	// fixed after newLoop
	gateway *Gateway
	el      gnet.EventLoop
	mail    *mailbox // any goroutine
	id      fanout.LoopID
	started time.Time

	// any goroutine reads, the loop writes
	signals
	stats loopStats
	pulse

	// owned by the loop
	live *live // settings of this turn
	now  int64 // milliseconds since started, as of the last tick; from 1, because 0 stands for never
	wall int64 // milliseconds since the Unix epoch, as of the last tick
	timers
	slow    slowSessions
	buffers *frame.Buffers
	ciphers *record.Pool
	index   index
	scratch scratch
}

// timers are a coarse one for each connection, and fine ones for what is to be sent.
type timers struct {
	wheel  wheel
	alarms alarms
}

// signals are read and written by any goroutine.
type signals struct {
	hasSlow atomic.Bool // the loop has slow sessions
	sweeps  atomic.Bool // the loop is about to look for revoked sessions
}

// scratch is what one turn builds for one connection or one cohort.
type scratch struct {
	out     []byte           // WebSocket frames for the connection being served
	plain   []byte           // one plaintext
	arena   []byte           // the plaintexts of one flush, back to back
	frames  []plainFrame     // into arena
	items   []wire.BatchItem // of the batch being built
	joiner  wire.Joiner
	classed []classedEntry // being sorted by class
	members []*conn        // of the cohort being served
	due     []*conn        // whose deadline has come
	late    bool           // what is built is no measure of delays

	// Of a cohort whose batches are sealed once, while it is being served.
	sharing *cohort       // nil: each session seals for itself
	sealed  []sealedFrame // of frames; none before the first member is served
	shared  []byte        // WebSocket frames for all members, back to back
	retired []*group      // that have ended since
	group   []byte        // one plaintext about a group
}

// newLoop is called on the loop's goroutine.
func newLoop(g *Gateway, el gnet.EventLoop) *loop {
	l := &loop{gateway: g, el: el, started: time.Now(),
		buffers: frame.NewBuffers(keepBuffers), ciphers: record.NewPool(record.DefaultPoolSize, record.DefaultPoolIdle)}
	l.now, l.wall = 1, l.started.UnixMilli()
	l.scratch.joiner.Clock = l.started.UnixMicro()
	l.goroutine = thisGoroutine()
	l.stats.times.init()
	l.ciphers.Advance(l.unix()) // or the first tick would find everything idle since 1970
	l.live = g.live.Load()
	l.mail = newMailbox(l, el)
	l.index = newIndex()
	return l
}

// Post implements fanout.Loop.
func (l *loop) Post(events []fanout.Event) {
	bytes := 0
	for _, e := range events {
		switch e := e.(type) {
		case *fanout.Tick:
			bytes += len(e.Payload) + tickOverhead
		case *fanout.Recalled:
			bytes += recalledBytes(e)
		}
	}
	l.mail.put(letter{events: events}, bytes)
}

// recalledBytes is what an answer counts in the mailbox. The hub may have let the
// payloads go by now, so that the answer alone keeps them.
func recalledBytes(e *fanout.Recalled) int {
	bytes := len(e.Memories) * tickOverhead
	for i := range e.Memories {
		for _, t := range e.Memories[i].Ticks {
			bytes += len(t.Payload) + tickOverhead
		}
	}
	return bytes
}

// call runs f on the loop.
func (l *loop) call(f func()) { l.mail.put(letter{call: f}, 0) }

// beginTurn begins one of gnet's callbacks, which may lie within another, with the
// settings that are now in force.
func (l *loop) beginTurn() (outer bool) {
	if outer = l.pulse.beginTurn(); outer {
		l.live = l.gateway.live.Load()
	}
	return outer
}

// Run implements gnet.Runnable: it empties the mailbox on the loop.
func (l *loop) Run(context.Context) error {
	defer l.endTurn(l.beginTurn())
	letters, wanted := l.mail.take()
	l.alarms.now = int64(time.Since(l.started))
	for i := range letters {
		l.read(&letters[i])
		if l.index.collected > enoughCollected {
			l.guard(l.closeBatches)
		}
	}
	l.guard(l.finishTurn)
	if !wanted.IsZero() {
		l.tick(wanted)
	}
	return nil
}

// finishTurn does what has become due by now.
func (l *loop) finishTurn() {
	l.alarms.ring(l)
	l.closeBatches()
	l.alarms.arm(l)
}

func (l *loop) read(x *letter) {
	switch {
	case x.events != nil:
		l.guard(func() { l.handOver(x.events) })
	case x.done != nil:
		defer l.rescue(nil)
		l.finish(x.done)
	case x.call != nil:
		defer l.rescue(nil)
		x.call()
	}
}

// guard runs work for all sessions of the loop.
func (l *loop) guard(work func()) {
	whole := false
	defer func() {
		if !whole {
			l.abandon()
		}
	}()
	defer l.rescue(nil)
	work()
	whole = true
}

// abandon cuts every session of the loop that takes ticks, after a panic in work
// for all of them: some ticks may be lost, and a lost tick is never silent.
func (l *loop) abandon() {
	for _, co := range l.index.cohorts {
		clear(co.pending.entries)
		co.pending.entries, co.pending.touched = co.pending.entries[:0], false
	}
	clear(l.index.touched)
	l.index.touched = l.index.touched[:0]
	for _, c := range l.index.conns.all() {
		if c.sub != nil && c.phase != phaseClosed {
			_ = l.el.Close(c.gc)
		}
	}
}

// tick advances the loop's clock, runs due deadlines and looks after slow sessions.
// wanted is when it should have.
func (l *loop) tick(wanted time.Time) {
	defer l.rescue(nil)
	t := time.Now()
	l.stats.times.lag.observe(int64(t.Sub(wanted)))
	l.wall = t.UnixMilli()
	l.now = t.Sub(l.started).Milliseconds() + 1
	l.lastTurn.Store(int64(t.Sub(l.started)))
	l.scratch.due = l.wheel.expire(l.now, l.scratch.due[:0])
	for _, c := range l.scratch.due {
		l.serve(c, (*conn).onDeadline)
	}
	clear(l.scratch.due)
	l.ciphers.Advance(l.unix())
	l.stats.ciphers.set(l.ciphers.Stats())
	l.serveSlow()
}

// unix returns the seconds since the Unix epoch, as of the last tick.
func (l *loop) unix() int64 { return l.wall / 1000 }

// serve runs f for one connection and writes what f appended to the scratch
// buffer in one write. A panic in f costs this connection alone.
func (l *loop) serve(c *conn, f func(*conn)) {
	defer l.rescue(c)
	if c.phase == phaseClosed {
		return
	}
	l.scratch.out = l.scratch.out[:0]
	f(c)
	c.flushOut()
}

// rescue ends the connection that a panic came from; without one, the panic is
// logged and the loop goes on.
func (l *loop) rescue(c *conn) {
	r := recover()
	if r == nil {
		return
	}
	l.stats.panics.Add(1)
	l.gateway.log.Error("panic on an event loop", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
	if c != nil && c.phase != phaseClosed {
		_ = l.el.Close(c.gc)
	}
}

// drain gives every connection of the loop a time within the window at which it
// is told goodbye, so that the clients do not come back all at once.
func (l *loop) drain() {
	window := l.settings().DrainWindow.Milliseconds()
	for _, c := range l.index.conns.all() {
		c.leaveAt = max(l.now+c.spread(window), 1) // a loop that is new is at 0, which means never
		l.serve(c, (*conn).onDeadline)
	}
}

// trim drops a scratch buffer that one turn made too large to keep.
func trim(b []byte) []byte {
	if cap(b) > keepScratch {
		return nil
	}
	return b[:0]
}
