package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Control carries words to all gateways of one Redis; *fanout.Control in
// production. Its methods never block.
type Control interface {
	// Tell says something to every gateway that listens now.
	Tell(message []byte)
	// Sync has Reconcile called soon.
	Sync()
	Stats() fanout.ControlStats
}

// access is what all loops share about who is let in. Its parts are safe for
// concurrent use.
type access struct {
	name      string // of this gateway among others, random
	revoked   *auth.Revocations
	register  *auth.Register
	anonymous *auth.Grant // what holds without authentication, of all who have no login from a ticket

	forged  atomic.Uint64 // messages that were not understood
	heard   atomic.Uint64
	revokes [3]atomic.Uint64 // by place in revocationKinds
}

var revocationKinds = [...]auth.Kind{auth.KindUser, auth.KindSession, auth.KindToken}

func newAccess() *access {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails
	return &access{name: hex.EncodeToString(name[:]), revoked: auth.NewRevocations(time.Now),
		register: auth.NewRegister(time.Now), anonymous: &auth.Grant{Rights: auth.Everything()}}
}

// guardTickets has the tickets of a configuration judged by what is revoked now,
// and by whether a user is needed now.
func (g *Gateway) guardTickets(c *session.GatewayConfig) *session.GatewayConfig {
	if c == nil || c.Tickets == nil {
		return c
	}
	guarded, tickets := *c, *c.Tickets
	tickets.Accept = g.acceptTicket
	guarded.Tickets = &tickets
	return &guarded
}

var errNoUser = errors.New("the ticket names no user")

// acceptTicket is called by workers.
func (g *Gateway) acceptTicket(s session.Grant) error {
	grant, err := auth.DecodeGrant(s.Identity, s.TokenExpiry, s.Rights)
	if err != nil {
		return err
	}
	if g.live.Load().Auth.Verifier != nil && grant.User == "" {
		return errNoUser
	}
	return g.access.revoked.Check(grant)
}

// takePlace makes c the session of its user, and ends the one that it replaces.
// It returns false if c has to go itself.
func (c *conn) takePlace() bool {
	g, rule, grant := c.loop.gateway, c.loop.settings().Auth.OnDuplicate, c.sub.who.grant
	if grant.User == "" || rule == auth.DuplicateAllow || rule == "" {
		return true
	}
	stamp := auth.Stamp{Login: grant.Login, Auth: grant.Authenticated, Entered: g.access.register.Tick(),
		Gateway: g.access.name, Conn: c.id}
	out, stays := g.access.register.Enter(rule, grant.User, stamp)
	if !stays {
		return false
	}
	c.sub.who.stamp = &stamp
	if out != nil {
		g.displace(*out)
	}
	g.tell(&auth.Message{Login: &auth.Login{User: grant.User, Stamp: stamp}})
	return true
}

// giveUpPlace takes a session that ends out of the register.
func (c *conn) giveUpPlace() {
	if c.sub.who.stamp != nil {
		c.loop.gateway.access.register.Leave(c.sub.who.grant.User, *c.sub.who.stamp)
	}
}

// displace ends a session that another of its user has outdone.
func (g *Gateway) displace(s auth.Stamp) {
	for _, l := range *g.loops.Load() {
		l.call(func() {
			c := l.index.conns.find(s.Conn)
			if c == nil || c.phase != phaseOpen || c.sub.who.stamp == nil || *c.sub.who.stamp != s {
				return
			}
			l.serve(c, func(c *conn) {
				c.audit("replaced")
				c.end(wire.CloseReplaced, "another session of this user is open")
			})
		})
	}
}

// tell says something to the other gateways, if there are any.
func (g *Gateway) tell(m *auth.Message) {
	if g.opts.Control == nil {
		return
	}
	if raw := g.seal(m); raw != nil {
		g.opts.Control.Tell(raw)
	}
}

func (g *Gateway) seal(m *auth.Message) []byte {
	m.From = g.access.name
	raw, err := m.Seal(g.live.Load().Auth.ControlSecret)
	if err != nil {
		g.log.Error("message to other gateways not encoded", zap.Error(err))
	}
	return raw
}

// Announce repeats the logins that count for on_duplicate, for gateways that
// could not hear of them.
func (g *Gateway) Announce() [][]byte {
	var all [][]byte
	for _, l := range g.access.register.All() {
		if raw := g.seal(&auth.Message{Login: &l}); raw != nil {
			all = append(all, raw)
		}
	}
	return all
}

// Hear takes what a gateway has told, possibly this one. It is safe for
// concurrent use and returns soon.
func (g *Gateway) Hear(raw []byte) {
	settings := g.live.Load()
	m, err := auth.OpenMessage(settings.Auth.ControlSecret, raw, time.Now())
	if err != nil {
		if n := g.access.forged.Add(1); n&(n-1) == 0 { // 1, 2, 4, 8 …: somebody may say a lot
			g.log.Warn("message of another gateway not taken", zap.Error(err), zap.Uint64("so_far", n))
		}
		return
	}
	if m.From == g.access.name {
		return
	}
	g.access.heard.Add(1)
	if m.Revoke != nil {
		g.take(*m.Revoke)
		return
	}
	ours, ok, yields := g.access.register.Hear(settings.Auth.OnDuplicate, m.Login)
	switch {
	case !ok:
	case yields:
		g.displace(ours)
	case !m.Login.Answer:
		g.tell(&auth.Message{Login: &auth.Login{User: m.Login.User, Stamp: ours, Answer: true}})
	}
}

