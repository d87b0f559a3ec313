package reactor

import (
	"errors"
	"io"
)

// Conn is one connection. It belongs to its loop.
type Conn struct {
	// Out is what is to be written: handlers append to it, and the loop writes it
	// after each of their calls. Outside of these, call Room before and Flush after.
	Out []byte

	loop    *Loop
	handler Handler
	socket  int
	phase   phase
	in      []byte // that the handler did not deal with yet
	sent    int    // of Out
	writing bool   // waits for room
	paused  bool   // does not want to read
}

type phase uint8

const (
	connecting phase = iota
	open
	closed
)

// Open tells whether the connection is there.
func (c *Conn) Open() bool { return c.phase == open }

// Loop is the connection's.
func (c *Conn) Loop() *Loop { return c.loop }

// Pending is how many bytes wait to be written.
func (c *Conn) Pending() int { return len(c.Out) - c.sent }

// Flush writes what has been appended to Out: turn 4.
func (c *Conn) Flush() {
	if c.phase != open || c.writing {
		return
	}
	if c.Pending() == 0 {
		c.reclaim()
		return
	}
	n, err := c.loop.backend.Write(c.socket, c.Out[c.sent:])
	c.sent += max(n, 0)
	switch {
	case err != nil && !errors.Is(err, ErrAgain):
		c.end(err, false)
	case c.Pending() > 0:
		c.watch(true)
	default:
		c.reclaim()
	}
}

// reclaim gives the room of what has been written back to the loop: a connection
// between two messages has none.
func (c *Conn) reclaim() {
	if c.sent = 0; c.Out != nil {
		c.loop.recycle(c.Out)
		c.Out = nil
	}
}

func (c *Conn) watch(writing bool) {
	c.writing = writing
	if err := c.loop.backend.Watch(c.socket, !c.paused, writing); err != nil {
		c.end(err, false)
	}
}

// Pause stops reading, or goes on with it.
func (c *Conn) Pause(paused bool) {
	if c.phase == open && c.paused != paused {
		c.paused = paused
		c.watch(c.writing)
	}
}

// Close ends the connection; what is not written yet is lost. reset ends it
// without a goodbye of TCP.
func (c *Conn) Close(reset bool) { c.end(nil, reset) }

// end closes the connection once and tells its handler.
func (c *Conn) end(err error, reset bool) {
	if c.phase == closed {
		return
	}
	c.phase = closed
	c.loop.forget(c)
	c.loop.backend.Close(c.socket, reset)
	c.in, c.Out, c.sent = nil, nil, 0
	c.handler.Closed(c, err)
}

// ready is turn 3 for one connection.
func (c *Conn) ready(r Ready) {
	if c.phase == connecting && (r.Write || r.Read) {
		if err := c.loop.backend.Connected(c.socket); err != nil {
			c.end(err, false)
			return
		}
		c.phase = open
		c.watch(false)
		c.Room()
		c.handler.Opened(c)
		c.Flush()
		return
	}
	if r.Write && c.writing {
		c.writing = false
		c.Flush()
		if c.phase == open && !c.writing {
			c.watch(false)
		}
	}
	if r.Read && c.phase == open && !c.paused {
		c.read()
	}
}

// read takes what has come, behind what was left, and hands it over.
func (c *Conn) read() {
	buffer := c.loop.buffer(len(c.in))
	held := copy(buffer, c.in)
	n, err := c.loop.backend.Read(c.socket, buffer[held:])
	if err != nil {
		if !errors.Is(err, ErrAgain) {
			c.end(err, false)
		}
		return
	}
	if n == 0 {
		c.end(io.EOF, false)
		return
	}
	b := buffer[:held+n]
	c.Room()
	for c.phase == open {
		took := c.handler.Data(c, b)
		if b = b[took:]; took == 0 || len(b) == 0 {
			break
		}
	}
	if c.phase != open {
		return
	}
	c.keep(b)
	c.Flush()
}

// keep holds back what the handler did not deal with.
func (c *Conn) keep(b []byte) {
	if len(b) > 0 {
		if c.in == nil {
			c.in = c.loop.take()
		}
		c.in = append(c.in[:0], b...)
	} else if c.in != nil {
		c.loop.recycle(c.in)
		c.in = nil
	}
}
