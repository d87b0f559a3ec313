package gateway

import (
	"math/rand/v2"
	"testing"

	"github.com/sealcast/sealcast/gateway/auth"
)

// A wheel is compared with the obvious thing, a table of deadlines.
func TestWheelFiresOnceAndInTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var w wheel
	tick := coarseTick.Milliseconds()
	due := map[*conn]int64{}
	conns := make([]*conn, 200)
	for i := range conns {
		conns[i] = &conn{id: uint64(i)}
	}
	for now := int64(0); now < 3*wheelSlots*tick; now += 1 + rnd.Int64N(2*tick) {
		for range 3 {
			c := conns[rnd.IntN(len(conns))]
			if rnd.IntN(4) == 0 {
				w.clear(c)
				delete(due, c)
				continue
			}
			at := now + rnd.Int64N(2*wheelSlots*tick) - tick
			w.set(c, at)
			due[c] = at
		}
		for _, c := range w.expire(now, nil) {
			at, ok := due[c]
			if !ok || at > now {
				t.Fatalf("connection %d fired at %d, due %d (%v)", c.id, now, at, ok)
			}
			delete(due, c)
		}
		for c, at := range due {
			if at < now-2*tick {
				t.Fatalf("connection %d was due at %d and has not fired at %d", c.id, at, now)
			}
		}
	}
}

func TestWheelClearsWhatWasNeverSet(t *testing.T) {
	var w wheel
	a, b := &conn{}, &conn{}
	w.set(a, 0)
	w.clear(b)
	w.clear(a)
	w.clear(a)
	if got := w.expire(10*coarseTick.Milliseconds(), nil); len(got) != 0 {
		t.Fatalf("%d connections fired", len(got))
	}
}

func TestWheelDoesNotAllocate(t *testing.T) {
	var w wheel
	conns := make([]*conn, 64)
	for i := range conns {
		conns[i] = &conn{}
	}
	due := make([]*conn, 0, len(conns))
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		for i, c := range conns {
			w.set(c, now+int64(i)*7)
		}
		now += coarseTick.Milliseconds()
		due = w.expire(now, due[:0])
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestTokenDeadlineIsExact: a loop's clock is seldom at a whole second, at which tokens end.
func TestTokenDeadlineIsExact(t *testing.T) {
	l := &loop{now: 1_000, wall: 5_950}
	c := &conn{loop: l, sub: &subscriber{}}
	if at := c.tokenDeadline(); at != never {
		t.Errorf("%d without a grant", at)
	}
	c.sub.who.grant = &auth.Grant{Expires: 9}
	for notice, want := range map[int64]int64{0: 4_050, 7: 2_050, 8: 3_050} {
		c.sub.who.noticeAt = notice
		if at := c.tokenDeadline(); at != want {
			t.Errorf("notice at %d: %d, want %d", notice, at, want)
		}
	}
}
