package integration

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// witness is a client that holds all it is told against what was published. Payloads
// are numbers that grow by one within a topic. It reports each tick that comes
// twice, out of order, or behind one that is missing without a word, and that its
// connection has ended.
type witness struct {
	t    *testing.T
	name string
	p    *publisher

	filters []topic.Filter

	mu    sync.Mutex
	views map[string]*view
	stale map[string]bool // topics that it was told are without a source
	told  int             // how often it was told so of any
}

// view is what a witness knows of a topic.
type view struct {
	epoch, seq uint64
	value      int  // the highest number so far
	anew       bool // ticks may be missing before the next one, it was told
	came       map[int]bool
	resets     int
	cause      wire.Cause // of the last reset
}

// testify subscribes a client to filters until the end of the test.
func (s *system) testify(t *testing.T, p *publisher, name string, filters ...string) *witness {
	t.Helper()
	c, err := client.Dial(limited(t), "ws://"+s.addr+"/ws", s.options(suite.AES128GCM))
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{t: t, name: name, p: p, views: make(map[string]*view), stale: make(map[string]bool)}
	for _, text := range filters {
		f, err := topic.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		w.filters = append(w.filters, f)
	}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		if _, err := c.Subscribe(ctx, filters...); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		for {
			e, err := c.Next(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("%s: disconnected: %v", name, err)
				return
			}
			w.see(e)
		}
	})
	t.Cleanup(func() {
		stop()
		reading.Wait()
		_ = c.Close(context.Background())
	})
	return w
}

func (w *witness) see(e client.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := e.(type) {
	case *client.TopicsAdded:
		for _, s := range e.Topics {
			if w.views[s.Topic] == nil {
				w.views[s.Topic] = &view{epoch: s.Epoch, seq: s.NextSeq - 1, anew: true, came: make(map[int]bool)}
			}
		}
	case *client.Tick:
		w.tick(e)
	case *client.Gap:
		v := w.views[e.Topic]
		v.seq, v.anew = e.To, true
	case *client.Reset:
		v := w.views[e.Topic]
		v.epoch, v.seq, v.anew = e.Epoch, e.NextSeq-1, true
		v.resets++
		v.cause = e.Cause
	case *client.Notice:
		w.notice(e)
	}
}

func (w *witness) notice(e *client.Notice) {
	lost := e.Kind == wire.Notice_KIND_SOURCE_LOST
	if !lost && e.Kind != wire.Notice_KIND_SOURCE_BACK {
		return
	}
	topics := e.Topics
	if len(topics) == 0 {
		topics = failingTopics
	}
	if lost {
		w.told++
	}
	for _, name := range topics {
		w.stale[name] = lost
	}
}

func (w *witness) tick(e *client.Tick) {
	v := w.views[e.Topic]
	if v.epoch != e.Epoch || v.seq+1 != e.Seq {
		w.t.Errorf("%s: %s: after %d/%d comes %d/%d", w.name, e.Topic, v.epoch, v.seq, e.Epoch, e.Seq)
	}
	v.seq = e.Seq
	n, err := strconv.Atoi(string(e.Payload))
	switch {
	case err != nil: // no number, but large
		return
	case v.came[n]:
		w.t.Errorf("%s: %s: %d came twice", w.name, e.Topic, n)
	case n < v.value && w.p.taken(e.Topic, n): // what a publisher gave up may be late
		w.t.Errorf("%s: %s: %d after %d", w.name, e.Topic, n, v.value)
	}
	for missing := v.value + 1; missing < n && !v.anew; missing++ {
		if w.p.taken(e.Topic, missing) {
			w.t.Errorf("%s: %s: %d is missing without a word, after it comes %d", w.name, e.Topic, missing, n)
			break
		}
	}
	v.came[n], v.anew = true, false
	v.value = max(v.value, n)
}

// valueOf is the number of the topic's last tick.
func (w *witness) valueOf(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := w.views[name]; v != nil {
		return v.value
	}
	return 0
}

// follows tells whether the client's filters match a topic.
func (w *witness) follows(name string) bool {
	return slices.ContainsFunc(w.filters, func(f topic.Filter) bool { return f.Match(name) })
}

// resetsOf is how often a topic was reset, and why the last time.
func (w *witness) resetsOf(name string) (int, wire.Cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v := w.views[name]; v != nil {
		return v.resets, v.cause
	}
	return 0, 0
}

// isStale tells whether the client was told last that the topic has no source, and
// how often it was told so of any.
func (w *witness) isStale(name string) (bool, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stale[name], w.told
}
