package gateway

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// stallAfter is how long a turn of a loop may be seen to last before its stack is
	// logged: one of 150 ms always is, as there is a look every 50 ms.
	stallAfter = 100 * time.Millisecond
	// stallQuiet is how long a loop that was logged is not logged again.
	stallQuiet = time.Minute
)

// pulse shows others how a loop is getting on.
type pulse struct {
	goroutine []byte        // how the loop's stack begins in a dump; fixed after newLoop
	lastTurn  atomic.Int64  // of the last tick, nanoseconds since started
	turns     atomic.Uint64 // odd during a turn: the loop is in one of our callbacks
	inTurn    bool          // owned by the loop
}

// beginTurn begins a turn, unless the callback runs inside another one. It costs two
// additions a turn and no look at a clock; whoever watches has one.
func (p *pulse) beginTurn() (outer bool) {
	if p.inTurn {
		return false
	}
	p.inTurn = true
	p.turns.Add(1)
	return true
}

// endTurn ends the turn that beginTurn has begun.
func (p *pulse) endTurn(outer bool) {
	if outer {
		p.inTurn = false
		p.turns.Add(1)
	}
}

// watchdog logs where loops are that stay in one turn for too long. It belongs
// to the clock's goroutine.
type watchdog struct {
	log     *zap.Logger
	watched map[*loop]*watch
}

func newWatchdog(log *zap.Logger) *watchdog {
	return &watchdog{log: log, watched: make(map[*loop]*watch)}
}

// look is called many times a second for each loop.
func (d *watchdog) look(l *loop, now time.Time) {
	w, ok := d.watched[l]
	if !ok {
		w = &watch{}
		d.watched[l] = w
	}
	stalled, tell := w.look(now, l.turns.Load())
	if stalled {
		l.stats.stalls.Add(1)
	}
	if tell {
		d.log.Warn("an event loop is busy for long: its connections wait", zap.Int("loop", int(l.id)),
			zap.Duration("for_at_least", now.Sub(w.since)), zap.ByteString("stack", stackOf(l.goroutine)))
	}
}

// watch is what the watchdog remembers of one loop.
type watch struct {
	turn   uint64
	since  time.Time // turn was seen first
	seen   bool      // turn counts as stalled already
	logged time.Time
}

// look reports, once for each turn, that it lasts too long, and whether to log it.
func (w *watch) look(now time.Time, turn uint64) (stalled, tell bool) {
	if turn != w.turn {
		w.turn, w.since, w.seen = turn, now, false
	}
	if turn%2 == 0 || w.seen || now.Sub(w.since) <= stallAfter {
		return false, false
	}
	w.seen = true
	tell = w.logged.IsZero() || now.Sub(w.logged) >= stallQuiet
	if tell {
		w.logged = now
	}
	return true, tell
}

// Sizes of a dump of all stacks: the first is enough unless there are thousands
// of goroutines, and beyond the second the loop's stack is given up.
const (
	dumpBytes    = 1 << 20
	maxDumpBytes = 16 << 20
)

// stackOf returns the stack of the goroutine whose stack begins so. Everything
// stands still while the dump is made, some milliseconds.
func stackOf(goroutine []byte) []byte {
	for size := dumpBytes; size <= maxDumpBytes; size *= 4 {
		dump := make([]byte, size)
		dump = dump[:runtime.Stack(dump, true)]
		for stack := range bytes.SplitSeq(dump, []byte("\n\n")) {
			if bytes.HasPrefix(stack, goroutine) {
				return stack
			}
		}
		if len(dump) < size {
			break
		}
	}
	return []byte("not found")
}

// thisGoroutine is how the caller's stack begins: "goroutine 7 [".
func thisGoroutine() []byte {
	var head [64]byte
	stack := head[:runtime.Stack(head[:], false)]
	before, _, _ := bytes.Cut(stack, []byte("["))
	return append(before, '[')
}
