package gateway

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

type bell struct {
	alarm
	rang []int64
}

func (b *bell) ring(l *loop) { b.rang = append(b.rang, l.alarms.now) }

// TestAlarms: against a sorted list, whatever is set, moved and cleared.
func TestAlarms(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := &loop{}
	bells := make([]*bell, 50)
	want := map[*bell]int64{}
	for i := range bells {
		bells[i] = new(bell)
		bells[i].owner = bells[i]
	}
	for range 20_000 {
		switch b := bells[rng.IntN(len(bells))]; rng.IntN(5) {
		case 0:
			l.alarms.clear(&b.alarm)
			delete(want, b)
		case 1:
			l.alarms.now += rng.Int64N(int64(time.Millisecond))
			l.alarms.ring(l)
			for b, at := range want {
				if rang := len(b.rang) > 0; rang != (at <= l.alarms.now+alarmSlack) {
					t.Fatalf("at %d: an alarm for %d has rung: %v", l.alarms.now, at, rang)
				} else if rang {
					delete(want, b)
				}
			}
			for _, b := range bells {
				b.rang = nil
			}
		default:
			at := l.alarms.now + rng.Int64N(int64(5*time.Millisecond))
			l.alarms.set(&b.alarm, at)
			want[b] = at
		}
	}
}

// oneClient returns a world with one client that has subscribed to filters.
func oneClient(t *testing.T, change func(*Settings), subs ...*wire.Subscription) (*world, *modelClient) {
	w := newWorld(t, 1, change)
	c := new(modelClient)
	w.connect(c)
	w.clients = []*modelClient{c}
	w.l.serve(c.socket.conn, func(x *conn) { x.subscribe(&wire.Subscribe{Id: 1, Subscriptions: subs}) })
	for len(w.hub.posted) > 0 {
		w.deliver(1)
	}
	c.read(1 << 20)
	return w, c
}

// arrive publishes ticks of a topic, and returns how many the client has then.
func (w *world) arrive(name string, n int) int {
	for range n {
		w.hub.publish(name)
	}
	w.deliver(math.MaxInt)
	w.clients[0].read(1 << 20)
	return w.clients[0].ticks
}

func (w *world) after(d time.Duration) int {
	w.pass(d)
	w.clients[0].read(1 << 20)
	return w.clients[0].ticks
}

func TestBatchClosesByDelay(t *testing.T) {
	w, _ := oneClient(t, nil, &wire.Subscription{Filter: "every:**"})
	if n := w.arrive("every:a", 1); n != 0 {
		t.Errorf("%d ticks at once", n)
	}
	if n := w.after(4 * time.Millisecond); n != 0 {
		t.Errorf("%d ticks after 4 ms", n)
	}
	w.arrive("every:b", 1)
	if n := w.after(time.Millisecond); n != 2 {
		t.Errorf("%d ticks after 5 ms: the first one's delay counts", n)
	}
	if got := w.l.stats.times.batchTicks.sum.Load(); got != 2 || w.l.stats.recordsOut.Load() == 0 {
		t.Errorf("batches hold %d ticks", got)
	}
}

func TestBatchClosesByTicksAndBytes(t *testing.T) {
	w, _ := oneClient(t, func(s *Settings) { s.Batch.MaxBytes = 1 << 20 }, &wire.Subscription{Filter: "every:a"})
	if n := w.arrive("every:a", 15); n != 0 {
		t.Errorf("%d of 15 ticks at once", n)
	}
	if n := w.arrive("every:a", 1); n != 16 {
		t.Errorf("%d of 16 ticks at once, max_ticks is 16", n)
	}
	w, _ = oneClient(t, func(s *Settings) { s.Batch.MaxTicks = 1000 }, &wire.Subscription{Filter: "every:**"})
	for i := 1; ; i++ {
		if n := w.arrive("every:a", 1); n == i {
			break
		} else if n != 0 || i > 100 {
			t.Fatalf("%d of %d ticks; max_bytes is 2 KiB", n, i)
		}
	}
	if bytes := w.l.stats.times.batchBytes.sum.Load(); bytes < 1500 || bytes > 2100 {
		t.Errorf("a batch of %d bytes", bytes)
	}
}

// A delay of 0 waits for nothing, whatever waits already goes with it, and a reload
// switches it on and off.
func TestDelayByTopicAndByReload(t *testing.T) {
	w, _ := oneClient(t, func(s *Settings) { s.Topics[0].Batch = &BatchOptions{MaxTicks: 16, MaxBytes: 1 << 10} },
		&wire.Subscription{Filter: "**"})
	w.arrive("every:a", 1)
	if n := w.arrive("latest:a", 1); n != 2 {
		t.Errorf("%d ticks when one comes that does not wait", n)
	}
	s := w.l.settings().Settings
	s.Batch.MaxDelay = 0
	w.l.live = &live{Settings: s, rules: newRuleTable(s.Topics, s.Batch)}
	if n := w.arrive("every:a", 3); n != 5 {
		t.Errorf("%d ticks after the delay was taken away", n)
	}
}

