package fanout

import (
	"context"
	"sync"
	"time"

	"github.com/sealcast/sealcast/wire"
)

// itemKind is what an entry of the queue tells.
type itemKind uint8

const (
	itemNothing   itemKind = iota // the hub need not know
	itemTick                      // a message
	itemOversized                 // a message above Options.MaxTick; its payload is not kept
	itemOverflow                  // messages were dropped at this point
	itemMalformed                 // an entry of a stream that is no tick
	itemLapse                     // entries of a stream are gone before they were read
	itemUp                        // there is a connection, without any subscription
	itemDown                      // the connection is lost
	itemAway                      // it cannot be made
	itemBack                      // streams can be read again, from where they were
	itemAdded                     // the source has confirmed a subscription
	itemRemoved                   // a subscription has ended
	itemRefused                   // the source has refused a subscription
	itemAstray                    // never in the queue: the subscription belongs to another node
)

// item is what the source tells the hub, in the order in which it happened.
type item struct {
	kind     itemKind
	channel  string // messages: the channel; subscriptions: their key
	pattern  string // messages: the glob pattern that the copy came through; "" for SUBSCRIBE
	payload  string
	received int64 // messages: microseconds since the Unix epoch
	stream   int   // messages of streams, and what else moves their position: its number, from 1
	at       position
	note     *note // what only the rare kinds have
}

type note struct {
	err     error               // itemDown, itemAway, itemRefused; itemRemoved: the part of the source was lost
	addr    string              // itemRemoved: of the part that was lost
	link    uint64              // itemUp: number of the connection
	cause   wire.Cause          // itemLapse
	again   bool                // itemLapse: one more; topics without a tick since their last reset need none
	dropped map[string]struct{} // itemOverflow: the channels; nil: too many to name
}

// reason is why, if anything is known of it.
func (n *note) reason() error {
	if n == nil {
		return nil
	}
	return n.err
}

// via tells whether the copy came through this subscription.
func (it *item) via(s *subscription) bool {
	if s.filter.IsPattern() {
		return it.pattern == s.key
	}
	return it.pattern == ""
}

func (it *item) bytes() int { return len(it.channel) + len(it.payload) }

func (it *item) message() bool { return it.kind == itemTick || it.kind == itemOversized }

// maxNamed bounds the channels that an overflow names; more stand for all.
const maxNamed = 4096

// queue holds what the source has heard and the hub has not yet handled. Its
// messages are bounded by count and bytes: a message that finds no room is
// dropped and counted, and an itemOverflow marks the place. Everything else is
// bounded by the number of subscriptions and always finds room. Safe for
// concurrent use.
//
// out 1 — a message of the source waits here; put never blocks.
type queue struct {
	maxTicks, maxBytes int
	wake               func()

	mu      sync.Mutex
	items   []item // items[head:] wait
	head    int
	ticks   int
	bytes   int
	dropped uint64
}

func newQueue(ticks, bytes int, wake func()) *queue {
	return &queue{maxTicks: ticks, maxBytes: bytes, wake: wake}
}

// put appends an item, or what is left of it when there is no room.
func (q *queue) put(it item) {
	q.mu.Lock()
	if it.message() && !q.room(&it) {
		q.drop(it.channel)
	} else {
		q.push(it)
	}
	q.mu.Unlock()
	q.wake()
}

// await waits until there is room, or ctx ends. It is for a source that can read
// later what it does not read now.
func (q *queue) await(ctx context.Context) {
	for {
		q.mu.Lock()
		room := q.ticks < q.maxTicks && q.bytes < q.maxBytes
		q.mu.Unlock()
		if room {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// room tells whether a message may be queued. A single one always may.
func (q *queue) room(it *item) bool {
	return q.ticks == 0 || (q.ticks < q.maxTicks && q.bytes+it.bytes() <= q.maxBytes)
}

func (q *queue) push(it item) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
	if it.message() {
		q.ticks++
		q.bytes += it.bytes()
	}
}

// drop counts a message and names its channel in the overflow at this point.
func (q *queue) drop(channel string) {
	q.dropped++
	if q.head == len(q.items) || q.items[len(q.items)-1].kind != itemOverflow {
		q.push(item{kind: itemOverflow, note: &note{dropped: make(map[string]struct{})}})
	}
	n := q.items[len(q.items)-1].note
	if n.dropped == nil {
		return
	}
	n.dropped[channel] = struct{}{}
	if len(n.dropped) > maxNamed {
		n.dropped = nil
	}
}

// take moves items to dst, in order, until about so many items or bytes are
// reached, and tells whether more are left.
func (q *queue) take(dst []item, items, bytes int) (_ []item, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head < len(q.items) && items > 0 && bytes > 0 {
		it := &q.items[q.head]
		q.head++
		items--
		bytes -= it.bytes()
		if it.message() {
			q.ticks--
			q.bytes -= it.bytes()
		}
		dst = append(dst, *it)
		*it = item{}
	}
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return dst, q.head < len(q.items)
}

// depth returns the messages that wait, their bytes, and how many were dropped so far.
func (q *queue) depth() (ticks, bytes int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ticks, q.bytes, q.dropped
}
