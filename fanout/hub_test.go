package fanout

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire"
)

func TestNameIsConfirmedThenTicks(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.hub.Acquire(0, filter("a:b"))
	r.settle()
	expect(t, loops[0]) // Redis is away: the acquisition waits
	r.connect()
	r.turn()
	r.publish("a:b", "early") // not subscribed yet
	expect(t, loops[0])
	r.settle()
	r.publish("a:b", "x")
	r.publish("a:c", "other")
	r.publish("a:b", "")
	r.settle()
	expect(t, loops[0], "confirmed a:b a:b=1/1", "tick 1/1 x", "tick 1/2 ")
	expect(t, loops[1])
}

func TestPatternOpensTopics(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a:*"))
	r.settle()
	expectSubs(t, r, "a:*")
	r.publish("a:b", "1")
	r.publish("a:b:c", "the glob matches, the filter does not")
	r.publish("a:", "2")
	r.settle()
	expect(t, loops[0], "confirmed a:*", "opened a:b=1/1", "tick 1/1 1", "opened a:=2/1", "tick 2/1 2")

	r.hub.Acquire(1, filter("a:**"))
	r.settle()
	expectSubs(t, r, "a:*") // the same pattern for Redis: confirmed at once
	r.publish("a:b:c", "3")
	r.settle()
	expect(t, loops[1], "confirmed a:** a:b=1/2 a:=2/2", "opened a:b:c=3/1", "tick 3/1 3")
	expect(t, loops[0])
	if s := r.hub.Stats(); s.Received != 3 || s.Unmatched != 1 || s.Topics != 3 || s.Filters != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestOnePostPerLoopAndTurn(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("**"))
	r.settle()
	posts := loops[0].posts
	for range 100 {
		r.publish("a", "x")
	}
	r.settle()
	if got := loops[0].posts - posts; got != 1 {
		t.Errorf("%d posts for the ticks of one turn", got)
	}
	if loops[1].posts != 0 {
		t.Errorf("a loop without filters got %d posts", loops[1].posts)
	}
}

func TestTickCarriesHeadAndTime(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.hub.Acquire(1, filter("a"))
	r.settle()
	loops[0].events, loops[1].events = nil, nil
	r.publish("a", "payload")
	r.settle()
	tick := loops[0].events[0].(*Tick)
	if string(tick.Head) != string(wire.AppendHead(nil, 1, 1, 7)) || tick.ReceivedUS != 7 || string(tick.Payload) != "payload" {
		t.Errorf("tick %+v", tick)
	}
	if loops[1].events[0].(*Tick) != tick {
		t.Error("two loops got two ticks for one message")
	}
}

func TestWiderFilterTakesOverWithoutReset(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a:b"))
	r.settle()
	r.hub.Acquire(1, filter("a:**"))
	r.turn()
	r.publish("a:b", "1")
	r.answer() // subscribed to both
	r.publish("a:b", "2")
	r.turn()
	r.publish("a:b", "3")
	expectSubs(t, r, "a:*", "a:b")
	r.answer() // name given up
	r.publish("a:b", "4")
	r.settle()
	expectSubs(t, r, "a:*")
	expect(t, loops[0], "confirmed a:b a:b=1/1", "tick 1/1 1", "tick 1/2 2", "tick 1/3 3", "tick 1/4 4")
	expect(t, loops[1], "confirmed a:** a:b=1/2", "tick 1/2 2", "tick 1/3 3", "tick 1/4 4")

	r.hub.Release(1, filter("a:**"))
	r.turn()
	r.publish("a:b", "5")
	r.answer()
	r.publish("a:b", "6")
	r.turn()
	expectSubs(t, r, "a:*", "a:b")
	r.answer()
	r.publish("a:b", "7")
	r.settle()
	expectSubs(t, r, "a:b")
	expect(t, loops[0], "tick 1/5 5", "tick 1/6 6", "tick 1/7 7")
	expect(t, loops[1])
	if s := r.hub.Stats(); s.Resets != 0 || s.Copies != 3 {
		t.Errorf("resets %d, copies %d", s.Resets, s.Copies)
	}
}

func TestPartialOverlapCountsOnce(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a:*"))
	r.hub.Acquire(0, filter("*:b"))
	r.settle()
	expectSubs(t, r, "*:b", "a:*")
	r.publish("a:b", "1")
	r.settle()
	expect(t, loops[0], "confirmed a:*", "confirmed *:b", "opened a:b=1/1", "tick 1/1 1")
	r.hub.Release(0, filter("a:*"))
	r.turn()
	r.publish("a:b", "2")
	r.answer()
	r.publish("a:b", "3")
	r.settle()
	expect(t, loops[0], "tick 1/2 2", "tick 1/3 3")
}

