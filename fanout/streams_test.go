package fanout

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

func fromStreams(opt Options, topology Topology, streams ...string) Options {
	opt = withSource(opt, topology, Streams)
	opt.Redis.Streams = streams
	return opt
}

// Durable is a server that keeps what it has said it took.
func startDurable(t *testing.T) *redistest.Server {
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
}

func add(c *redistest.Conn, stream, name, payload string) {
	c.Do("XADD", stream, "*", "topic", name, "payload", payload)
}

// Entries that were trimmed before the gateway read them are told, and so is a
// stream that has been replaced.
func TestStreamsTellWhatIsGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opt := fromStreams(quick(s.Addr), Standalone, "ticks")
	c := s.Connect()
	add(c, "ticks", "a", "before the gateway")
	h := startLive(t, opt)
	h.waitReady()
	l := h.loop()
	l.acquire("a")
	l.confirmed("a")
	add(c, "ticks", "a", "1")
	l.seen("a", "1")
	c.Do("XADD", "ticks", "MAXLEN", "1", "*", "topic", "a", "payload", "2") // trims what has been read: no loss
	l.seen("a", "2")
	if n, _ := l.resetCount(); n != 0 {
		t.Errorf("%d resets after a trim of what was read", n)
	}
	c.Do("MULTI")
	for n := 3; n < 10; n++ {
		add(c, "ticks", "a", strconv.Itoa(n))
	}
	c.Do("XTRIM", "ticks", "MAXLEN", "2")
	c.Do("EXEC")
	l.seen("a", "9")
	if n, cause := l.resetCount(); n != 1 || cause != wire.Cause_CAUSE_EXPIRED {
		t.Errorf("%d resets, %v", n, cause)
	}
	c.Do("DEL", "ticks")
	add(c, "ticks", "a", "10")
	l.seen("a", "10")
	if n, cause := l.resetCount(); n != 2 || cause != wire.Cause_CAUSE_SOURCE_LOST {
		t.Errorf("%d resets, %v", n, cause)
	}
	c.Do("XADD", "ticks", "*", "nothing", "of ours")
	c.Do("XADD", "ticks", "*", "topic", "a", "payload", strings.Repeat("x", 2<<20))
	add(c, "ticks", "a", "11")
	l.seen("a", "11")
	if n, cause := l.resetCount(); n != 3 || cause != wire.Cause_CAUSE_OVERSIZED || h.Stats().Invalid != 1 {
		t.Errorf("%d resets, %v, stats %+v", n, cause, h.Stats())
	}
}

// A burst beyond the queue waits in Redis.
func TestStreamsWaitForRoom(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opt := fromStreams(quick(s.Addr), Standalone, "ticks")
	opt.QueueTicks = 10
	h := startLive(t, opt)
	h.waitReady()
	l := h.loop()
	l.acquire("a")
	l.confirmed("a")
	hold := make(chan struct{})
	l.mu.Lock()
	l.hold = hold
	l.mu.Unlock()
	c := s.Connect()
	for n := 1; n <= 2000; n++ {
		add(c, "ticks", "a", strconv.Itoa(n))
	}
	l.mu.Lock()
	l.hold = nil
	l.mu.Unlock()
	close(hold)
	l.seen("a", "2000")
	if n, _ := l.resetCount(); n != 0 || h.Stats().Dropped != 0 || l.topic("a").ticks != 2000 {
		t.Errorf("%d resets, %d ticks, stats %+v", n, l.topic("a").ticks, h.Stats())
	}
}

// asker is a loop that keeps Recalled and Marks, and the ticks behind a Recalled.
type asker struct {
	events chan Event
}

func (a *asker) Post(events []Event) {
	for _, e := range events {
		a.events <- e
	}
}

// goOn asks a hub for all that came behind a cursor, in topics of a filter, until
// the last payloads have come. It returns the payloads by topic, and the cursor behind them.
func goOn(t *testing.T, h *live, f string, cursor []byte, last ...string) (got map[string][]string, behind []byte, recovered bool) {
	t.Helper()
	a := &asker{events: make(chan Event, 100_000)}
	id := h.Attach(a)
	h.Acquire(id, filter(f))
	got, names, next := make(map[string][]string), make(map[uint32]string), make(map[uint32]uint64)
	learn := func(s TopicState) { names[s.Number] = s.Name }
	granted := false
	take := func(tick *Tick) {
		if n, known := next[tick.Topic]; known && n != tick.Seq {
			t.Errorf("%s: seq %d, expected %d", names[tick.Topic], tick.Seq, n)
		}
		next[tick.Topic] = tick.Seq + 1
		got[names[tick.Topic]] = append(got[names[tick.Topic]], string(tick.Payload))
	}
	over := func() bool {
		all := slices.Concat(slices.Collect(maps.Values(got))...)
		return !slices.ContainsFunc(last, func(payload string) bool { return !slices.Contains(all, payload) })
	}
	for timeout := time.After(patience); ; {
		select {
		case <-timeout:
			t.Fatalf("%q never came; %v", last, got)
		case e := <-a.events:
			switch e := e.(type) {
			case *Confirmed:
				for _, s := range e.Topics {
					learn(s)
				}
				h.Recall(id, Recall{Filters: []topic.Filter{filter(f)}, Cursor: cursor})
			case *Opened:
				learn(e.TopicState)
			case *Recalled:
				granted, recovered, behind = true, len(e.Memories) > 0, e.Cursor
				for _, m := range e.Memories {
					recovered = recovered && m.Recovered
					next[m.Topic] = m.Since + 1
					for _, tick := range m.Ticks {
						take(tick)
					}
				}
			case *Tick:
				if granted {
					take(e)
				}
			case *Mark:
				behind = e.Cursor
			}
			_, inside := e.(*Tick) // its Mark is yet to come
			if granted && !inside && over() {
				return got, behind, recovered
			}
		}
	}
}

