package gateway

import (
	"math"
	"time"
)

// alarmSlack is how much too early an alarm may ring, so that many that stand
// close together wake the loop once.
const alarmSlack = int64(200 * time.Microsecond)

// alarm is a moment at which something on a loop is due.
type alarm struct {
	at    int64 // nanoseconds of the loop's clock; of a hold the number of a spot
	place int   // in the heap, counted from 1; 0: not set
	owner ringer
}

// ringer is what an alarm is for. ring may set alarms, also its own.
type ringer interface{ ring(l *loop) }

// schedule is a heap of alarms, the earliest first.
type schedule struct{ heap []*alarm }

// alarms are a loop's, with one timer for all of them.
type alarms struct {
	schedule
	now   int64       // nanoseconds since the loop was started, as of the beginning of its turn
	timer *time.Timer // wakes the loop
	armed int64       // what the timer is set to; math.MaxInt64: it is not
}

// set moves a to a moment.
func (x *schedule) set(a *alarm, at int64) {
	if a.place == 0 {
		x.heap = append(x.heap, a)
		a.place = len(x.heap)
	}
	a.at = at
	x.down(x.up(a))
}

// clear takes a off, if it is set.
func (x *schedule) clear(a *alarm) {
	if a.place == 0 {
		return
	}
	last := x.heap[len(x.heap)-1]
	x.heap[len(x.heap)-1] = nil
	x.heap = x.heap[:len(x.heap)-1]
	if last != a {
		last.place = a.place
		x.heap[last.place-1] = last
		x.down(x.up(last))
	}
	a.place = 0
}

// up moves a towards the front as far as it belongs there.
func (x *schedule) up(a *alarm) *alarm {
	for a.place > 1 {
		parent := x.heap[a.place/2-1]
		if parent.at <= a.at {
			break
		}
		x.swap(a, parent)
	}
	return a
}

// down moves a towards the end as far as it belongs there.
func (x *schedule) down(a *alarm) {
	for 2*a.place <= len(x.heap) {
		child := x.heap[2*a.place-1]
		if 2*a.place < len(x.heap) && x.heap[2*a.place].at < child.at {
			child = x.heap[2*a.place]
		}
		if a.at <= child.at {
			return
		}
		x.swap(a, child)
	}
}

func (x *schedule) swap(a, b *alarm) {
	a.place, b.place = b.place, a.place
	x.heap[a.place-1], x.heap[b.place-1] = a, b
}

// ring lets everything ring that is due.
func (x *alarms) ring(l *loop) {
	for len(x.heap) > 0 && x.heap[0].at <= x.now+alarmSlack {
		a := x.heap[0]
		x.clear(a)
		a.owner.ring(l)
	}
}

// arm sets the timer to the next alarm, unless it rings before anyway.
func (x *alarms) arm(l *loop) {
	if x.armed <= x.now {
		x.armed = math.MaxInt64 // it has rung
	}
	if len(x.heap) == 0 || x.heap[0].at >= x.armed {
		return
	}
	x.armed = x.heap[0].at
	in := max(time.Duration(x.armed-x.now), 0)
	if x.timer == nil {
		x.timer = time.AfterFunc(in, l.mail.ring)
		return
	}
	x.timer.Reset(in)
}