func TestReleasedTopicComesBackAsAnother(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.settle()
	r.publish("a", "1")
	r.hub.Release(0, filter("a"))
	r.settle()
	expectSubs(t, r)
	expect(t, loops[0], "confirmed a a=1/1") // the release was handled before the tick
	r.hub.Acquire(0, filter("a"))
	r.settle()
	expect(t, loops[0], "confirmed a a=2/1")
	if s := r.hub.Stats(); s.Topics != 1 || s.Resets != 0 {
		t.Errorf("stats %+v", s)
	}
	r.hub.Release(0, filter("a"))
	r.hub.Release(0, filter("never:held"))
	r.settle()
	if len(r.hub.root.children) != 0 || len(r.hub.topics) != 0 || len(r.hub.cover.subs) != 0 {
		t.Error("something is left in the tree after the last release")
	}
}

func TestReleaseBeforeConfirmation(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	first := r.hub.Acquire(0, filter("a"))
	r.turn()
	r.hub.Release(0, filter("a"))
	second := r.hub.Acquire(0, filter("a"))
	r.settle()
	if first == second || len(loops[0].events) != 1 {
		t.Fatalf("tickets %d, %d, events %q", first, second, loops[0].said())
	}
	if c := loops[0].events[0].(*Confirmed); c.Ticket != second {
		t.Errorf("confirmed ticket %d, want %d", c.Ticket, second)
	}
}

func TestAcquireTwiceStartsOver(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.hub.Acquire(0, filter("a"))
	r.settle()
	r.hub.Release(0, filter("a"))
	r.settle()
	expect(t, loops[0], "confirmed a a=1/1")
	expectSubs(t, r)
}

