package fanout

import (
	"context"
	cryptorand "crypto/rand"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// redisSource keeps one pub/sub connection to Redis and reads it.
type redisSource struct {
	opt    Options
	queue  *queue
	status *status

	// Owned by run.
	random *rand.Rand
	client redis.UniversalClient // for canaries
	nodes  []string              // Cluster: the masters that there were lately

	mu    sync.Mutex
	link  *link // nil: there is no connection
	links uint64
}

func newRedisSource(opt Options, q *queue, st *status) *redisSource {
	opt.Redis = opt.Redis.impatient()
	return &redisSource{opt: opt, queue: q, status: st, random: newRandom(opt.Random)}
}

// run connects, reads until the connection fails, waits and connects again.
func (s *redisSource) run(ctx context.Context) {
	s.client = NewClient(s.opt.Redis)
	defer s.client.Close()
	for turn, failures := 0, 0; ; {
		addrs := unique(append(s.nodes, s.opt.Redis.now().Addrs...)...)
		addr, lived, err := s.serve(ctx, addrs[turn%len(addrs)])
		if ctx.Err() != nil {
			return
		}
		s.status.down(addr, err)
		turn++ // a server that has just failed is the last to be asked
		if lived {
			failures = 0
			s.opt.Log.Warn("redis lost", zap.String("addr", addr), zap.Error(err))
		} else {
			failures++
			if failures == 1 {
				s.queue.put(item{kind: itemAway, note: &note{err: err}})
			}
			if failures <= len(addrs) { // what follows is in Ready
				s.opt.Log.Warn("redis cannot be reached, trying again", zap.String("addr", addr), zap.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause(&s.opt.Redis, s.random, failures)):
		}
	}
}

// pause doubles with every failure, and is spread over its upper half so that
// gateways do not come back all at once.
func pause(r *Redis, random *rand.Rand, failures int) time.Duration {
	p := r.RetryMax
	if doubled := r.RetryMin << min(failures, 20); doubled < p {
		p = doubled
	}
	return p/2 + time.Duration(random.Int64N(int64(p/2)+1))
}

func newRandom(from rand.Source) *rand.Rand {
	return rand.New(rand.NewPCG(from.Uint64(), from.Uint64()))
}

// serve keeps one connection for as long as it lasts; lived tells whether there
// was one. addr is the next of the settings, server where the connection led.
func (s *redisSource) serve(ctx context.Context, addr string) (server string, lived bool, err error) {
	if s.opt.Redis.Topology == Sentinel {
		if addr, err = s.opt.Redis.findMaster(ctx); err != nil {
			return "sentinel", false, plain(err)
		}
	}
	l, err := dial(ctx, s.opt.Redis, addr, newCanary(s.opt.Redis.Canary, s.herald(addr), canaryChannel()))
	if err != nil {
		return addr, false, plain(err)
	}
	defer l.close()
	s.learn(ctx, addr)
	s.begin(l, addr)
	s.opt.Log.Info("redis connected", zap.String("addr", addr))

	var wg sync.WaitGroup
	wg.Go(l.write)
	wg.Go(l.sing)
	if s.opt.Redis.Topology == Cluster {
		wg.Go(func() { newAttendants(s.opt, s.queue, l, addr).run(l.ctx) })
	}
	l.fail(s.read(l))
	wg.Wait()

	err = plain(l.failure())
	s.end(err)
	return addr, true, err
}

// canaryChannel makes a name that no other link uses.
func canaryChannel() string { return ownPrefix + "canary:" + cryptorand.Text() }

// herald publishes where a publisher would: at the master that sentinels name, or
// at the masters of a cluster other than the node that is listened to, so that
// the way between them is seen, too.
func (s *redisSource) herald(addr string) herald {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return func(ctx context.Context, channel string) error { return s.client.Publish(ctx, channel, "").Err() }
	}
	return func(ctx context.Context, channel string) error {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			if c.Options().Addr == addr {
				return nil
			}
			return c.Publish(ctx, channel, "").Err()
		})
	}
}

// learn asks a node of a cluster for the others, in case they are needed.
func (s *redisSource) learn(ctx context.Context, addr string) {
	if s.opt.Redis.Topology != Cluster {
		return
	}
	if m, err := s.opt.Redis.askNode(ctx, addr); err == nil {
		s.nodes = m.masters()
	}
}

func (s *redisSource) begin(l *link, addr string) {
	s.mu.Lock()
	s.links++
	number := s.links
	s.link = l
	s.mu.Unlock()
	s.status.connected(addr, number)
	s.queue.put(item{kind: itemUp, note: &note{link: number}})
}

func (s *redisSource) end(err error) {
	s.mu.Lock()
	s.link = nil
	s.mu.Unlock()
	s.queue.put(item{kind: itemDown, note: &note{err: err}})
}

// send implements source.
func (s *redisSource) send(number uint64, orders []order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil && s.links == number {
		s.link.send(orders)
	}
}

// read takes what Redis says until the connection fails. It never waits for the hub.
//
// out 1 — a message of Redis becomes an item of the queue.
func (s *redisSource) read(l *link) error {
	for {
		it, err := l.receive()
		switch {
		case err != nil:
			return err
		case it.message():
			s.opt.stamp(&it)
			s.queue.put(it)
		case it.kind != itemNothing:
			s.queue.put(it)
		}
	}
}

// stamp notes when a message has come, and lets go of what is too large.
func (o *Options) stamp(it *item) {
	it.received = o.Now().UnixMicro()
	if len(it.payload) > o.MaxTick {
		it.kind, it.payload = itemOversized, ""
	}
}
