package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/loadgen"
)

// startSource says which Redis a gateway that is started reads ticks from, as
// settings for it, and starts one if a program for that is there: the built-in
// Redis would be counted as the gateway.
func (a *app) startSource(ctx context.Context, b *load, d *bed) ([]string, error) {
	if !b.ticks {
		return nil, nil
	}
	if b.redisGiven {
		options, _, err := b.redis.options()
		if err != nil {
			return nil, err
		}
		d.redis = options.Addr
		set := []string{"redis.mode=standalone", "redis.addrs=[" + options.Addr + "]"}
		if options.Password != "" {
			set = append(set, "redis.username="+options.Username, "redis.password="+options.Password)
		}
		return set, nil
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		a.note("no redis-server on PATH: ticks go through the gateway's built-in Redis, whose processor time counts as the gateway's")
		return nil, nil
	}
	if err := d.runRedis(ctx, program); err != nil {
		return nil, advice.Failed(err, "name a running one with --redis")
	}
	b.redis.text = d.redis
	return []string{"redis.mode=standalone", "redis.addrs=[" + d.redis + "]"}, nil
}

// runRedis starts a Redis without persistence on a free port.
func (d *bed) runRedis(ctx context.Context, program string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address) // always HOST:PORT
	l.Close()
	var said bytes.Buffer
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", "/tmp")
	cmd.Stdout, cmd.Stderr = &said, &said
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	d.stops = append(d.stops, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			c.Close()
			d.redis = address
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("redis-server: %w", err), ctx.Err())
		}
	}
}

// openSource connects the publisher.
func (a *app) openSource(ctx context.Context, b *load, d *bed) error {
	if !b.ticks {
		return nil
	}
	switch {
	case b.gw.start && !b.redisGiven && d.redis != "":
		b.redis.text = d.redis
	case !b.redisGiven && b.ticksOptional:
		return nil
	case !b.redisGiven:
		return advice.Misuse("bench "+b.scenario+": --redis is missing", "name the Redis that the gateway reads")
	}
	db, err := b.redis.open(ctx)
	if err != nil {
		return err
	}
	d.stops = append(d.stops, func() { db.Close() })
	d.env.Publish = &benchPublisher{to: publisher{db, route{mode: modePubSub}}}
	return nil
}

// benchPublisher hands ticks of a load test to the publisher of `sealctl feed`.
type benchPublisher struct {
	to    publisher
	ticks []outgoing
}

// Publish implements loadgen.Publisher.
func (p *benchPublisher) Publish(ctx context.Context, ticks []loadgen.Tick) error {
	p.ticks = p.ticks[:0]
	for _, t := range ticks {
		p.ticks = append(p.ticks, outgoing{topic: t.Topic, payload: t.Payload})
	}
	_, err := p.to.publish(ctx, p.ticks)
	return err
}
