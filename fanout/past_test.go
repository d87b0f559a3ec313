package fanout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sealcast/sealcast/wire/topic"
)

func newKeeping(t *testing.T, opt Options) (*fakeRedis, []*recorder) {
	t.Helper()
	r, loops := newFake(t, opt, 2)
	r.connect()
	r.settle()
	return r, loops
}

// recall asks and returns the answer.
func (r *fakeRedis) recall(t *testing.T, l *recorder, since Position, filters ...string) []Memory {
	t.Helper()
	ask := Recall{}
	if since != (Position{}) {
		ask.Since = []Position{since}
	}
	for _, f := range filters {
		ask.Filters = append(ask.Filters, filter(f))
	}
	ticket := r.hub.Recall(0, ask)
	r.settle()
	answer, ok := l.events[len(l.events)-1].(*Recalled)
	if !ok || answer.Ticket != ticket {
		t.Fatalf("got %#v", l.events[len(l.events)-1])
	}
	return answer.Memories
}

func (r *fakeRedis) acquire(filters ...string) {
	for _, f := range filters {
		r.hub.Acquire(0, filter(f))
	}
	r.settle()
}

func TestRulesSubscribeFromTheStart(t *testing.T) {
	r, loops := newKeeping(t, Options{Rules: []Rule{
		{Match: filter("md:secret"), History: 0}, {Match: filter("md:*"), Snapshot: true}, {Match: filter("**")}}})
	expectSubs(t, r, "md:*")
	r.publish("md:secret", "not kept")
	r.publish("md:a", "1")
	r.publish("md:a", "2")
	r.settle()
	if s := r.hub.Stats(); s.Topics != 1 || s.Kept.Ticks != 1 || s.Unmatched != 1 || s.Received != 2 {
		t.Errorf("stats %+v", s)
	}
	r.acquire("md:a", "md:secret")
	got := r.recall(t, loops[0], Position{}, "md:a", "md:secret", "md:*")
	if len(got) != 1 || got[0].Stale || got[0].Recovered || string(got[0].Ticks[0].Payload) != "2" || got[0].Ticks[0].Seq != 2 || got[0].Ticks[0].ReceivedUS != 7 {
		t.Errorf("first value %+v", got)
	}
	r.hub.Release(0, filter("md:a"))
	r.hub.Release(0, filter("md:secret"))
	r.settle()
	expectSubs(t, r, "md:*")
	if s := r.hub.Stats(); s.Topics != 1 {
		t.Errorf("%d topics after the last subscriber", s.Topics)
	}
}

func TestRefusedRuleIsWantedAgain(t *testing.T) {
	r, _ := newFake(t, Options{Rules: []Rule{{Match: filter("a"), Snapshot: true}}}, 1)
	r.denied["a"] = true
	r.connect()
	r.settle()
	expectSubs(t, r)
	if err := r.hub.Ready(); err != nil {
		t.Error(err)
	}
	delete(r.denied, "a")
	r.disconnect()
	r.connect()
	r.settle()
	expectSubs(t, r, "a")
}

