package gateway_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// site is gateways of one Redis, one key and one set of ticket keys.
type site struct {
	t       testing.TB
	redis   *redistest.Server // nil: they are several
	access  fanout.Redis
	key     *session.StaticKey
	tickets *session.TicketKeys
	change  func(*gateway.Options)
}

func newSite(t *testing.T, change func(*gateway.Options)) *site {
	redis := redistest.Start(t)
	x := newSiteOn(t, fanout.Redis{Addrs: []string{redis.Addr}}, change)
	x.redis = redis
	return x
}

func newSiteOn(t *testing.T, access fanout.Redis, change func(*gateway.Options)) *site {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, access: access, key: key, tickets: ticketKeys(t), change: change}
}

// member is one gateway of a site.
type member struct {
	*server
	control *fanout.Control
}

func (x *site) start() *member {
	x.t.Helper()
	control := fanout.NewControl(x.access, "default", zap.NewNop())
	s := start(x.t, withTokens(x.t, func(o *gateway.Options) {
		withTickets(x.key, x.tickets, time.Now)(o)
		o.Control = control
		if x.change != nil {
			x.change(o)
		}
	}))
	s.key = x.key
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); control.Run(ctx, s.Gateway) }()
	x.t.Cleanup(func() { cancel(); <-ended })
	eventually(x.t, "control channel", func() bool { return control.Stats().Connected })
	return &member{s, control}
}

func onDuplicate(rule auth.Duplicate) func(*gateway.Options) {
	return func(o *gateway.Options) { o.Auth.OnDuplicate = rule }
}

func TestRevocationHoldsForAllGateways(t *testing.T) {
	x := newSite(t, nil)
	a, b := x.start(), x.start()
	jti := func(c jwt.MapClaims) { c["jti"] = "t-1" }
	ann, bob := a.mustDialAs(t, token(t, "ann", time.Hour)), b.mustDialAs(t, token(t, "ann", time.Hour, jti))
	other := b.mustDialAs(t, token(t, "bob", time.Hour))

	if _, err := a.Revoke(t.Context(), auth.KindToken, "t-1", 0, "test"); err != nil {
		t.Fatal(err)
	}
	expectEnd(t, bob, wire.CloseUnauthenticated)
	_, err := b.dialAs(t, token(t, "ann", time.Hour, jti), nil)
	expectCode(t, err, wire.CloseUnauthenticated)

	kept := ann.Ticket()
	if _, err := b.Revoke(t.Context(), auth.KindUser, "ann", time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	expectEnd(t, ann, wire.CloseForbidden)
	late := x.start() // it was not there when that happened
	for name, g := range map[string]*member{"a": a, "b": b, "late": late} {
		eventually(t, name+" knows", func() bool { page, _ := g.Revocations("", 10); return len(page) == 2 })
		_, err := g.dialAs(t, token(t, "ann", time.Hour), nil)
		expectCode(t, err, wire.CloseForbidden)
	}
	_, err = late.dialAs(t, "", kept)
	expectCode(t, err, wire.CloseUnauthenticated) // the ticket is refused, and there is no token
	if n := late.Stats().TicketsRefused; n != 1 {
		t.Errorf("%d tickets refused", n)
	}

	if !late.Lift(auth.KindUser, "ann", "test") {
		t.Error("nothing to lift")
	}
	for name, g := range map[string]*member{"a": a, "b": b, "late": late} {
		eventually(t, name+" takes ann again", func() bool { _, err := g.dialAs(t, token(t, "ann", time.Hour), nil); return err == nil })
	}
	if _, err := other.Subscribe(t.Context(), "md:a"); err != nil {
		t.Errorf("bob's session: %v", err)
	}
}

// TestGatewaysAgreeOverSeveralServers: revocations and logins are heard by all
// gateways over sentinels and a cluster, too, and again once another server has the
// place of one that was lost.
func TestGatewaysAgreeOverSeveralServers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (fanout.Redis, func()){
		"sentinel": func(t *testing.T) (fanout.Redis, func()) {
			s := redistest.StartSentinels(t)
			return fanout.Redis{Topology: fanout.Sentinel, Master: redistest.MasterName, Addrs: s.Addrs()}, func() {
				master := s.Master()
				master.Kill()
				s.WaitFailover(master)
			}
		},
		"cluster": func(t *testing.T) (fanout.Redis, func()) {
			c := redistest.StartCluster(t)
			return fanout.Redis{Topology: fanout.Cluster, Addrs: c.Addrs()}, func() {
				const kept = "sealcast:control:default"
				owner := c.Owner(kept)
				owner.Kill()
				c.WaitOwnerNot(kept, owner)
				c.WaitComplete()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access, fail := start(t)
			x := newSiteOn(t, access, onDuplicate(auth.DuplicateReplace))
			a, b := x.start(), x.start()
			x.expectAgreement(a, b, "before")
			fail()
			connected := func() bool { return a.control.Stats().Connected && b.control.Stats().Connected }
			eventually(t, "the others are heard", connected)
			x.expectAgreement(b, a, "after")
			late := x.start() // it was not there
			eventually(t, "all is known", func() bool { page, _ := late.Revocations("", 10); return len(page) == 2 })
		})
	}
}