// Reconcile compares what is revoked here with what Redis keeps, and returns
// what to write there and what to remove. until is when all of it is over.
func (g *Gateway) Reconcile(stored map[string]string) (put map[string]string, drop []string, until time.Time) {
	taken, put, drop, until := g.access.revoked.Reconcile(g.live.Load().Auth.ControlSecret, g.access.name, stored)
	if len(taken) > 0 {
		g.log.Info("revocations of other gateways taken over", zap.Int("revocations", len(taken)))
		g.sweep()
	}
	return put, drop, until
}

// take puts revocations of other gateways into force.
func (g *Gateway) take(r auth.Revocation) {
	if len(g.access.revoked.Merge(r)) > 0 {
		g.opts.Audit.Info("revocation of another gateway", revocationFields(&r)...)
		g.sweep()
	}
}

func revocationFields(r *auth.Revocation) []zap.Field {
	return []zap.Field{zap.String("kind", string(r.Kind)), zap.String("value", r.Value),
		zap.Time("until", time.UnixMilli(r.Until).UTC()), zap.Bool("ban", r.Ban), zap.Bool("lifted", r.Lifted)}
}

// sweep has every loop end the sessions that have been revoked. Several sweeps
// that are asked for at once are one.
func (g *Gateway) sweep() {
	for _, l := range *g.loops.Load() {
		if !l.sweeps.Swap(true) {
			l.call(l.endRevoked)
		}
	}
}

func (l *loop) endRevoked() {
	l.sweeps.Store(false)
	for _, c := range l.index.conns.all() {
		if c.sub == nil || c.phase != phaseOpen {
			continue
		}
		if err := l.gateway.access.revoked.Check(c.own(c.sub.who.grant)); err != nil {
			l.serve(c, func(c *conn) {
				code, text := refusalCode(err)
				c.loop.stats.logins[sessionRevoked].Add(1)
				c.audit("revoked", zap.String("reason", text))
				c.end(code, text)
			})
		}
	}
}

// ErrNoSession is returned by Revoke for a session that is not on this gateway.
var ErrNoSession = errors.New("no such session on this gateway")

// Revoke takes back what was granted, on all gateways. For a session, value is
// its login, or its id on this gateway. A user is banned for a duration; without
// one, the tokens are revoked that were issued up to now. It fails with
// ErrNoSession, or when a loop does not answer before ctx ends.
func (g *Gateway) Revoke(ctx context.Context, kind auth.Kind, value string, duration time.Duration, by string) (auth.Revocation, error) {
	if id, err := strconv.ParseUint(value, 10, 64); err == nil && kind == auth.KindSession {
		if value, err = g.loginOf(ctx, id); err != nil {
			return auth.Revocation{}, err
		}
	}
	r := auth.Revocation{Kind: kind, Value: value, At: g.access.register.Tick(), Ban: duration > 0 && kind == auth.KindUser}
	if duration <= 0 {
		duration = g.live.Load().Auth.KeepRevoked
	}
	r.Until = r.At + duration.Milliseconds()
	if len(g.access.revoked.Merge(r)) == 0 {
		return r, auth.ErrRevocation
	}
	for i, k := range revocationKinds {
		if k == kind {
			g.access.revokes[i].Add(1)
		}
	}
	g.opts.Audit.Info("revocation", append(revocationFields(&r), zap.String("by", by))...)
	g.spread(r)
	g.sweep()
	return r, nil
}

// Lift ends a revocation before its time, on all gateways. It returns false if
// there is none.
func (g *Gateway) Lift(kind auth.Kind, value, by string) bool {
	r, ok := g.access.revoked.Lift(kind, value)
	if !ok {
		return false
	}
	g.opts.Audit.Info("revocation lifted", append(revocationFields(&r), zap.String("by", by))...)
	g.spread(r)
	return true
}

// spread tells the other gateways, and has Redis keep it for those to come.
func (g *Gateway) spread(r auth.Revocation) {
	g.tell(&auth.Message{Revoke: &r})
	if g.opts.Control != nil {
		g.opts.Control.Sync()
	}
}

// Revocations lists up to limit revocations in force behind a place.
func (g *Gateway) Revocations(after string, limit int) ([]auth.Revocation, bool) {
	return g.access.revoked.Page(after, limit)
}

// loginOf finds the login behind a session of this gateway.
func (g *Gateway) loginOf(ctx context.Context, id uint64) (string, error) {
	for _, l := range *g.loops.Load() {
		login := ""
		err := g.ask(ctx, l, func() {
			if c := l.index.conns.find(id); c != nil && c.sub != nil && c.sub.who.grant != nil {
				login = c.own(c.sub.who.grant).Login
			}
		})
		if err != nil || login != "" {
			return login, err
		}
	}
	return "", ErrNoSession
}

// audit writes one line about a session. It holds nothing of a token but names.
// Without authentication nobody is known of whom there would be something to say.
func (c *conn) audit(event string, fields ...zap.Field) {
	log := c.loop.gateway.opts.Audit
	if c.loop.settings().Auth.Verifier == nil {
		return
	}
	if e := log.Check(zap.InfoLevel, event); e != nil {
		fields = append(fields, zap.Uint64("conn", c.id), zap.String("user", c.user()))
		if c.sub != nil && c.sub.who.grant != nil {
			g := c.own(c.sub.who.grant)
			fields = append(fields, zap.String("login", g.Login), zap.String("jti", g.TokenID))
		}
		e.Write(fields...)
	}
}

// auditSubscription writes what a session asked for and may have.
func (c *conn) auditSubscription(filters []string) {
	if len(filters) > 0 {
		c.audit("subscription", zap.Strings("filters", filters))
	}
}
