package fanout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

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

func TestRefusalsAreLoggedOnceASecond(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	now := time.Unix(1000, 0)
	r, _ := newFake(t, Options{Log: zap.New(core), Now: func() time.Time { return now }}, 1)
	r.connect()
	r.turn()
	for i := range 6 {
		name := fmt.Sprint("no", i)
		r.denied[name] = true
		r.hub.Acquire(0, filter(name))
		r.settle()
		if i == 4 {
			now = now.Add(refusedQuiet)
		}
	}
	if n := logs.FilterMessageSnippet("refused").Len(); n != 2 {
		t.Errorf("%d log lines", n)
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
	if e := loops[0].events[1].(*Refused); e.Ticket != ticket || !errors.Is(e.Err, ErrDenied) {
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