// A client goes from gateway to gateway, and through restarts of Redis, with
// nothing but a cursor: nothing is missing, nothing double.
func TestCursorGoesOnAnywhere(t *testing.T) {
	t.Parallel()
	s := startDurable(t)
	opt := fromStreams(quick(s.Addr), Standalone, "one", "two")
	c := s.Connect()
	want := map[string][]string{}
	n := 0
	publish := func(times int) {
		for range times {
			n++
			name := []string{"a", "b", "c"}[n%3]
			add(c, opt.Redis.Streams[n%3%2], name, fmt.Sprint(n))
			want[name] = append(want[name], fmt.Sprint(n))
		}
	}
	h := startLive(t, opt)
	h.waitReady()
	add(c, "one", "a", "1")
	_, cursor, _ := goOnFrom(t, h, "**", func() { add(s.Connect(), "one", "a", "2") })
	for round := range 4 {
		want = map[string][]string{}
		publish(700) // while the client is away
		if round == 2 {
			s.Kill()
			s.Restart()
			c = s.Connect()
		}
		if round > 0 {
			h = startLive(t, opt)
			h.waitReady()
		}
		publish(100) // while it comes
		publish(3)   // the last of each
		got, behind, recovered := goOn(t, h, "**", cursor, fmt.Sprint(n-2), fmt.Sprint(n-1), fmt.Sprint(n))
		cursor = behind
		if !recovered {
			t.Errorf("round %d: not recovered", round)
		}
		for name, values := range want {
			if !slices.Equal(got[name], values) {
				t.Errorf("round %d, %s: got %d ticks %.60q, want %d %.60q", round, name, len(got[name]), got[name], len(values), values)
			}
		}
	}
}

// goOnFrom follows from now on until a tick that it publishes has come.
func goOnFrom(t *testing.T, h *live, f string, publish func()) (map[string][]string, []byte, bool) {
	t.Helper()
	time.AfterFunc(50*time.Millisecond, publish)
	return goOn(t, h, f, nil, "2")
}

// What Redis no longer holds, and what is no cursor of these streams, is told: not recovered.
func TestCursorBeyondWhatIsThere(t *testing.T) {
	s := redistest.Start(t)
	opt := fromStreams(quick(s.Addr), Standalone, "ticks")
	h := startLive(t, opt)
	h.waitReady()
	c := s.Connect()
	add(c, "ticks", "a", "1")
	_, cursor, _ := goOnFrom(t, h, "a", func() { add(s.Connect(), "ticks", "a", "2") })
	for n := 3; n < 20; n++ {
		add(c, "ticks", "a", strconv.Itoa(n))
	}
	ask := func(cursor []byte) bool {
		added := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() {
			add(s.Connect(), "ticks", "a", "end")
			close(added)
		})
		_, _, recovered := goOn(t, h, "a", cursor, "end") // perhaps the end of the time before
		<-added
		return recovered
	}
	if !ask(cursor) {
		t.Error("not recovered while all of it is there")
	}
	c.Do("XTRIM", "ticks", "MAXLEN", "5")
	far := appendCursor(nil, []string{"ticks"}, []position{{ms: 1 << 60, count: 1}})
	for name, cursor := range map[string][]byte{"trimmed": cursor, "of other streams": appendCursor(nil, []string{"x"}, make([]position, 1)), "far ahead": far} {
		if ask(cursor) {
			t.Errorf("%s: recovered", name)
		}
	}
}

func TestCursorRoundTrip(t *testing.T) {
	streams := []string{"a", "b"}
	at := []position{{1700000000000, 3, 9}, {0, 0, 0}}
	cursor := appendCursor(nil, streams, at)
	if got, err := parseCursor(cursor, streams); err != nil || !slices.Equal(got, at) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseCursor(cursor, []string{"b"}); err != nil || got[0] != at[1] {
		t.Errorf("fewer streams: %v, %v", got, err)
	}
	for n := range cursor {
		if _, err := parseCursor(cursor[:n], streams); err == nil {
			t.Errorf("%d bytes of it are one", n)
		}
	}
	if _, err := parseCursor(append(bytes.Clone(cursor), 1), streams); err == nil {
		t.Error("one byte more is one")
	}
}

// A transaction of which nothing came is a failure, whatever the client says of its commands.
func TestStreamsTransactionNotRun(t *testing.T) {
	failure := errors.New("moved")
	for _, want := range []error{failure, errNotRun} {
		given := failure
		if want == errNotRun {
			given = nil
		}
		if p, err := parseInfo(redis.NewXInfoStreamCmd(t.Context(), "ticks"), given); p != nil || err != want {
			t.Errorf("%v: %v, %v", want, p, err)
		}
	}
}
