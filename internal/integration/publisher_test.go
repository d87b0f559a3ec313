package integration

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/fanout"
)

// publisher publishes numbers as a careful publisher does: it finds the right
// server, sends nothing again, and remembers what may not have arrived.
type publisher struct {
	client redis.UniversalClient
	redis  fanout.Redis
	mu     sync.Mutex
	topics map[string]*published

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// published is what is known of a topic's ticks.
type published struct {
	last    int
	failed  map[int]bool // they may have arrived or not
	failing bool
	since   time.Time // when the first one was taken after the last that failed
}

// publishEvery is the time between two ticks of a topic.
const publishEvery = 4 * time.Millisecond

// publish publishes to topics until the end of the test.
func publish(t *testing.T, to fanout.Redis, topics []string) *publisher {
	to.DialTimeout = 200 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	p := &publisher{client: fanout.NewClient(to), redis: to, topics: make(map[string]*published), ctx: ctx, stop: stop}
	for _, name := range topics {
		p.topics[name] = &published{failed: make(map[int]bool)}
	}
	for _, name := range topics { // one each, so that a node that is away does not hold up the others' topics
		p.done.Go(func() {
			for p.ctx.Err() == nil {
				p.next(name)
				time.Sleep(publishEvery)
			}
		})
	}
	t.Cleanup(func() {
		p.stop()
		p.done.Wait()
		_ = p.client.Close()
	})
	return p
}

func (p *publisher) next(name string) {
	x := p.topics[name]
	p.mu.Lock()
	x.last++
	n := x.last
	x.failed[n] = true // until the answer is there
	p.mu.Unlock()
	err := p.send(name, strconv.Itoa(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(x.failed, n)
		if x.failing {
			x.since = time.Now()
		}
	}
	x.failing = err != nil
}

// send publishes one tick, through the one server that has its key or channel. The
// client of a cluster would send again what was not answered in time, and change
// the order.
func (p *publisher) send(name, payload string) error {
	to := redis.Cmdable(p.client)
	cluster, ok := p.client.(*redis.ClusterClient)
	if ok {
		node, err := cluster.MasterForKey(p.ctx, keyOf(p.redis, name))
		if err != nil {
			cluster.ReloadState(p.ctx)
			return err
		}
		to = node
	}
	err := p.sendBy(to, name, payload)
	if err != nil && ok {
		cluster.ReloadState(p.ctx)
	}
	return err
}

func (p *publisher) sendBy(to redis.Cmdable, name, payload string) error {
	switch p.redis.Source {
	case fanout.Streams:
		return to.XAdd(p.ctx, &redis.XAddArgs{Stream: keyOf(p.redis, name), Values: []string{"topic", name, "payload", payload}}).Err()
	case fanout.Sharded:
		return to.SPublish(p.ctx, name, payload).Err()
	default:
		return to.Publish(p.ctx, name, payload).Err()
	}
}

// keyOf is the key or channel that a topic's ticks come through.
func keyOf(r fanout.Redis, name string) string {
	if r.Source != fanout.Streams {
		return name
	}
	return r.Streams[slices.Index(failingTopics, name)%len(r.Streams)]
}

// taken tells whether a tick is known to have been taken by Redis.
func (p *publisher) taken(name string, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.topics[name].failed[n]
}

// lastOf is the last number of a topic.
func (p *publisher) lastOf(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[name].last
}

// since is when Redis began to take the topic's ticks without a failure.
func (p *publisher) since(name string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[name].since
}
