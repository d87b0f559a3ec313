package gateway

import (
	"sync/atomic"

	"github.com/sealcast/sealcast/fanout"
)

// LoginStats count who was let in, and what became of it.
type LoginStats struct {
	OK              uint64 // sessions that came into service
	Unauthenticated uint64 // refused with 4401
	Forbidden       uint64 // refused with 4403: banned, or of another user than the ticket
	Duplicate       uint64 // refused with 4409
	Busy            uint64 // refused with 1013: no keys to verify tokens with, or too many at once
	Refreshed       uint64 // tokens exchanged
	RefreshRefused  uint64
	Revoked         uint64 // sessions ended because they were revoked

	Revocations struct{ User, Session, Token uint64 } // asked for here
	InForce     int                                   // revocations now
	Evicted     uint64                                // revocations that had to go because there were too many
	Heard       uint64                                // messages of other gateways
	Forged      uint64                                // messages on their channel that were not taken
	Control     fanout.ControlStats
	AuditLost   uint64 // audit lines
}

// loginEvent is one place in loginCounts.
type loginEvent int

const (
	loginOK loginEvent = iota
	loginUnauthenticated
	loginForbidden
	loginDuplicate
	loginBusy
	refreshed
	refreshRefused
	sessionRevoked
	loginEvents
)

// loginCounts are written by their loop.
type loginCounts [loginEvents]atomic.Uint64

func (c *conn) countLogin(e loginEvent) { c.loop.stats.logins[e].Add(1) }

func (n *loginCounts) addTo(to *LoginStats) {
	for i, sum := range [loginEvents]*uint64{&to.OK, &to.Unauthenticated, &to.Forbidden, &to.Duplicate, &to.Busy,
		&to.Refreshed, &to.RefreshRefused, &to.Revoked} {
		*sum += n[i].Load()
	}
}

func (g *Gateway) addAccess(to *LoginStats) {
	a := g.access
	to.Revocations.User, to.Revocations.Session, to.Revocations.Token = a.revokes[0].Load(), a.revokes[1].Load(), a.revokes[2].Load()
	to.InForce, to.Evicted = a.revoked.Len(), a.revoked.Evicted()
	to.Heard, to.Forged = a.heard.Load(), a.forged.Load()
	if g.opts.Control != nil {
		to.Control = g.opts.Control.Stats()
	}
	if g.opts.AuditLost != nil {
		to.AuditLost = g.opts.AuditLost()
	}
}
