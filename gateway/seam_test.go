package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// memory is what a hub remembers: ticks first, first+1, … of a topic.
func memory(number uint32, m fanout.Memory, first uint64, payloads ...string) fanout.Memory {
	m.Topic = number
	for i, p := range payloads {
		seq := first + uint64(i)
		m.Ticks = append(m.Ticks, &fanout.Tick{Topic: number, Seq: seq, ReceivedUS: 5, Payload: []byte(p)})
	}
	return m
}

// said reads n events, without heartbeats, as text.
func said(t *testing.T, c *client.Conn, n int) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for len(all) < n {
		ev, err := c.Next(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		switch e := ev.(type) {
		case *client.Tick:
			all = append(all, fmt.Sprintf("tick %s %d %s", e.Topic, e.Seq, e.Payload))
		case *client.Snapshot:
			all = append(all, fmt.Sprintf("snapshot %s %d/%d %s %v", e.Topic, e.Epoch, e.Seq, e.Payload, e.Stale))
		case *client.Gap:
			all = append(all, fmt.Sprintf("gap %s %d-%d", e.Topic, e.From, e.To))
		case *client.Reset:
			all = append(all, fmt.Sprintf("reset %s %d", e.Topic, e.NextSeq))
		case *client.TopicsAdded:
			for _, s := range e.Topics {
				all = append(all, fmt.Sprintf("topic %s %d %v", s.Topic, s.NextSeq, s.Recovered))
			}
		}
	}
	return all
}

func wantSaid(t *testing.T, c *client.Conn, want ...string) {
	t.Helper()
	for i, got := range said(t, c, len(want)) {
		if got != want[i] {
			t.Errorf("event %d: got %s, want %s", i, got, want[i])
		}
	}
}

// What was comes first, then what comes, whether the filter is new on the loop or
// confirmed already.
func TestSeam(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.publish("a", []byte("1"), []byte("2"), []byte("3"))
	s.hub.publish("b", []byte("1"))
	var asked, got fanout.Recall
	s.hub.set(func(h *scriptedHub) {
		h.remember = func(r fanout.Recall) []fanout.Memory {
			asked = r
			return []fanout.Memory{
				memory(1, fanout.Memory{Epoch: 7, Recovered: true, Since: 1}, 2, "2", "3"),
				memory(2, fanout.Memory{Epoch: 6, Stale: true}, 9, "old"),
				memory(99, fanout.Memory{Epoch: 6}, 9, "of a topic that was forgotten meanwhile"),
			}
		}
	})
	for range 2 {
		c := s.dial(t)
		since := []client.Position{{Topic: "a", Epoch: 7, Seq: 1}, {Topic: "c", Epoch: 7, Seq: 1}}
		if _, err := c.SubscribeWith(t.Context(), client.SubscribeOptions{Since: since}, "a", "b"); err != nil {
			t.Fatal(err)
		}
		s.hub.publish("a", []byte("live"))
		wantSaid(t, c, "topic a 2 true", "topic b 2 false", "tick a 2 2", "tick a 3 3", "snapshot b 6/9 old true", "tick a 4 live")
		s.hub.set(func(h *scriptedHub) {
			h.topics["a"].NextSeq = 4
			got = asked
		})
		if len(got.Filters) != 2 || len(got.Since) != 1 || got.Since[0] != (fanout.Position{Topic: "a", Epoch: 7, Seq: 1}) {
			t.Errorf("asked %+v", got)
		}
	}
}

// Topics that a session follows already are left alone.
func TestOnlyNewTopicsGetTheirPast(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	s.hub.publish("a", []byte("1"))
	s.hub.publish("b", []byte("1"))
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	s.hub.set(func(h *scriptedHub) {
		h.remember = func(fanout.Recall) []fanout.Memory {
			return []fanout.Memory{memory(1, fanout.Memory{Epoch: 7}, 1, "no"), memory(2, fanout.Memory{Epoch: 7}, 1, "yes")}
		}
	})
	if _, err := c.Subscribe(t.Context(), "*"); err != nil {
		t.Fatal(err)
	}
	wantSaid(t, c, "topic a 2 false", "topic b 2 false", "snapshot b 7/1 yes false")
}

