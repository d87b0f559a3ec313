package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealcast/sealcast/session"
)

// Client follows topics over as many connections as it takes. When one ends it
// comes back by the rules of docs/protocol.md section 7.5, resumes with a
// ticket, subscribes again and asks for what it missed; what is lost nevertheless
// is told by Gap and Reset. Only a Goodbye of the gateway that says so, and
// Close, are final. Everything else is tried again and told by Disconnected.
//
// One goroutine calls Next, Ready, Positions and Cursor. The other methods may
// be called by any goroutine.
//
// # Slow programs
//
// A Client reads only while Next waits; it buffers nothing. What a program does
// not take stays in the socket, so the gateway notices that this client is slow
// and does what its settings say: ticks of topics with policy latest are merged,
// others are told as a Gap, or the session ends with 4413 and the Client comes
// back. So nothing is dropped on this side, and memory does not grow. A program
// that must not hold up reads with a goroutine of its own and drops by its own
// rule. One that does not call Next for longer than Info.HeartbeatTimeout loses
// the connection, and comes back with the next call.
//
// A goroutine runs only while a connection is being made or a token renewed;
// Close waits for it.
type Client struct {
	// fixed after construction
	url     string
	opts    Options
	backoff Backoff
	life    context.Context // ends with Close
	end     context.CancelFunc
	counts  *counters
	jitter  *rand.Rand // used by the goroutine that calls Next

	// owned by the goroutine that calls Next
	events  []Event       // due before those of the connection
	attempt *attempt      // to connect; nil while there is a connection
	delay   time.Duration // before the attempt, without jitter
	began   time.Time     // when the connection came about

	asking     sync.Mutex // held while a wish is noted and told to the gateway, so that both keep their order
	shared     shared
	renewing   atomic.Bool // a goroutine renews the token
	background sync.WaitGroup
}

// shared is what all goroutines of a Client use.
type shared struct {
	sync.Mutex                       // guards the rest
	conn       *Conn                 // nil while there is none
	ended      error                 // final
	wishes     []wish                // in the order in which they came
	place      place                 // as the connections before this one have left it
	ticket     *session.ClientTicket // of the latest connection
	token      string                // used last
	refused    string                // the gateway wants another one
}

// replaceTicket clears the ticket before. The caller holds the lock.
func (s *shared) replaceTicket(next *session.ClientTicket) {
	if s.ticket != nil {
		s.ticket.Clear()
	}
	s.ticket = next
}

// attempt to connect. The rest is set once done is closed.
type attempt struct {
	done chan struct{}
	err  error
}

