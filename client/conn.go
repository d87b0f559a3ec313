package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// defaultBacklog bounds what waits for Next while other calls read, in bytes of
// plaintext. Next itself never reads ahead.
const defaultBacklog = 64 << 20

// Conn is one connection to a gateway for ticks. It does not reconnect.
//
// One goroutine calls Next. The other methods may be called by any goroutine,
// that one too: while they wait for an answer they read what comes and leave it
// for Next. Nothing is read while nobody waits, so a program that does not call
// Next for long is a slow client, and one that never does loses the connection
// when the gateway misses its sign of life.
type Conn struct {
	*link

	// fixed after construction
	maxBacklog int

	// owned by the goroutine that calls Next
	view    *view
	split   wire.Splitter
	entries []wire.Entry // of the batch being worked through; those before at are done
	at      int
	events  []Event // due before the rest of batch
	tick    Tick    // returned last
	cursor  []byte  // of the latest message that was worked through, if it had one

	counts *counters // any goroutine

	mu       sync.Mutex // guards the next five
	queue    []queued
	backlog  int // bytes in queue
	requests map[uint64]*request
	lastID   uint64
	since    map[string]Position // by topic, until its delivery begins
	arrived  chan struct{}       // holds a value when queue has grown since Next looked
}

// queued is a message that waits for Next.
type queued struct {
	frame   *wire.ServerFrame
	size    int  // bytes of plaintext, decompressed
	unasked bool // no call waits for what it answers
}

// request waits for answers.
type request struct {
	answer func(*wire.ServerFrame) (last bool) // called under Conn.mu
	done   chan struct{}
}

func newConn(l *link) *Conn {
	c := &Conn{
		link:       l,
		maxBacklog: defaultBacklog,
		view:       newView(),
		counts:     new(counters),
		requests:   map[uint64]*request{},
		since:      map[string]Position{},
		arrived:    make(chan struct{}, 1),
	}
	c.counts.conn.Add(1)
	return c
}

// Info tells what became known of the gateway while connecting.
func (c *Conn) Info() Info { return c.info }

// Ticket is for Options.Ticket of one later connection to the same gateway or a
// sibling that shares its ticket keys; nil when the gateway gave none. It holds
// a secret: Clear it when it is not going to be used.
func (c *Conn) Ticket() *session.ClientTicket { return c.ticket }

// Close says goodbye, waits a moment for the gateway to do the same, at most
// until ctx ends, and closes the connection. It may be called more than once
// and by any goroutine; calls that wait return ErrClosed.
func (c *Conn) Close(ctx context.Context) error {
	return c.leave(ctx, wire.CloseNormal, "")
}

// ask sends a request and waits for its answers. frame makes the message with
// the request's id; answer takes each answer and says whether it is the last.
// The answers may set *refused, which is returned.
func (c *Conn) ask(ctx context.Context, refused *error,
	frame func(id uint64) *wire.ClientFrame, answer func(*wire.ServerFrame) bool) error {
	return c.request(ctx, 0, refused, frame, answer)
}

// request is ask with a plaintext that is padded to a number of bytes.
func (c *Conn) request(ctx context.Context, padTo int, refused *error,
	frame func(id uint64) *wire.ClientFrame, answer func(*wire.ServerFrame) bool) error {
	r := &request{answer: answer, done: make(chan struct{})}
	id := c.register(r)
	defer c.forget(id)
	err := c.writeMessage(ctx, frame(id), padTo)
	if err == nil {
		err = c.await(ctx, r)
	}
	if err != nil {
		return err
	}
	return *refused
}

func (c *Conn) writeMessage(ctx context.Context, f *wire.ClientFrame, padTo int) error {
	return c.write(ctx, wire.KindRecord, func(dst []byte) ([]byte, error) {
		return wire.AppendClientFrame(dst, f, padTo)
	})
}

func (c *Conn) register(r *request) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.nextID()
	c.requests[id] = r
	return id
}

// newID is the id of a request whose answers are left for Next.
func (c *Conn) newID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint32(c.nextID())
}

// tell leaves a Refused for Next.
func (c *Conn) tell(code wire.CloseCode, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(queued{frame: &wire.ServerFrame{Message: &wire.ServerFrame_Error{Error: &wire.Error{Code: uint32(code), Text: text}}}})
}

// nextID is the id of a new request. The caller holds mu.
func (c *Conn) nextID() uint64 {
	c.lastID = c.lastID%(1<<32-1) + 1 // ids are 32 bits and not 0
	return c.lastID
}

func (c *Conn) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, id)
}

// await reads for everybody until the request is answered, or lets another
// reader do so.
func (c *Conn) await(ctx context.Context, r *request) error {
	for {
		select {
		case <-r.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case c.reading <- struct{}{}:
		}
		err := c.readFor(ctx, r)
		c.reading.give()
		select {
		case <-r.done:
			return nil
		default:
		}
		if err != nil {
			return err
		}
	}
}

// readFor reads one message unless the request is answered. The caller holds
// reading, and only who does answers requests.
func (c *Conn) readFor(ctx context.Context, r *request) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	c.mu.Lock()
	full := c.backlog > c.maxBacklog
	c.mu.Unlock()
	if full {
		return ErrBacklog
	}
	return c.receive(ctx)
}

// receive reads one message and routes it. The caller holds reading.
func (c *Conn) receive(ctx context.Context) error {
	kind, plaintext, err := c.readRecord(ctx)
	if err != nil {
		return err
	}
	frame, size, err := c.unpack.parse(plaintext)
	if err != nil {
		return c.violated(err)
	}
	if done, err := c.admit(kind, frame); done || err != nil {
		return err
	}
	if frame.GetConnected() != nil {
		return c.violated(fmt.Errorf("%w: a second Connected", wire.ErrFrame))
	}
	c.route(queued{frame: frame, size: size})
	return nil
}

// route passes answers to those who wait for them, and leaves for Next what
// concerns its view of the topics.
func (c *Conn) route(q queued) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := q.frame.GetMessage().(type) {
	case *wire.ServerFrame_Pong:
		c.answer(m.Pong.GetId(), q.frame)
		return
	case *wire.ServerFrame_Refreshed:
		c.answer(uint64(m.Refreshed.GetId()), q.frame)
		return
	case *wire.ServerFrame_Error:
		if c.answer(uint64(m.Error.GetId()), q.frame) {
			return
		}
	case *wire.ServerFrame_Subscribed:
		q.unasked = !c.answer(uint64(m.Subscribed.GetId()), q.frame)
	case *wire.ServerFrame_Unsubscribed:
		c.answer(uint64(m.Unsubscribed.GetId()), q.frame)
	}
	c.enqueue(q)
}

// answer passes an answer to the request that waits for it. The caller holds mu.
func (c *Conn) answer(id uint64, f *wire.ServerFrame) bool {
	r := c.requests[id]
	if r == nil {
		return false
	}
	if r.answer(f) {
		delete(c.requests, id)
		close(r.done)
	}
	return true
}

// enqueue leaves a message for Next. The caller holds mu.
func (c *Conn) enqueue(q queued) {
	c.queue = append(c.queue, q)
	c.backlog += q.size
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}
