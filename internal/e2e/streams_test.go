package e2e

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
)

// archive is a client that comes back, of two topics in two streams, and who adds to
// them. Payloads are numbers.
type archive struct {
	t     *testing.T
	redis *redistest.Server

	mu    sync.Mutex
	added map[string]map[int]bool // by topic: what Redis has confirmed
	next  map[string]int
	last  map[string]int // the client's
	holes int            // numbers that were confirmed and did not come
	told  int            // gaps and resets
}

// streamOf says where a topic is.
var streamOf = map[string]string{"md:a": "one", "md:b": "two"}

// TestStreamsOutliveKills: kill -9 of Redis, of the gateway, and of both, while
// entries are added: the client comes back by itself and misses nothing that Redis
// holds; of what Redis holds no longer it is told before the next tick.
func TestStreamsOutliveKills(t *testing.T) {
	t.Parallel() // waits most of the time
	key := filepath.Join(t.TempDir(), "gateway.key")
	start(t, "sealcast", []string{"keygen", "-o", key}).expect(0)
	a := &archive{t: t, redis: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always"),
		added: map[string]map[int]bool{"md:a": {}, "md:b": {}}, next: map[string]int{}, last: map[string]int{}}
	sets := fromRedis(a.redis, "redis.source=streams", "redis.streams=[one, two]", "key_file="+key)
	g := serve(t, sets)
	a.follow(g)
	a.flows()
	killGateway := func() {
		g.signal(syscall.SIGKILL)
		<-g.ended
	}
	killRedis := func() {
		a.redis.Kill()
		a.redis.Restart()
	}
	for _, round := range []struct {
		name string
		fail func()
	}{
		{"redis", killRedis},
		{"gateway", func() { killGateway(); a.add(100) }},
		{"both", func() { killGateway(); a.add(50); killRedis(); a.add(50) }},
	} {
		round.fail()
		if round.name != "redis" {
			g = again(t, g, sets)
		}
		a.flows()
		if holes, told := a.losses(); holes > 0 || told > 0 {
			t.Fatalf("%s: %d ticks are missing, %d gaps and resets", round.name, holes, told)
		}
	}
	killGateway()
	a.add(20)
	a.redis.Do("XTRIM", "one", "MAXLEN", "5")
	g = again(t, g, sets)
	a.flows()
	if holes, told := a.losses(); holes == 0 || told == 0 {
		t.Errorf("trimmed: %d ticks are missing, %d gaps and resets", holes, told)
	}
}

// losses are the ticks that did not come, and how often the client was told of some.
func (a *archive) losses() (holes, told int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.holes, a.told
}

// add adds so many entries for each topic. What is not confirmed may be there or not.
func (a *archive) add(n int) {
	c := redistest.TryDial(a.t, a.redis.Addr)
	if c == nil {
		return
	}
	defer c.Close()
	for range n {
		for topic, stream := range streamOf {
			a.mu.Lock()
			a.next[topic]++
			number := a.next[topic]
			a.mu.Unlock()
			if _, err := c.Try("XADD", stream, "*", "topic", topic, "payload", strconv.Itoa(number)); err != nil {
				return
			}
			a.mu.Lock()
			a.added[topic][number] = true
			a.mu.Unlock()
		}
	}
}

// follow connects the client, which stays until the end of the test.
func (a *archive) follow(g *gateway) {
	opts := g.options()
	opts.Backoff = client.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	c, err := client.Open(a.t.Context(), g.url(), opts)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := c.Subscribe("md:**"); err != nil {
		a.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			e, err := c.Next(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				a.t.Errorf("the client gives up: %v", err)
				return
			}
			a.see(e)
		}
	})
	a.t.Cleanup(func() {
		stop()
		reading.Wait()
		_ = c.Close(context.Background())
	})
}

func (a *archive) see(e client.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := e.(type) {
	case *client.Gap, *client.Reset:
		a.told++
	case *client.Tick:
		n, err := strconv.Atoi(string(e.Payload))
		last := a.last[e.Topic]
		if err != nil || n <= last {
			a.t.Errorf("%s: %q after %d", e.Topic, e.Payload, last)
		}
		for missing := last + 1; missing < n && last > 0; missing++ { // the first tick is wherever it is
			if a.added[e.Topic][missing] {
				if a.holes++; a.told == 0 {
					a.t.Errorf("%s: %d is missing without a word, after it comes %d", e.Topic, missing, n)
				}
			}
		}
		a.last[e.Topic] = n
	}
}

// flows adds entries until the client has some of them.
func (a *archive) flows() {
	a.t.Helper()
	a.mu.Lock()
	from := map[string]int{"md:a": a.next["md:a"], "md:b": a.next["md:b"]}
	a.mu.Unlock()
	eventually(a.t, patience, "new ticks", func() bool {
		a.add(1)
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.last["md:a"] > from["md:a"] && a.last["md:b"] > from["md:b"]
	})
}
