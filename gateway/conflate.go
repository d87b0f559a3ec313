package gateway

import (
	"time"

	"github.com/sealcast/sealcast/fanout"
)

// Conflation, for topics whose policy is latest: of the ticks that wait together
// only the newest goes on, and covers the others.

// first is the first sequence number that a tick covers.
func (e *entry) first() uint64 { return e.what.(*fanout.Tick).Seq - e.skipped }

// follows tells whether nothing is missing between older, a tick of the same topic,
// and e. A hole is never covered: the client is to see it.
func (e *entry) follows(older *entry) bool {
	return e.epoch == older.epoch && e.first() <= older.what.(*fanout.Tick).Seq+1
}

// cover merges older, which e follows, into e.
func (e *entry) cover(older *entry) {
	e.skipped = e.what.(*fanout.Tick).Seq - min(e.first(), older.first())
}

// merge leaves one tick of each topic with policy latest, the newest in the place
// of the oldest. It works in entries itself.
func (l *loop) merge(entries []entry) []entry {
	l.index.turn++
	turn, table, out := l.index.turn, l.settings().rules, entries[:0]
	for i := range entries {
		e := entries[i]
		if _, isTick := e.what.(*fanout.Tick); isTick && e.topic.policy(table).latest {
			t := e.topic
			if t.mark == turn && e.follows(&out[t.at]) {
				e.cover(&out[t.at])
				out[t.at] = e
				continue
			}
			t.mark, t.at = turn, len(out)
		}
		out = append(out, e)
	}
	clear(entries[len(out):])
	return out
}

// pace lets a topic's ticks pass at most once an interval: the newest of each,
// the last one too.
type pace struct {
	topic    *loopTopic
	cohort   *cohort // nil: for the whole loop
	interval time.Duration
	next     int64 // of the loop's clock: the next tick may pass
	held     entry // the newest tick that came since; nothing: none
	alarm    alarm // at next, while one is held
	hold     alarm // among the holds of cursors, while one is held
	before   spot  // in the streams, of the tick that is held or was last

	sent, turn uint64 // of a cohort: the last tick that passed, and when
}

func newPace(t *loopTopic, co *cohort, interval time.Duration) *pace {
	p := &pace{topic: t, cohort: co, interval: interval}
	p.alarm.owner, p.hold.owner = p, p
	return p
}

// admit tells whether a tick may pass now. If not it is held.
func (p *pace) admit(l *loop, e entry) bool {
	if p.held.what == nil && l.alarms.now >= p.next {
		p.pass(l, &e)
		return true
	}
	if p.held.what != nil && !e.follows(&p.held) {
		p.release(l)
	}
	if p.held.what != nil {
		e.cover(&p.held)
	} else {
		l.alarms.set(&p.alarm, p.next)
		l.holdsBack(p)
	}
	p.held = e
	return false
}

// pass notes that a tick passes.
func (p *pace) pass(l *loop, e *entry) {
	p.next = l.alarms.now + int64(p.interval)
	p.sent, p.turn = e.what.(*fanout.Tick).Seq, l.index.turn
}

// take gives up what is held; the next tick may pass at once.
func (p *pace) take(l *loop) (e entry, ok bool) {
	l.alarms.clear(&p.alarm)
	l.holdsOf(p).clear(&p.hold)
	e, p.held, p.next = p.held, entry{}, 0
	return e, e.what != nil
}

// ring lets the held tick pass.
func (p *pace) ring(l *loop) {
	l.index.turn++
	p.release(l)
}

func (p *pace) release(l *loop) {
	e, ok := p.take(l)
	if !ok {
		return
	}
	p.pass(l, &e)
	rule := p.topic.policy(l.settings().rules)
	if p.cohort != nil {
		l.put(p.cohort, e, rule)
		return
	}
	l.collectHeld(p, e, rule)
}
