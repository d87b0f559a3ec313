package fanout

import (
	"math"
	"strings"
	"testing"
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
	if tick.Topic != 1 || tick.Seq != 1 || tick.ReceivedUS != 7 || string(tick.Payload) != "payload" {
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
