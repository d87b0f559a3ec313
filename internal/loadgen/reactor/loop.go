package reactor

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
)

// readRoom is the least room for one read, in bytes.
const readRoom = 256 << 10

// Loop is one event loop. See the package comment for who may call what.
type Loop struct {
	backend Backend
	pacer   Pacer
	conns   map[int]*Conn
	room    []byte   // for reading, shared by all connections
	spare   [][]byte // rooms of connections, to be used again

	mu    sync.Mutex // guards calls
	calls []func()

	stopping atomic.Bool
	done     chan struct{}
	err      error // set before done is closed
}

// New makes a loop over a backend. Run runs it.
func New(b Backend) *Loop {
	return &Loop{backend: b, conns: map[int]*Conn{}, room: make([]byte, readRoom), done: make(chan struct{})}
}

// Now is the loop's clock, in nanoseconds. Any goroutine may call it.
func (l *Loop) Now() int64 { return l.backend.Now() }

// Call has f run on the loop, soon. Any goroutine may call it.
func (l *Loop) Call(f func()) {
	l.mu.Lock()
	l.calls = append(l.calls, f)
	l.mu.Unlock()
	l.backend.Wake()
}

// Do has f run on the loop and waits for it. After the loop's end it does
// nothing. It must not be called on the loop itself.
func (l *Loop) Do(f func()) {
	ran := make(chan struct{})
	l.Call(func() { f(); close(ran) })
	select {
	case <-ran:
	case <-l.done:
	}
}

// Stop ends Run and waits for its end. Connections are reset and not told.
func (l *Loop) Stop() error {
	l.stopping.Store(true)
	l.backend.Wake()
	<-l.done
	return l.err
}

// Pace sets the pacer; nil is none. It is called on the loop.
func (l *Loop) Pace(p Pacer) { l.pacer = p }

// Run runs the loop until Stop, or until its backend fails.
func (l *Loop) Run() {
	defer close(l.done)
	for !l.stopping.Load() {
		if err := l.Turn(); err != nil {
			l.err = err
			break
		}
	}
	for _, c := range l.conns {
		c.phase = closed
		l.backend.Close(c.socket, true)
	}
	l.backend.Shut()
}

// Turn is one turn, for who runs the loop by hand.
func (l *Loop) Turn() error {
	next := Never
	if l.pacer != nil {
		next = l.pacer.Due(l.backend.Now()) // turn 1
	}
	found, err := l.backend.Wait(next) // turn 2
	if err != nil {
		return fmt.Errorf("event loop: %w", err)
	}
	for _, r := range found {
		if c := l.conns[r.Socket]; c != nil {
			c.ready(r) // turn 3 and 4
		}
	}
	l.runCalls()
	return nil
}

func (l *Loop) runCalls() {
	l.mu.Lock()
	calls := l.calls
	l.calls = nil
	l.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// Dial begins a connection, from one of this machine's addresses if it is
// given. The handler hears of the outcome, unless Dial fails at once. It is called on the loop.
func (l *Loop) Dial(to netip.AddrPort, from netip.Addr, h Handler) (*Conn, error) {
	socket, err := l.backend.Dial(to, from)
	if err != nil {
		return nil, err
	}
	c := &Conn{loop: l, handler: h, socket: socket}
	l.conns[socket] = c
	return c, nil
}

func (l *Loop) forget(c *Conn) { delete(l.conns, c.socket) }

// buffer is room for what was held and one read more.
func (l *Loop) buffer(held int) []byte {
	if len(l.room) < held+readRoom/2 {
		l.room = make([]byte, 2*held+readRoom)
	}
	return l.room
}

// maxSpare and maxSpareSize bound the rooms that a loop keeps.
const (
	maxSpare     = 256
	maxSpareSize = 64 << 10
)

// recycle takes room that a connection does not need any more.
func (l *Loop) recycle(b []byte) {
	if len(l.spare) < maxSpare && cap(b) <= maxSpareSize && cap(b) > 0 {
		l.spare = append(l.spare, b[:0])
	}
}

// take is room that was used before, or none.
func (l *Loop) take() []byte {
	n := len(l.spare)
	if n == 0 {
		return nil
	}
	b := l.spare[n-1]
	l.spare = l.spare[:n-1]
	return b
}

// Room gives the connection room to append to, if it has none: a loop's
// connections share what busy ones need.
func (c *Conn) Room() {
	if c.Out == nil {
		c.Out = c.loop.take()
	}
}
