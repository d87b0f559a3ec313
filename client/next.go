package client

import (
	"context"
	"time"

	"github.com/sealcast/sealcast/wire"
)

// Next returns the next event, waiting for it until ctx ends; the connection is
// as good as before then. The event is valid until the next call. One goroutine
// calls Next. Once the connection has ended and everything received was
// returned, Next returns why: a *ClosedError, or ErrClosed after Close.
func (c *Conn) Next(ctx context.Context) (Event, error) {
	for {
		if event := c.step(); event != nil {
			return event, nil
		}
		begun, err := c.dequeue()
		if err != nil {
			return nil, err
		}
		if begun {
			continue
		}
		if err := c.fetch(ctx); err != nil && !c.waiting() {
			return nil, err
		}
	}
}

// Ready tells whether Next may return at once, without reading: a program that
// buffers its output flushes it when Ready is false. For the goroutine that calls Next.
func (c *Conn) Ready() bool {
	return len(c.events) > 0 || c.at < len(c.entries) || c.waiting()
}

// fetch reads one message, or waits until another reader has left one.
func (c *Conn) fetch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.arrived:
		return nil
	case c.reading <- struct{}{}:
		defer c.reading.give()
		if c.waiting() {
			return nil
		}
		return c.receive(ctx)
	}
}

// waiting tells whether another reader has left something.
func (c *Conn) waiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0
}

// dequeue takes the next message out of the queue and begins with it. It
// reports whether there was one.
func (c *Conn) dequeue() (bool, error) {
	c.mu.Lock()
	if len(c.queue) == 0 {
		c.mu.Unlock()
		return false, nil
	}
	q := c.queue[0]
	c.queue[0] = queued{}
	if c.queue = c.queue[1:]; len(c.queue) == 0 {
		c.queue = nil
	}
	c.backlog -= q.size
	c.mu.Unlock()
	if err := c.begin(q); err != nil {
		return false, c.violated(err)
	}
	return true, nil
}

// step returns the next event of the message in progress, or nil at its end.
func (c *Conn) step() Event {
	if len(c.events) > 0 {
		event := c.events[0]
		if c.events = c.events[1:]; len(c.events) == 0 {
			c.events = nil
		}
		return event
	}
	for c.at < len(c.entries) {
		e := &c.entries[c.at]
		c.at++
		if event := c.entry(e); event != nil {
			return event
		}
	}
	return nil
}

// entry makes an event of one entry of a batch: nil if it says nothing new. A
// gap is returned first, and its tick left for the next step.
func (c *Conn) entry(e *wire.Entry) Event {
	if r := e.Reset; r != nil {
		p := c.view.reset(e.Topic, r)
		if p == nil {
			return nil
		}
		return c.reset(&Reset{Topic: p.name, Epoch: p.epoch, NextSeq: p.next, Cause: r.GetCause()})
	}
	p, v := c.view.tick(e)
	if v.discard {
		c.counts.discarded.Add(1)
		return nil
	}
	c.counts.ticks.Add(1)
	c.counts.bytes.Add(uint64(len(e.Payload)))
	c.counts.merged.Add(v.merged)
	c.tick = Tick{
		Topic:   p.name,
		Epoch:   p.epoch,
		Seq:     e.Seq,
		Skipped: e.Skipped,
		Merged:  v.merged,
		Time:    time.UnixMicro(c.unpack.clock + e.ReceivedUS),
		Payload: e.Payload,
	}
	if v.gap {
		c.events = append(c.events, &c.tick)
		return c.gap(&Gap{Topic: p.name, Epoch: p.epoch, From: v.from, To: v.to})
	}
	return &c.tick
}
