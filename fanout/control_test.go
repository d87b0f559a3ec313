package fanout

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire/topic"
)

// listener is a Peer that keeps what it hears, and a map that is made the same everywhere.
type listener struct {
	mu    sync.Mutex
	heard []string
	known map[string]string
	told  int // announcements
}

func (p *listener) Hear(m []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, string(m))
}

func (p *listener) Reconcile(stored map[string]string) (put map[string]string, drop []string, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	put = map[string]string{}
	for k, v := range stored {
		if v == "over" {
			drop = append(drop, k)
		} else if p.known[k] == "" {
			p.known[k] = v
		}
	}
	for k, v := range p.known {
		if stored[k] == "" {
			put[k] = v
		}
	}
	return put, drop, time.Now().Add(time.Hour)
}

func (p *listener) Announce() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told++
	return [][]byte{[]byte(fmt.Sprint("here ", p.told))}
}

func (p *listener) has(word string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.heard {
		if h == word {
			return true
		}
	}
	return false
}

func (p *listener) knows(want map[string]string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Equal(p.known, want)
}

func runControl(t *testing.T, r Redis) (*Control, *listener) {
	t.Helper()
	c, p := NewControl(r, "realm", zap.NewNop()), &listener{known: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx, p) }()
	t.Cleanup(func() { cancel(); <-ended })
	return c, p
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// TestControl goes through a word, a late gateway, a Redis that is lost and comes
// back empty, with no more rights in Redis than docs/operations.md lists.
func TestControl(t *testing.T) {
	server := redistest.Start(t, "--user", "default", "on", "nopass", "~*", "&*", "+@all",
		"--user", "gw", "on", ">pw", "~sealcast:control:*", "&sealcast:control:*", "-@all",
		"+subscribe", "+publish", "+ping", "+hlen", "+hgetall", "+hset", "+hdel", "+pexpireat")
	access := Redis{Addrs: []string{server.Addr}, Username: "gw", Password: "pw"}
	a, pa := runControl(t, access)
	b, pb := runControl(t, access)
	waitFor(t, "both", func() bool { return a.Stats().Connected && b.Stats().Connected })
	waitFor(t, "announcements", func() bool { return pa.has("here 1") && pb.has("here 1") })
	a.Tell([]byte("hello"))
	waitFor(t, "the word", func() bool { return pa.has("hello") && pb.has("hello") })

	pa.mu.Lock()
	pa.known["x"] = "1"
	pa.mu.Unlock()
	a.Sync()
	direct := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer direct.Close()
	waitFor(t, "kept", func() bool { return direct.HGet(t.Context(), "sealcast:control:realm", "x").Val() == "1" })
	if ttl := direct.PTTL(t.Context(), "sealcast:control:realm").Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("it ends in %v", ttl)
	}
	direct.HSet(t.Context(), "sealcast:control:realm", "old", "over")
	_, late := runControl(t, access)
	waitFor(t, "late", func() bool { return late.knows(map[string]string{"x": "1"}) })
	waitFor(t, "what is over goes", func() bool { return !direct.HExists(t.Context(), "sealcast:control:realm", "old").Val() })

	server.Kill()
	waitFor(t, "lost", func() bool { return !a.Stats().Connected })
	a.Tell([]byte("nobody hears this"))
	waitFor(t, "counted", func() bool { return a.Stats().Dropped > 0 })
	server.Restart()
	waitFor(t, "back", func() bool { return a.Stats().Connected && b.Stats().Connected })
	waitFor(t, "healed", func() bool { return direct.HGet(t.Context(), "sealcast:control:realm", "x").Val() == "1" })
	waitFor(t, "announced again", func() bool { return pb.has("here 2") })
}

// TestControlWithFewRights: a gateway that hears, but may not speak or not read
// what Redis keeps, counts as not connected, and as connected when it may.
func TestControlWithFewRights(t *testing.T) {
	server := redistest.Start(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	rights := func(more ...any) {
		t.Helper()
		rule := append([]any{"acl", "setuser", "gw", "reset", "on", ">pw", "~*", "&*", "-@all", "+subscribe", "+ping", "+hset", "+hdel", "+pexpireat"}, more...)
		if err := admin.Do(t.Context(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rights("+hlen", "+hgetall")
	c, p := runControl(t, Redis{Addrs: []string{server.Addr}, Username: "gw", Password: "pw"})
	waitFor(t, "announcement", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.told > 0 })
	waitFor(t, "no word", func() bool { return c.Stats().Dropped > 0 && c.up.Load() && !c.Stats().Connected })
	rights("+publish")
	c.Tell([]byte("hello"))
	waitFor(t, "a word, nothing read", func() bool { c.Sync(); return p.has("hello") && !c.Stats().Connected })
	rights("+publish", "+hlen", "+hgetall")
	waitFor(t, "all", func() bool { c.Sync(); return c.Stats().Connected })
}

// TestControlNeverBlocks: without Redis words are counted, not waited for.
func TestControlNeverBlocks(t *testing.T) {
	c := NewControl(Redis{Addrs: []string{"127.0.0.1:1"}}, "realm", zap.NewNop())
	for range controlQueue + 5 {
		c.Tell([]byte("x"))
		c.Sync()
	}
	if n := c.Stats().Dropped; n != 5 {
		t.Errorf("%d dropped", n)
	}
}

// TestControlIsNoTopic: no client can name the channel, nor get its words by a pattern.
func TestControlIsNoTopic(t *testing.T) {
	c := NewControl(Redis{}, "realm", zap.NewNop())
	if topic.ValidName(c.channel) == nil {
		t.Fatal("it is a topic's name")
	}
	if _, err := topic.ParseFilter(c.channel); err == nil {
		t.Fatal("it is a filter")
	}
	server := miniredis.RunT(t)
	hub := NewHub(Options{Redis: Redis{Addrs: []string{server.Addr()}}, WholeSource: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = hub.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	got := make(chan []Event, 100)
	id := hub.Attach(eventLoop(got))
	all, err := topic.ParseFilter("**")
	if err != nil {
		t.Fatal(err)
	}
	hub.Acquire(id, all)
	next := func() []Event {
		select {
		case events := <-got:
			return events
		case <-time.After(20 * time.Second):
			t.Fatal("nothing comes")
			return nil
		}
	}
	next() // confirmed
	server.Publish(c.channel, "word")
	server.Publish("md:a", "tick")
	for came := false; !came; {
		for _, e := range next() {
			if o, ok := e.(*Opened); ok && strings.Contains(o.Name, "control") {
				t.Errorf("%+v", o)
			}
			if tick, ok := e.(*Tick); ok {
				if came = true; string(tick.Payload) != "tick" {
					t.Errorf("%q reached a client", tick.Payload)
				}
			}
		}
	}
	if n := hub.Stats().Invalid; n != 1 {
		t.Errorf("%d words passed by", n)
	}
}

type eventLoop chan []Event

func (l eventLoop) Post(events []Event) { l <- events }
