package main

import (
	"context"
	"fmt"
	"io"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

func (a *app) publish(ctx context.Context, args []string) error {
	var s server
	var way route
	f := newFlags("publish", "TOPIC [PAYLOAD|-]", `Publishes one tick through Redis. The payload comes from standard input, to its end and byte for
byte, if it is - or not given. A payload that begins with - stands behind --.`)
	s.declare(a, f)
	way.declare(f)
	if help, err := a.parse(f, args, 1, 2); help || err != nil {
		return err
	}
	if err := way.check(f); err != nil {
		return err
	}
	if err := topic.ValidName(f.Arg(0)); err != nil {
		return advice.Misuse(err.Error(), "a topic to publish on is a name without *, such as md:coinbase:BTC-USD:ticker")
	}
	payload, err := a.payload(f)
	if err != nil {
		return err
	}
	db, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	to, err := way.publisher(db)
	if err != nil {
		return err
	}
	reached, err := to.publish(ctx, []outgoing{{f.Arg(0), payload}})
	if err != nil {
		return err
	}
	said := fmt.Sprintf("published %d bytes on %s", len(payload), f.Arg(0))
	if to.counts() {
		said += "; " + subscribers(reached)
	}
	if err := a.print(said + "\n"); err != nil {
		return err
	}
	if reached == 0 && to.counts() {
		a.note("nobody is subscribed: is the gateway connected to this Redis, and a client to this topic?")
	}
	return nil
}

// payload is the operand, or what standard input holds.
func (a *app) payload(f *flags) ([]byte, error) {
	if f.NArg() == 2 && f.Arg(1) != "-" {
		return checkPayload([]byte(f.Arg(1)))
	}
	if a.terminal(a.stdin) {
		a.note("type the payload, then Ctrl-D")
	}
	payload, err := io.ReadAll(io.LimitReader(a.stdin, wire.MaxTick+1))
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("standard input: %w", err), "")
	}
	return checkPayload(payload)
}

func checkPayload(payload []byte) ([]byte, error) {
	if len(payload) > wire.MaxTick {
		return nil, advice.Failed(fmt.Errorf("the payload is longer than %d bytes, which no gateway passes on", wire.MaxTick), "")
	}
	return payload, nil
}

// subscribers says how many connections to Redis a tick has reached. A gateway
// is one of them, however many clients it serves.
func subscribers(n int64) string {
	if n == 1 {
		return "1 subscriber in Redis"
	}
	return fmt.Sprintf("%d subscribers in Redis", n)
}
