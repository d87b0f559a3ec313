package fanout

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// shardedSource listens to the sharded channels of a cluster: one connection to
// each master that has the slot of a wanted name. Losing a node costs the topics
// of its slots alone; a slot that moves costs its own.
type shardedSource struct {
	opt    Options
	queue  *queue
	status *status
	ctx    context.Context
	client redis.UniversalClient // for canaries
	nodes  sync.WaitGroup
	stale  chan struct{} // holds a value when the map of slots has to be read again

	mu     sync.Mutex
	random *rand.Rand
	slots  *slotMap
	shards map[string]*shard   // by the master's address
	places map[string]*placed  // subscriptions that the hub has, by name
	errant map[string]struct{} // those of them that no node has been asked for
}

// placed is a subscription of the hub: at a shard, or nowhere yet.
type placed struct {
	at        *shard
	confirmed bool
}

// shard is one master. Its goroutine ends when it holds no subscription and cannot
// be reached.
type shard struct {
	addr string
	link *link // nil: not connected; guarded by the source's mu
}

// shardedLink is the number of the one connection that the hub knows of.
const shardedLink = 1

func newShardedSource(opt Options, q *queue, st *status) *shardedSource {
	opt.Redis = opt.Redis.impatient()
	return &shardedSource{
		opt: opt, queue: q, status: st, random: newRandom(opt.Random), slots: new(slotMap), stale: make(chan struct{}, 1),
		shards: make(map[string]*shard), places: make(map[string]*placed), errant: make(map[string]struct{}),
	}
}

// run reads the map of slots whenever it is found to be wrong, until ctx ends.
func (s *shardedSource) run(ctx context.Context) {
	s.ctx = ctx
	s.client = NewClient(s.opt.Redis)
	defer s.client.Close()
	defer s.nodes.Wait()
	for failures, up := 0, false; ctx.Err() == nil; {
		m, err := s.opt.Redis.askCluster(ctx, s.known())
		switch {
		case err != nil:
			s.unreachable(plain(err), failures, up)
			failures++
		case !up:
			up = true
			s.begin(m)
		default:
			s.place(m)
		}
		if err == nil {
			failures = 0
		}
		s.rest(ctx, failures)
	}
}

// known lists the nodes to ask, those that were there lately first.
func (s *shardedSource) known() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return unique(append(s.slots.masters(), s.opt.Redis.now().Addrs...)...)
}

func (s *shardedSource) unreachable(err error, failures int, up bool) {
	if failures == 0 {
		s.opt.Log.Warn("redis cluster cannot be reached, trying again", zap.Error(err))
	}
	addr := s.opt.Redis.now().Addrs[0]
	if up {
		s.status.because(addr, err)
		return
	}
	s.status.down(addr, err)
	s.queue.put(item{kind: itemAway, note: &note{err: err}})
}

// rest waits until there is a reason to read the map again, but never asks faster
// than failures are retried.
func (s *shardedSource) rest(ctx context.Context, failures int) {
	s.mu.Lock()
	wait, errant := pause(&s.opt.Redis, s.random, failures), len(s.errant) > 0
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	if failures > 0 || errant {
		return
	}
	select {
	case <-ctx.Done():
	case <-s.stale:
	}
}

func (s *shardedSource) begin(m *slotMap) {
	s.mu.Lock()
	s.slots = m
	s.mu.Unlock()
	s.opt.Log.Info("redis cluster", zap.Strings("masters", m.masters()))
	s.status.connected(m.masters()[0], shardedLink)
	s.queue.put(item{kind: itemUp, note: &note{link: shardedLink}})
}

// place takes a new map and asks for what has no place yet.
func (s *shardedSource) place(m *slotMap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots = m
	for key := range s.errant {
		s.assign(key)
	}
}

// refresh makes run read the map of slots again.
func (s *shardedSource) refresh() {
	select {
	case s.stale <- struct{}{}:
	default:
	}
}

// send implements source.
func (s *shardedSource) send(_ uint64, orders []order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range orders {
		switch {
		case o.pattern:
			s.queue.put(item{kind: itemRefused, channel: o.key, note: &note{err: ErrPatterns}})
		case o.add:
			s.places[o.key] = new(placed)
			s.assign(o.key)
		default:
			s.giveBack(o)
		}
	}
}

// assign asks the master of the name's slot, now or as soon as it is connected.
// The caller holds mu.
func (s *shardedSource) assign(key string) {
	addr := s.slots[keySlot(key)]
	if addr == "" {
		s.stray(key)
		return
	}
	delete(s.errant, key)
	n := s.shards[addr]
	if n == nil {
		n = &shard{addr: addr}
		s.shards[addr] = n
		s.nodes.Go(func() { s.keep(n) })
	}
	s.places[key].at = n
	if n.link != nil {
		n.link.send([]order{{key: key, add: true}})
	}
}

