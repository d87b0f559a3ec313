package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/sealcast/sealcast/fanout"
)

// mailboxBytes bounds the ticks that wait for one loop. Beyond it the hub waits;
// what then overflows is the source's queue, which counts and resets.
const mailboxBytes = 32 << 20

// letter is one thing that another goroutine hands to a loop. One field is set.
type letter struct {
	events []fanout.Event // out 3 — one hand-over
	done   *task          // what a worker has finished
	call   func()         // work for the loop: drain, inspection
}

// mailbox is the only way into a loop from outside: letters in order, and one
// Execute while none is pending, because Execute allocates and is not FIFO when
// many are queued. All methods are safe for concurrent use.
type mailbox struct {
	loop *loop
	el   gnet.EventLoop

	mu      sync.Mutex
	room    sync.Cond
	letters []letter
	spare   []letter // the slice that the loop has emptied, to be filled next
	bytes   int
	wanted  time.Time // when tick was called first since the last take; else zero
	kicked  bool
	closed  bool
}

func newMailbox(l *loop, el gnet.EventLoop) *mailbox {
	m := &mailbox{loop: l, el: el}
	m.room.L = &m.mu
	return m
}

// put adds a letter and wakes the loop. A hand-over of events waits while the
// mailbox is full; everything else is bounded at its origin.
func (m *mailbox) put(x letter, bytes int) {
	m.mu.Lock()
	for bytes > 0 && m.bytes > 0 && m.bytes+bytes > mailboxBytes && !m.closed {
		m.room.Wait()
	}
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.letters = append(m.letters, x)
	m.bytes += bytes
	m.kick()
}

// tick asks the loop to look at its timers; several requests are one.
func (m *mailbox) tick() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	if m.wanted.IsZero() {
		m.wanted = time.Now()
	}
	m.kick()
}

// ring wakes the loop for its alarms.
func (m *mailbox) ring() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.kick()
}

// kick unlocks and wakes the loop unless it is about to look anyway.
func (m *mailbox) kick() {
	wake := !m.kicked
	m.kicked = true
	m.mu.Unlock()
	if wake {
		// An error means that the engine is shut down; nobody is left to read.
		_ = m.el.Execute(context.Background(), m.loop)
	}
}

// take empties the mailbox. The letters are valid until the next take. wanted is
// when the loop was to look at its timers, zero if that was not asked for.
func (m *mailbox) take() (letters []letter, wanted time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	letters, wanted = m.letters, m.wanted
	clear(m.spare[:cap(m.spare)])
	m.letters, m.spare = m.spare[:0], letters
	m.bytes, m.wanted, m.kicked = 0, time.Time{}, false
	m.room.Broadcast()
	return letters, wanted
}

// depth is how many letters wait, and how many bytes of ticks.
func (m *mailbox) depth() (letters, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.letters), m.bytes
}

// close lets go of everybody who waits; later letters are dropped.
func (m *mailbox) close() {
	m.mu.Lock()
	m.closed = true
	m.room.Broadcast()
	m.mu.Unlock()
}