// Open connects to a gateway as Dial does, once, and fails as that does. From
// then on the Client keeps the connection up; Close it when done.
func Open(ctx context.Context, url string, opts Options) (*Client, error) {
	c, err := newClient(url, opts)
	if err != nil {
		return nil, err
	}
	if err := c.connect(ctx); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func newClient(url string, opts Options) (*Client, error) {
	d, err := newDialer(url, pushPath, opts)
	if err != nil {
		return nil, err
	}
	var seed [32]byte
	if _, err := io.ReadFull(d.opts.Rand, seed[:]); err != nil {
		return nil, fmt.Errorf("jitter: %w", err)
	}
	c := &Client{url: url, opts: opts, backoff: opts.Backoff.withDefaults(), counts: new(counters),
		jitter: rand.New(rand.NewChaCha8(seed)), began: time.Now()}
	c.life, c.end = context.WithCancel(context.Background())
	c.shared.place.positions = map[string]Position{}
	c.shared.token, c.shared.ticket = opts.Token, opts.Ticket
	return c, nil
}

// connect makes a connection, makes it the Client's, and asks for everything
// that is wished for.
func (c *Client) connect(ctx context.Context) error {
	opts := c.opts
	opts.Ticket, opts.TokenSource = c.lastTicket(), c.nextToken
	conn, err := Dial(ctx, c.url, opts)
	if err != nil {
		return err
	}
	conn.counts = c.counts
	c.asking.Lock()
	defer c.asking.Unlock()
	wishes, place, err := c.take(conn)
	if err != nil {
		_ = conn.Close(ctx) // nobody wants it any more
		return err
	}
	c.counts.conn.Add(1)
	for _, w := range grouped(wishes) {
		c.ask(conn, w.options(place), w.filters)
	}
	return nil
}

func (c *Client) lastTicket() *session.ClientTicket {
	c.shared.Lock()
	defer c.shared.Unlock()
	return c.shared.ticket
}

// take makes a connection the Client's, unless that is over, and returns what
// is to be asked for on it.
func (c *Client) take(conn *Conn) ([]wish, place, error) {
	c.shared.Lock()
	defer c.shared.Unlock()
	if c.shared.ended != nil {
		return nil, place{}, c.shared.ended
	}
	c.shared.conn = conn
	c.shared.replaceTicket(conn.Ticket())
	return slices.Clone(c.shared.wishes), c.shared.place, nil
}

// Next returns the next event, waiting for it until ctx ends. The event is valid
// until the next call. The error is that of ctx, ErrClosed after Close, or the
// *ClosedError of a Goodbye after which there is no coming back.
func (c *Client) Next(ctx context.Context) (Event, error) {
	for {
		if len(c.events) > 0 {
			event := c.events[0]
			c.events = c.events[1:]
			return event, nil
		}
		conn, err := c.now()
		switch {
		case err != nil:
			return nil, err
		case c.attempt != nil:
			if err := c.await(ctx); err != nil {
				return nil, err
			}
			continue
		}
		event, err := conn.Next(ctx)
		switch {
		case err == nil:
			c.attend(conn, event)
			return event, nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, ctx.Err()
		}
		c.lost(conn, err)
	}
}

// Ready tells whether Next may return at once, without reading: a program that
// buffers its output flushes it when Ready is false.
func (c *Client) Ready() bool {
	conn, err := c.now()
	return len(c.events) > 0 || err != nil || c.attempt == nil && conn.Ready()
}

// now is the present connection, nil while there is none, or why there is going
// to be none any more.
func (c *Client) now() (*Conn, error) {
	c.shared.Lock()
	defer c.shared.Unlock()
	return c.shared.conn, c.shared.ended
}

// Info tells what became known of the gateway by the present connection; it is
// empty while there is none.
func (c *Client) Info() Info {
	if conn, _ := c.now(); conn != nil {
		return conn.Info()
	}
	return Info{}
}

// Stats count over all connections. Any goroutine may call it.
func (c *Client) Stats() Stats { return c.counts.stats() }

// lost notes where a connection stood, all of which Next has returned, and sees
// to the next one.
func (c *Client) lost(conn *Conn, cause error) {
	c.shared.Lock()
	c.shared.place.leave(conn, c.shared.wishes)
	c.shared.conn = nil
	c.shared.Unlock()
	least := 2 * c.delay
	if time.Since(c.began) >= c.backoff.Max { // it held: that makes good for what was before
		least = 0
	}
	c.retry(cause, least)
}

// retry makes another connection, unless cause is final: after at least that
// time, and as long as the cause asks for.
func (c *Client) retry(cause error, least time.Duration) {
	again, wanted := c.verdict(cause)
	if !again {
		c.finish(cause)
		return
	}
	c.delay = max(min(least, c.backoff.Max), wanted)
	wait := c.delay + time.Duration(c.jitter.Int64N(int64(max(c.delay, 2*c.backoff.Min))))
	c.events = append(c.events, &Disconnected{Err: cause, RetryIn: wait})
	a := &attempt{done: make(chan struct{})}
	c.attempt = a
	c.run(func() {
		defer close(a.done)
		if a.err = sleep(c.life, wait); a.err == nil {
			a.err = c.connect(c.life)
		}
	})
}

// run runs a goroutine that Close waits for, unless the Client is over.
func (c *Client) run(f func()) {
	c.shared.Lock()
	defer c.shared.Unlock()
	if c.shared.ended == nil {
		c.background.Go(f)
	}
}

// await waits for the attempt in progress.
func (c *Client) await(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Done():
		return ErrClosed
	case <-c.attempt.done:
		if c.life.Err() != nil {
			return ErrClosed
		}
	}
	err := c.attempt.err
	c.attempt = nil
	if err != nil {
		c.retry(err, max(2*c.delay, c.backoff.Min))
		return nil
	}
	c.began = time.Now()
	c.events = append(c.events, &Connected{Info: c.Info()})
	return nil
}

// finish ends the Client, once: the first cause stays.
func (c *Client) finish(cause error) (conn *Conn) {
	c.shared.Lock()
	defer c.shared.Unlock()
	if c.shared.ended == nil {
		c.shared.ended = cause
	}
	return c.shared.conn
}

// Close says goodbye to the gateway, waits a moment for its answer, at most
// until ctx ends, and for every goroutine of the Client. It may be called more
// than once and by any goroutine; Next then returns ErrClosed.
func (c *Client) Close(ctx context.Context) error {
	var err error
	if conn := c.finish(ErrClosed); conn != nil {
		err = conn.Close(ctx)
	}
	c.end()
	c.background.Wait()
	c.shared.Lock()
	defer c.shared.Unlock()
	c.shared.replaceTicket(nil) // nobody is there to use it
	return err
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
