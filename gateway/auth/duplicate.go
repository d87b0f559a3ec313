package auth

import (
	"cmp"
	"errors"
	"sync"
	"time"
)

// Duplicate says what happens to several sessions of one user.
type Duplicate string

// The values of auth.on_duplicate.
const (
	DuplicateAllow   Duplicate = "allow"
	DuplicateReject  Duplicate = "reject"  // the first login stays
	DuplicateReplace Duplicate = "replace" // the newest login stays
)

// Stamp orders the sessions of a user, over all gateways. Two are never equal.
type Stamp struct {
	Login   string `json:"login"`
	Auth    int64  `json:"auth"`    // when the login's token was verified, Unix milliseconds
	Entered int64  `json:"entered"` // when this session came into service; never twice the same on a gateway
	Gateway string `json:"gateway"`
	Conn    uint64 `json:"conn"`
}

var errStamp = errors.New("no stamp")

func (s *Stamp) check(now time.Time) error {
	ahead := now.Add(maxAhead).UnixMilli()
	if s.Login == "" || !isName(s.Login) || s.Gateway == "" || !isName(s.Gateway) ||
		s.Auth < 0 || s.Auth > ahead || s.Entered < 0 || s.Entered > ahead {
		return errStamp
	}
	return nil
}

// Yields tells which of two sessions of a user goes: that of s, or the other
// one. Both gateways decide alike, from the stamps alone.
//
// Of one login the session that came last stays: the client has come back, and
// the other connection is dead. Of two logins, the older goes with replace, the
// newer with reject.
func (d Duplicate) Yields(s, other *Stamp) bool {
	if s.Login == other.Login {
		return cmp.Or(cmp.Compare(s.Entered, other.Entered), cmp.Compare(s.Gateway, other.Gateway), cmp.Compare(s.Conn, other.Conn)) < 0
	}
	order := cmp.Or(cmp.Compare(s.Auth, other.Auth), cmp.Compare(s.Login, other.Login))
	switch d {
	case DuplicateReplace:
		return order < 0
	case DuplicateReject:
		return order > 0
	}
	return false
}

// Register knows the one session of each user that stays on this gateway. Its
// methods are safe for concurrent use, and short: loops call them, once per login
// and end.
type Register struct {
	now func() time.Time

	mu    sync.Mutex
	users map[string]Stamp
	last  int64 // the highest time in a stamp given or seen
}

// NewRegister makes an empty register.
func NewRegister(now func() time.Time) *Register {
	return &Register{now: now, users: map[string]Stamp{}}
}

// Tick is a time for a stamp, in Unix milliseconds: later than that of every
// stamp given or seen so far, also if another gateway's clock is ahead, so that
// what happened later always counts as later.
func (r *Register) Tick() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last+1, r.now().UnixMilli())
	return r.last
}

// Enter registers a session. out is the one of this gateway that goes for it;
// stays is false if it is the new one itself.
func (r *Register) Enter(rule Duplicate, user string, s Stamp) (out *Stamp, stays bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.users[user]
	if ok && rule.Yields(&s, &old) {
		return nil, false
	}
	r.users[user] = s
	if ok {
		return &old, true
	}
	return nil, true
}

// Leave takes a session out that has ended, if it is the registered one.
func (r *Register) Leave(user string, s Stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[user] == s {
		delete(r.users, user)
	}
}

// All lists the registered sessions, for gateways that could not hear of them.
func (r *Register) All() []Login {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Login, 0, len(r.users))
	for user, stamp := range r.users {
		all = append(all, Login{User: user, Stamp: stamp})
	}
	return all
}

// Hear compares a login at another gateway with the user's session here. yields
// tells that ours goes; if it does not, ours is what the other must hear of.
func (r *Register) Hear(rule Duplicate, l *Login) (ours Stamp, ok, yields bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, l.Stamp.Auth, l.Stamp.Entered)
	ours, ok = r.users[l.User]
	if !ok || ours == l.Stamp {
		return ours, false, false
	}
	if yields = rule.Yields(&ours, &l.Stamp); yields {
		delete(r.users, l.User)
	}
	return ours, true, yields
}
