package client

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

func TestAdvance(t *testing.T) {
	tests := []struct {
		name         string
		next         uint64 // before
		seq, skipped uint64
		want         verdict
		after        uint64
	}{
		{"next in order", 5, 5, 0, verdict{}, 6},
		{"seen before", 5, 4, 0, verdict{discard: true}, 5},
		{"seen before, merged", 5, 4, 4, verdict{discard: true}, 5},
		{"one lost", 5, 6, 0, verdict{gap: true, from: 5, to: 5}, 7},
		{"many lost", 5, 105, 0, verdict{gap: true, from: 5, to: 104}, 106},
		{"merged exactly", 5, 8, 3, verdict{merged: 3}, 9},
		{"merged, the first of them seen", 5, 8, 6, verdict{merged: 3}, 9},
		{"merged, all of them seen", 5, 5, 5, verdict{}, 6},
		{"merged, but some lost before", 5, 9, 2, verdict{gap: true, from: 5, to: 6, merged: 2}, 10},
		{"first of a topic", 1, 1, 0, verdict{}, 2},
		{"from zero", 0, 3, 3, verdict{merged: 3}, 4},
		{"far out", wire.MaxNumber, wire.MaxNumber, wire.MaxNumber, verdict{}, wire.MaxNumber + 1},
	}
	for _, tt := range tests {
		p := position{next: tt.next}
		if got := p.advance(tt.seq, tt.skipped); got != tt.want || p.next != tt.after {
			t.Errorf("%s: %+v, next %d; want %+v, next %d", tt.name, got, p.next, tt.want, tt.after)
		}
	}
}

// Whatever is merged, dropped or sent twice: ticks, merged ones and gaps account
// for each sequence number exactly once.
func TestAdvanceAccountsForEverything(t *testing.T) {
	random := rand.New(rand.NewChaCha8([32]byte{3}))
	for range 200 {
		p := position{next: 1}
		var delivered, merged, lost, discarded, last uint64
		for seq := uint64(1); seq <= 500; seq++ {
			if random.IntN(3) == 0 {
				continue // merged into a later one, or lost
			}
			skipped := random.Uint64N(min(seq, 5))
			for range 1 + random.IntN(2) {
				v := p.advance(seq, skipped)
				if v.discard {
					discarded++
					continue
				}
				delivered++
				merged += v.merged
				if v.gap {
					lost += v.to - v.from + 1
				}
				last = seq
			}
		}
		if delivered+merged+lost != last || p.next != last+1 || discarded == 0 {
			t.Fatalf("%d delivered, %d merged, %d lost of %d", delivered, merged, lost, last)
		}
	}
}

func mustAnnounce(t *testing.T, v *view, s *wire.TopicState, want announced) {
	t.Helper()
	if got, err := v.announce(s); err != nil || got != want {
		t.Errorf("announce %v: %v, %v; want %v", s, got, err, want)
	}
}

func mustTick(t *testing.T, v *view, number uint32, seq uint64, want verdict) {
	t.Helper()
	if _, got := v.tick(&wire.Entry{Topic: number, Seq: seq}); got != want {
		t.Errorf("tick %d of %d: %+v, want %+v", seq, number, got, want)
	}
}

func TestAnnouncementsKeepThePosition(t *testing.T) {
	v := newView()
	if err := v.confirm([]string{"a:*"}); err != nil {
		t.Fatal(err)
	}
	mustAnnounce(t, v, state(1, "a:b", 77, 10), announcedNew)
	mustTick(t, v, 1, 10, verdict{})
	// A second filter matches too; its announcement overtook ticks 11 to 19.
	if err := v.confirm([]string{"a:b"}); err != nil {
		t.Fatal(err)
	}
	mustAnnounce(t, v, state(1, "a:b", 77, 20), announcedKnown)
	mustTick(t, v, 1, 11, verdict{})
	mustTick(t, v, 1, 20, verdict{gap: true, from: 12, to: 19})
	mustAnnounce(t, v, state(1, "a:b", 78, 3), announcedReset)
	mustTick(t, v, 1, 3, verdict{})
}

