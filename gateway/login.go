package gateway

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unique"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// A session is let in like this:
//
//	Connect ── no token needed ─────────────────────────────┐
//	   │  └─── a ticket's grant, and no token ──────────────┤
//	   └─ token → worker: verify ─ key unknown → seek keys  │
//	                 └────────────────┴─────→ onVerified ─→ enter → Connected
//
// Until then what the client sends behind Connect is kept, in a small bound. A
// ticket's grant has no effect before Connect, which is the client's first record
// (session.Resumed).

// What a client may send behind Connect before its token is verified.
const heldMessages = 16

// AuthOptions say who is let in.
type AuthOptions struct {
	Verifier    *auth.Verifier // nil: everybody, without a name
	OnDuplicate auth.Duplicate
	// Notice is how long before its token expires a client is told.
	Notice time.Duration
	// KeepRevoked is how long a revocation holds that names no duration.
	KeepRevoked time.Duration
	// ControlSecret authenticates what gateways tell each other; empty: nothing does.
	ControlSecret []byte
}

// login is a token on its way through the workers. Before and after, it is its
// loop's.
type login struct {
	verifier *auth.Verifier
	token    string
	refresh  *wire.Refresh // nil: of Connect
	hello    *wire.Connect // nil: of Refresh
	held     []*wire.ClientFrame
	bytes    int // in held

	grant *auth.Grant
	err   error
}

// verify and seek run on workers.
func (lg *login) verify() { lg.grant, lg.err = lg.verifier.Verify(lg.token) }

func (lg *login) seeks() bool { return errors.Is(lg.err, auth.ErrKeyUnknown) }

// seek fetches the keys and verifies again. A key that is not in a set just
// fetched does not exist.
func (lg *login) seek(ctx context.Context) {
	if err := lg.verifier.Remote().Seek(ctx); err != nil {
		lg.err = err
		return
	}
	if lg.verify(); lg.seeks() {
		lg.err = &auth.Refusal{Text: "the token's key is not known (kid, alg)"}
	}
}

// connect is in 6 for the first message of a session.
func (c *conn) connect(hello *wire.Connect) {
	c.sub = &subscriber{who: identity{client: unique.Make(clientName{shortened(hello.ClientName), shortened(hello.ClientVersion)})}}
	c.move(phaseLogin)
	verifier := c.loop.settings().Auth.Verifier
	resumed, err := c.resumed()
	switch {
	case err != nil: // a gateway of another version made the ticket
		c.refuseLogin(&auth.Refusal{Text: "connect again with a token"})
	case verifier == nil:
		c.enter(hello, c.anonymous(resumed), resumed != nil)
	case hello.Token == "" && resumed != nil && resumed.User != "":
		c.enter(hello, resumed, true)
	default:
		c.verify(&login{verifier: verifier, token: hello.Token, hello: hello})
	}
}

// resumed is the grant of the ticket that the session began with, nil without one.
func (c *conn) resumed() (*auth.Grant, error) {
	g := c.sess.Resumed()
	if g == nil {
		return nil, nil
	}
	return auth.DecodeGrant(g.Identity, g.TokenExpiry, g.Rights)
}

// anonymous is what holds without authentication: one grant for all, but for those
// whose login is another's than this session's.
func (c *conn) anonymous(resumed *auth.Grant) *auth.Grant {
	g := c.loop.gateway.access.anonymous
	if resumed == nil {
		return g
	}
	return &auth.Grant{Login: resumed.Login, Rights: g.Rights}
}

// own is a grant as this session's: with its login, if it is the grant of all.
func (c *conn) own(g *auth.Grant) *auth.Grant {
	if g.Login != "" {
		return g
	}
	mine := *g
	mine.Login = c.newLogin()
	return &mine
}

// newLogin names a login: the gateway, then the session that it began with.
func (c *conn) newLogin() string {
	return c.loop.gateway.access.name + "-" + strconv.FormatUint(c.id, 10)
}

// hold keeps a message until the token is verified.
func (c *conn) hold(f *wire.ClientFrame, size int) {
	lg := c.sub.login
	if lg.bytes += size; len(lg.held) == heldMessages || lg.bytes > c.loop.settings().Limits.Message {
		c.end(wire.CloseTooMany, "too many messages before the token is verified")
		return
	}
	lg.held = append(lg.held, f)
}

// verify gives a token to the workers.
func (c *conn) verify(lg *login) {
	c.sub.login = lg
	if !c.loop.gateway.workers.submit(&task{conn: c, login: lg}) {
		lg.err = auth.ErrUnavailable
		c.onVerified(lg)
	}
}

