// Package reactor drives many client connections on few event loops, each loop
// being one goroutine with its own sockets and buffers. It knows bytes and
// times, never a protocol.
//
// A turn of a loop:
//
//	turn 1  loop.go     what is due goes out: the pacer is asked
//	turn 2  backend     wait for sockets, for the pacer's next time, or for a call
//	turn 3  loop.go     what has arrived is read and handed to its connection's handler
//	turn 4  conn.go     what the handler has appended is written, in one call
//
// A Loop and its connections belong to the goroutine that runs it; only Call,
// Stop and Now may be used by others.
package reactor

import (
	"errors"
	"math"
	"net/netip"
)

// Never is a time that does not come.
const Never = int64(math.MaxInt64)

// ErrAgain says that a socket has nothing to read, or no room to write.
var ErrAgain = errors.New("socket is not ready")

// Handler is what a connection is for. Its methods are called on the loop.
type Handler interface {
	// Opened says that the connection is there.
	Opened(*Conn)
	// Data hands over bytes, which may be changed in place and are valid during
	// the call. It returns how many are dealt with: the rest comes again, with more.
	Data(c *Conn, b []byte) int
	// Closed is the last call. err is nil after Conn.Close.
	Closed(c *Conn, err error)
}

// Pacer is asked once in every turn what is due now, and says when to ask again
// at the latest (Never: not before something else happens). Times are the
// loop's, in nanoseconds.
type Pacer interface {
	Due(now int64) (next int64)
}

// Ready is what a Backend has found of one socket.
type Ready struct {
	Socket      int
	Read, Write bool // Write also tells that connecting is over
}

// Backend is the sockets of one loop, and its clock.
type Backend interface {
	// Now is a steady clock in nanoseconds. Any goroutine may call it.
	Now() int64
	// Dial begins to connect. from may be the zero address. Write readiness, or a
	// failing Read, tells the outcome.
	Dial(to netip.AddrPort, from netip.Addr) (socket int, err error)
	// Wait returns what is ready, not later than until, and at once after Wake.
	Wait(until int64) ([]Ready, error)
	// Connected is the outcome of Dial.
	Connected(socket int) error
	// Read and Write never wait: they fail with ErrAgain. Read fails with io.EOF
	// at the end.
	Read(socket int, b []byte) (int, error)
	Write(socket int, b []byte) (int, error)
	// Watch says what to wait for.
	Watch(socket int, read, write bool) error
	// Close closes a socket; reset makes the other side see an error instead of an end.
	Close(socket int, reset bool)
	// Wake ends a Wait. Any goroutine may call it.
	Wake()
	// Shut gives everything back.
	Shut()
}
