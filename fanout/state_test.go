package fanout

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// states returns what the loop was told about the source since the last call.
func (l *recorder) sourceStates() []SourceState {
	l.said()
	states := l.states
	l.states = nil
	return states
}

func TestLoopsHearOfTheSource(t *testing.T) {
	now := time.Unix(100, 0)
	r, loops := newFake(t, Options{Now: func() time.Time { return now }}, 1)
	failure := errors.New("refused")
	for range 2 { // it is told once
		r.hub.queue.put(item{kind: itemAway, note: &note{err: failure}})
		r.turn()
	}
	late := &recorder{}
	r.hub.Attach(late)
	r.turn()
	for _, l := range []*recorder{loops[0], late} {
		s := l.sourceStates()
		if len(s) != 1 || !s[0].Lost || s[0].Topics != nil || !errors.Is(s[0].Err, failure) || !s[0].Since.Equal(now) {
			t.Errorf("away: %+v", s)
		}
	}
	r.hub.Acquire(0, filter("a"))
	r.connect()
	r.turn()
	if s := loops[0].sourceStates(); s != nil {
		t.Errorf("before its answers: %+v", s)
	}
	r.settle()
	if s := loops[0].sourceStates(); len(s) != 1 || s[0].Lost {
		t.Errorf("back: %+v", s)
	}
	r.disconnect()
	r.connect()
	r.settle()
	if s := loops[0].sourceStates(); len(s) != 2 || !s[0].Lost || s[1].Lost {
		t.Errorf("lost and back: %+v", s)
	}
}

// A part of the source that is lost concerns its topics alone.
func TestPartOfTheSourceIsLost(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.hub.Acquire(0, filter("b"))
	r.settle()
	loops[0].said()
	r.subs = slices.DeleteFunc(r.subs, func(s string) bool { return s == "a" })
	r.hub.queue.put(item{kind: itemRemoved, channel: "a", note: &note{err: errCut}})
	r.turn()
	if s := loops[0].sourceStates(); len(s) != 1 || !s[0].Lost || !slices.Equal(s[0].Topics, []uint32{1}) {
		t.Errorf("lost: %+v", s)
	}
	if n := r.hub.Stats().Stale; n != 1 {
		t.Errorf("%d topics are stale", n)
	}
	r.publish("b", "1")
	r.settle()
	r.publish("a", "2")
	r.settle()
	expect(t, loops[0], "tick 2/1 1", "reset 1/1 CAUSE_SOURCE_LOST", "tick 1/1 2")
	if s := loops[0].sourceStates(); len(s) != 1 || s[0].Lost || !slices.Equal(s[0].Topics, []uint32{1}) {
		t.Errorf("back: %+v", s)
	}
	for _, stale := range []int{0, 2, 0} {
		if n := r.hub.Stats().Stale; n != stale {
			t.Errorf("%d topics are stale, want %d", n, stale)
		}
		if stale == 0 {
			r.disconnect()
			r.turn()
		} else {
			r.connect()
			r.settle()
		}
	}
}