// Of the ticks of a window the newest of each topic goes out and covers the others.
func TestWindowMergesLatest(t *testing.T) {
	w, c := oneClient(t, nil, &wire.Subscription{Filter: "**"})
	w.arrive("latest:a", 3)
	w.arrive("every:a", 3)
	w.arrive("latest:a", 200) // no more than fit a batch, once merged
	w.arrive("latest:b", 1)
	if n := w.after(5 * time.Millisecond); n != 5 || c.merged != 202 {
		t.Errorf("%d ticks, %d merged", n, c.merged)
	}
	if got := w.l.stats.merged.Load(); got != 202 {
		t.Errorf("%d counted", got)
	}
}

// At most so many a second, the first at once, the newest of each interval, and the
// last one too: by the topic's rule, and by the subscription.
func TestRates(t *testing.T) {
	for _, sub := range []*wire.Subscription{{Filter: "paced:a"}, {Filter: "latest:a", MaxRate: 100}} {
		w, c := oneClient(t, func(s *Settings) { s.Batch.MaxDelay = 0 }, sub)
		for i := range 100 { // one each ms
			w.arrive(sub.Filter, 1)
			if n := w.after(time.Millisecond); n > 1+(i+1)/10 {
				t.Fatalf("%s: %d ticks after %d ms", sub.Filter, n, i+1)
			}
		}
		if n := w.after(10 * time.Millisecond); n != 11 || c.merged != 89 {
			t.Errorf("%s: %d ticks, %d merged", sub.Filter, n, c.merged)
		}
		if v := c.topics[1]; v.last != 100 {
			t.Errorf("%s: the last tick is %d", sub.Filter, v.last)
		}
	}
}

// A topic that several filters match has the rate of the one that wants most, and
// topics whose policy is every have none.
func TestRatesOfSeveralFilters(t *testing.T) {
	w, _ := oneClient(t, func(s *Settings) { s.Batch.MaxDelay = 0 },
		&wire.Subscription{Filter: "latest:a", MaxRate: 1}, &wire.Subscription{Filter: "latest:*"}, &wire.Subscription{Filter: "every:**", MaxRate: 1})
	for i := range 5 {
		w.arrive("latest:a", 1)
		if n := w.arrive("every:a", 1); n != 2*(i+1) {
			t.Fatalf("%d ticks of %d", n, 2*(i+1))
		}
	}
}

