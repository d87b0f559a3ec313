package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

// Redis is away when the gateway starts: it stays up, says why it is not ready,
// takes clients, and goes on by itself.
func TestRedisAwayAtStart(t *testing.T) {
	t.Parallel() // waits most of the time, as the next but one
	r := redistest.Reserve(t)
	g := launch(t, fromRedis(r))
	eventually(t, patience, "the admin interface", func() bool { return g.get("/healthz").status == http.StatusOK })
	g.awaitReason("redis " + r.Addr + ": ")
	if reason := g.get("/readyz").body; !strings.Contains(reason, "connection refused") {
		t.Errorf("readyz does not say why: %q", reason)
	}

	w := watch(t, g, "early")
	time.Sleep(2 * time.Second) // attempts to connect are rare by now
	r.Restart()
	came := time.Now()
	w.awaitTick(r, "first", 2*time.Second)
	t.Logf("the first tick came %v after Redis", time.Since(came))
	g.awaitReady()
	if h := g.get("/healthz"); h.status != http.StatusOK {
		t.Errorf("healthz: %+v", h)
	}
}

// Redis is killed and comes back: clients stay connected, ticks flow again within
// two seconds, and a Reset precedes them.
func TestRedisLost(t *testing.T) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "loops=2"))
	w := watch(t, g, "known", "**")
	w.awaitTick(r, "before", patience)
	for round := range 3 {
		r.Kill()
		g.awaitReason("redis " + r.Addr + ": ")
		if h := g.get("/healthz"); h.status != http.StatusOK {
			t.Errorf("healthz while Redis is away: %+v", h)
		}
		r.Restart()
		back := time.Now()
		w.resets = nil
		w.awaitTick(r, fmt.Sprintf("after %d", round), 2*time.Second)
		t.Logf("ticks flowed %v after Redis was back", time.Since(back))
		if len(w.resets) == 0 || w.resets[0].Topic != "known" || w.resets[0].Cause != wire.Cause_CAUSE_SOURCE_LOST {
			t.Errorf("resets before the tick: %+v", w.resets)
		}
		g.awaitReady()
	}
	if w.gaps > 0 {
		t.Errorf("%d gaps; what was lost belongs to a reset", w.gaps)
	}
}

// Redis hangs: connections stay open, and nothing answers.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	g := serve(t, fromRedis(r))
	w := watch(t, g, "known")
	w.awaitTick(r, "before", patience)
	r.Pause()
	g.awaitReason("redis " + r.Addr + ": ")
	r.Resume()
	w.awaitTick(r, "after", patience)
	g.awaitReady()
}

// awaitReason waits until the gateway is not ready, for this reason among others.
func (g *gateway) awaitReason(text string) {
	g.t.Helper()
	var last answer
	eventually(g.t, patience, "not ready: "+text, func() bool {
		last = g.get("/readyz")
		return last.status == http.StatusServiceUnavailable && strings.Contains(last.body, text)
	})
	g.t.Logf("readyz: %s", strings.TrimSpace(last.body))
}

// watcher is a client that notes what it sees of one topic.
type watcher struct {
	t      *testing.T
	topic  string
	events chan client.Event
	resets []*client.Reset
	gaps   int
}

// watch subscribes a client to the topic, or to the filters instead, in the
// background: the source may be away.
func watch(t *testing.T, g *gateway, topic string, filters ...string) *watcher {
	t.Helper()
	conn, err := client.Dial(t.Context(), g.url(), g.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	w := &watcher{t: t, topic: topic, events: make(chan client.Event, 1000)}
	go func() {
		defer close(w.events)
		if _, err := conn.Subscribe(t.Context(), append(filters, topic)...); err != nil {
			return
		}
		for {
			event, err := conn.Next(t.Context())
			if err != nil {
				return
			}
			if tick, ok := event.(*client.Tick); ok {
				event = tick.Clone()
			}
			w.events <- event
		}
	}()
	return w
}

// awaitTick publishes the payload until it arrives. Ticks without a subscriber
// at the source are nobody's, so the first ones may get lost.
func (w *watcher) awaitTick(r *redistest.Server, payload string, within time.Duration) {
	w.t.Helper()
	c := r.Connect()
	defer c.Close()
	w.await(func() { c.Publish(w.topic, payload) }, payload, within)
}

// await publishes until the payload arrives.
func (w *watcher) await(publish func(), payload string, within time.Duration) {
	w.t.Helper()
	limit := time.After(within)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case event, ok := <-w.events:
			if !ok {
				w.t.Fatal("the client's connection has ended")
			}
			if w.note(event, payload) {
				return
			}
		case <-again.C:
			publish()
		case <-limit:
			w.t.Fatalf("no tick within %v", within)
		}
	}
}

// note reports whether the event is the tick.
func (w *watcher) note(event client.Event, payload string) bool {
	switch e := event.(type) {
	case *client.Reset:
		w.resets = append(w.resets, e)
	case *client.Gap:
		w.gaps++
	case *client.Tick:
		return string(e.Payload) == payload
	}
	return false
}
