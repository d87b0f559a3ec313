package fanout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ownPrefix begins the channels that gateways use among themselves. It holds a
// '*', so that none of them can be a topic.
const ownPrefix = "sealcast:*:"

// own tells whether a channel carries no ticks.
func own(channel string) bool { return strings.HasPrefix(channel, ownPrefix) }

var errCanary = errors.New("connected, but messages do not come through")

// herald publishes on a channel, by another connection than the one that listens.
type herald func(ctx context.Context, channel string) error

// canary sends messages through Redis to its own link. What still answers PING
// may give no messages: a server that publishers no longer reach, a subscription
// that is half dead. The link is given up when neither a canary nor any other
// message has come for a while. Safe for concurrent use.
type canary struct {
	channel  atomic.Pointer[string] // nil: there is none to be had
	patience time.Duration          // within which a dead path shows
	publish  herald
	seek     func() string // subscribes to another channel; nil: the first one is always right
	waiting  atomic.Int64  // time.Time.UnixNano of the first canary that nothing came after; 0: none is out
	off      atomic.Bool   // the user may not publish or subscribe
}

func newCanary(patience time.Duration, publish herald, channel string) *canary {
	c := &canary{patience: patience, publish: publish}
	c.perch(channel)
	return c
}

// heard notes a message of any kind.
func (c *canary) heard() { c.waiting.Store(0) }

// perch moves the canary to another channel; "" is none.
func (c *canary) perch(channel string) {
	if channel == "" {
		c.channel.Store(nil)
	} else {
		c.channel.Store(&channel)
	}
	c.heard()
}

// run sends canaries until ctx ends or nothing comes any more.
func (c *canary) run(ctx context.Context) error {
	beat := time.NewTicker(c.patience / 4)
	defer beat.Stop()
	for !c.off.Load() {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		channel := c.channel.Load()
		if channel == nil {
			c.perch(c.seek())
			continue
		}
		c.waiting.CompareAndSwap(0, time.Now().UnixNano())
		c.send(ctx, *channel)
		if since := c.waiting.Load(); since != 0 && time.Since(time.Unix(0, since)) >= c.patience/2 {
			return fmt.Errorf("%w within %v", errCanary, c.patience)
		}
	}
	return nil
}

// send publishes one canary. One that does not get out does not come in, which run
// sees. An answer that refuses it says nothing about the way of messages.
func (c *canary) send(ctx context.Context, channel string) {
	ctx, cancel := context.WithTimeout(ctx, c.patience/2)
	defer cancel()
	var answer redis.Error
	if err := c.publish(ctx, channel); errors.As(err, &answer) {
		c.off.Store(denied(answer))
		c.heard()
	}
}

// denied tells whether an answer says that the user lacks a permission.
func denied(err redis.Error) bool { return strings.HasPrefix(err.Error(), "NOPERM") }
