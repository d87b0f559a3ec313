package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/wire/topic"
)

// tailing is what `sealctl tail` was asked for.
type tailing struct {
	connection
	topics []string
	count  int64
	during time.Duration
	format string
}

// leaveWithin bounds the farewell at the end of a command.
const leaveWithin = time.Second

func (a *app) tail(ctx context.Context, args []string) error {
	t := &tailing{}
	f := newFlags("tail", "URL", "Connects to a gateway, subscribes, and prints what comes until it is interrupted.")
	t.declare(a, f, true)
	f.list(&t.topics, "topics", true, "`NAMES` or patterns, separated by commas: * is one segment, ** the rest; several are allowed (default **)")
	f.Int64Var(&t.count, "count", 0, "end after `N` ticks; 0 means never")
	f.DurationVar(&t.during, "for", 0, "end after this `TIME`; with --count, fail if the ticks did not come until then")
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
	var conn *client.Conn
	err = a.connect(&t.connection, f.Arg(0), func(opts client.Options) (err error) {
		conn, err = client.Dial(ctx, f.Arg(0), opts)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		_ = conn.Close(leave) // everything that was asked for has been said
	}()
	return t.run(ctx, conn, out)
}

func (t *tailing) check(f *flags) error {
	if len(t.topics) == 0 {
		if f.given("topics") {
			return misuse("--topics: no topic is named", "without --topics everything is shown")
		}
		t.topics = []string{"**"}
	}
	for _, s := range t.topics {
		if _, err := topic.ParseFilter(s); err != nil {
			return misuse("--topics: "+err.Error(), "")
		}
	}
	if t.count < 0 || t.during < 0 {
		return misuse("--count and --for cannot be negative", "")
	}
	return nil
}

// run subscribes and prints until what was asked for is there.
func (t *tailing) run(ctx context.Context, conn *client.Conn, out *printer) (err error) {
	if t.during > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.during)
		defer cancel()
	}
	defer func() { err = firstOf(err, out.flush()) }() // a failed write fails every later flush
	answer, err := conn.Subscribe(ctx, t.topics...)
	if errors.Is(err, context.DeadlineExceeded) {
		return failed(fmt.Errorf("the subscription was not confirmed within %v", t.during), "the gateway's source may be away: its /readyz says why")
	}
	if err != nil {
		return explainEnd(err)
	}
	for i := range answer.Refused {
		out.event(&answer.Refused[i])
	}
	ticks, err := t.print(ctx, conn, out)
	return t.verdict(ticks, err)
}

// print prints events until the count is reached or something ends it.
func (t *tailing) print(ctx context.Context, conn *client.Conn, out *printer) (ticks int64, err error) {
	for t.count == 0 || ticks < t.count {
		if !conn.Ready() {
			if err := out.flush(); err != nil {
				return ticks, err
			}
		}
		event, err := conn.Next(ctx)
		if err != nil {
			return ticks, err
		}
		if tick, ok := event.(*client.Tick); ok {
			ticks++
			err = out.tick(tick)
		} else {
			err = out.event(event)
		}
		if err != nil {
			return ticks, err
		}
	}
	return ticks, nil
}

// verdict says how a tail has ended: the end of the time is as good as the
// user's interruption, unless a count was asked for.
func (t *tailing) verdict(ticks int64, err error) error {
	over := errors.Is(err, context.DeadlineExceeded)
	hint := "is anything published on these topics?"
	if ticks > 0 {
		hint = "allow for more time with --for, or for fewer ticks with --count"
	}
	switch {
	case !over && !errors.Is(err, context.Canceled):
		return explainEnd(err)
	case t.count == 0:
		return nil
	case over:
		return failed(fmt.Errorf("%d of %d ticks came within %v", ticks, t.count, t.during), hint)
	default:
		return failed(fmt.Errorf("%w after %d of %d ticks", errInterrupted, ticks, t.count), "")
	}
}