// stray notes a name that no node is asked for. The caller holds mu.
func (s *shardedSource) stray(key string) {
	s.places[key].at, s.places[key].confirmed = nil, false
	s.errant[key] = struct{}{}
	s.refresh()
}

// giveBack ends a subscription that the hub no longer wants. The caller holds mu.
func (s *shardedSource) giveBack(o order) {
	p := s.places[o.key]
	if p != nil && p.confirmed && p.at.link != nil {
		p.at.link.send([]order{o})
		return
	}
	s.forget(o.key)
	s.queue.put(item{kind: itemRemoved, channel: o.key})
}

func (s *shardedSource) forget(key string) {
	delete(s.places, key)
	delete(s.errant, key)
}

// keep stays connected to a master for as long as subscriptions are placed there.
func (s *shardedSource) keep(n *shard) {
	for failures := 0; s.ctx.Err() == nil; {
		lived, err := s.serve(n)
		if s.ctx.Err() != nil {
			return
		}
		if failures++; lived {
			failures = 0
		}
		s.opt.Log.Warn("redis cluster node lost", zap.String("addr", n.addr), zap.Error(err))
		s.lose(n, err)
		s.mu.Lock()
		wait := pause(&s.opt.Redis, s.random, failures)
		s.mu.Unlock()
		select {
		case <-s.ctx.Done():
		case <-time.After(wait):
		}
		if s.idle(n) {
			return
		}
	}
}

// idle takes a master out that nothing has been placed at since it was lost.
func (s *shardedSource) idle(n *shard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		if p.at == n {
			return false
		}
	}
	delete(s.shards, n.addr)
	return true
}

// lose takes from the hub what it had from the master, and finds another place
// for what it has been promised.
func (s *shardedSource) lose(n *shard, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.link = nil
	s.status.because(n.addr, err)
	for key, p := range s.places {
		switch {
		case p.at != n:
		case p.confirmed:
			s.forget(key)
			s.queue.put(item{kind: itemRemoved, channel: key, note: &note{err: err, addr: n.addr}})
		default:
			s.stray(key)
		}
	}
	s.refresh()
}

// serve keeps one connection for as long as it lasts.
func (s *shardedSource) serve(n *shard) (lived bool, err error) {
	c := newCanary(s.opt.Redis.Canary, func(ctx context.Context, channel string) error {
		return s.client.SPublish(ctx, channel, "").Err()
	}, s.perch(n))
	c.seek = func() string { return s.seek(n) }
	l, err := dial(s.ctx, s.opt.Redis, n.addr, c)
	if err != nil {
		return false, plain(err)
	}
	defer l.close()
	s.mu.Lock()
	n.link = l
	for key, p := range s.places {
		if p.at == n {
			l.send([]order{{key: key, add: true}})
		}
	}
	s.mu.Unlock()
	s.opt.Log.Info("redis cluster node connected", zap.String("addr", n.addr))

	var wg sync.WaitGroup
	wg.Go(l.write)
	wg.Go(l.sing)
	l.fail(s.read(n, l))
	wg.Wait()
	return true, plain(l.failure())
}

// seek finds the canary another channel after a slot of the master has moved.
func (s *shardedSource) seek(n *shard) string {
	if m, err := s.opt.Redis.askNode(s.ctx, n.addr); err == nil {
		s.place(m)
	}
	channel := s.perch(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if channel != "" && n.link != nil {
		n.link.send([]order{{key: channel, add: true}})
	}
	return channel
}

// perch returns a channel of its own in a slot of the master, or "" if it has none.
func (s *shardedSource) perch(n *shard) string {
	s.mu.Lock()
	slots := s.slots
	s.mu.Unlock()
	for i := range 4 * slotCount {
		if tag := strconv.Itoa(i); slots[keySlot(tag)] == n.addr {
			return canaryChannel() + "{" + tag + "}"
		}
	}
	return ""
}

// read takes what a master says until the connection fails.
//
// out 1 — a message of Redis becomes an item of the queue.
func (s *shardedSource) read(n *shard, l *link) error {
	for {
		it, err := l.receive()
		switch {
		case err != nil:
			return err
		case it.message():
			s.opt.stamp(&it)
			s.queue.put(it)
		case own(it.channel): // its slot has moved
			l.canary.perch("")
		case it.kind != itemNothing:
			s.answer(n, it)
		}
	}
}

// answer passes on what a master says to a subscription.
func (s *shardedSource) answer(n *shard, it item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[it.channel]
	if p == nil || p.at != n {
		return // it has been placed elsewhere since
	}
	switch it.kind {
	case itemAdded:
		p.confirmed = true
	case itemAstray:
		s.stray(it.channel)
		return
	case itemRemoved: // asked for, or because the slot has moved
		s.forget(it.channel)
		s.refresh()
	default:
		s.forget(it.channel)
	}
	s.queue.put(it)
}
