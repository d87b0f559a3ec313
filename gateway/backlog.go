package gateway

import (
	"slices"

	"github.com/sealcast/sealcast/fanout"
)

// backlog is what waits for one slow session: shared, unsealed entries, oldest
// first. A tick of a topic with policy latest takes the place of the one that
// waits already, so that a topic which changes often is not put off for ever.
type backlog struct {
	queue []entry
	base  uint64            // of queue[0]: entries have numbers that grow
	slots map[uint32]uint64 // topic number → number of its tick, which a newer one may replace
	bytes int
	total *int // bytes of all sessions of the loop
	ticks int  // in queue
	seams int  // in queue

	began  int64 // ms of the loop's clock
	moved  int64 // of the last progress, likewise
	looked int64 // when unsent was measured, likewise
	unsent int   // bytes in gnet's buffer and the kernel's

	told            bool // the client is told that it is slow, or about to be
	merged, dropped uint64
	fresh           []*loopTopic // ticks of which were dropped; after drop at most maxFresh
}

// control is a message that had to line up behind a slow session's ticks.
type control struct {
	plaintext []byte
	// Ticks may not move from behind it to before it. Heartbeats and Pongs are no fences.
	fence bool
}

// gap is an entry: ticks of a topic that do not come.
type gap struct {
	topic           uint32
	epoch, from, to uint64
}

// firstNumber of a backlog's entries leaves room in front for one that is put before them.
const firstNumber = 1

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

// append puts e behind what waits. latest: a newer tick may replace it there.
func (b *backlog) append(e entry, latest bool) {
	switch x := e.what.(type) {
	case *fanout.Tick:
		b.ticks++
		if latest {
			if b.slots == nil {
				b.slots = make(map[uint32]uint64)
			}
			b.slots[x.Topic] = b.base + uint64(len(b.queue))
		}
	case *control:
		if x.fence {
			clear(b.slots)
		}
	case *seam:
		b.seams++
		clear(b.slots)
	}
	b.queue = append(b.queue, e)
	b.count(entryBytes(&e))
}

func (b *backlog) count(bytes int) {
	b.bytes += bytes
	*b.total += bytes
}

// replace puts a tick in the place of an older one of the same topic, if one waits.
func (b *backlog) replace(e entry) bool {
	x, ok := e.what.(*fanout.Tick)
	if !ok {
		return false
	}
	at, ok := b.slots[x.Topic]
	if !ok || at < b.base || !e.follows(&b.queue[at-b.base]) {
		return false
	}
	old := &b.queue[at-b.base]
	b.merged++
	b.count(entryBytes(&e) - entryBytes(old))
	e.cover(old)
	*old = e
	return true
}

// taken takes the first n entries out.
func (b *backlog) taken(n int) {
	for i := range b.queue[:n] {
		e := &b.queue[i]
		b.count(-entryBytes(e))
		switch e.what.(type) {
		case *fanout.Tick:
			b.ticks--
		case *seam:
			b.seams--
		}
	}
	clear(b.queue[:n])
	b.queue, b.base = b.queue[n:], b.base+uint64(n)
}

// announce puts something before everything that waits. It is called once.
func (b *backlog) announce(x *control) {
	e := entry{what: x}
	b.queue = slices.Insert(b.queue, 0, e)
	b.base--
	b.count(entryBytes(&e))
}

// drop takes waiting ticks out, those of topics whose policy is every, or all, and
// leaves a gap in the place of the first of each topic. It returns how many gaps
// have come or grown, and how many sequence numbers the ticks covered.
func (b *backlog) drop(l *loop, all bool) (gaps int, dropped uint64) {
	turn, table, queue := l.index.nextTurn(), l.settings().rules, b.queue
	clear(b.slots)
	b.count(-b.bytes)
	b.queue, b.ticks, b.seams = queue[:0], 0, 0
	for _, e := range queue {
		t := e.topic
		switch x := e.what.(type) {
		case *fanout.Tick:
			if latest := t.policy(table).latest; latest && !all {
				b.append(e, latest)
				continue
			}
			dropped += e.skipped + 1
			g := &gap{topic: x.Topic, epoch: e.epoch, from: e.first(), to: x.Seq}
			if t.mark == turn && b.queue[t.at].what.(*gap).extend(g) {
				continue
			}
			gaps++
			b.fresh = append(b.fresh, t)
			e = entry{what: g, topic: t}
			t.mark, t.at = turn, len(b.queue)
		case *gap:
			t.mark, t.at = turn, len(b.queue)
		case *fanout.Reset:
			t.mark = 0
		case *seam:
			turn = l.index.nextTurn()
		case *control:
			if x.fence { // what comes behind a Subscribed is not told before it
				turn = l.index.nextTurn()
			}
		}
		b.append(e, false)
	}
	clear(queue[len(b.queue):])
	if len(b.fresh) > maxFresh {
		b.fresh = l.index.distinct(b.fresh)
	}
	b.dropped += dropped
	return gaps, dropped
}

// extend makes g longer by the gap behind it, if it follows at once.
func (g *gap) extend(next *gap) bool {
	if g.epoch != next.epoch || next.from > g.to+1 {
		return false
	}
	g.to = max(g.to, next.to)
	return true
}
