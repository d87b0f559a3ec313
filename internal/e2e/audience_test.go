package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/wire"
)

// audience is clients that all must receive the same script: complete, byte for
// byte, in order in each topic, without a gap.
type audience struct {
	t       testing.TB
	members []*member
	running sync.WaitGroup
}

// member is one client of an audience.
type member struct {
	conn     *client.Conn
	merging  bool                // a tick may come as part of a later one
	merged   int64               // so many did
	want     map[string][]string // by topic, what is still to come
	seq      map[string]uint64   // by topic, of the tick before
	epoch    map[string]uint64   // by topic
	total    int64
	received atomic.Int64
	err      error
}

// gather connects n clients and subscribes them to the filters. What they have to
// receive is the script, of which nothing may have been published yet.
func gather(t testing.TB, url string, opts client.Options, n int, s script, filters ...string) *audience {
	t.Helper()
	return gatherAs(t, url, opts, n, s, false, filters...)
}

// gatherMerging is gather for topics whose policy is latest: each tick has to come,
// or to be covered by a later one of its topic, exactly once.
func gatherMerging(t testing.TB, url string, opts client.Options, n int, s script, filters ...string) *audience {
	t.Helper()
	return gatherAs(t, url, opts, n, s, true, filters...)
}

func gatherAs(t testing.TB, url string, opts client.Options, n int, s script, merging bool, filters ...string) *audience {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	t.Cleanup(cancel)
	a := &audience{t: t}
	for range n {
		conn, err := client.Dial(ctx, url, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		if _, err := conn.Subscribe(ctx, filters...); err != nil {
			t.Fatal(err)
		}
		a.members = append(a.members, &member{
			conn: conn, merging: merging, want: s.byTopic(), seq: map[string]uint64{}, epoch: map[string]uint64{}, total: int64(len(s)),
		})
	}
	for _, m := range a.members {
		a.running.Go(func() { m.err = m.receive(ctx) })
	}
	return a
}

// receive takes the script, and then makes sure that nothing follows.
func (m *member) receive(ctx context.Context) error {
	for m.received.Load() < m.total {
		if err := m.next(ctx); err != nil {
			return fmt.Errorf("after %d of %d ticks: %w", m.received.Load(), m.total, err)
		}
	}
	if _, err := m.conn.Ping(ctx); err != nil {
		return err
	}
	for m.conn.Ready() {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := m.next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil // what was ready was a cursor, which is no event
		}
		if err != nil {
			return fmt.Errorf("after the last tick: %w", err)
		}
	}
	return nil
}

// next takes one event and judges it.
func (m *member) next(ctx context.Context) error {
	event, err := m.conn.Next(ctx)
	if err != nil {
		return err
	}
	switch e := event.(type) {
	case *client.Tick:
		return m.judge(e)
	case *client.TopicsAdded:
		for _, s := range e.Topics {
			m.seq[s.Topic], m.epoch[s.Topic] = s.NextSeq-1, s.Epoch
		}
	case *client.Heartbeat:
	case *client.Notice:
		slow := e.Kind == wire.Notice_KIND_SLOW || e.Kind == wire.Notice_KIND_CAUGHT_UP
		if !slow || e.Dropped > 0 || e.Merged > 0 && !m.merging { // late is no loss: a busy machine makes clients slow
			return fmt.Errorf("notice %+v", e)
		}
	default:
		return fmt.Errorf("event %T %+v", e, e)
	}
	return nil
}

func (m *member) judge(t *client.Tick) error {
	rest, merged := m.want[t.Topic], int(t.Merged)
	switch {
	case len(rest) <= merged:
		return fmt.Errorf("tick %d of %q is too many: %d more were to come, it covers %d", t.Seq, t.Topic, len(rest), merged+1)
	case string(t.Payload) != rest[merged]:
		return fmt.Errorf("tick %d of %q: %d bytes %.80q, want %d bytes %.80q", t.Seq, t.Topic, len(t.Payload), t.Payload, len(rest[merged]), rest[merged])
	case t.Seq != m.seq[t.Topic]+1+t.Merged || t.Epoch != m.epoch[t.Topic] || t.Skipped < t.Merged || t.Skipped > 0 && !m.merging:
		return fmt.Errorf("tick %d of %q after %d: epoch %d and %d, skipped %d, merged %d",
			t.Seq, t.Topic, m.seq[t.Topic], t.Epoch, m.epoch[t.Topic], t.Skipped, t.Merged)
	}
	m.want[t.Topic], m.seq[t.Topic] = rest[merged+1:], t.Seq
	m.merged += int64(merged)
	m.received.Add(int64(merged) + 1)
	return nil
}

// judgeLine is judge for a line of `sealctl tail`, whose first tick of a topic is its first of all.
func (m *member) judgeLine(l jsonLine) error {
	if l.Event != "" {
		return fmt.Errorf("event %+v", l)
	}
	if m.epoch[l.Topic] == 0 {
		m.epoch[l.Topic] = l.Epoch
	}
	return m.judge(&client.Tick{
		Topic: l.Topic, Epoch: l.Epoch, Seq: l.Seq, Skipped: l.Skipped, Merged: l.Merged, Payload: []byte(l.payload()),
	})
}

// await returns once every member has received so many ticks, or has failed.
func (a *audience) await(n int) {
	a.t.Helper()
	ended := make(chan struct{})
	go func() { a.running.Wait(); close(ended) }()
	eventually(a.t, 4*patience, fmt.Sprintf("%d ticks at each client", n), func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		for _, m := range a.members {
			if m.received.Load() < int64(n) {
				return false
			}
		}
		return true
	})
}

// verdict waits for the end of the script and fails the test if any member is
// not content.
func (a *audience) verdict() {
	a.t.Helper()
	a.running.Wait()
	for i, m := range a.members {
		if m.err != nil {
			a.t.Errorf("client %d: %v", i, m.err)
		}
	}
}
