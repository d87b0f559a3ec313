package fanout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrDenied is wrapped by the reason of a Refused that comes from Redis.
	ErrDenied = errors.New("redis does not allow the subscription")

	errSilent = errors.New("no answer to PING")
	errClosed = errors.New("connection closed")
	errCut    = errors.New("connection closed by redis")
	errMute   = errors.New("connected, but no answer")
)

// link is one pub/sub connection. It never comes back: go-redis would dial and
// subscribe again by itself, with all subscriptions in one command, so that
// nobody could tell from the answers which connection they belong to, nor which
// subscription was refused. Its dialer therefore dials once. A reader calls
// receive, write runs in a goroutine of its own, everything else is safe for
// concurrent use.
type link struct {
	opt    Redis
	client *redis.Client
	pubsub *redis.PubSub
	conn   *heardConn
	ctx    context.Context // ends with the link; its cause is the failure
	fail   context.CancelCauseFunc
	wake   chan struct{}
	canary *canary // nil: none
	shards bool    // sharded pub/sub: SSUBSCRIBE

	mu      sync.Mutex
	orders  []order // to be written
	pending []order // written and not answered, in order; a PING has no key
}

// heardConn notes when the last byte came.
type heardConn struct {
	net.Conn
	at atomic.Int64 // time.Time.UnixNano
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.at.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *heardConn) last() time.Time { return time.Unix(0, c.at.Load()) }

// dial connects, authenticates, and makes sure that Redis answers. canary may be nil.
func dial(ctx context.Context, opt Redis, addr string, canary *canary) (*link, error) {
	l := &link{opt: opt, wake: make(chan struct{}, 1), canary: canary, shards: opt.Source == Sharded}
	l.ctx, l.fail = context.WithCancelCause(ctx)
	l.client = redis.NewClient(l.options(addr))
	l.pubsub = l.client.Subscribe(l.ctx)
	if err := l.greet(); err != nil {
		l.close()
		return nil, err
	}
	if canary != nil {
		if channel := canary.channel.Load(); channel != nil {
			l.send([]order{{key: *channel, add: true}})
		}
	}
	return l, nil
}

func (l *link) greet() error {
	if err := l.pubsub.Ping(l.ctx); err != nil {
		return err
	}
	_, err := l.pubsub.ReceiveTimeout(l.ctx, l.opt.DialTimeout)
	var answer redis.Error
	if errors.As(err, &answer) && denied(answer) { // that is an answer, too
		return nil
	}
	return err
}

func (l *link) options(addr string) *redis.Options {
	o := l.opt.universal().Simple() // with protocol 2: nothing but answers and messages in the stream
	o.Addr = addr
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if l.conn != nil {
			return nil, errClosed
		}
		c, err := l.opt.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l.conn = &heardConn{Conn: c}
		context.AfterFunc(l.ctx, func() { _ = c.Close() })
		return l.conn, nil
	}
	return o
}

func (l *link) close() {
	l.fail(errClosed)
	_ = l.pubsub.Close()
	_ = l.client.Close()
}

// failure is the first reason for which the link failed.
func (l *link) failure() error { return context.Cause(l.ctx) }

