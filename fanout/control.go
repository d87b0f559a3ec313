package fanout

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// controlPrefix begins the names of the channel and of the hash. The channel's
	// ends with a control character, which no topic's name may hold, so that
	// nobody can subscribe to it through a gateway, with whatever pattern.
	controlPrefix = "sealcast:control:"
	controlSuffix = "\x01"

	controlQueue   = 1024             // words that wait to be published
	controlRepair  = time.Minute      // between two looks at the hash that nobody asked for
	controlPing    = 10 * time.Second // silence after which a PING is sent, and another one that counts as loss
	controlEntries = 50_000           // in the hash; with more it is not read
)

// Peer is who speaks and listens on a Control. Its methods return soon; any
// goroutine may call them.
type Peer interface {
	// Hear takes what a gateway has told, possibly this one. Whoever may publish
	// to Redis can say anything here.
	Hear(message []byte)
	// Reconcile compares what Redis keeps with what is known here, and returns
	// what to write and what to remove there. until is when all of it is over.
	Reconcile(stored map[string]string) (put map[string]string, drop []string, until time.Time)
	// Announce returns what gateways have to hear that were not connected.
	Announce() [][]byte
}

// Control carries words between the gateways of one Redis and realm, and keeps a
// few of them for gateways that start later. It never looks into them. Pub/sub
// loses words; what must not be lost is kept in a hash, which is compared after
// every reconnection, on Sync, and every minute. Its methods are safe for
// concurrent use.
type Control struct {
	redis        Redis
	channel, key string
	log          *zap.Logger

	outbox  chan []byte
	wake    chan struct{}
	fresh   atomic.Bool // subscribed anew since the last announcement
	up      atomic.Bool // subscribed
	kept    atomic.Bool // the hash could be compared
	told    atomic.Bool // the last word could be published, or none was since it subscribed
	dropped atomic.Uint64

	mu      sync.Mutex
	trouble string // logged last
}

// NewControl makes the channel of a realm; Run opens it.
func NewControl(r Redis, realm string, log *zap.Logger) *Control {
	return &Control{redis: r.withDefaults(), channel: controlPrefix + realm + controlSuffix, key: controlPrefix + realm,
		log: log, outbox: make(chan []byte, controlQueue), wake: make(chan struct{}, 1)}
}

// Tell says something to every gateway that is connected. It never blocks: with
// a full queue, or without Redis, the word is lost and counted.
func (c *Control) Tell(message []byte) {
	select {
	case c.outbox <- message:
	default:
		c.dropped.Add(1)
	}
}

// Sync has what Redis keeps compared soon. It never blocks.
func (c *Control) Sync() {
	select {
	case c.wake <- struct{}{}:
	default: // it is going to be, and will see the same
	}
}

// ControlStats are counters since the start and the state now.
type ControlStats struct {
	Connected bool   // it hears, it could publish its last word, and what Redis keeps was compared
	Dropped   uint64 // words that were not published
}

// Stats is safe for concurrent use.
func (c *Control) Stats() ControlStats {
	return ControlStats{Connected: c.up.Load() && c.kept.Load() && c.told.Load(), Dropped: c.dropped.Load()}
}

// Run serves peer until ctx ends.
func (c *Control) Run(ctx context.Context, peer Peer) {
	client := NewClient(c.redis)
	defer client.Close()
	var wg sync.WaitGroup
	wg.Go(func() { c.write(ctx, client, peer) })
	c.read(ctx, client, peer)
	wg.Wait()
}

// read listens, and begins anew after every failure.
func (c *Control) read(ctx context.Context, client redis.UniversalClient, peer Peer) {
	for failures := 0; ctx.Err() == nil; failures++ {
		lived, err := c.listen(ctx, client, peer)
		c.up.Store(false)
		if lived {
			failures = 0
		}
		if cluster, ok := client.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // its hooks do not see subscriptions, and by itself it looks after ten seconds
		}
		if ctx.Err() == nil {
			c.note(err)
		}
		wait := min(c.redis.RetryMin<<min(failures, 20), c.redis.RetryMax)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// listen keeps one subscription for as long as it lasts.
func (c *Control) listen(ctx context.Context, client redis.UniversalClient, peer Peer) (lived bool, err error) {
	sub := client.Subscribe(ctx, c.channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	for pinged := false; ; {
		v, err := sub.ReceiveTimeout(ctx, controlPing)
		var network net.Error
		switch {
		case err != nil && !pinged && errors.As(err, &network) && network.Timeout():
			if err := sub.Ping(ctx); err != nil {
				return lived, err
			}
			pinged = true
			continue
		case err != nil:
			return lived, plain(err)
		}
		pinged = false
		switch v := v.(type) {
		case *redis.Message:
			peer.Hear([]byte(v.Payload))
		case *redis.Subscription:
			lived = true
			c.up.Store(true)
			c.told.Store(true)
			c.fresh.Store(true)
			c.Sync()
		}
	}
}

// write publishes, and compares the hash.
func (c *Control) write(ctx context.Context, client redis.UniversalClient, peer Peer) {
	repair := time.NewTicker(controlRepair)
	defer repair.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.outbox:
			c.publish(ctx, client, m)
			continue
		case <-c.wake:
		case <-repair.C:
		}
		err := c.reconcile(ctx, client, peer)
		c.kept.Store(err == nil)
		if err == nil && c.fresh.Swap(false) {
			for _, m := range peer.Announce() {
				c.publish(ctx, client, m)
			}
		}
		if ctx.Err() == nil && (err != nil || c.told.Load()) {
			c.note(err)
		}
	}
}

func (c *Control) publish(ctx context.Context, client redis.UniversalClient, message []byte) {
	err := client.Publish(ctx, c.channel, message).Err()
	c.told.Store(err == nil)
	if err != nil {
		c.dropped.Add(1)
	}
	if err != nil && c.up.Load() && ctx.Err() == nil { // else read says what is wrong
		c.note(plain(err))
	}
}

// reconcile makes the hash and the peer's list the same.
func (c *Control) reconcile(ctx context.Context, client redis.UniversalClient, peer Peer) error {
	n, err := client.HLen(ctx, c.key).Result()
	if err != nil {
		return plain(err)
	}
	if n > controlEntries {
		return fmt.Errorf("the hash %s holds %d entries, more than gateways write: delete it", c.key, n)
	}
	stored, err := client.HGetAll(ctx, c.key).Result()
	if err != nil {
		return plain(err)
	}
	put, drop, until := peer.Reconcile(stored)
	if len(put) == 0 && len(drop) == 0 {
		return nil
	}
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(drop) > 0 {
			p.HDel(ctx, c.key, drop...)
		}
		if len(put) > 0 {
			p.HSet(ctx, c.key, put)
		}
		if !until.IsZero() {
			p.PExpireAt(ctx, c.key, until)
		}
		return nil
	})
	return plain(err)
}

// QuietLibrary keeps the Redis library from printing by itself, for the whole
// process: what matters comes back as an error.
func QuietLibrary() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// note logs trouble once, until it changes.
func (c *Control) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.trouble {
		return
	}
	c.trouble = text
	if err == nil {
		c.log.Info("gateways hear each other", zap.String("key", c.key))
		return
	}
	c.log.Warn("gateways do not hear each other: revocations and logins hold on this one alone until they do", zap.String("key", c.key), zap.Error(err))
}
