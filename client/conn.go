package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// defaultBacklog bounds what waits for Next while other calls read, in bytes of
// plaintext. Next itself never reads ahead.
const defaultBacklog = 64 << 20

// What a request takes at most, without names of topics.
const (
	messageOverhead  = 64
	perFilter        = wire.MaxTopicName + 8 // with what protobuf adds
	positionOverhead = 32
)

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
	view   *view
	batch  *wire.Batch // being worked through
	heads  []tickHead  // of batch; those before at are done
	at     int
	events []Event // due before the rest of batch
	tick   Tick    // returned last

	mu       sync.Mutex // guards the next five
	queue    []queued
	backlog  int // bytes in queue
	requests map[uint64]*request
	lastID   uint64
	since    map[string]Position // by topic, until its delivery begins
	arrived  chan struct{}       // holds a value when queue has grown since Next looked
}

// tickHead is a batch entry with its payload.
type tickHead struct {
	*wire.Head
	payload []byte
}

// queued is a message that waits for Next.
type queued struct {
	frame *wire.ServerFrame
	size  int // bytes of plaintext, decompressed
}

// request waits for answers.
type request struct {
	answer func(*wire.ServerFrame) (last bool) // called under Conn.mu
	done   chan struct{}
}

func newConn(l *link) *Conn {
	return &Conn{
		link:       l,
		maxBacklog: defaultBacklog,
		view:       newView(),
		requests:   map[uint64]*request{},
		since:      map[string]Position{},
		arrived:    make(chan struct{}, 1),
	}
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

// Subscription is the answer to Subscribe.
type Subscription struct {
	Filters []string  // accepted
	Refused []Refused // the others
}

// Subscribe asks for topics: names, or patterns with * for one segment and **
// for the rest. It returns when the source has confirmed them; the ticks come
// from Next. Filters that are refused are listed; if none is accepted, it fails
// with a *RequestError. Invalid filters are topic.ErrInvalid before anything is sent.
func (c *Conn) Subscribe(ctx context.Context, filters ...string) (Subscription, error) {
	return c.SubscribeFrom(ctx, nil, filters...)
}

// SubscribeFrom is Subscribe for a client that comes back with the Positions of
// an earlier connection. What the gateway still has comes as ticks, before the
// later ones; what is lost is told by a Gap, or by a Reset where nobody knows
// how much. Positions of other topics are no fault.
func (c *Conn) SubscribeFrom(ctx context.Context, since []Position, filters ...string) (Subscription, error) {
	var all Subscription
	filters, err := c.checkFilters(filters)
	if err != nil {
		return all, err
	}
	c.comeBack(since)
	for part := range c.parts(filters, len(since) > 0) {
		if err := c.subscribe(ctx, part, c.positionsFor(part, since), &all); err != nil {
			return all, err
		}
	}
	if len(all.Filters) == 0 && len(all.Refused) > 0 {
		first := all.Refused[0]
		return all, &RequestError{Code: first.Code, Text: fmt.Sprintf("%q: %s", first.Filter, first.Text)}
	}
	return all, nil
}

func (c *Conn) subscribe(ctx context.Context, filters []string, since []*wire.Position, all *Subscription) error {
	m := &wire.Subscribe{Since: since}
	for _, f := range filters {
		m.Subscriptions = append(m.Subscriptions, &wire.Subscription{Filter: f})
	}
	var refused error
	return c.ask(ctx, &refused, func(id uint64) *wire.ClientFrame {
		m.Id = uint32(id)
		return &wire.ClientFrame{Message: &wire.ClientFrame_Subscribe{Subscribe: m}}
	}, func(f *wire.ServerFrame) bool {
		if e := f.GetError(); e != nil && e.GetFilter() != "" {
			all.Refused = append(all.Refused, refusedBy(e))
			return false
		} else if e != nil {
			refused = requestError(e)
			return true
		}
		all.Filters = append(all.Filters, f.GetSubscribed().GetFilters()...)
		return true
	})
}

// Unsubscribe gives filters back, each exactly as it was subscribed. A filter
// that is not subscribed is a *RequestError; the others are given back.
func (c *Conn) Unsubscribe(ctx context.Context, filters ...string) error {
	filters, err := c.checkFilters(filters)
	if err != nil {
		return err
	}
	for part := range c.parts(filters, false) {
		if err := c.unsubscribe(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) unsubscribe(ctx context.Context, filters []string) error {
	var refused error
	return c.ask(ctx, &refused, func(id uint64) *wire.ClientFrame {
		return &wire.ClientFrame{Message: &wire.ClientFrame_Unsubscribe{
			Unsubscribe: &wire.Unsubscribe{Id: uint32(id), Filters: filters}}}
	}, func(f *wire.ServerFrame) bool {
		e := f.GetError()
		if e != nil && refused == nil {
			refused = requestError(e)
		}
		return e == nil || e.GetFilter() == ""
	})
}

// Ping measures the time until the gateway's answer.
func (c *Conn) Ping(ctx context.Context) (time.Duration, error) {
	var sent time.Time
	var took time.Duration
	err := c.ask(ctx, new(error), func(id uint64) *wire.ClientFrame {
		sent = time.Now()
		return &wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: id}}}
	}, func(*wire.ServerFrame) bool {
		took = time.Since(sent)
		return true
	})
	return took, err
}