func TestValueOfAnEarlierEpochIsStale(t *testing.T) {
	r, loops := newKeeping(t, Options{Rules: []Rule{{Match: filter("**"), Snapshot: true, History: 10}}})
	r.acquire("a")
	for _, p := range []string{"1", "2", "3"} {
		r.publish("a", p)
	}
	r.settle()
	now := r.recall(t, loops[0], Position{}, "a")[0]
	at := Position{"a", now.Epoch, 1}
	if got := r.recall(t, loops[0], at, "a")[0]; !got.Recovered || len(got.Ticks) != 2 || got.Since != 1 {
		t.Fatalf("before the loss: %+v", got)
	}
	r.disconnect()
	r.turn()
	if got := r.recall(t, loops[0], Position{}, "a")[0]; !got.Stale || string(got.Ticks[0].Payload) != "3" {
		t.Errorf("while the source is away: %+v", got)
	}
	r.connect()
	r.settle()
	got := r.recall(t, loops[0], at, "a")[0]
	if got.Recovered || !got.Stale || got.Epoch != at.Epoch || string(got.Ticks[0].Payload) != "3" {
		t.Errorf("in a new epoch: %+v", got)
	}
	r.publish("a", "4")
	r.settle()
	got = r.recall(t, loops[0], at, "a")[0]
	if got.Recovered || got.Stale || got.Epoch == at.Epoch || string(got.Ticks[0].Payload) != "4" {
		t.Errorf("after the next tick: %+v", got)
	}
	if s := r.hub.Stats(); s.Kept.Ticks != 1 || s.Kept.Evicted != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Nothing was missed, so nothing needs to be kept to say so.
func TestIdleTopicWithoutHistoryIsRecovered(t *testing.T) {
	r, loops := newKeeping(t, Options{HistoryBytes: 1, Rules: []Rule{{Match: filter("a"), Snapshot: true, History: 10}}})
	r.acquire("a", "other")
	r.publish("a", "1")
	r.publish("other", "1")
	r.settle()
	if s := r.hub.Stats(); s.Kept.Ticks != 0 || s.Kept.Bytes != 0 || s.Kept.Evicted != 1 {
		t.Fatalf("stats %+v", s)
	}
	for _, name := range []string{"a", "other"} {
		at := Position{name, r.hub.topics[name].epoch, 1}
		if got := r.recall(t, loops[0], at, name); len(got) != 1 || !got[0].Recovered || len(got[0].Ticks) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	at := Position{"a", r.hub.topics["a"].epoch, 2} // not there yet
	if got := r.recall(t, loops[0], at, "a"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// All that is kept stays within the limit; the oldest goes first, over all topics.
func TestKeptBytesAreBounded(t *testing.T) {
	const payload, limit = 1000, 20_000
	r, loops := newKeeping(t, Options{HistoryBytes: limit, Rules: []Rule{{Match: filter("**"), History: 8, Snapshot: true}}})
	for i := range 100 {
		for range 1 + i%3 {
			r.publish("t:"+strings.Repeat("x", i%10), strings.Repeat("p", payload))
		}
		r.settle()
		s := r.hub.Stats()
		if s.Kept.Bytes > limit || s.Kept.Ticks*payload > limit {
			t.Fatalf("stats %+v", s)
		}
	}
	s := r.hub.Stats()
	if s.Kept.Evicted == 0 || s.Kept.Bytes < limit-2*payload {
		t.Errorf("stats %+v", s)
	}
	bytes, ticks := 0, 0
	var before *kept
	for k := r.hub.store.oldest; k != nil; before, k = k, k.newer {
		bytes += len(k.payload) + keptOverhead
		ticks++
		if k.older != before || k.feed.past.count == 0 {
			t.Fatal("the order of all ticks is broken")
		}
	}
	for _, f := range r.hub.topics {
		if f.past.count > 0 {
			bytes += len(f.name) + feedOverhead
		}
	}
	if bytes != s.Kept.Bytes || ticks != s.Kept.Ticks {
		t.Errorf("%d bytes of %d ticks are kept, counted %d of %d", bytes, ticks, s.Kept.Bytes, s.Kept.Ticks)
	}
	r.acquire("t:" + strings.Repeat("x", 9))
	if got := r.recall(t, loops[0], Position{}, "t:*"); len(got) == 0 || len(got) == 10 {
		t.Errorf("%d values are left", len(got))
	}
}

func TestRingIsReused(t *testing.T) {
	r, _ := newKeeping(t, Options{Rules: []Rule{{Match: filter("a"), History: 3}}})
	for range 10 {
		r.publish("a", "x")
	}
	r.settle()
	f := r.hub.topics["a"]
	it := &item{payload: "y"}
	if n := testing.AllocsPerRun(100, func() { r.hub.remember(f, it); f.next++ }); n > 1 {
		t.Errorf("%v allocations for a kept tick", n)
	}
	if s := r.hub.store; s.ticks != 3 || f.past.count != 3 || f.past.first.seq != f.next-3 {
		t.Errorf("%d ticks, from %d", s.ticks, f.past.first.seq)
	}
}

func TestTopicsOfPublishersAreBounded(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	now := time.Unix(1000, 0)
	r, loops := newKeeping(t, Options{MaxTopics: 2, Log: zap.New(core), Now: func() time.Time { return now }})
	r.acquire("a:*", "name")
	loops[0].events = nil
	for _, name := range []string{"a:1", "a:2", "a:3", "a:4", "a:1", "name"} {
		r.publish(name, "x")
	}
	r.settle()
	expect(t, loops[0], "opened a:1=2/1", "tick 2/1 x", "opened a:2=3/1", "tick 3/1 x", "tick 2/2 x", "tick 1/1 x")
	if s := r.hub.Stats(); s.Kept.TopicsRefused != 2 || s.Topics != 3 {
		t.Errorf("stats %+v", s)
	}
	now = now.Add(fullQuiet)
	r.publish("a:5", "x")
	r.settle()
	if n := logs.FilterMessageSnippet("new topics").Len(); n != 2 {
		t.Errorf("%d log lines in a minute", n)
	}
	r.hub.Release(0, filter("a:*"))
	r.acquire("a:**")
	r.publish("a:9", "x")
	r.settle()
	if r.hub.topics["a:9"] == nil {
		t.Error("topics that are gone still count")
	}
}

// Names that clients make up live on while a pattern matches them, so they are
// bounded, and do not cost a publisher its topics.
func TestTopicsOfNamesAreBounded(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	r, loops := newKeeping(t, Options{MaxTopics: 2, Log: zap.New(core), Now: func() time.Time { return time.Unix(1000, 0) },
		Rules: []Rule{{Match: filter("kept"), Snapshot: true}}})
	r.acquire("**")
	loops[0].events = nil
	for _, name := range []string{"x1", "x2", "x3", "x4"} {
		r.acquire(name)
		r.hub.Release(0, filter(name))
	}
	r.settle()
	expect(t, loops[0], "opened x1=1/1", "confirmed x1 x1=1/1", "opened x2=2/1", "confirmed x2 x2=2/1", "refused x3", "refused x4")
	r.acquire("x3")
	if e := loops[0].events[0].(*Refused); !errors.Is(e.Err, ErrTopics) {
		t.Errorf("refused because of %v", e.Err)
	}
	loops[0].events = nil
	r.acquire("x1", "kept")
	r.publish("p1", "x")
	r.publish("p2", "x")
	r.settle()
	expect(t, loops[0], "confirmed x1 x1=1/1", "opened kept=3/1", "confirmed kept kept=3/1",
		"opened p1=4/1", "tick 4/1 x", "opened p2=5/1", "tick 5/1 x")
	if s := r.hub.Stats(); s.Topics != 5 || s.Refused != 3 || s.Kept.TopicsRefused != 0 {
		t.Errorf("stats %+v", s)
	}
	if n := logs.FilterMessageSnippet("new names").Len(); n != 1 {
		t.Errorf("%d log lines in a minute", n)
	}
	r.hub.Release(0, filter("**"))
	r.hub.Release(0, filter("x1"))
	r.acquire("x3")
	if r.hub.topics["x3"] == nil {
		t.Error("names that are gone still count")
	}
}

func TestIdleTopicsAreForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	r, _ := newKeeping(t, Options{TopicIdle: time.Minute, HistoryBytes: 1200, Now: func() time.Time { return now },
		Rules: []Rule{{Match: filter("**"), Snapshot: true}}})
	r.acquire("a:held")
	for _, name := range []string{"a:1", "a:2", "a:3", "a:4", "a:held", "a:5"} {
		r.publish(name, "x")
	}
	r.settle()
	for _, f := range r.hub.topics {
		f.touched = now.UnixMicro()
	}
	now = now.Add(time.Minute)
	r.hub.sweep()
	if s := r.hub.Stats(); s.Topics != 6 || s.Kept.Ticks != 2 {
		t.Fatalf("too early: %+v", s)
	}
	now = now.Add(time.Millisecond)
	r.hub.sweep()
	if s := r.hub.Stats(); s.Topics != 2 || r.hub.topics["a:held"] == nil || r.hub.topics["a:5"] == nil || r.hub.discovered != 1 {
		t.Errorf("left: %+v, %v", s, r.hub.discovered)
	}
}

// Many Recalls do not hold up ticks: a turn answers so many and goes on.
func TestRecallsAreBoundedPerTurn(t *testing.T) {
	const kept = 100
	r, loops := newKeeping(t, Options{Rules: []Rule{{Match: filter("a"), Snapshot: true, History: kept}}})
	r.acquire("a")
	epoch := loops[0].events[0].(*Confirmed).Topics[0].Epoch
	for range kept {
		r.publish("a", "x")
	}
	r.settle()
	loops[0].events = nil
	since := []Position{{Topic: "a", Epoch: epoch}}
	for range 2*turnWork/kept + 1 {
		r.hub.Recall(0, Recall{Filters: []topic.Filter{filter("a")}, Since: since})
	}
	r.publish("a", "y")
	if !r.hub.turn() {
		t.Fatal("everything in one turn")
	}
	answered := len(loops[0].events) - 1
	if last, ok := loops[0].events[answered].(*Tick); !ok || answered*kept > turnWork+kept || answered*kept < turnWork/2 {
		t.Fatalf("%d answers, then %v", answered, last)
	}
	r.hub.Release(0, filter("a")) // asked last, done last
	r.settle()
	if got := len(loops[0].events) - 1; got != 2*turnWork/kept+1 {
		t.Errorf("%d answers", got)
	}
	for i, e := range loops[0].events[answered+1:] {
		m := e.(*Recalled).Memories
		if len(m) != 1 || len(m[0].Ticks) != 1 { // one more than is kept was missed: the last value
			t.Fatalf("answer %d: %+v", i, m)
		}
	}
	expectSubs(t, r, "a") // the rule's
}

func TestRulesCanChange(t *testing.T) {
	r, loops := newKeeping(t, Options{Rules: []Rule{{Match: filter("a:*"), Snapshot: true, History: 5}, {Match: filter("b"), Snapshot: true}}})
	r.acquire("a:held")
	publish := func() {
		for _, name := range []string{"a:1", "a:held", "b", "c"} {
			r.publish(name, "x")
			r.publish(name, "y")
		}
		r.settle()
	}
	publish()
	r.hub.SetRules([]Rule{{Match: filter("a:held"), History: 1}, {Match: filter("a:*")}, {Match: filter("b"), Snapshot: true, History: 1}, {Match: filter("c"), Snapshot: true}})
	r.settle()
	expectSubs(t, r, "a:held", "b", "c")
	if s := r.hub.Stats(); s.Topics != 2 || s.Kept.Ticks != 2 || s.Resets != 0 {
		t.Errorf("stats %+v", s)
	}
	publish()
	if s := r.hub.Stats(); s.Topics != 3 || s.Kept.Ticks != 3 || s.Received != 12 {
		t.Errorf("stats %+v", s)
	}
	if got := r.recall(t, loops[0], Position{}, "a:held"); len(got) != 0 {
		t.Errorf("a value without snapshot: %+v", got)
	}
	r.hub.SetRules(nil)
	r.settle()
	expectSubs(t, r, "a:held")
	if s := r.hub.Stats(); s.Topics != 1 || s.Kept.Ticks != 0 || s.Kept.Bytes != 0 || s.Filters != 1 {
		t.Errorf("stats %+v", s)
	}
}