// expectAgreement has one gateway hear of a login and of a ban at the other. What is
// said while Redis changes its master is made up for later.
func (x *site) expectAgreement(g, other *member, user string) {
	x.t.Helper()
	t := x.t
	first := g.mustDialAs(t, token(t, user, time.Hour))
	second := other.mustDialAs(t, token(t, user, time.Hour))
	expectEnd(t, first, wire.CloseReplaced)
	if _, err := g.Revoke(t.Context(), auth.KindUser, user, time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	expectEnd(t, second, wire.CloseForbidden)
}

// TestRevocationOutlivesRedis: gateways keep their lists, and give them back to a
// Redis that has lost everything.
func TestRevocationOutlivesRedis(t *testing.T) {
	x := newSite(t, nil)
	a := x.start()
	if _, err := a.Revoke(t.Context(), auth.KindUser, "ann", time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	x.redis.Kill()
	eventually(t, "redis is missed", func() bool { return !a.control.Stats().Connected })
	_, err := a.dialAs(t, token(t, "ann", time.Hour), nil)
	expectCode(t, err, wire.CloseForbidden)
	if _, err := a.Revoke(t.Context(), auth.KindUser, "bob", time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	x.redis.Restart()
	eventually(t, "redis is back", func() bool { return a.control.Stats().Connected })
	b := x.start()
	eventually(t, "both are known", func() bool { page, _ := b.Revocations("", 10); return len(page) == 2 })
}

func TestSessionIsRevokedWithItsTickets(t *testing.T) {
	x := newSite(t, nil)
	a, b := x.start(), x.start()
	first := a.mustDialAs(t, token(t, "ann", time.Hour))
	second, err := b.dialAs(t, "", first.Ticket())
	if err != nil || !second.Info().Resumed {
		t.Fatalf("not resumed: %v", err)
	}
	sessions, _, err := b.Sessions(t.Context(), 0, 10, "ann")
	if err != nil || len(sessions) != 1 {
		t.Fatalf("%v, %v", sessions, err)
	}
	of, _, err := a.Sessions(t.Context(), 0, 10, "ann")
	if err != nil || len(of) != 1 || of[0].Login != sessions[0].Login {
		t.Fatalf("%v and %v are one login", of, sessions)
	}
	next := second.Ticket()
	if _, err := b.Revoke(t.Context(), auth.KindSession, fmt.Sprint(sessions[0].ID), 0, "test"); err != nil {
		t.Fatal(err)
	}
	expectEnd(t, second, wire.CloseUnauthenticated)
	expectEnd(t, first, wire.CloseUnauthenticated)
	_, err = a.dialAs(t, "", next)
	expectCode(t, err, wire.CloseUnauthenticated)
	if _, err := a.dialAs(t, token(t, "ann", time.Hour), nil); err != nil {
		t.Errorf("a new login: %v", err)
	}
	if _, err := a.Revoke(t.Context(), auth.KindSession, "4711", 0, "test"); err != gateway.ErrNoSession {
		t.Errorf("got %v", err)
	}
}

// TestTicketsCarryTheGrant: rights, limits and expiry of the token hold on
// another gateway, without the token.
func TestTicketsCarryTheGrant(t *testing.T) {
	x := newSite(t, nil)
	a, b := x.start(), x.start()
	first := a.mustDialAs(t, token(t, "ann", time.Hour, topics("md:a"), func(c jwt.MapClaims) { c["limits"] = map[string]int{"subscriptions": 1} }))
	second, err := b.dialAs(t, "", first.Ticket())
	if err != nil || !second.Info().Resumed {
		t.Fatalf("not resumed: %v", err)
	}
	sessions, _, _ := b.Sessions(t.Context(), 0, 10, "ann")
	before, _, _ := a.Sessions(t.Context(), 0, 10, "ann")
	if len(sessions) != 1 || sessions[0].ExpiresAt != before[0].ExpiresAt {
		t.Errorf("%+v, %+v", sessions, before)
	}
	if _, err := second.Subscribe(t.Context(), "md:b"); err == nil {
		t.Error("the ticket widens the rights")
	}
	if _, err := second.Subscribe(t.Context(), "md:a"); err != nil {
		t.Error(err)
	}
	// A token beside the ticket must be the same user's.
	_, err = a.dialAs(t, token(t, "bob", time.Hour), second.Ticket())
	expectCode(t, err, wire.CloseForbidden)
	third := a.mustDialAs(t, token(t, "ann", time.Hour))
	wide, err := b.dialAs(t, token(t, "ann", time.Hour), third.Ticket())
	if err != nil || !wide.Info().Resumed {
		t.Fatalf("%v", err)
	}
	if _, err := wide.Subscribe(t.Context(), "md:b"); err != nil {
		t.Errorf("the token beside the ticket: %v", err)
	}
}

// TestTicketWithoutAUser is no way in once tokens are wanted.
func TestTicketWithoutAUser(t *testing.T) {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := ticketKeys(t)
	free := start(t, withTickets(key, keys, time.Now))
	free.key = key
	strict := start(t, withTokens(t, withTickets(key, keys, time.Now)))
	strict.key = key
	conn := free.dial(t)
	_, err = strict.dialAs(t, "", conn.Ticket())
	expectCode(t, err, wire.CloseUnauthenticated)
	if n := strict.Stats().TicketsRefused; n != 1 {
		t.Errorf("%d tickets refused", n)
	}
	named := strict.mustDialAs(t, token(t, "ann", time.Hour))
	opts := free.options()
	opts.Ticket = named.Ticket()
	back, err := client.Dial(t.Context(), free.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close(context.Background())
	if sessions, _, _ := free.Sessions(t.Context(), 0, 10, "ann"); len(sessions) != 0 {
		t.Error("a user without authentication")
	}
}

func TestExpiredTicketOfAToken(t *testing.T) {
	t.Parallel()
	x := newSite(t, nil)
	a, b := x.start(), x.start()
	conn := a.mustDialAs(t, token(t, "ann", shortLife))
	ticket := conn.Ticket()
	expectEnd(t, conn, wire.CloseUnauthenticated)
	_, err := b.dialAs(t, "", ticket)
	expectCode(t, err, wire.CloseUnauthenticated)
	if n := b.Stats().TicketsRefused; n != 1 {
		t.Errorf("%d tickets refused", n)
	}
}

func TestReplaceAcrossLoopsAndGateways(t *testing.T) {
	x := newSite(t, onDuplicate(auth.DuplicateReplace))
	a, b := x.start(), x.start()
	var last *client.Conn
	for i, g := range []*member{a, a, b, b, a, b} {
		next := g.mustDialAs(t, token(t, "ann", time.Hour))
		if _, err := next.Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
		if last != nil {
			expectEnd(t, last, wire.CloseReplaced)
		}
		g.mustDialAs(t, token(t, fmt.Sprint("other-", i), time.Hour))
		last = next
	}
	eventually(t, "others stay", func() bool { return a.Stats().Connections+b.Stats().Connections == 7 })
	if _, err := last.Subscribe(t.Context(), "md:b"); err != nil {
		t.Errorf("the newest: %v", err)
	}
}

func TestRejectAcrossGateways(t *testing.T) {
	x := newSite(t, onDuplicate(auth.DuplicateReject))
	a, b := x.start(), x.start()
	first := a.mustDialAs(t, token(t, "ann", time.Hour))
	_, err := a.dialAs(t, token(t, "ann", time.Hour), nil)
	expectCode(t, err, wire.CloseReplaced)
	// On another gateway the newcomer may be in for the moment that the answer takes.
	if elsewhere, err := b.dialAs(t, token(t, "ann", time.Hour), nil); err == nil {
		expectEnd(t, elsewhere, wire.CloseReplaced)
	} else {
		expectCode(t, err, wire.CloseReplaced)
	}
	// Who comes back with a ticket is the same login, wherever the old connection hangs.
	back, err := b.dialAs(t, "", first.Ticket())
	if err != nil {
		t.Fatal(err)
	}
	expectEnd(t, first, wire.CloseReplaced)
	if _, err := back.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	_ = back.Close(context.Background())
	eventually(t, "the place is free", func() bool {
		conn, err := a.dialAs(t, token(t, "ann", time.Hour), nil)
		if err != nil {
			return false
		}
		_, err = conn.Subscribe(t.Context(), "md:a")
		return err == nil
	})
}

// TestResumingIsNoNewLogin: who was replaced cannot take the place back with a ticket.
func TestResumingIsNoNewLogin(t *testing.T) {
	x := newSite(t, onDuplicate(auth.DuplicateReplace))
	a, b := x.start(), x.start()
	first := a.mustDialAs(t, token(t, "ann", time.Hour))
	ticket := first.Ticket()
	second := b.mustDialAs(t, token(t, "ann", time.Hour))
	expectEnd(t, first, wire.CloseReplaced)
	_, err := b.dialAs(t, "", ticket)
	expectCode(t, err, wire.CloseReplaced)
	if _, err := second.Subscribe(t.Context(), "md:a"); err != nil {
		t.Error(err)
	}
}

// TestDuplicatesAreFoundWhenRedisIsBack: logins that the other gateway could not
// hear of are told when it can.
func TestDuplicatesAreFoundWhenRedisIsBack(t *testing.T) {
	x := newSite(t, onDuplicate(auth.DuplicateReplace))
	a, b := x.start(), x.start()
	x.redis.Kill()
	eventually(t, "redis is missed", func() bool { return !a.control.Stats().Connected && !b.control.Stats().Connected })
	first := a.mustDialAs(t, token(t, "ann", time.Hour))
	second := b.mustDialAs(t, token(t, "ann", time.Hour))
	x.redis.Restart()
	expectEnd(t, first, wire.CloseReplaced)
	if _, err := second.Subscribe(t.Context(), "md:a"); err != nil {
		t.Error(err)
	}
}

// TestWordsOfStrangersAreNotTaken: with a secret, what others publish has no effect.
func TestWordsOfStrangersAreNotTaken(t *testing.T) {
	x := newSite(t, func(o *gateway.Options) { o.Auth.ControlSecret = []byte("one secret of all the gateways ..") })
	a := x.start()
	x.change = func(o *gateway.Options) { o.Auth.ControlSecret = nil }
	stranger := x.start()
	conn := a.mustDialAs(t, token(t, "ann", time.Hour))
	if _, err := stranger.Revoke(t.Context(), auth.KindUser, "ann", time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the word has come", func() bool { return a.Stats().Logins.Forged > 0 })
	if _, err := conn.Subscribe(t.Context(), "md:a"); err != nil {
		t.Errorf("a stranger ended the session: %v", err)
	}
}