// onVerified goes on with a token that a worker has judged.
func (c *conn) onVerified(lg *login) {
	c.sub.login = nil
	lg.token = ""
	if lg.refresh != nil {
		c.onRefreshed(lg)
		return
	}
	resumed, err := c.resumed()
	if lg.err == nil {
		lg.err = err
	}
	switch {
	case lg.err != nil:
		c.refuseLogin(lg.err)
		return
	case resumed != nil && resumed.User != lg.grant.User:
		c.refuseLogin(&auth.Refusal{Text: "the token is of another user than the ticket", Forbidden: true})
		return
	case resumed != nil:
		lg.grant.Login, lg.grant.Authenticated = resumed.Login, resumed.Authenticated
	default:
		lg.grant.Login, lg.grant.Authenticated = c.newLogin(), c.loop.gateway.access.register.Tick()
	}
	c.enter(lg.hello, lg.grant, resumed != nil)
	for _, f := range lg.held {
		if c.phase == phaseOpen {
			c.onRequested(f)
		}
	}
}

// enter lets a session into service.
func (c *conn) enter(hello *wire.Connect, g *auth.Grant, resumed bool) {
	err := c.loop.gateway.access.revoked.Check(c.own(g))
	if err == nil && g.Expired(time.Unix(c.loop.unix(), 0)) {
		err = &auth.Refusal{Text: "the token has expired"}
	}
	if err != nil {
		c.refuseLogin(err)
		return
	}
	c.holdGrant(g)
	if !c.takePlace() {
		c.countLogin(loginDuplicate)
		c.audit("refusal", zap.String("reason", "another session of the user is open"))
		c.end(wire.CloseReplaced, "another session of this user is open")
		return
	}
	c.countLogin(loginOK)
	c.audit("login", zap.Bool("resumed", resumed), zap.Stringer("remote", c.remote),
		zap.String("client", c.sub.who.named().name), zap.Int64("expires_at", g.Expires))
	c.sub.codec, c.sub.takes = c.loop.agree(hello.Codecs), hello.Groups
	c.sub.perSecond = int32(c.maxMessages())
	c.move(phaseOpen)
	c.loop.gateway.log.Debug("client connected", zap.Uint64("conn", c.id),
		zap.String("client", hello.ClientName), zap.String("version", hello.ClientVersion))
	c.sendConnected()
}

func (c *conn) sendConnected() {
	opts, g := c.loop.settings(), c.sub.who.grant
	m := &wire.Connected{
		Session:             strconv.FormatUint(c.id, 10),
		User:                g.User,
		HeartbeatIntervalMs: uint32(c.heartbeats.Interval.Milliseconds()),
		HeartbeatTimeoutMs:  uint32(c.heartbeats.Timeout.Milliseconds()),
		Limits: &wire.Limits{
			MessageBytes:      uint32(opts.Limits.Message),
			Subscriptions:     uint32(c.maxSubscriptions()),
			MessagesPerSecond: uint32(c.sub.perSecond),
		},
		Version:    c.loop.gateway.opts.Version,
		ExpiresAtS: uint64(g.Expires),
		Groups:     opts.GroupSeal && c.sub.takes,
		ClockUs:    uint64(c.loop.scratch.joiner.Clock),
	}
	c.addTicket(m)
	c.sub.codec.announce(m)
	c.sess.Settle()
	c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Connected{Connected: m}})
}

// addTicket lets the client come back without a full handshake.
func (c *conn) addTicket(m *wire.Connected) {
	g := c.own(c.sub.who.grant)
	ticket, nonce, expiry, err := c.sess.NewTicket(session.Grant{
		Identity: g.User, Rights: g.EncodeRights(), Authenticated: g.Authenticated / 1000, TokenExpiry: g.Expires})
	if err != nil { // mostly: the settings give none; or the token has more topics than fit
		c.loop.gateway.log.Debug("no ticket for the session", zap.Uint64("conn", c.id), zap.Error(err))
		return
	}
	m.Ticket, m.TicketNonce = ticket, nonce[:]
	m.TicketLifetimeS = uint32(time.Until(expiry).Seconds())
}

// refuseLogin ends a session that is not let in.
func (c *conn) refuseLogin(err error) {
	code, text := refusalCode(err)
	switch code {
	case wire.CloseTryLater:
		c.countLogin(loginBusy)
	case wire.CloseForbidden:
		c.countLogin(loginForbidden)
	default:
		c.countLogin(loginUnauthenticated)
	}
	c.audit("refusal", zap.String("reason", text), zap.Stringer("remote", c.remote))
	c.end(code, text)
}

// refusalCode is what the client is told about a token that is not taken.
func refusalCode(err error) (wire.CloseCode, string) {
	var no *auth.Refusal
	switch {
	case errors.As(err, &no) && no.Forbidden:
		return wire.CloseForbidden, no.Text
	case errors.As(err, &no):
		return wire.CloseUnauthenticated, no.Text
	}
	return wire.CloseTryLater, "the token cannot be verified now"
}

