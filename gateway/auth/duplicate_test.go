package auth

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestWhoYields(t *testing.T) {
	old := Stamp{Login: "a-1", Auth: 10, Entered: 10, Gateway: "a", Conn: 1}
	fresh := Stamp{Login: "b-1", Auth: 20, Entered: 20, Gateway: "b", Conn: 1}
	back := Stamp{Login: "a-1", Auth: 10, Entered: 30, Gateway: "b", Conn: 2} // old has been resumed
	for _, c := range []struct {
		rule      Duplicate
		who, from Stamp
		yields    bool
	}{
		{DuplicateAllow, old, fresh, false}, {DuplicateAllow, fresh, old, false},
		{DuplicateReplace, old, fresh, true}, {DuplicateReplace, fresh, old, false},
		{DuplicateReject, old, fresh, false}, {DuplicateReject, fresh, old, true},
		{DuplicateReplace, old, back, true}, {DuplicateReject, old, back, true},
		{DuplicateReplace, back, old, false}, {DuplicateReject, back, old, false},
		{DuplicateReplace, back, fresh, true}, {DuplicateReplace, fresh, back, false}, // a resumption is no new login
	} {
		if got := c.rule.Yields(&c.who, &c.from); got != c.yields {
			t.Errorf("%s: %s/%d yields to %s/%d: %v", c.rule, c.who.Login, c.who.Entered, c.from.Login, c.from.Entered, got)
		}
	}
}

// TestExactlyOneStays: several gateways with wrong clocks, logins at the same
// time, words that arrive late and in any order.
func TestExactlyOneStays(t *testing.T) {
	type word struct {
		to int
		l  Login
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		rule := []Duplicate{DuplicateReplace, DuplicateReject}[seed%2]
		const gateways = 3
		var registers [gateways]*Register
		var post []word
		alive := map[Stamp]int{}
		for i := range registers {
			skew := time.Duration(random.IntN(100_000)) * time.Millisecond
			registers[i] = NewRegister(func() time.Time { return noon.Add(skew) })
		}
		tell := func(from int, l Login) {
			for i := range registers {
				if i != from {
					post = append(post, word{i, l})
				}
			}
		}
		logins := 6
		for logins > 0 || len(post) > 0 {
			if logins > 0 && (len(post) == 0 || random.IntN(3) == 0) {
				logins--
				g := random.IntN(gateways)
				s := Stamp{Login: fmt.Sprintf("%d-%d", g, logins), Auth: registers[g].Tick(), Entered: registers[g].Tick(), Gateway: fmt.Sprint(g), Conn: uint64(logins)}
				out, stays := registers[g].Enter(rule, "ann", s)
				if !stays {
					continue
				}
				alive[s] = g
				if out != nil {
					delete(alive, *out)
				}
				tell(g, Login{User: "ann", Stamp: s})
				continue
			}
			i := random.IntN(len(post))
			w := post[i]
			post = append(post[:i], post[i+1:]...)
			ours, ok, yields := registers[w.to].Hear(rule, &w.l)
			switch {
			case !ok:
			case yields:
				delete(alive, ours)
			case !w.l.Answer:
				tell(w.to, Login{User: "ann", Stamp: ours, Answer: true})
			}
		}
		if len(alive) != 1 {
			t.Fatalf("seed %d, %s: %d sessions stay: %v", seed, rule, len(alive), alive)
		}
	}
}

// TestLaterCountsAsLater: who has heard of a login ahead of its own clock still
// makes newer ones.
func TestLaterCountsAsLater(t *testing.T) {
	r := NewRegister(atNoon)
	ahead := Login{User: "ann", Stamp: Stamp{Login: "b-1", Auth: at(60_000), Entered: at(60_000), Gateway: "b"}}
	r.Hear(DuplicateReplace, &ahead)
	mine := Stamp{Login: "a-1", Auth: r.Tick(), Entered: r.Tick(), Gateway: "a"}
	if mine.Auth >= mine.Entered || DuplicateReplace.Yields(&mine, &ahead.Stamp) {
		t.Errorf("%+v", mine)
	}
}

func TestLeaving(t *testing.T) {
	r := NewRegister(atNoon)
	first := Stamp{Login: "a-1", Auth: 1, Entered: 1, Gateway: "a", Conn: 1}
	second := Stamp{Login: "a-2", Auth: 2, Entered: 2, Gateway: "a", Conn: 2}
	r.Enter(DuplicateReplace, "ann", first)
	if out, stays := r.Enter(DuplicateReplace, "ann", second); !stays || *out != first {
		t.Errorf("%v, %v", out, stays)
	}
	r.Leave("ann", first) // it was not the registered one any more
	if all := r.All(); len(all) != 1 || all[0].Stamp != second {
		t.Errorf("%v", all)
	}
	r.Leave("ann", second)
	if len(r.All()) != 0 {
		t.Error("still registered")
	}
}
