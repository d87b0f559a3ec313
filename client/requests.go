package client

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// What a request takes at most, without names of topics.
const (
	messageOverhead  = 64
	perFilter        = wire.MaxTopicName + 8 // with what protobuf adds
	positionOverhead = 32
)

// SubscribeOptions say how filters are subscribed. The zero value asks for
// every tick from now on.
type SubscribeOptions struct {
	// MaxRate bounds the ticks of each topic, per second: of every interval the
	// newest one comes, the last one too. 0 means no bound. MaxRate and MaxAge
	// hold for topics that the gateway may merge (policy latest); others come whole.
	MaxRate float64
	// MaxAge is how old a tick may be to be sent, unless nothing newer is known;
	// 0 means any age. The wire counts milliseconds.
	MaxAge time.Duration
	// Since are the Positions of an earlier connection. Those of topics that no
	// filter matches are no fault.
	Since []Position
	// Cursor is that of an earlier connection (Conn.Cursor); nil if it had none.
	// A gateway whose source is a stream goes by it and not by Since.
	Cursor []byte
}

func (o *SubscribeOptions) check() error {
	switch {
	case o.MaxRate < 0 || math.IsNaN(o.MaxRate) || math.IsInf(o.MaxRate, 0):
		return fmt.Errorf("%w: MaxRate %v is no rate; 0 means no bound", ErrOptions, o.MaxRate)
	case o.MaxAge < 0 || o.MaxAge.Milliseconds() > math.MaxUint32:
		return fmt.Errorf("%w: MaxAge %v is not between 0 and %v", ErrOptions, o.MaxAge, math.MaxUint32*time.Millisecond)
	}
	return nil
}

// subscription is one filter with the options that it has on the wire.
func (o *SubscribeOptions) subscription(filter string) *wire.Subscription {
	age := (o.MaxAge + time.Millisecond - 1).Milliseconds() // never 0, which means no bound, for a bound
	return &wire.Subscription{Filter: filter, MaxRate: o.MaxRate, MaxAgeMs: uint32(min(age, math.MaxUint32))}
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
	return c.SubscribeWith(ctx, SubscribeOptions{}, filters...)
}

// SubscribeWith is Subscribe with options, among them where an earlier
// connection stood. What the gateway still has since then comes as ticks,
// before the later ones; what is lost is told by a Gap, or by a Reset where
// nobody knows how much.
func (c *Conn) SubscribeWith(ctx context.Context, opts SubscribeOptions, filters ...string) (Subscription, error) {
	var all Subscription
	filters, err := checkFilters(filters)
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		return all, err
	}
	for m := range c.subscribes(opts, filters) {
		if err := c.subscribe(ctx, m, &all); err != nil {
			return all, err
		}
	}
	if len(all.Filters) == 0 && len(all.Refused) > 0 {
		first := all.Refused[0]
		return all, &RequestError{Code: first.Code, Text: fmt.Sprintf("%q: %s", first.Filter, first.Text)}
	}
	return all, nil
}

// subscribes makes the messages that subscribe to filters, with all that the
// options say of them.
func (c *Conn) subscribes(opts SubscribeOptions, filters []string) func(yield func(*wire.Subscribe) bool) {
	c.comeBack(opts.Since)
	return func(yield func(*wire.Subscribe) bool) {
		for part := range c.parts(filters, len(opts.Since) > 0) {
			m := &wire.Subscribe{Since: c.positionsFor(part, opts.Since), Cursor: opts.Cursor}
			for _, f := range part {
				m.Subscriptions = append(m.Subscriptions, opts.subscription(f))
			}
			if !yield(m) {
				return
			}
		}
	}
}

func (c *Conn) subscribe(ctx context.Context, m *wire.Subscribe, all *Subscription) error {
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
	filters, err := checkFilters(filters)
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

// Refresh exchanges the token that the connection was opened with for a newer
// one of the same subject, and returns when that expires: the zero time for
// never. A *RequestError means that the session goes on under its old token.
// Filters that the new token does not allow are taken away, each told by a Refused.
func (c *Conn) Refresh(ctx context.Context, token string) (expires time.Time, err error) {
	m := &wire.Refresh{Token: token}
	var refused error
	err = c.request(ctx, connectSize, &refused, func(id uint64) *wire.ClientFrame {
		m.Id = uint32(id)
		return &wire.ClientFrame{Message: &wire.ClientFrame_Refresh{Refresh: m}}
	}, func(f *wire.ServerFrame) bool {
		if e := f.GetError(); e != nil {
			refused = requestError(e)
		} else {
			expires = unixTime(f.GetRefreshed().GetExpiresAtS())
		}
		return true
	})
	return expires, err
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
func checkFilters(filters []string) ([]string, error) {
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