// send takes orders to be written.
func (l *link) send(orders []order) {
	l.mu.Lock()
	l.orders = append(l.orders, orders...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// round waits for the answer to a PING of its own. What Redis had written to the
// connection before it read that PING has been received then.
func (l *link) round(ctx context.Context) error {
	o := order{answered: make(chan struct{})}
	l.send([]order{o})
	select {
	case <-o.answered:
		return nil
	case <-l.ctx.Done():
		return l.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sing sends canaries until the link fails.
func (l *link) sing() {
	if l.canary != nil {
		if err := l.canary.run(l.ctx); err != nil {
			l.fail(err)
		}
	}
}

// write sends orders, and PINGs when nothing has come for a while, until the
// link fails.
func (l *link) write() {
	timer := time.NewTimer(l.opt.PingAfter)
	defer timer.Stop()
	var pinged time.Time // zero: no PING is out
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
			l.writeOrders()
		case <-timer.C:
			pinged = l.watch(pinged, timer)
		}
	}
}

// watch looks for how long nothing has come. Bytes count, not messages: a large
// one may take its time.
func (l *link) watch(pinged time.Time, timer *time.Timer) time.Time {
	heard := l.conn.last()
	switch silent := time.Since(heard); {
	case !pinged.IsZero() && heard.Before(pinged):
		l.fail(fmt.Errorf("%w for %v", errSilent, l.opt.PingTimeout))
	case silent < l.opt.PingAfter:
		timer.Reset(l.opt.PingAfter - silent)
	default:
		pinged = time.Now()
		timer.Reset(l.opt.PingTimeout)
		l.writeOrder(order{})
		return pinged
	}
	return time.Time{}
}

func (l *link) writeOrders() {
	l.mu.Lock()
	orders := l.orders
	l.orders = nil
	l.mu.Unlock()
	for _, o := range orders {
		l.writeOrder(o)
	}
}

// writeOrder sends one command per subscription: a refusal does not say what it
// refuses, and would hit all that one command asks for.
func (l *link) writeOrder(o order) {
	l.mu.Lock()
	l.pending = append(l.pending, o)
	l.mu.Unlock()
	var err error
	switch {
	case o.key == "":
		err = l.pubsub.Ping(l.ctx)
	case l.shards && o.add:
		err = l.pubsub.SSubscribe(l.ctx, o.key)
	case l.shards:
		err = l.pubsub.SUnsubscribe(l.ctx, o.key)
	case o.pattern && o.add:
		err = l.pubsub.PSubscribe(l.ctx, o.key)
	case o.pattern:
		err = l.pubsub.PUnsubscribe(l.ctx, o.key)
	case o.add:
		err = l.pubsub.Subscribe(l.ctx, o.key)
	default:
		err = l.pubsub.Unsubscribe(l.ctx, o.key)
	}
	if err != nil {
		l.fail(err)
	}
}

// receive returns the next message or answer; itemNothing for what the hub need not know.
func (l *link) receive() (item, error) {
	// No deadline: go-redis would lose its place in a message that is half read.
	// The link's end closes the connection.
	v, err := l.pubsub.ReceiveTimeout(l.ctx, 0)
	var answer redis.Error
	if errors.As(err, &answer) {
		return l.refused(answer)
	}
	if err != nil {
		return item{}, err
	}
	switch v := v.(type) {
	case *redis.Message:
		if l.canary != nil {
			l.canary.heard()
		}
		if own(v.Channel) {
			return item{kind: itemNothing}, nil
		}
		return item{kind: itemTick, channel: v.Channel, pattern: v.Pattern, payload: v.Payload}, nil
	case *redis.Subscription:
		kind, add := itemAdded, !strings.Contains(v.Kind, "unsubscribe")
		if !add {
			kind = itemRemoved
		}
		l.answered(order{key: v.Channel, pattern: strings.HasPrefix(v.Kind, "p"), add: add})
		if own(v.Channel) && add {
			return item{kind: itemNothing}, nil
		}
		return item{kind: kind, channel: v.Channel}, nil
	default: // *redis.Pong
		l.ponged()
		return item{kind: itemNothing}, nil
	}
}

// ponged takes a PING off the pending commands.
func (l *link) ponged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) > 0 && l.pending[0].key == "" {
		l.done()
	}
}

// done takes the first of the pending commands off. The caller holds mu.
func (l *link) done() {
	if o := l.pending[0]; o.answered != nil {
		close(o.answered)
	}
	l.pending = l.pending[1:]
}

// answered takes the command off the pending ones. Redis may also end a
// subscription by itself; that is not an answer.
func (l *link) answered(o order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) > 0 && l.pending[0] == o {
		l.done()
	}
}

// refused says what an error answers: Redis answers in the order of the commands.
func (l *link) refused(err redis.Error) (item, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return item{}, err
	}
	o := l.pending[0]
	if l.shards && o.add && astray(err) {
		l.pending = l.pending[1:]
		return item{kind: itemAstray, channel: o.key, note: &note{err: err}}, nil
	}
	if !denied(err) {
		return item{}, err
	}
	switch {
	case own(o.key):
		l.canary.off.Store(true)
	case o.key == "": // not even PING is allowed, but Redis is there
	case o.add:
		l.pending = l.pending[1:]
		return item{kind: itemRefused, channel: o.key, note: &note{err: fmt.Errorf("%w: %v", ErrDenied, err)}}, nil
	default:
		return item{}, fmt.Errorf("redis user may not unsubscribe: %w", err)
	}
	l.done()
	return item{kind: itemNothing}, nil
}

// astray tells whether a subscription has come to a node that does not have its
// slot, or not at the moment.
func astray(err redis.Error) bool {
	word, _, _ := strings.Cut(err.Error(), " ")
	return word == "MOVED" || word == "ASK" || word == "CLUSTERDOWN" || word == "TRYAGAIN"
}

// plain takes Go's wording off network errors: "connection refused" is what a user needs to read.
func plain(err error) error {
	var errno syscall.Errno
	var network net.Error
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, io.EOF):
		return errCut
	case errors.As(err, &network) && network.Timeout():
		return errMute
	}
	return err
}
