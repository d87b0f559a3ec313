package fanout

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

// publisher publishes numbers as a careful publisher does: it finds the right
// server, sends nothing again, and remembers what may not have arrived.
type publisher struct {
	client redis.UniversalClient
	send   func(ctx context.Context, topic, payload string) error

	mu     sync.Mutex
	last   map[string]int
	failed map[string]map[int]bool

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// publishThrough publishes to topics in turn until the end of the test.
func publishThrough(t *testing.T, opt Redis, every time.Duration, topics ...string) *publisher {
	opt.DialTimeout = 200 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	p := &publisher{client: NewClient(opt), last: make(map[string]int), failed: make(map[string]map[int]bool), ctx: ctx, stop: stop}
	p.send = func(ctx context.Context, topic, payload string) error {
		return p.through(ctx, topic, func(to redis.Cmdable) error {
			if opt.Source == Sharded {
				return to.SPublish(ctx, topic, payload).Err()
			}
			return to.Publish(ctx, topic, payload).Err()
		})
	}
	p.begin(every, topics...)
	t.Cleanup(func() {
		p.end()
		_ = p.client.Close()
	})
	return p
}

// through sends by the one server that has a key or channel. The client of a
// cluster would send again what was not answered in time, and change the order.
func (p *publisher) through(ctx context.Context, key string, send func(redis.Cmdable) error) error {
	cluster, ok := p.client.(*redis.ClusterClient)
	if !ok {
		return send(p.client)
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err == nil {
		err = send(node)
	}
	if err != nil {
		cluster.ReloadState(ctx)
	}
	return err
}

func (p *publisher) begin(every time.Duration, topics ...string) {
	for _, name := range topics {
		p.failed[name] = make(map[int]bool)
	}
	for _, name := range topics {
		p.done.Go(func() { // one each, so that a node that is away does not hold up the others' topics
			for p.ctx.Err() == nil {
				p.publish(p.ctx, name)
				time.Sleep(every)
			}
		})
	}
}

func (p *publisher) publish(ctx context.Context, name string) {
	p.mu.Lock()
	p.last[name]++
	n := p.last[name]
	p.failed[name][n] = true // until the answer is there
	p.mu.Unlock()
	if err := p.send(ctx, name, strconv.Itoa(n)); err == nil {
		p.mu.Lock()
		delete(p.failed[name], n)
		p.mu.Unlock()
	}
}

// excuses tells whether no tick from..to-1 of a topic is known to have arrived.
func (p *publisher) excuses(name string, from, to int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := from; n < to; n++ {
		if !p.failed[name][n] {
			return false
		}
	}
	return true
}

func (p *publisher) end() {
	p.stop()
	p.done.Wait()
}

// lastOf is the last number of a topic.
func (p *publisher) lastOf(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[name]
}

// flows waits until ticks come that have been published from now on.
func (l *liveLoop) flows(p *publisher, topics ...string) {
	l.t.Helper()
	for _, name := range topics {
		from := p.lastOf(name)
		eventually(l.t, "a new tick of "+name, func() bool { return l.topic(name).value > from })
	}
}

// resetsOf returns how often a topic was reset, and the last cause.
func (l *liveLoop) resetsOf(name string) (int, wire.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.topics[name]; s != nil {
		return s.resets, s.cause
	}
	return 0, 0
}

func withSource(opt Options, topology Topology, source Source) Options {
	opt.Redis.Topology, opt.Redis.Source, opt.Redis.Master = topology, source, redistest.MasterName
	opt.Redis.Canary = 500 * time.Millisecond
	return opt
}

// In every failure under load, whatever may have been lost is told by a Reset
// before the next tick, and nothing comes twice or out of order: liveLoop looks at
// every tick.
func TestSentinelFailures(t *testing.T) {
	t.Parallel()
	x := redistest.StartSentinels(t)
	opt := withSource(quick(x.Addrs()...), Sentinel, PubSub)
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("md:**", "name")
	l.confirmed("md:**", "name")
	p := publishThrough(t, opt.Redis, time.Millisecond, "md:a", "name")
	l.forgive(p)
	l.flows(p, "md:a", "name")
	failover := func(fail func(*redistest.Server)) *redistest.Server {
		before, _ := l.resetsOf("name")
		master := x.Master()
		fail(master)
		x.WaitFailover(master)
		l.flows(p, "md:a", "name")
		if n, cause := l.resetsOf("name"); n == before || cause != wire.Cause_CAUSE_SOURCE_LOST {
			t.Errorf("%d resets, %d before, cause %v", n, before, cause)
		}
		h.waitReady()
		return master
	}
	failover((*redistest.Server).Kill).Restart()
	if !long() {
		return
	}
	x.WaitReplicas()
	failover((*redistest.Server).Pause).Resume()
	x.WaitReplicas()
	l.flows(p, "md:a", "name")
}

func TestClusterFailures(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	t.Run("no patterns", func(t *testing.T) { shardedHasNoPatterns(t, c) })
	for name, source := range map[string]Source{"pubsub": PubSub, "sharded": Sharded} {
		t.Run(name, func(t *testing.T) {
			opt := withSource(quick(c.Nodes[0].Addr, c.Nodes[1].Addr), Cluster, source)
			h := startLive(t, opt)
			l := h.loop()
			topics := []string{"a", "b", "c", "d", "e"}
			l.acquire(topics...)
			l.confirmed(topics...)
			p := publishThrough(t, opt.Redis, time.Millisecond, topics...)
			l.forgive(p)
			l.flows(p, topics...)
			if source == Sharded {
				moveSlot(t, c, l, p)
			}
			lost := loseNode(t, c, h, l, p)
			lost.Restart()
			c.WaitComplete()
			l.flows(p, topics...)
		})
	}
}

// moveSlot gives a slot in use to another node: that costs its topic a reset, and
// the others nothing.
func moveSlot(t *testing.T, c *redistest.Cluster, l *liveLoop, p *publisher) {
	to := c.Nodes[0]
	if c.Owner("a") == to {
		to = c.Nodes[1]
	}
	c.MoveSlot("a", to)
	eventually(t, "a is reset", func() bool { n, _ := l.resetsOf("a"); return n > 0 })
	l.flows(p, "a", "b", "c", "d", "e")
	for _, name := range []string{"b", "c", "d", "e"} {
		if n, cause := l.resetsOf(name); n > 0 {
			t.Errorf("%s: %d resets, %v", name, n, cause)
		}
	}
}

// loseNode kills the node that has topic a. With sharded channels, topics of
// others' slots go on untouched.
func loseNode(t *testing.T, c *redistest.Cluster, h *live, l *liveLoop, p *publisher) *redistest.Server {
	topics := []string{"a", "b", "c", "d", "e"}
	victim := c.Owner("a")
	elsewhere, before := map[string]bool{}, map[string]int{}
	for _, name := range topics {
		before[name], _ = l.resetsOf(name)
		elsewhere[name] = c.Owner(name) != victim
	}
	victim.Kill()
	c.WaitOwnerNot("a", victim)
	c.WaitComplete()
	l.flows(p, topics...)
	h.waitReady()
	if h.opt.Redis.Source != Sharded {
		return victim
	}
	for _, name := range topics {
		n, cause := l.resetsOf(name)
		switch {
		case elsewhere[name] && n != before[name]:
			t.Errorf("%s was not there, but reset: %v", name, cause)
		case !elsewhere[name] && (n == before[name] || cause != wire.Cause_CAUSE_SOURCE_LOST):
			t.Errorf("%s: %d resets, %d before, %v", name, n, before[name], cause)
		}
	}
	return victim
}

// shardedHasNoPatterns: a pattern is refused, and a rule with one holds up nothing.
func shardedHasNoPatterns(t *testing.T, c *redistest.Cluster) {
	opt := withSource(quick(c.Nodes[0].Addr), Cluster, Sharded)
	opt.Rules = []Rule{{Match: filter("md:*"), Snapshot: true}}
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("md:**", "md:a")
	eventually(t, "refused", func() bool { return l.state("md:**") == "refused" })
	if l.refused == nil || l.refused != ErrPatterns {
		t.Errorf("refused: %v", l.refused)
	}
	l.confirmed("md:a")
	c.Owner("md:a").Do("SPUBLISH", "md:a", "1")
	l.seen("md:a", "1")
	h.waitReady()
}
