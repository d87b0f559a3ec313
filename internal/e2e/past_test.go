package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
)

// keeping keeps a last value and a short history of all topics below a, and a long one of
// those below long.
const keeping = `topics=[{match: "a:**", snapshot: true, history: 10}, {match: "long:**", snapshot: true, history: 100000}]`

// past is a client that comes and goes.
type past struct {
	t     *testing.T
	g     *gateway
	conn  *client.Conn
	since []client.Position
}

// connect subscribes with what the last connection has left behind.
func (p *past) connect(filters ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	var err error
	if p.conn, err = client.Dial(ctx, p.g.url(), p.g.options()); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.conn.SubscribeWith(ctx, client.SubscribeOptions{Since: p.since}, filters...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) leave() {
	p.since = p.conn.Positions()
	_ = p.conn.Close(context.Background())
}

// expect wants these events next, with those topics that are told as recovered.
func (p *past) expect(want ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	for i := 0; i < len(want); {
		event, err := p.conn.Next(ctx)
		if err != nil {
			p.t.Fatalf("%v, want %s", err, want[i])
		}
		got := describe(event)
		if got == "" {
			continue
		}
		if got != want[i] {
			p.t.Fatalf("got %s, want %s", got, want[i])
		}
		i++
	}
}

func describe(event client.Event) string {
	switch e := event.(type) {
	case *client.Tick:
		return fmt.Sprintf("tick %s %s", e.Topic, e.Payload)
	case *client.Snapshot:
		return fmt.Sprintf("snapshot %s %s stale=%v", e.Topic, e.Payload, e.Stale)
	case *client.Gap:
		return fmt.Sprintf("gap %s of %d", e.Topic, e.To-e.From+1)
	case *client.Reset:
		return "reset " + e.Topic
	case *client.TopicsAdded:
		for _, s := range e.Topics {
			if s.Recovered {
				return "recovered " + s.Topic
			}
		}
	}
	return ""
}

// publish publishes numbers.
func publish(r *redistest.Server, topic string, from, to int) {
	c := r.Connect()
	defer c.Close()
	for i := from; i <= to; i++ {
		c.Publish(topic, strconv.Itoa(i))
	}
}

// Whoever comes late gets the last value, also the very first client; whoever comes
// back gets what it missed, or the truth and the last value.
func TestLastValueAndRecovery(t *testing.T) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, keeping, "loops=2"))
	publish(r, "a:x", 1, 3)
	publish(r, "other", 1, 1)

	p := &past{t: t, g: g}
	p.connect("a:x")
	p.expect("snapshot a:x 3 stale=false")
	publish(r, "a:x", 4, 5)
	p.expect("tick a:x 4", "tick a:x 5")
	p.leave()

	publish(r, "a:x", 6, 15) // as many as are kept
	p.connect("a:*")
	p.expect("recovered a:x")
	for i := 6; i <= 15; i++ {
		p.expect(fmt.Sprint("tick a:x ", i))
	}
	p.leave()

	p.connect("a:x") // nothing was missed
	publish(r, "a:x", 16, 16)
	p.expect("recovered a:x", "tick a:x 16")
	p.leave()

	publish(r, "a:x", 17, 27) // one more than is kept
	p.connect("a:x")
	p.expect("gap a:x of 11", "snapshot a:x 27 stale=false")
	publish(r, "a:x", 28, 28)
	p.expect("tick a:x 28")
	p.leave()

	out := start(t, "sealctl", []string{"tail", g.url(), "--key", g.pin().String(), "--topics", "a:x", "--for", "1s", "-o", "json"})
	if out.end() != 0 || !strings.Contains(out.stdout.String(), `{"event":"snapshot","topic":"a:x","epoch":`) ||
		!strings.Contains(out.stdout.String(), `"payload":"28"`) {
		t.Errorf("sealctl tail: %d\n%s%s", out.status, out.stdout.String(), out.stderr.String())
	}
}

// A value from before the loss of the source is marked stale until the next tick.
func TestStaleValue(t *testing.T) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, keeping))
	publish(r, "a:x", 1, 2)
	p := &past{t: t, g: g}
	p.connect("a:x")
	p.expect("snapshot a:x 2 stale=false")
	r.Kill()
	g.awaitReason("redis " + r.Addr + ": ")
	p.leave()
	r.Restart()
	g.awaitReady()
	late := &past{t: t, g: g}
	late.connect("a:x")
	late.expect("snapshot a:x 2 stale=true")
	p.connect("a:x")
	p.expect("reset a:x", "snapshot a:x 2 stale=true")
	publish(r, "a:x", 3, 3)
	p.expect("tick a:x 3")
	late.expect("tick a:x 3")
	late.leave()
	p.leave()
	late.since = nil
	late.connect("a:x")
	late.expect("snapshot a:x 3 stale=false")
	late.leave()
}

// Clients come and go all the time, leave at any point, and miss nothing and get
// nothing twice, while ticks flow.
func TestSeamUnderLoad(t *testing.T) {
	const topics, clients = 7, 6
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, keeping, "loops=2"))
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		c := r.Connect()
		defer c.Close()
		for i := 1; ctx.Err() == nil; i++ {
			for n := range topics {
				c.Publish(fmt.Sprint("long:", n), strconv.Itoa(i))
			}
		}
	})
	visits := make([]int, clients)
	ticks := make([]int, clients)
	for n := range clients {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			p := &past{t: t, g: g}
			last := map[string]int{}
			for ctx.Err() == nil {
				filters := []string{"long:**"}
				if n%2 == 0 {
					filters = []string{"long:0", "long:1", "long:2", "long:3", "long:4", "long:5", "long:6"}
				}
				p.connect(filters...)
				ticks[n] += p.read(ctx, 1+random.IntN(500), last)
				visits[n]++
				p.leave()
			}
		})
	}
	running.Wait()
	for n := range clients {
		if visits[n] < 3 || ticks[n] < 100 {
			t.Errorf("client %d: %d visits, %d ticks", n, visits[n], ticks[n])
		}
	}
	t.Logf("visits %v, ticks %v", visits, ticks)
}

// read reads so many ticks and holds each against the one before it of its topic.
func (p *past) read(ctx context.Context, n int, last map[string]int) (ticks int) {
	for ticks < n {
		event, err := p.conn.Next(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return ticks
		case err != nil:
			p.t.Error(err)
			return ticks
		}
		switch e := event.(type) {
		case *client.Gap, *client.Reset:
			p.t.Errorf("%s", describe(e))
		case *client.Snapshot:
			value, _ := strconv.Atoi(string(e.Payload))
			if last[e.Topic] != 0 || e.Stale {
				p.t.Errorf("%s after %d", describe(e), last[e.Topic])
			}
			last[e.Topic] = value
		case *client.Tick:
			value, _ := strconv.Atoi(string(e.Payload))
			if before := last[e.Topic]; before != 0 && value != before+1 {
				p.t.Errorf("%s after %d", describe(e), before)
			}
			last[e.Topic] = value
			ticks++
		}
	}
	return ticks
}