// A filter that is subscribed again has the options of the later request.
func TestOptionsChange(t *testing.T) {
	w, c := oneClient(t, func(s *Settings) { s.Batch.MaxDelay = 0 }, &wire.Subscription{Filter: "latest:a", MaxRate: 1})
	w.arrive("latest:a", 1)
	w.arrive("latest:a", 1)
	again := func(s *wire.Subscription) int {
		w.l.serve(c.socket.conn, func(x *conn) { x.subscribe(&wire.Subscribe{Id: 2, Subscriptions: []*wire.Subscription{s}}) })
		w.deliver(math.MaxInt)
		return w.arrive("latest:a", 1)
	}
	if n := again(&wire.Subscription{Filter: "latest:a"}); n != 3 {
		t.Errorf("%d ticks without a rate: what was held back and what came", n)
	}
	if n := again(&wire.Subscription{Filter: "latest:a", MaxRate: 1}); n != 4 {
		t.Errorf("%d ticks at the beginning of an interval", n)
	}
	if n := w.arrive("latest:a", 1); n != 4 {
		t.Errorf("%d ticks within an interval", n)
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, s := range []*wire.Subscription{
		{MaxRate: math.NaN()}, {MaxRate: -1}, {MaxRate: math.Inf(1)}, {MaxRate: 1001}, {MaxRate: 1e-9}, {MaxAgeMs: math.MaxUint32},
	} {
		s.Filter = "a"
		if _, _, err := parseSubscription(s); err == nil {
			t.Errorf("%v is accepted", s)
		}
	}
}

// Recovered ticks that are older than the client wants are merged into newer ones.
func TestMaxAge(t *testing.T) {
	w := newWorld(t, 1, nil)
	var ticks []*fanout.Tick
	for range 5 {
		w.hub.publish("latest:a")
	}
	m := w.hub.topics["latest:a"]
	for i, x := range m.past {
		old := *x
		old.ReceivedUS -= int64(5-i) * time.Minute.Microseconds()
		ticks = append(ticks, &old)
	}
	m.past = ticks
	for i, want := range []struct {
		age    uint32
		ticks  int
		merged int
	}{{0, 5, 0}, {150_000, 2, 3}, {1, 1, 4}} {
		c := new(modelClient)
		w.connect(c)
		w.l.serve(c.socket.conn, func(x *conn) {
			x.subscribe(&wire.Subscribe{Id: 9, Subscriptions: []*wire.Subscription{{Filter: "latest:a", MaxAgeMs: want.age}},
				Since: []*wire.Position{{Topic: "latest:a", Epoch: m.Epoch}}})
		})
		w.deliver(math.MaxInt)
		for len(w.hub.posted) > 0 {
			w.deliver(1)
		}
		c.read(1 << 20)
		if c.ticks != want.ticks || c.merged != want.merged {
			t.Errorf("case %d: %d ticks, %d merged", i, c.ticks, c.merged)
		}
	}
}

// What waits for slow sessions together is bounded; the one with most pays.
func TestTotalOfSlowSessions(t *testing.T) {
	w := newWorld(t, 3, func(s *Settings) { s.Slow.Queue, s.Slow.Total = 64<<10, 32<<10 })
	for i := range 4 {
		c := new(modelClient)
		w.connect(c)
		w.clients = append(w.clients, c)
		filter := []string{"every:**", "every:a"}[min(i, 1)]
		w.l.serve(c.socket.conn, func(x *conn) {
			x.subscribe(&wire.Subscribe{Id: 1, Subscriptions: []*wire.Subscription{{Filter: filter}}})
		})
		w.deliver(math.MaxInt)
	}
	w.deliver(math.MaxInt)
	for range 2000 {
		w.hub.publish("every:" + string(rune('a'+w.rng.IntN(4))))
		w.deliver(1)
		w.pass(time.Millisecond)
		if w.l.slow.bytes > 32<<10 {
			t.Fatalf("%d bytes wait", w.l.slow.bytes)
		}
	}
	if n := w.l.stats.overTotal.Load(); n == 0 {
		t.Error("nobody paid")
	}
	w.settle()
	w.verdict()
	if w.clients[0].gaps == 0 {
		t.Error("the session with most did not pay")
	}
}

// A stopped client of topics with policy latest gets what was sealed already, and
// then of each topic the newest value alone.
func TestStoppedClientGetsTheNewest(t *testing.T) {
	w, c := oneClient(t, nil, &wire.Subscription{Filter: "latest:**"})
	for range 5000 {
		w.hub.publish("latest:" + string(rune('a'+w.rng.IntN(4))))
		w.deliver(1)
		w.pass(time.Millisecond)
	}
	if n := len(c.socket.conn.sub.slow.queue); n > 6 {
		t.Errorf("%d entries wait for four topics", n)
	}
	c.read(1 << 20)
	before := c.ticks
	w.settle()
	w.verdict()
	if got := c.ticks - before; got > 4 || c.gaps != 0 {
		t.Errorf("%d ticks were sealed late, %d gaps", got, c.gaps)
	}
	if c.notices != 2 || c.slow {
		t.Errorf("%d notices, still slow: %v", c.notices, c.slow)
	}
}

func TestSourceStateIsTold(t *testing.T) {
	w, c := oneClient(t, nil, &wire.Subscription{Filter: "every:**"})
	for i, lost := range []bool{true, false} {
		w.turn([]fanout.Event{&fanout.SourceState{Lost: lost}})
		c.read(1 << 20)
		if c.notices != i+1 || c.sourceLost != lost {
			t.Errorf("lost %v: %d notices, told %v", lost, c.notices, c.sourceLost)
		}
	}
	w.hub.publish("every:a") // announced with its batch, before it is named
	w.turn(append(w.hub.posted, &fanout.SourceState{Lost: true, Topics: []uint32{1, 99}}, &fanout.SourceState{Lost: true, Topics: []uint32{99}}))
	c.read(1 << 20)
	if c.notices != 3 || c.ticks != 1 {
		t.Errorf("%d notices, %d ticks", c.notices, c.ticks)
	}
}

// However many topics have lost their source, no message is too long for a client.
func TestSourceStateOfManyTopicsIsSplit(t *testing.T) {
	w, c := oneClient(t, nil, &wire.Subscription{Filter: "every:**"})
	var numbers []uint32
	for i := range 2*topicsPerNotice + 1 {
		name := fmt.Sprint("every:", i)
		w.hub.publish(name)
		numbers = append(numbers, w.hub.topics[name].Number)
	}
	for len(w.hub.posted) > 0 {
		w.deliver(1000)
		w.pass(time.Millisecond)
		c.read(math.MaxInt)
	}
	c.socket.kernel = math.MaxInt32
	w.turn([]fanout.Event{&fanout.SourceState{Lost: true, Topics: numbers}})
	for rest, frames := c.socket.unread, 0; frames < 3; frames++ {
		var payload []byte
		if _, payload, rest, _ = cutFrame(rest); len(payload) == 0 || len(payload) > 64<<10 {
			t.Errorf("%d bytes of a notice", len(payload))
		}
	}
	c.read(math.MaxInt)
	if c.notices != 3 || !c.sourceLost {
		t.Errorf("%d notices", c.notices)
	}
}
