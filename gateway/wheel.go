package gateway

// wheelSlots times coarseTick is the horizon of the wheel; a later deadline is
// looked at once a turn.
const wheelSlots = 512

// timer is a connection's place in its loop's wheel.
type timer struct {
	at         int64 // milliseconds of the loop's clock
	prev, next *conn // in the slot
}

// wheel is a coarse timer wheel: one deadline per connection, set and cleared in
// constant time without allocating. It belongs to one loop.
type wheel struct {
	slots [wheelSlots]*conn
	turn  int64 // ticks of coarseTick that have been expired
}

func tickOf(ms int64) int64 { return ms / coarseTick.Milliseconds() }

// set moves c's deadline to at. A deadline in the past fires at the next tick.
func (w *wheel) set(c *conn, at int64) {
	w.clear(c)
	turn := min(max(tickOf(at)+1, w.turn+1), w.turn+wheelSlots-1)
	slot := turn % wheelSlots
	c.timer, c.slot = timer{at: at, next: w.slots[slot]}, uint16(slot)
	if c.timer.next != nil {
		c.timer.next.timer.prev = c
	}
	w.slots[slot] = c
}

// clear removes c, if it is there.
func (w *wheel) clear(c *conn) {
	t := &c.timer
	if t.next != nil {
		t.next.timer.prev = t.prev
	}
	if t.prev != nil {
		t.prev.timer.next = t.next
	} else if w.slots[c.slot] == c {
		w.slots[c.slot] = t.next
	}
	*t = timer{}
}

// expire appends the connections whose deadline has come to due and takes them
// off the wheel.
func (w *wheel) expire(now int64, due []*conn) []*conn {
	for last := tickOf(now); w.turn < last; {
		w.turn++
		for c := w.slots[w.turn%wheelSlots]; c != nil; {
			next := c.timer.next
			if at := c.timer.at; at > now {
				w.set(c, at)
			} else {
				w.clear(c)
				due = append(due, c)
			}
			c = next
		}
	}
	return due
}
