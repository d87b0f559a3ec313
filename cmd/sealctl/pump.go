package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Bounds of a batch. Whatever the feed, no more of it is in memory.
const (
	batchTicks = 1000
	batchBytes = 1 << 20
)

// outgoing is a tick to be published.
type outgoing struct {
	topic   string
	payload []byte
}

// sink takes batches. It keeps nothing of them.
type sink interface {
	publish(ctx context.Context, ticks []outgoing) (reached int64, err error)
}

// pump moves ticks from a source to a sink, each at its time. It goes by the
// feed's clock: ticks that are late are sent at once, and never thinned out.
type pump struct {
	from  source
	to    sink
	speed float64       // factor on the feed's clock; 0: as fast as possible
	limit int64         // ticks; 0: none
	show  func(*totals) // called after each batch

	start  time.Time
	ticks  []outgoing // the batch
	bytes  []byte     // its payloads
	totals totals
}

// totals is what a pump has done.
type totals struct {
	ticks, bytes, reached int64
	late                  time.Duration // of the last tick
	took                  time.Duration
	blind                 bool // Redis does not say how many were reached
}

// run pumps until the source or the limit is at its end, or ctx is: then it
// returns why, after what was due has gone out.
func (p *pump) run(ctx context.Context) error {
	p.start = time.Now()
	for p.limit == 0 || p.totals.ticks+int64(len(p.ticks)) < p.limit {
		if err := ctx.Err(); err != nil {
			return firstOf(p.flush(ctx), err)
		}
		tick, err := p.from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return firstOf(p.flush(ctx), err)
		}
		if err := p.await(ctx, tick.At); err != nil {
			return err
		}
		p.add(tick.Topic, tick.Payload)
		if len(p.ticks) >= batchTicks || len(p.bytes) >= batchBytes {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	return p.flush(ctx)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits for a tick's time, and sends meanwhile what was due before.
func (p *pump) await(ctx context.Context, at time.Duration) error {
	if p.speed == 0 {
		return nil
	}
	due := p.start.Add(time.Duration(float64(at) / p.speed))
	wait := time.Until(due)
	if p.totals.late = max(-wait, 0); wait <= 0 {
		return nil
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add copies a tick to the batch.
func (p *pump) add(topic string, payload []byte) {
	begin := len(p.bytes)
	p.bytes = append(p.bytes, payload...) // what grows leaves earlier payloads where they were
	p.ticks = append(p.ticks, outgoing{topic, p.bytes[begin:len(p.bytes):len(p.bytes)]})
}

// flush publishes the batch, whole even if ctx has ended.
func (p *pump) flush(ctx context.Context) error {
	if len(p.ticks) > 0 {
		reached, err := p.to.publish(context.WithoutCancel(ctx), p.ticks)
		p.totals.reached += reached
		if err != nil {
			return err
		}
		p.totals.ticks += int64(len(p.ticks))
		p.totals.bytes += int64(len(p.bytes))
		p.ticks, p.bytes = p.ticks[:0], p.bytes[:0]
	}
	p.totals.took = time.Since(p.start)
	p.show(&p.totals)
	return nil
}

// String is the last line of a feed.
func (t *totals) String() string {
	s := fmt.Sprintf("published %d ticks, %s, in %s", t.ticks, size(t.bytes), short(t.took))
	if seconds := t.took.Seconds(); seconds > 0 && t.ticks > 1 {
		s += fmt.Sprintf(" (%.0f/s)", float64(t.ticks)/seconds)
	}
	if !t.blind {
		s += fmt.Sprintf("; %d deliveries to subscribers in Redis", t.reached)
	}
	if t.late > time.Second {
		s += fmt.Sprintf("; the last tick was %s late", short(t.late))
	}
	return s + "\n"
}

// progress returns what shows totals on a terminal, twice a second, on one line.
func (a *app) progress() func(*totals) {
	if !a.terminal(a.stderr) {
		return func(*totals) {}
	}
	var shown time.Time
	return func(t *totals) {
		if now := time.Now(); now.Sub(shown) >= 500*time.Millisecond {
			shown = now
			fmt.Fprintf(a.stderr, "\r\x1b[K%d ticks, %s\r", t.ticks, short(t.took))
		}
	}
}