func TestUnsubscribedTopicsBeginAnew(t *testing.T) {
	v := newView()
	if err := v.confirm([]string{"a:*", "a:b"}); err != nil {
		t.Fatal(err)
	}
	mustAnnounce(t, v, state(1, "a:b", 77, 1), announcedNew)
	mustAnnounce(t, v, state(2, "a:c", 78, 1), announcedNew)
	if err := v.release([]string{"a:*"}); err != nil {
		t.Fatal(err)
	}
	mustTick(t, v, 1, 1, verdict{}) // still matched by its name
	mustTick(t, v, 2, 1, verdict{discard: true})
	if p := v.reset(2, &wire.Reset{Epoch: 80, NextSeq: 4}); p != nil {
		t.Errorf("reset of a topic that was given back: %v", p)
	}
	if err := v.confirm([]string{"a:*"}); err != nil {
		t.Fatal(err)
	}
	mustAnnounce(t, v, state(2, "a:c", 78, 90), announcedNew)
	mustTick(t, v, 2, 90, verdict{}) // no gap: nobody wanted what was between
}

// TestAnotherNumber: a topic that the gateway had forgotten comes back under another
// number and epoch, and a client that follows it all the time hears of a reset.
func TestAnotherNumber(t *testing.T) {
	v := newView()
	if err := v.confirm([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	mustAnnounce(t, v, state(1, "a", 77, 5), announcedNew)
	mustTick(t, v, 1, 5, verdict{})
	mustAnnounce(t, v, state(9, "a", 78, 1), announcedReset)
	mustTick(t, v, 1, 6, verdict{discard: true})
	mustTick(t, v, 9, 1, verdict{})
	mustTick(t, v, 9, 3, verdict{gap: true, from: 2, to: 2})
	mustAnnounce(t, v, state(10, "a", 78, 9), announcedKnown)
	mustTick(t, v, 10, 4, verdict{})
	if err := v.release([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	mustAnnounce(t, v, state(11, "a", 79, 1), announcedNew)
}

func TestReset(t *testing.T) {
	v := newView()
	mustAnnounce(t, v, state(1, "a", 77, 5), announcedNew)
	p := v.reset(1, &wire.Reset{Epoch: 99, NextSeq: 2})
	if p == nil || p.epoch != 99 || p.next != 2 || p.name != "a" {
		t.Fatalf("reset: %+v", p)
	}
	mustTick(t, v, 1, 2, verdict{})
	if p := v.reset(1, &wire.Reset{Epoch: 99, NextSeq: 2}); p != nil {
		t.Errorf("the same reset again: %+v", p)
	}
	mustTick(t, v, 1, 3, verdict{})
}

func TestViewRefusesWhatWasNeverAnnounced(t *testing.T) {
	v := newView()
	mustAnnounce(t, v, state(1, "a", 77, 5), announcedNew)
	tests := map[string]func() error{
		"tick of an unknown topic":  func() error { return v.announcedAll(&wire.Batch{Topics: []uint32{1, 2}}) },
		"reset of an unknown topic": func() error { return v.announcedAll(&wire.Batch{Resets: []*wire.Reset{{Topic: 1}, {Topic: 2}}}) },
		"a number used again":       func() error { _, err := v.announce(state(1, "b", 77, 5)); return err },
	}
	for name, f := range tests {
		if err := f(); !errors.Is(err, errSequence) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.announce(state(2, "a:*", 1, 1)); !errors.Is(err, topic.ErrInvalid) {
		t.Errorf("announced pattern: %v", err)
	}
	if err := v.confirm([]string{"***"}); !errors.Is(err, topic.ErrInvalid) {
		t.Errorf("confirmed nonsense: %v", err)
	}
}
