package fanout

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

// redisSource keeps one pub/sub connection to Redis and reads it.
type redisSource struct {
	opt    Options
	queue  *queue
	status *status
	random *rand.Rand // owned by run

	mu    sync.Mutex
	link  *link // nil: there is no connection
	links uint64
}

func newRedisSource(opt Options, q *queue, st *status) *redisSource {
	seed := rand.NewPCG(opt.Random.Uint64(), opt.Random.Uint64())
	return &redisSource{opt: opt, queue: q, status: st, random: rand.New(seed)}
}

// run connects, reads until the connection fails, waits and connects again.
func (s *redisSource) run(ctx context.Context) {
	for turn, failures := 0, 0; ; {
		addrs := s.opt.Redis.now().Addrs
		addr, lived, err := s.serve(ctx, addrs[turn%len(addrs)])
		if ctx.Err() != nil {
			return
		}
		s.status.down(addr, err)
		if lived {
			failures = 0
			s.opt.Log.Warn("redis lost", zap.String("addr", addr), zap.Error(err))
		} else {
			turn++
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
		case <-time.After(s.pause(failures)):
		}
	}
}

// pause doubles with every failure, and is spread over its upper half so that
// gateways do not come back all at once.
func (s *redisSource) pause(failures int) time.Duration {
	p := s.opt.Redis.RetryMax
	if doubled := s.opt.Redis.RetryMin << min(failures, 20); doubled < p {
		p = doubled
	}
	return p/2 + time.Duration(s.random.Int64N(int64(p/2)+1))
}

// serve keeps one connection for as long as it lasts; lived tells whether there
// was one. addr is the next of the settings, server where the connection led.
func (s *redisSource) serve(ctx context.Context, addr string) (server string, lived bool, err error) {
	if s.opt.Redis.Topology == Sentinel {
		if addr, err = s.opt.Redis.findMaster(ctx); err != nil {
			return "sentinel", false, plain(err)
		}
	}
	l, err := dial(ctx, s.opt.Redis, addr)
	if err != nil {
		return addr, false, plain(err)
	}
	defer l.close()
	s.begin(l, addr)
	s.opt.Log.Info("redis connected", zap.String("addr", addr))

	var wg sync.WaitGroup
	wg.Go(l.write)
	l.fail(s.read(l))
	wg.Wait()

	err = plain(l.failure())
	s.end(err)
	return addr, true, err
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
			it.received = s.opt.Now().UnixMicro()
			if len(it.payload) > s.opt.MaxTick {
				it.kind, it.payload = itemOversized, ""
			}
			s.queue.put(it)
		case it.kind != itemNothing:
			s.queue.put(it)
		}
	}
}