// A past that is larger than slow.queue does not end a client that takes its
// time; the next request waits for its end, and live ticks stay in order.
func TestLargePastForASlowClient(t *testing.T) {
	const topics, size = 400, 100_000
	s := start(t, func(o *gateway.Options) { o.Loops = 1; o.Slow.Queue = 1 << 20 })
	var all []fanout.Memory
	big := string(bytes.Repeat([]byte("x"), size))
	for i := range topics {
		s.hub.publish(fmt.Sprintf("a:%d", i), []byte("1"))
		all = append(all, memory(uint32(i+1), fanout.Memory{Epoch: 7}, 1, big))
	}
	s.hub.publish("b", []byte("1"))
	var recalls atomic.Int32
	s.hub.set(func(h *scriptedHub) {
		h.remember = func(r fanout.Recall) []fanout.Memory { recalls.Add(1); return all }
	})
	c := s.dial(t)
	sub := make(chan error, 2)
	subscribe := func(f string) { _, err := c.Subscribe(t.Context(), f); sub <- err }
	go subscribe("a:*")
	if err := <-sub; err != nil {
		t.Fatal(err)
	}
	s.hub.publish("a:0", []byte("live"))
	go subscribe("b")
	snapshots, live := 0, 0
	for live == 0 || len(sub) == 0 {
		switch ev, err := c.Next(t.Context()); e := ev.(type) {
		case *client.Snapshot:
			snapshots++
			if len(e.Payload) != size {
				t.Fatalf("%d bytes", len(e.Payload))
			}
		case *client.Tick:
			live++
			if snapshots != topics {
				t.Fatalf("live tick after %d of %d values", snapshots, topics)
			}
		default:
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-sub; err != nil || recalls.Load() != 2 {
		t.Errorf("second request: %v, %d recalls", err, recalls.Load())
	}
}

// A filter that the source takes back, or the client gives back, while the hub
// has been asked is not granted.
func TestFilterGoneBeforeTheAnswer(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	c := s.dial(t)
	s.hub.set(func(h *scriptedHub) {
		h.remember = func(r fanout.Recall) []fanout.Memory {
			for id, l := range h.loops { // in the place of the hub, before the answer
				if f := r.Filters[0]; f.String() == "md:a" {
					delete(h.held[id], f)
					l.Post([]fanout.Event{&fanout.Refused{Filter: f, Ticket: h.ticketOf[f], Err: errDenied}})
				}
			}
			return nil
		}
	})
	got, err := c.Subscribe(t.Context(), "md:a", "md:b")
	if err != nil || len(got.Filters) != 1 || got.Filters[0] != "md:b" || len(got.Refused) != 1 || got.Refused[0].Code != wire.CloseForbidden {
		t.Fatalf("%+v, %v", got, err)
	}
	s.hub.publish("md:b", []byte("1"))
	if got := nextTick(t, c); got.Topic != "md:b" {
		t.Errorf("tick of %s", got.Topic)
	}
	if n := s.hub.heldFilters(); n != 1 {
		t.Errorf("%d filters held", n)
	}
}

// A session that has gone is no concern of the answer.
func TestSessionGoneBeforeTheAnswer(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops = 1 })
	c := s.dial(t)
	var post func()
	s.hub.set(func(h *scriptedHub) { h.holdRecalls = func(f func()) { post = f } })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "asked", func() bool { s.hub.mu.Lock(); defer s.hub.mu.Unlock(); return post != nil })
		cancel()
	}()
	if _, err := c.Subscribe(ctx, "a"); err == nil {
		t.Fatal("granted without an answer")
	}
	_ = c.Close(context.Background())
	eventually(t, "connection gone", func() bool { return s.Stats().Connections == 0 })
	s.hub.set(func(h *scriptedHub) { post(); h.holdRecalls = nil })
	other := s.dial(t)
	if _, err := other.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}
