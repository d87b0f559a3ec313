package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/wire/topic"
)

// tailing is what `sealctl tail` was asked for.
type tailing struct {
	connection
	topics   []string
	maxRate  float64
	maxAge   time.Duration
	count    int64
	during   time.Duration
	format   string
	stayAway bool // when the connection is lost

	// what has come so far
	ticks    int64
	accepted bool // a filter
	answered bool // every filter
}

// leaveWithin bounds the farewell at the end of a command.
const leaveWithin = time.Second

func (a *app) tail(ctx context.Context, args []string) error {
	t := &tailing{}
	f := newFlags("tail", "URL", "Connects to a gateway, subscribes, and prints what comes until it is interrupted. "+
		"When the connection is lost it\ncomes back, recovers what the gateway has kept, and says what is lost.")
	t.declare(a, f, true)
	f.list(&t.topics, "topics", true, "`NAMES` or patterns, separated by commas: * is one segment, ** the rest; several are allowed (default **)")
	f.Float64Var(&t.maxRate, "max-rate", 0, "at most `N` ticks a second of each topic, the newest ones; of topics that the gateway may merge (policy latest)")
	f.DurationVar(&t.maxAge, "max-age", 0, "no ticks older than this `TIME` when they are sent, unless nothing newer is known; of topics as for --max-rate")
	f.Int64Var(&t.count, "count", 0, "end after `N` ticks; 0 means never")
	f.DurationVar(&t.during, "for", 0, "end after this `TIME`; with --count, fail if the ticks did not come until then")
	f.BoolVar(&t.stayAway, "no-reconnect", false, "end when the connection does")
	f.StringVar(&t.format, "o", "text", "`FORMAT` of the output: text, json (one object a line) or raw (payloads alone)")
	if help, err := a.parse(f, args, 1, 1); help || err != nil {
		return err
	}
	out, err := newPrinter(t.format, a.stdout, a.stderr)
	if err != nil {
		return err
	}
	if err := t.check(f); err != nil {
		return err
	}
	var c *client.Client
	err = a.connect(&t.connection, f.Arg(0), func(opts client.Options) (err error) {
		c, err = client.Open(ctx, f.Arg(0), opts)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		_ = c.Close(leave) // everything that was asked for has been said
	}()
	return t.run(ctx, c, out)
}

func (t *tailing) check(f *flags) error {
	if len(t.topics) == 0 {
		if f.given("topics") {
			return advice.Misuse("--topics: no topic is named", "without --topics everything is shown")
		}
		t.topics = []string{"**"}
	}
	for _, s := range t.topics {
		if _, err := topic.ParseFilter(s); err != nil {
			return advice.Misuse("--topics: "+err.Error(), "names and patterns look like md:coinbase:BTC-USD:ticker, md:*:*:ticker or md:**")
		}
	}
	switch {
	case t.count < 0 || t.during < 0:
		return advice.Misuse("--count and --for cannot be negative", "leave them out to go on until interrupted")
	case t.maxRate < 0 || math.IsNaN(t.maxRate) || math.IsInf(t.maxRate, 0):
		return advice.Misuse(fmt.Sprintf("--max-rate: %v is no rate", t.maxRate), "for example 2, or 0.1 for a tick every ten seconds")
	case t.maxAge < 0 || t.maxAge > maxMaxAge:
		return advice.Misuse(fmt.Sprintf("--max-age: %v is not between 0 and %v", t.maxAge, maxMaxAge), "for example 500ms")
	}
	return nil
}

// maxMaxAge is far below what the protocol can say.
const maxMaxAge = 24 * time.Hour

// run subscribes and prints until what was asked for is there.
func (t *tailing) run(ctx context.Context, c *client.Client, out *printer) (err error) {
	if t.during > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.during)
		defer cancel()
	}
	defer func() { err = firstOf(err, out.flush()) }() // a failed write fails every later flush
	err = c.SubscribeWith(client.SubscribeOptions{MaxRate: t.maxRate, MaxAge: t.maxAge}, t.topics...)
	if err != nil {
		return explainEnd(err)
	}
	return t.verdict(t.print(ctx, c, out))
}

// print prints events until the count is reached or something ends it.
func (t *tailing) print(ctx context.Context, c *client.Client, out *printer) error {
	for t.count == 0 || t.ticks < t.count {
		if !c.Ready() {
			if err := out.flush(); err != nil {
				return err
			}
		}
		event, err := c.Next(ctx)
		if err != nil {
			return err
		}
		if tick, ok := event.(*client.Tick); ok {
			t.ticks++
			err = out.tick(tick)
		} else {
			err = firstOf(out.event(event), t.heed(event))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heed sees whether an event is a reason to end.
func (t *tailing) heed(e client.Event) error {
	switch e := e.(type) {
	case *client.Subscribed:
		t.accepted = t.accepted || len(e.Filters) > 0
		t.answered = true
		if !t.accepted {
			return refused(fmt.Errorf("%w: the gateway accepts none of the topics", client.ErrRequest), "ask the gateway's operator what is allowed")
		}
	case *client.Refused:
		if e.Filter == "" && !t.answered {
			return &client.RequestError{Code: e.Code, Text: e.Text}
		}
	case *client.Disconnected:
		if t.stayAway {
			return e.Err
		}
	}
	return nil
}

// verdict says how a tail has ended: the end of the time is as good as the
// user's interruption, unless a count was asked for.
func (t *tailing) verdict(err error) error {
	over := errors.Is(err, context.DeadlineExceeded)
	hint := "is anything published on these topics?"
	if t.ticks > 0 {
		hint = "allow for more time with --for, or for fewer ticks with --count"
	}
	switch {
	case !over && !errors.Is(err, context.Canceled):
		return explainEnd(err)
	case over && !t.answered:
		return advice.Failed(fmt.Errorf("the subscription was not confirmed within %v", t.during), "the gateway's source may be away: its /readyz says why")
	case t.count == 0:
		return nil
	case over:
		return advice.Failed(fmt.Errorf("%d of %d ticks came within %v", t.ticks, t.count, t.during), hint)
	default:
		return advice.Failed(fmt.Errorf("%w after %d of %d ticks", errInterrupted, t.ticks, t.count), "")
	}
}
