package auth

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kind says what a Revocation takes back.
type Kind string

// The kinds of revocations.
const (
	KindUser    Kind = "user"    // by the token's subject
	KindSession Kind = "session" // one login, with all sessions that were resumed from it
	KindToken   Kind = "token"   // by the token's jti
)

// maxRevocations bounds the list. The one that ends first has to go when there
// are more, which is counted.
const maxRevocations = 10_000

// maxRevoked is the longest time that a revocation holds.
const maxRevoked = 366 * 24 * time.Hour

// Revocation takes back what was granted. Times are Unix milliseconds. It holds
// until Until. A user's tokens that were issued later than At are good again,
// unless it is a ban.
type Revocation struct {
	Kind   Kind   `json:"kind"`
	Value  string `json:"value"`
	At     int64  `json:"at"`
	Until  int64  `json:"until"`
	Ban    bool   `json:"ban,omitempty"`
	Lifted bool   `json:"lifted,omitempty"` // kept so that gateways which were away learn of it
}

// key names what is revoked; of several for one key, the newest holds.
func (r *Revocation) key() string { return string(r.Kind) + ":" + r.Value }

// ErrRevocation is why something is not taken as a revocation.
var ErrRevocation = errors.New("no revocation: a name of 1 to 255 bytes, for at most 366 days")

// check refuses what no gateway makes.
func (r *Revocation) check(now time.Time) error {
	switch {
	case r.Kind != KindUser && r.Kind != KindSession && r.Kind != KindToken,
		r.Value == "", !isName(r.Value),
		r.At < 0, r.At > now.Add(maxAhead).UnixMilli(),
		r.Until <= r.At, r.Until-r.At > maxRevoked.Milliseconds():
		return ErrRevocation
	}
	return nil
}

// newer decides which of two revocations of one key holds: the later, and of two
// at the same time the one that takes more back.
func (r *Revocation) newer(old *Revocation) bool {
	return cmp.Or(cmp.Compare(r.At, old.At), compareBool(old.Lifted, r.Lifted),
		compareBool(r.Ban, old.Ban), cmp.Compare(r.Until, old.Until)) > 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Revocations is the list of what is taken back. Its methods are safe for
// concurrent use; Check takes no lock.
type Revocations struct {
	now func() time.Time

	list    atomic.Pointer[map[string]Revocation] // replaced as a whole
	mu      sync.Mutex                            // of those who replace it
	evicted atomic.Uint64
}

// NewRevocations makes an empty list.
func NewRevocations(now func() time.Time) *Revocations {
	r := &Revocations{now: now}
	r.list.Store(&map[string]Revocation{})
	return r
}

// Merge takes in revocations, from whom ever; what is not newer than what is
// known has no effect, so that order and repetition do not matter. It returns
// those that were taken.
func (r *Revocations) Merge(more ...Revocation) []Revocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	next, taken := maps.Clone(*r.list.Load()), []Revocation(nil)
	maps.DeleteFunc(next, func(_ string, e Revocation) bool { return e.Until <= now.UnixMilli() })
	for i := range more {
		e := &more[i]
		old, known := next[e.key()]
		if e.check(now) != nil || e.Until <= now.UnixMilli() || known && !e.newer(&old) {
			continue
		}
		next[e.key()] = *e
		taken = append(taken, *e)
	}
	r.shorten(next)
	r.list.Store(&next)
	return taken
}

// shorten evicts what ends first.
func (r *Revocations) shorten(list map[string]Revocation) {
	over := len(list) - maxRevocations
	if over <= 0 {
		return
	}
	all := slices.SortedFunc(maps.Values(list), func(a, b Revocation) int {
		return cmp.Or(compareBool(b.Lifted, a.Lifted), cmp.Compare(a.Until, b.Until))
	})
	for i := range over {
		delete(list, all[i].key())
	}
	r.evicted.Add(uint64(over))
}

// Evicted is how many had to go because the list was full.
func (r *Revocations) Evicted() uint64 { return r.evicted.Load() }

// Lift ends the revocation of a value before its time. It returns what is to be
// told to other gateways; ok is false if there is none in force.
func (r *Revocations) Lift(kind Kind, value string) (lifted Revocation, ok bool) {
	old, ok := (*r.list.Load())[(&Revocation{Kind: kind, Value: value}).key()]
	if !ok || !old.inForce(r.now()) {
		return lifted, false
	}
	lifted = old
	lifted.Lifted, lifted.At = true, max(r.now().UnixMilli(), old.At+1)
	lifted.Until = max(lifted.Until, lifted.At+1)
	return lifted, len(r.Merge(lifted)) > 0
}

func (r *Revocation) inForce(now time.Time) bool { return !r.Lifted && now.UnixMilli() < r.Until }

// Check refuses a grant that has been taken back, with a *Refusal.
func (r *Revocations) Check(g *Grant) error {
	list := *r.list.Load()
	if len(list) == 0 {
		return nil
	}
	now := r.now()
	if e, ok := list[(&Revocation{Kind: KindUser, Value: g.User}).key()]; ok && g.User != "" && e.inForce(now) {
		if e.Ban {
			return &Refusal{Text: "the user is banned until " + time.UnixMilli(e.Until).UTC().Format(time.RFC3339), Forbidden: true}
		}
		if g.Issued*1000 <= e.At {
			return refuse("the user's tokens up to now have been revoked")
		}
	}
	for _, k := range []struct {
		kind        Kind
		value, text string
	}{
		{KindSession, g.Login, "the session has been revoked"},
		{KindToken, g.TokenID, "the token has been revoked"},
	} {
		if e, ok := list[(&Revocation{Kind: k.kind, Value: k.value}).key()]; ok && k.value != "" && e.inForce(now) {
			return refuse(k.text)
		}
	}
	return nil
}

// Page lists up to limit revocations in force whose place is behind after, which
// is a Place or empty. more tells whether others follow.
func (r *Revocations) Page(after string, limit int) (page []Revocation, more bool) {
	now := r.now()
	for _, e := range *r.list.Load() {
		if e.inForce(now) && e.Place() > after {
			page = append(page, e)
		}
	}
	slices.SortFunc(page, func(a, b Revocation) int { return strings.Compare(a.Place(), b.Place()) })
	if len(page) > limit {
		return page[:limit], true
	}
	return page, false
}

// Place is where the revocation stands in the order of Page.
func (r *Revocation) Place() string { return r.key() }

// Len is how many are in force.
func (r *Revocations) Len() (n int) {
	now := r.now()
	for _, e := range *r.list.Load() {
		if e.inForce(now) {
			n++
		}
	}
	return n
}

// all lists what is known, lifted ones too.
func (r *Revocations) all() map[string]Revocation { return *r.list.Load() }