// checkFilters refuses what cannot be a filter and drops repetitions.
func (c *Conn) checkFilters(filters []string) ([]string, error) {
	var unique []string
	for _, f := range filters {
		if _, err := topic.ParseFilter(f); err != nil {
			return nil, err
		}
		if !slices.Contains(unique, f) {
			unique = append(unique, f)
		}
	}
	return unique, nil
}

// parts cuts a list of filters into pieces that fit into one message each, or
// into half of one.
func (c *Conn) parts(filters []string, half bool) func(yield func([]string) bool) {
	n := c.maxPlaintext - messageOverhead
	if half {
		n /= 2
	}
	n = max(n/perFilter, 1)
	if c.maxPlaintext == 0 {
		n = max(len(filters), 1)
	}
	return slices.Chunk(filters, n)
}

// ask sends a request and waits for its answers. frame makes the message with
// the request's id; answer takes each answer and says whether it is the last.
// The answers may set *refused, which is returned.
func (c *Conn) ask(ctx context.Context, refused *error,
	frame func(id uint64) *wire.ClientFrame, answer func(*wire.ServerFrame) bool) error {
	r := &request{answer: answer, done: make(chan struct{})}
	id := c.register(r)
	defer c.forget(id)
	f := frame(id)
	err := c.write(ctx, wire.KindRecord, func(dst []byte) ([]byte, error) {
		return wire.AppendClientFrame(dst, f, 0)
	})
	if err == nil {
		err = c.await(ctx, r)
	}
	if err != nil {
		return err
	}
	return *refused
}

func (c *Conn) register(r *request) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = c.lastID%(1<<32-1) + 1 // ids are 32 bits and not 0
	c.requests[c.lastID] = r
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
	plaintext, err := c.readRecord(ctx)
	if err != nil {
		return err
	}
	frame, size, err := c.unpack.parse(plaintext)
	if err != nil {
		return c.violated(err)
	}
	if frame.GetConnected() != nil {
		return c.violated(fmt.Errorf("%w: a second Connected", wire.ErrFrame))
	}
	c.route(queued{frame, size})
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
	case *wire.ServerFrame_Error:
		if c.answer(uint64(m.Error.GetId()), q.frame) {
			return
		}
	case *wire.ServerFrame_Subscribed:
		c.answer(uint64(m.Subscribed.GetId()), q.frame)
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

func refusedBy(e *wire.Error) Refused {
	return Refused{Filter: e.GetFilter(), Code: wire.CloseCode(e.GetCode()), Text: printable(e.GetText())}
}

func requestError(e *wire.Error) *RequestError {
	text := printable(e.GetText())
	if e.GetFilter() != "" {
		text = fmt.Sprintf("%q: %s", e.GetFilter(), text)
	}
	return &RequestError{Code: wire.CloseCode(e.GetCode()), Text: text}
}