func TestLossResetsBeforeTheNextTick(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a:**"))
	r.hub.Acquire(0, filter("b"))
	r.settle()
	r.publish("a:x", "1")
	r.publish("b", "2")
	r.disconnect()
	r.settle()
	expect(t, loops[0], "confirmed a:**", "confirmed b b=1/1", "opened a:x=2/1", "tick 2/1 1", "tick 1/1 2")
	if err := r.hub.Ready(); err == nil || !strings.Contains(err.Error(), "scripted loss, since 1970-01-01T00:00:01Z") {
		t.Errorf("Ready while away: %v", err)
	}
	r.hub.Acquire(1, filter("a:x"))
	r.turn()
	expect(t, loops[1])
	r.connect()
	r.turn()
	if err := r.hub.Ready(); !errors.Is(err, errSubscribing) {
		t.Errorf("Ready while subscribing: %v", err)
	}
	r.settle()
	if err := r.hub.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
	r.publish("a:x", "3")
	r.publish("b", "4")
	r.settle()
	expect(t, loops[1], "confirmed a:x a:x=2/1", "tick 2/1 3")
	said := strings.Join(loops[0].said(), "; ")
	for _, order := range []string{"reset 2/1 CAUSE_SOURCE_LOST; ", "reset 1/1 CAUSE_SOURCE_LOST; "} {
		if !strings.Contains(said, order) {
			t.Errorf("no %q in %q", order, said)
		}
	}
	if !strings.HasSuffix(said, "tick 2/1 3; tick 1/1 4") {
		t.Errorf("after the resets: %q", said)
	}
	if s := r.hub.Stats(); s.Lost != 1 || s.Resets != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestSecondLossBeforeConfirmation(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.turn()
	r.disconnect()
	r.connect()
	r.turn()
	r.disconnect()
	r.settle()
	if r.hub.Ready() == nil {
		t.Error("ready without a connection")
	}
	r.connect()
	r.settle()
	expect(t, loops[0], "confirmed a a=1/1")
	expectSubs(t, r, "a")
}

func TestServerEndsSubscription(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.settle()
	r.end("a")
	r.settle()
	r.publish("a", "1")
	r.settle()
	expect(t, loops[0], "confirmed a a=1/1", "reset 1/1 CAUSE_RESUBSCRIBED", "tick 1/1 1")
}

func TestRefusalLeavesNarrowerFilters(t *testing.T) {
	r, loops := newFake(t, Options{}, 2)
	r.denied["*"] = true
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a:b"))
	r.hub.Acquire(1, filter("**"))
	r.hub.Acquire(1, filter("*"))
	r.settle()
	r.publish("a:b", "1")
	r.settle()
	expectSubs(t, r, "a:b")
	expect(t, loops[0], "confirmed a:b a:b=1/1", "tick 1/1 1")
	said := loops[1].said()
	if len(said) != 2 || !strings.HasPrefix(said[0], "refused *") || !strings.HasPrefix(said[1], "refused *") {
		t.Errorf("events %q", said)
	}
	r.hub.Release(1, filter("**")) // was refused meanwhile
	r.denied["*"] = false
	r.hub.Acquire(1, filter("**"))
	r.settle()
	expect(t, loops[1], "confirmed ** a:b=1/2")
	expect(t, loops[0])
	if s := r.hub.Stats(); s.Refused != 2 || s.Filters != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestRefusalAfterReconnect(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	ticket := r.hub.Acquire(0, filter("a:**"))
	r.hub.Acquire(0, filter("a:b"))
	r.settle()
	r.publish("a:b", "1")
	r.publish("a:c", "2")
	r.settle()
	loops[0].said()
	r.disconnect()
	r.denied["a:*"] = true
	r.connect()
	r.settle()
	if e := loops[0].events[0].(*Refused); e.Ticket != ticket || !errors.Is(e.Err, ErrDenied) {
		t.Errorf("refused %+v", e)
	}
	expect(t, loops[0], "refused a:**", "reset 1/1 CAUSE_SOURCE_LOST")
	expectSubs(t, r, "a:b")
	if n := len(r.hub.topics); n != 1 {
		t.Errorf("%d topics left", n)
	}
	if err := r.hub.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

func TestOverflowResetsAtItsPlace(t *testing.T) {
	r, loops := newFake(t, Options{QueueTicks: 2}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("**"))
	r.settle()
	r.publish("a", "1")
	r.publish("b", "2")
	r.publish("a", "dropped")
	r.publish("c", "dropped before it was ever known")
	r.turn()
	r.publish("a", "3")
	r.settle()
	said := loops[0].said()
	if len(said) != 9 {
		t.Fatalf("events %q", said)
	}
	got := strings.Join(said, "; ")
	for _, part := range []string{
		"confirmed **; opened a=1/1; tick 1/1 1; opened b=2/1; tick 2/1 2; ",
		"reset 1/1 CAUSE_SOURCE_OVERFLOW; ",
		"opened c=3/1; reset 3/1 CAUSE_SOURCE_OVERFLOW; ",
		"; tick 1/1 3",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in %q", part, got)
		}
	}
	if s := r.hub.Stats(); s.Dropped != 2 || s.Resets != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestOversizedTickResets(t *testing.T) {
	r, loops := newFake(t, Options{MaxTick: 3}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("*"))
	r.settle()
	r.publish("a", "abc")
	r.publish("a", "abcd")
	r.publish("a", "x")
	r.publish("b", "abcd")
	r.settle()
	expect(t, loops[0], "confirmed *", "opened a=1/1", "tick 1/1 abc", "reset 1/1 CAUSE_OVERSIZED", "tick 1/1 x",
		"opened b=2/1", "reset 2/1 CAUSE_OVERSIZED")
	if s := r.hub.Stats(); s.Oversized != 2 || s.Received != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestInvalidChannelIsCounted(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("**"))
	r.settle()
	for _, name := range []string{"", "a*", "a\x00", "\xff", strings.Repeat("n", 256)} {
		r.publish(name, "x")
	}
	r.settle()
	expect(t, loops[0], "confirmed **")
	if s := r.hub.Stats(); s.Invalid != 5 || s.Topics != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestWholeSource(t *testing.T) {
	r, loops := newFake(t, Options{WholeSource: true}, 2)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a:b"))
	r.settle()
	r.hub.Acquire(1, filter("a:*"))
	r.settle()
	expectSubs(t, r, "*")
	r.publish("a:b", "1")
	r.publish("c", "not wanted")
	r.hub.Release(1, filter("a:*"))
	r.settle()
	r.publish("a:b", "2")
	r.settle()
	expect(t, loops[0], "confirmed a:b a:b=1/1", "tick 1/1 1", "tick 1/2 2")
	expect(t, loops[1], "confirmed a:* a:b=1/1")
	r.hub.Release(0, filter("a:b"))
	r.settle()
	expectSubs(t, r)
}

func TestNumbersRunOut(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.lastNumber = math.MaxUint32 - 1
	r.hub.Acquire(0, filter("a"))
	r.hub.Acquire(0, filter("b"))
	r.hub.Acquire(0, filter("*"))
	r.settle()
	r.publish("c", "x")
	r.publish("a", "y")
	r.settle()
	said := strings.Join(loops[0].said(), "; ")
	if strings.Count(said, "refused") != 1 || !strings.Contains(said, "=4294967295/1") {
		t.Errorf("events %q", said)
	}
	if s := r.hub.Stats(); s.Unnumbered == 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestEpochs(t *testing.T) {
	h := newHub(Options{Random: &fixedRandom{0, 5 << 11, 5 << 11, math.MaxUint64}})
	if e := h.newEpoch(0); e != 5 {
		t.Errorf("epoch %d after a random 0", e)
	}
	if e := h.newEpoch(5); e != 1<<53-1 {
		t.Errorf("epoch %d after the same one again", e)
	}
}

type fixedRandom []uint64

func (r *fixedRandom) Uint64() uint64 {
	v := (*r)[0]
	*r = (*r)[1:]
	return v
}

func TestTooManyLoops(t *testing.T) {
	h := newHub(Options{})
	for range MaxLoops {
		h.Attach(&recorder{})
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	h.Attach(&recorder{})
}

func TestLastLoopIsServed(t *testing.T) {
	r, loops := newFake(t, Options{}, MaxLoops)
	r.connect()
	r.turn()
	r.hub.Acquire(MaxLoops-1, filter("a"))
	r.settle()
	r.publish("a", "1")
	r.settle()
	expect(t, loops[MaxLoops-1], "confirmed a a=1/1", "tick 1/1 1")
}

func TestStatusSince(t *testing.T) {
	now := time.Unix(100, 0)
	s := newStatus(func() time.Time { return now }, "h:1")
	now = now.Add(time.Hour)
	s.down("h:2", errMute)
	var why *NotReady
	if err := s.get(); !errors.As(err, &why) || why.Addr != "h:2" || !why.Since.Equal(time.Unix(100, 0)) || !errors.Is(err, errMute) {
		t.Errorf("status %v", s.get())
	}
	s.connected("h:2", 1)
	s.down("h:2", errCut)
	s.ready(1) // came too late
	if s.get() == nil {
		t.Error("ready by a connection that is gone")
	}
	s.connected("h:2", 2)
	s.ready(2)
	if s.get() != nil {
		t.Errorf("not ready: %v", s.get())
	}
	s.down("h:2", errCut)
	if errors.As(s.get(), &why); !why.Since.Equal(now) {
		t.Errorf("since %v", why.Since)
	}
}

func TestSteadyTickAllocations(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.settle()
	const ticks = 512
	turn := func() {
		for range ticks {
			r.hub.queue.put(item{kind: itemTick, channel: "a", payload: "0123456789", received: 1})
		}
		r.hub.turn()
		loops[0].events = loops[0].events[:0]
	}
	turn()
	turn()
	if perTick := testing.AllocsPerRun(10, turn) / ticks; perTick > 0.15 {
		t.Errorf("%.3f allocations per tick", perTick)
	}
}

// What nobody asked for changes nothing.
func TestUnaskedAnswers(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.settle()
	for _, kind := range []itemKind{itemAdded, itemRemoved, itemRefused} {
		r.hub.queue.put(item{kind: kind, channel: "unknown", note: &note{err: ErrDenied}})
		if kind != itemRemoved {
			r.hub.queue.put(item{kind: kind, channel: "a", note: &note{err: ErrDenied}})
		}
	}
	r.settle()
	expect(t, loops[0], "confirmed a a=1/1")
	expectSubs(t, r, "a")
}

// A subscription that is refused after its last want has gone is forgotten.
func TestRefusedAfterRelease(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.denied["a"] = true
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.turn()
	r.hub.Release(0, filter("a"))
	r.settle()
	expect(t, loops[0])
	if len(r.hub.cover.subs) != 0 || len(r.hub.root.children) != 0 {
		t.Error("it is still there")
	}
}

// Filters that keep coming do not keep the hub from being ready.
func TestReadyDoesNotWaitForLaterFilters(t *testing.T) {
	r, _ := newFake(t, Options{}, 1)
	r.hub.Acquire(0, filter("a"))
	r.hub.Acquire(0, filter("b"))
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("c"))
	for answered := range 2 {
		if r.hub.Ready() == nil {
			t.Errorf("ready after %d answers", answered)
		}
		r.answer()
		r.turn()
	}
	if err := r.hub.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
}
