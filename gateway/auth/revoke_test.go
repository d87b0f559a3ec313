package auth

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

const hour = int64(time.Hour / time.Millisecond)

// at is a time some milliseconds after noon.
func at(ms int64) int64 { return noon.UnixMilli() + ms }

func TestWhatARevocationTakesBack(t *testing.T) {
	g := &Grant{User: "ann", TokenID: "t-1", Login: "gw-7", Issued: noon.Unix() - 60}
	for _, c := range []struct {
		name      string
		r         Revocation
		change    func(*Grant)
		refused   bool
		forbidden bool
	}{
		{"the user's tokens up to now", Revocation{Kind: KindUser, Value: "ann"}, nil, true, false},
		{"a later token", Revocation{Kind: KindUser, Value: "ann"}, func(g *Grant) { g.Issued = noon.Unix() + 1 }, false, false},
		{"a token without iat", Revocation{Kind: KindUser, Value: "ann"}, func(g *Grant) { g.Issued = 0 }, true, false},
		{"a ban", Revocation{Kind: KindUser, Value: "ann", Ban: true}, func(g *Grant) { g.Issued = noon.Unix() + 1 }, true, true},
		{"another user", Revocation{Kind: KindUser, Value: "bob", Ban: true}, nil, false, false},
		{"the login", Revocation{Kind: KindSession, Value: "gw-7"}, nil, true, false},
		{"another login", Revocation{Kind: KindSession, Value: "gw-8"}, nil, false, false},
		{"the token", Revocation{Kind: KindToken, Value: "t-1"}, nil, true, false},
		{"a user of the token's name", Revocation{Kind: KindUser, Value: "t-1"}, nil, false, false},
		{"lifted", Revocation{Kind: KindToken, Value: "t-1", Lifted: true}, nil, false, false},
	} {
		list := NewRevocations(atNoon)
		c.r.At, c.r.Until = at(0), at(hour)
		if len(list.Merge(c.r)) != 1 {
			t.Fatalf("%s: not taken", c.name)
		}
		who := *g
		if c.change != nil {
			c.change(&who)
		}
		err := list.Check(&who)
		var no *Refusal
		if errors.As(err, &no) != c.refused || c.refused && no.Forbidden != c.forbidden {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := NewRevocations(atNoon).Check(&Grant{}); err != nil {
		t.Error(err)
	}
}

func TestRevocationsEnd(t *testing.T) {
	now := noon
	list := NewRevocations(func() time.Time { return now })
	list.Merge(Revocation{Kind: KindToken, Value: "t", At: at(0), Until: at(hour)})
	g := &Grant{TokenID: "t"}
	now = noon.Add(time.Hour - time.Millisecond)
	if list.Check(g) == nil || list.Len() != 1 {
		t.Error("over too early")
	}
	now = noon.Add(time.Hour)
	if list.Check(g) != nil || list.Len() != 0 {
		t.Error("still in force")
	}
	list.Merge(Revocation{Kind: KindToken, Value: "u", At: at(hour), Until: at(2 * hour)})
	if n := len(list.all()); n != 1 {
		t.Errorf("%d kept", n)
	}
}

func TestImpossibleRevocationsAreNotTaken(t *testing.T) {
	year := 367 * 24 * hour
	for name, r := range map[string]Revocation{
		"no kind":      {Value: "a", Until: at(hour)},
		"no value":     {Kind: KindUser, Until: at(hour)},
		"long value":   {Kind: KindUser, Value: strings.Repeat("a", 256), At: at(0), Until: at(hour)},
		"no end":       {Kind: KindUser, Value: "a", At: at(0), Until: at(year)},
		"over":         {Kind: KindUser, Value: "a", At: at(-2 * hour), Until: at(-hour)},
		"from behind":  {Kind: KindUser, Value: "a", At: at(0), Until: at(-1)},
		"to come":      {Kind: KindUser, Value: "a", At: at(hour), Until: at(2 * hour)},
		"before 1970":  {Kind: KindUser, Value: "a", At: -5, Until: at(hour)},
		"line feed":    {Kind: KindUser, Value: "a\n", At: at(0), Until: at(hour)},
		"unknown kind": {Kind: "all", Value: "a", At: at(0), Until: at(hour)},
	} {
		if list := NewRevocations(atNoon); len(list.Merge(r)) != 0 || len(list.all()) != 0 {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestOrderDoesNotMatter: however revocations arrive, all gateways end up with the same list.
func TestOrderDoesNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var all []Revocation
		for range 12 {
			all = append(all, Revocation{Kind: KindUser, Value: fmt.Sprint(random.IntN(3)), At: at(random.Int64N(4)),
				Until: at(hour + random.Int64N(3)), Ban: random.IntN(2) == 0, Lifted: random.IntN(3) == 0})
		}
		first := NewRevocations(atNoon)
		first.Merge(all...)
		for range 5 {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			other := NewRevocations(atNoon)
			for _, r := range all {
				other.Merge(r)
				other.Merge(r)
			}
			if !reflect.DeepEqual(first.all(), other.all()) {
				t.Fatalf("round %d: %v and %v", round, first.all(), other.all())
			}
		}
	}
}

func TestLift(t *testing.T) {
	list := NewRevocations(atNoon)
	if _, ok := list.Lift(KindUser, "ann"); ok {
		t.Error("lifted what was not there")
	}
	old := Revocation{Kind: KindUser, Value: "ann", At: at(0), Until: at(hour), Ban: true}
	list.Merge(old)
	lifted, ok := list.Lift(KindUser, "ann")
	if !ok || !lifted.Lifted || list.Check(&Grant{User: "ann"}) != nil {
		t.Errorf("%+v, %v", lifted, ok)
	}
	if list.Merge(old); list.Check(&Grant{User: "ann"}) != nil {
		t.Error("what was lifted came back")
	}
	if _, ok := list.Lift(KindUser, "ann"); ok {
		t.Error("lifted twice")
	}
	other := NewRevocations(atNoon)
	other.Merge(lifted, old)
	if other.Check(&Grant{User: "ann"}) != nil {
		t.Error("another gateway does not know that it was lifted")
	}
}

func TestTheListIsBounded(t *testing.T) {
	list := NewRevocations(atNoon)
	var all []Revocation
	for i := range maxRevocations + 10 {
		all = append(all, Revocation{Kind: KindToken, Value: fmt.Sprint(i), At: at(0), Until: at(hour + int64(i))})
	}
	list.Merge(all...)
	if list.Len() != maxRevocations || list.Evicted() != 10 {
		t.Errorf("%d kept, %d evicted", list.Len(), list.Evicted())
	}
	if list.Check(&Grant{TokenID: "9"}) != nil || list.Check(&Grant{TokenID: "10"}) == nil {
		t.Error("not those that end first had to go")
	}
}

func TestPages(t *testing.T) {
	list := NewRevocations(atNoon)
	for i := range 25 {
		list.Merge(Revocation{Kind: []Kind{KindUser, KindToken}[i%2], Value: fmt.Sprint(i), At: at(0), Until: at(hour), Lifted: i == 3})
	}
	seen, after, more := map[string]bool{}, "", true
	for pages := 0; more; pages++ {
		var page []Revocation
		page, more = list.Page(after, 7)
		if len(page) > 7 || pages > 10 {
			t.Fatal("no end")
		}
		for _, r := range page {
			if r.Place() <= after || seen[r.Place()] {
				t.Fatalf("%q out of order", r.Place())
			}
			after, seen[r.Place()] = r.Place(), true
		}
	}
	if len(seen) != 24 {
		t.Errorf("%d listed", len(seen))
	}
}
