package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/testenv"
)

// Ticks that wait for their batch, and are merged there or by a rate, cost no
// allocation, neither for each tick nor for each session.
func TestWaitingAndMergingAllocateNothing(t *testing.T) {
	const delay, sessions, ticks = 5 * time.Millisecond, 20, 50
	for _, id := range []suite.ID{suite.AES128GCM, suite.Plain} {
		for _, c := range []struct {
			name      string
			delivered int // of the ticks of one round
		}{{"every:a", ticks}, {"latest:a", 1}, {"paced:a", 1}} {
			for _, cohorts := range []string{"one", "each"} {
				t.Run(fmt.Sprintf("%v/%s/cohorts=%s", id, c.name, cohorts), func(t *testing.T) {
					w, h := promptWorld(t, delay)
					for i := range sessions {
						gw, _ := w.handshake(id)
						filters := []string{c.name, fmt.Sprint("own:", i)}
						if cohorts == "one" {
							filters = filters[:1]
						}
						h.join(w, gw, filters...)
					}
					roundsAllocateNothing(t, w, sessions*c.delivered, sessions*(ticks-c.delivered), ticks)
				})
			}
		}
	}
}

// roundsAllocateNothing hands over ticks of topic 1 one turn after the other, and lets
// time go by, again and again.
func roundsAllocateNothing(t *testing.T, w *world, delivered, merged, ticks int) {
	const rounds = 50
	payload := make([]byte, 100)
	events := make([]fanout.Event, ticks)
	for i := range events {
		seq := uint64(i + 1)
		events[i] = &fanout.Tick{Topic: 1, Seq: seq, ReceivedUS: 1, Payload: payload}
	}
	round := func() {
		for i := range events {
			w.turn(events[i : i+1])
		}
		w.pass(time.Second) // what a rate has held back passes
		w.pass(time.Second) // and its batch closes
	}
	for range 10 {
		round() // buffers grow
	}
	s := &w.l.stats
	d, m := s.delivered.Load(), s.merged.Load()
	allocs := testing.AllocsPerRun(rounds, round)
	if got := s.delivered.Load() - d; got != uint64((rounds+1)*delivered) {
		t.Errorf("%d ticks delivered in %d rounds, want %d in each", got, rounds+1, delivered)
	}
	if got := s.merged.Load() - m; got != uint64((rounds+1)*merged) {
		t.Errorf("%d ticks merged in %d rounds, want %d in each", got, rounds+1, merged)
	}
	if allocs > 0 && !testenv.Race {
		t.Errorf("%v allocations a round", allocs)
	}
}
