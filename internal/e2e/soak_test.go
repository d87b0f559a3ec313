package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
)

const (
	// soakGrowth is how much a gateway's memory may grow in soakPer.
	soakGrowth = 1 << 20
	soakPer    = 10 * time.Minute
	// soakJudged is from when on growth says something: below, the runtime's own
	// ups and downs are larger.
	soakJudged = 10 * time.Minute
	soakTopics = 20
)

// A mixed load for as long as SOAK says (`make soak`: 30m): clients that stay,
// clients that come and go, clients that pause, a Redis that is killed now and
// then. Every tick is accounted for at every client that stays or pauses: it came,
// it is told as merged or lost, or its topic was told to begin anew. Memory is that
// after forced collections, of the last third of the time against the first third
// behind a warm-up.
func TestSoak(t *testing.T) {
	length := 6 * time.Second
	if s := os.Getenv("SOAK"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	r := redistest.Start(t)
	g := serve(t, []string{"redis.mode=standalone", "redis.addrs=" + r.Addr, "admin.pprof=true", "slow.timeout=1m", uncompressed,
		`topics=[{match: "soak:latest:*", policy: latest}, {match: "soak:kept:*", policy: every, history: 100}, {match: "**", policy: every}]`})
	opts := crowdOptions(g)
	opts.Backoff = client.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	ctx, stop := context.WithCancel(t.Context()) // no deadline: a dial would see it before the context ends
	defer time.AfterFunc(length, stop).Stop()
	defer stop()
	l := &soakers{t: t, ctx: ctx, gateway: g, opts: opts}
	l.running.Go(func() { l.publish(r.Addr) })
	for i := range 20 {
		l.running.Go(func() { l.stay(i%4 == 3) })
	}
	for range 4 {
		l.running.Go(l.comeAndGo)
	}
	l.running.Go(func() { l.breakRedis(r, length/7) })
	samples := l.watchMemory(length / 30)
	l.running.Wait()
	t.Logf("%v: %d ticks published, %d received and accounted for, %d merged, %d told as lost, %d beginnings anew, %d short sessions",
		length, l.published.Load(), l.received.Load(), l.merged.Load(), l.lost.Load(), l.resets.Load(), l.visits.Load())
	if l.received.Load() == 0 || l.visits.Load() == 0 || l.resets.Load() == 0 {
		t.Error("nothing happened")
	}
	judgeGrowth(t, samples, length)
}

// soakers put load on a gateway until ctx ends.
type soakers struct {
	t       *testing.T
	ctx     context.Context
	gateway *gateway
	opts    client.Options
	running sync.WaitGroup

	tally
	published, visits atomic.Int64
}

// topicOf spreads numbers over topics of all kinds.
func topicOf(i int) string {
	return fmt.Sprintf("soak:%s:%d", []string{"latest", "kept", "plain"}[i%3], i%soakTopics)
}

// publish counts up in every topic. What Redis does not take counts too: it may
// have been sent on.
func (l *soakers) publish(addr string) {
	var next [3 * soakTopics]int
	pad := strings.Repeat("x", 200)
	var source *redistest.Conn
	for i := 0; l.ctx.Err() == nil; i = (i + 1) % len(next) {
		if source == nil {
			if source = redistest.TryDial(l.t, addr); source == nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
		}
		next[i]++
		if _, err := source.Try("PUBLISH", topicOf(i), strconv.Itoa(next[i])+" "+pad); err != nil {
			source.Close()
			source = nil
			continue
		}
		l.published.Add(1)
		time.Sleep(500 * time.Microsecond)
	}
	if source != nil {
		source.Close()
	}
}

// stay has a client that accounts for every tick; one that pauses reads nothing
// for seconds, again and again.
func (l *soakers) stay(pauses bool) {
	c, err := client.Open(l.ctx, l.gateway.url(), l.opts)
	if err != nil {
		if l.ctx.Err() == nil {
			l.t.Errorf("a client that stays: %v", err)
		}
		return
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.Subscribe("soak:**"); err != nil {
		l.t.Error(err)
		return
	}
	a := newAccount(&l.tally)
	for n := 1; ; n++ {
		event, err := c.Next(l.ctx)
		if err == nil {
			err = a.take(event)
		}
		if l.ctx.Err() != nil {
			return
		}
		if err != nil {
			l.t.Errorf("a tick that cannot be explained, or an end: %v", err)
			return
		}
		if pauses && n%5000 == 0 {
			select {
			case <-l.ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
	}
}

// comeAndGo has clients that stay for some ticks.
func (l *soakers) comeAndGo() {
	for l.ctx.Err() == nil {
		c, err := client.Dial(l.ctx, l.gateway.url(), l.opts)
		if err != nil {
			if l.ctx.Err() == nil {
				l.t.Errorf("a client that comes and goes: %v", err)
			}
			return
		}
		if _, err = c.Subscribe(l.ctx, "soak:plain:*"); err == nil {
			for range 50 {
				if _, err = c.Next(l.ctx); err != nil {
					break
				}
			}
		}
		_ = c.Close(context.Background())
		l.visits.Add(1)
	}
}

func (l *soakers) breakRedis(r *redistest.Server, every time.Duration) {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(every):
			r.Kill()
			time.Sleep(100 * time.Millisecond)
			r.Restart()
		}
	}
}

// watchMemory samples the gateway until the end.
func (l *soakers) watchMemory(every time.Duration) (samples []int) {
	for {
		select {
		case <-l.ctx.Done():
			return samples
		case <-time.After(every):
			l.gateway.get("/debug/pprof/heap?gc=1")
			l.gateway.get("/debug/pprof/heap?gc=1")
			samples = append(samples, int(l.gateway.metric("process_resident_memory_bytes")))
		}
	}
}

// judgeGrowth compares medians, so that a collection that has just not given back
// its memory yet is no growth.
func judgeGrowth(t *testing.T, samples []int, length time.Duration) {
	warm := samples[len(samples)/5:]
	if len(warm) < 3 {
		t.Fatalf("only %d samples of memory", len(samples))
	}
	third := len(warm) / 3
	early, late := median(warm[:third]), median(warm[len(warm)-third:])
	between := length * 4 / 5 * 2 / 3 // from the middle of the first third to that of the last
	growth := int(float64(late-early) * float64(soakPer) / float64(between))
	t.Logf("memory: %d KiB at first, %d KiB at last; %+d KiB in %v", early>>10, late>>10, growth>>10, soakPer)
	if length >= soakJudged && growth > soakGrowth {
		t.Errorf("memory grows by %d KiB in %v, at most %d are allowed", growth>>10, soakPer, soakGrowth>>10)
	}
}

func median(v []int) int {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