// maxSubscriptions is the smaller of the gateway's limit and the token's.
func (c *conn) maxSubscriptions() int {
	return c.sub.who.grant.Limits.Narrow(auth.Limits{Subscriptions: c.loop.settings().Limits.Subscriptions}).Subscriptions
}

// maxMessages is the smaller of the gateway's rate and the token's.
func (c *conn) maxMessages() int {
	return c.sub.who.grant.Limits.Narrow(auth.Limits{MessagesPerSecond: c.loop.settings().Limits.MessagesPerSecond}).MessagesPerSecond
}

// auditForbidden writes which filters of a request the token does not cover.
func (c *conn) auditForbidden(filters []string) {
	if len(filters) > 0 {
		c.audit("refusal", zap.Strings("filters", filters), zap.String("reason", notCovered))
	}
}

const notCovered = "the token does not allow all of these topics"

// refresh exchanges the session's token. One at a time is verified.
func (c *conn) refresh(m *wire.Refresh) {
	verifier := c.loop.settings().Auth.Verifier
	switch {
	case verifier == nil || c.sub.who.grant.User == "":
		c.sendError(m.Id, wire.CloseForbidden, "this session has no token", "")
	case c.sub.login != nil:
		c.sendError(m.Id, wire.CloseTooMany, "a token is being verified already", "")
	default:
		c.verify(&login{verifier: verifier, token: m.Token, refresh: m})
	}
}

// onRefreshed puts a new token into force. Without success the session goes on
// under the old one.
func (c *conn) onRefreshed(lg *login) {
	old := c.sub.who.grant
	if lg.err == nil && lg.grant.User != old.User {
		lg.err = &auth.Refusal{Text: "the token is of another user", Forbidden: true}
	}
	if lg.err == nil {
		lg.grant.Login, lg.grant.Authenticated = old.Login, old.Authenticated
		lg.err = c.loop.gateway.access.revoked.Check(lg.grant)
	}
	if lg.err != nil {
		code, text := refusalCode(lg.err)
		c.countLogin(refreshRefused)
		c.audit("refusal", zap.String("reason", text), zap.Bool("refresh", true))
		c.sendError(lg.refresh.Id, code, text, "")
		return
	}
	c.countLogin(refreshed)
	c.audit("refresh", zap.Int64("expires_at", lg.grant.Expires))
	c.holdGrant(lg.grant)
	c.loop.wheel.set(c, c.deadline())
	c.dropForbidden()
	c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Refreshed{Refreshed: &wire.Refreshed{
		Id: lg.refresh.Id, ExpiresAtS: uint64(lg.grant.Expires)}}})
}

// dropForbidden takes filters away that the token does not cover any more; the
// session then belongs to the cohort of those that are left.
func (c *conn) dropForbidden() {
	var gone []*heldFilter
	var names []string
	check := func(h *heldFilter) {
		if !c.sub.who.grant.Rights.Allow(h.Filter) {
			gone, names = append(gone, h), append(names, h.String())
		}
	}
	for i := range c.sub.filters {
		check(c.sub.filters[i].heldFilter)
	}
	for _, r := range c.sub.requests {
		for _, h := range r.filters {
			check(h)
		}
	}
	if gone != nil {
		c.audit("withdrawal", zap.Strings("filters", names))
		c.withdraw(gone, errNotCovered)
	}
}

var errNotCovered = errors.New(notCovered)

// holdGrant puts a grant into force. The client is told of its end not before half
// of the time is over: else one whose tokens live no longer than the notice would
// be told again at each new token, and never come to rest.
func (c *conn) holdGrant(g *auth.Grant) {
	now, notice := c.loop.unix(), int64(c.loop.settings().Auth.Notice/time.Second)
	c.sub.who.grant = g
	c.sub.who.noticeAt = max(g.Expires-notice, now+(g.Expires-now+1)/2)
}

// tokenDeadline is when the client is to be told that its token expires, or when
// that happens, in ms of the loop's clock.
func (c *conn) tokenDeadline() int64 {
	if c.sub == nil || c.sub.who.grant == nil || c.sub.who.grant.Expires == 0 {
		return never
	}
	at := c.sub.who.grant.Expires
	if c.sub.who.noticeAt != 0 {
		at = min(at, c.sub.who.noticeAt)
	}
	return c.loop.now + at*1000 - c.loop.wall
}

const never = int64(1) << 62

// tokenDue tells the client that its token expires, or ends the session.
func (c *conn) tokenDue() {
	who := &c.sub.who
	if who.grant.Expired(time.Unix(c.loop.unix(), 0)) {
		c.audit("expiry")
		c.end(wire.CloseUnauthenticated, "the token has expired")
		return
	}
	who.noticeAt = 0
	c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Notice{Notice: &wire.Notice{
		Kind: wire.Notice_KIND_TOKEN_EXPIRES, Text: "the session ends when its token expires, unless it is refreshed",
		ExpiresAtS: uint64(who.grant.Expires)}}})
}
