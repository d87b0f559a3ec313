package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unique"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire/topic"
)

// pagesOf walks through everything in pages of room, as collectPage does, and
// counts how often the loop is asked.
func pagesOf[T any](t *testing.T, room int, look func(after uint64, room int) ([]T, uint64, bool)) (all []T, asked int) {
	t.Helper()
	for after, end := uint64(0), false; !end; {
		var found []T
		found, after, end = look(after, room)
		if len(found) > room {
			t.Fatalf("%d for a room of %d", len(found), room)
		}
		all = append(all, found...)
		if asked++; asked > 10_000 {
			t.Fatal("no end")
		}
	}
	return all, asked
}

// topicsOf makes a loop's index of topics with these numbers.
func topicsOf(numbers ...uint32) *loop {
	l := &loop{index: newIndex()}
	h := &heldFilter{confirmed: true}
	for _, n := range numbers {
		l.index.learn(h, fanout.TopicState{Number: n, Name: fmt.Sprint("t", n), Epoch: 1, NextSeq: 1})
	}
	return l
}

func TestTopicsArePagedWhateverTheirNumbers(t *testing.T) {
	few := []uint32{3, 4, 70_000, 4_000_000_000}
	var many []uint32
	for n := uint32(1); n <= 3*lookAtOnce; n += 2 {
		many = append(many, n, n+5*lookAtOnce)
	}
	for name, numbers := range map[string][]uint32{"none": nil, "few, far apart": few, "many": many} {
		l := topicsOf(numbers...)
		for _, room := range []int{1, 7, 1000} {
			if room == 1 && len(numbers) > 100 {
				continue
			}
			all, asked := pagesOf(t, room, l.topicsAfter)
			if len(all) != len(numbers) {
				t.Fatalf("%s, room %d: %d of %d", name, room, len(all), len(numbers))
			}
			for i := 1; i < len(all); i++ {
				if all[i-1].Number >= all[i].Number {
					t.Fatalf("%s: %d before %d", name, all[i-1].Number, all[i].Number)
				}
			}
			if most := len(numbers)/room + 10; asked > most {
				t.Errorf("%s, room %d: asked %d times", name, room, asked)
			}
		}
	}
	if found, _, end := topicsOf(many...).topicsAfter(1<<64-1, 10); len(found) != 0 || !end {
		t.Errorf("behind all numbers: %v", found)
	}
}

// TestTopicsOfManyCohorts: counting subscribers is bounded work too.
func TestTopicsOfManyCohorts(t *testing.T) {
	f, err := topic.ParseFilter("**")
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{index: newIndex()}
	h, other := &heldFilter{Filter: f, confirmed: true}, &heldFilter{confirmed: true}
	for range 1000 {
		co := &cohort{members: []*conn{{}, {}}}
		h.cohorts, other.cohorts = append(h.cohorts, co), append(other.cohorts, co)
	}
	for n := range uint32(20) {
		l.index.learn(h, fanout.TopicState{Number: n + 1, NextSeq: 5})
		l.index.learn(other, fanout.TopicState{Number: n + 1, NextSeq: 5})
	}
	all, asked := pagesOf(t, 1000, l.topicsAfter)
	if len(all) != 20 || asked < 10 {
		t.Errorf("%d topics, asked %d times", len(all), asked)
	}
	for _, info := range all {
		if info.Subscribers != 2000 || info.Seq != 4 {
			t.Errorf("got %+v", info)
		}
	}
}

func TestTopicsOfSeveralLoopsAreMerged(t *testing.T) {
	got := mergeTopics([]TopicInfo{{Number: 1, Seq: 5, Subscribers: 1}, {Number: 1, Seq: 6, Subscribers: 2}, {Number: 2, Subscribers: 3}})
	if len(got) != 2 || got[0] != (TopicInfo{Number: 1, Seq: 6, Subscribers: 3}) || got[1].Subscribers != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestSessionsLookAtNoMoreThanAShare(t *testing.T) {
	l := &loop{index: newIndex()}
	for id := range uint64(2*lookAtOnce + 10) {
		l.index.conns.add(&conn{id: id + 1})
	}
	all, asked := pagesOf(t, 1000, func(after uint64, room int) ([]SessionInfo, uint64, bool) {
		return l.sessionsAfter(after, room, "somebody")
	})
	if len(all) != 0 || asked != 3 {
		t.Errorf("%d found, asked %d times", len(all), asked)
	}
}

func TestSessionsOfAUser(t *testing.T) {
	g, url := startEcho(t)
	for range 3 {
		if err := echoes(dialEcho(t, url)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range *g.loops.Load() {
		l.call(func() {
			l.index.conns.find(2).sub = &subscriber{who: identity{client: unique.Make(clientName{"c", "v"}), grant: &auth.Grant{User: "ann"}}}
		})
	}
	got, more, err := g.Sessions(t.Context(), 0, 10, "ann")
	if err != nil || more || len(got) != 1 || got[0].ID != 2 || got[0].User != "ann" || got[0].Client != "c" || got[0].ClientVersion != "v" {
		t.Errorf("got %+v, %v, %v", got, more, err)
	}
	if got[0].Role != "echo" || got[0].Suite != "" || got[0].Phase != "open" {
		t.Errorf("got %+v", got)
	}
	if got, more, err := g.Sessions(t.Context(), 0, 2, ""); err != nil || !more || len(got) != 2 || got[1].ID != 2 {
		t.Errorf("got %+v, %v, %v", got, more, err)
	}
}

func TestABusyLoopDoesNotHoldUpWhoAsks(t *testing.T) {
	g, url := startEcho(t)
	if err := echoes(dialEcho(t, url)); err != nil {
		t.Fatal(err)
	}
	free := make(chan struct{})
	for _, l := range *g.loops.Load() {
		l.call(func() { <-free })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := g.Sessions(ctx, 0, 10, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Sessions: %v", err)
	}
	if _, err := g.EndSession(ctx, 1, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("EndSession: %v", err)
	}
	close(free)
	if got, _, err := g.Sessions(t.Context(), 0, 10, ""); err != nil || len(got) > 1 {
		t.Errorf("then %v, %v", got, err)
	}
}

func TestShortened(t *testing.T) {
	for in, want := range map[string]int{"": 0, "sealctl": 7, strings.Repeat("x", 64): 64, strings.Repeat("x", 65): 64, strings.Repeat("é", 40): 64, "x" + strings.Repeat("é", 40): 63} {
		if got := shortened(in); len(got) != want || !strings.HasPrefix(in, got) || !utf8.ValidString(got) {
			t.Errorf("%q: %q", in, got)
		}
	}
}
