package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

const tokenSecret = "0123456789abcdef0123456789abcdef"

// token makes tokens for gateways of the realm default.
func token(t testing.TB, user string, life time.Duration, change ...func(jwt.MapClaims)) string {
	t.Helper()
	claims := jwt.MapClaims{"sub": user, "aud": "default", "iat": time.Now().Unix(), "exp": time.Now().Add(life).Unix(), "topics": []string{"md:**"}}
	for _, f := range change {
		f(claims)
	}
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(tokenSecret))
	fatal(t, err)
	return s
}

func topics(patterns ...string) func(jwt.MapClaims) {
	return func(c jwt.MapClaims) { c["topics"] = patterns }
}

func verifierOf(t testing.TB, change func(*auth.Options)) *auth.Verifier {
	t.Helper()
	key, err := auth.NewSecret("", []byte(tokenSecret))
	fatal(t, err)
	o := auth.Options{Keys: []auth.Key{key}, Audience: "default", Now: time.Now, Claims: auth.Claims{Topics: "topics", Limits: "limits"}}
	if change != nil {
		change(&o)
	}
	return auth.NewVerifier(o)
}

// withTokens makes a gateway that wants tokens, and gives tickets.
func withTokens(t testing.TB, change func(*gateway.Options)) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Auth = gateway.AuthOptions{Verifier: verifierOf(t, nil), OnDuplicate: auth.DuplicateAllow, Notice: time.Minute, KeepRevoked: time.Hour}
		if change != nil {
			change(o)
		}
	}
}

func (s *server) dialAs(t testing.TB, token string, ticket *session.ClientTicket) (*client.Conn, error) {
	t.Helper()
	opts := s.options(suite.AES128GCM)
	opts.Token, opts.Ticket = token, ticket
	c, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err == nil {
		t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, err
}

func (s *server) mustDialAs(t testing.TB, token string) *client.Conn {
	t.Helper()
	c, err := s.dialAs(t, token, nil)
	fatal(t, err)
	return c
}

// expectEnd wants a session to end with a sealed Goodbye of this code.
func expectEnd(t testing.TB, c *client.Conn, code wire.CloseCode) string {
	t.Helper()
	for {
		if _, err := c.Next(t.Context()); err != nil {
			return expectCode(t, err, code)
		}
	}
}

func expectCode(t testing.TB, err error, code wire.CloseCode) string {
	t.Helper()
	var end *client.ClosedError
	if !errors.As(err, &end) || end.Code != code {
		t.Fatalf("ended with %v, want %v", err, code)
	}
	return end.Error()
}

func TestTokensAreWanted(t *testing.T) {
	s := start(t, withTokens(t, nil))
	for name, c := range map[string]struct {
		token, text string
	}{
		"none":    {"", "a token is needed"},
		"expired": {token(t, "ann", -time.Minute), "expired"},
		"garbage": {"garbage", "malformed"},
		"forged":  {token(t, "ann", time.Minute)[:40] + "." + token(t, "bob", time.Minute)[40:], ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.dialAs(t, c.token, nil)
			if text := expectCode(t, err, wire.CloseUnauthenticated); !strings.Contains(text, c.text) || c.token != "" && strings.Contains(text, c.token) {
				t.Errorf("told %q", text)
			}
		})
	}
	conn := s.mustDialAs(t, token(t, "ann", time.Minute))
	if _, err := conn.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	sessions, _, err := s.Sessions(t.Context(), 0, 10, "ann")
	if err != nil || len(sessions) != 1 || sessions[0].Login == "" || sessions[0].ExpiresAt < time.Now().Unix() {
		t.Errorf("%+v, %v", sessions, err)
	}
	if got := s.Stats().Logins; got.OK != 1 || got.Unauthenticated != 4 {
		t.Errorf("%+v", got)
	}
}

func TestPlainIsNoWayInWithTokens(t *testing.T) {
	s := start(t, withTokens(t, nil))
	opts := s.options(suite.Plain)
	opts.Token = token(t, "ann", time.Minute)
	if _, err := client.Dial(t.Context(), s.url("/ws"), opts); err == nil || strings.Contains(err.Error(), "accepted: "+suite.Plain.Protocol()) {
		t.Errorf("a token in the clear: %v", err)
	}
	p := knock(t, s)
	p.send([]byte(request("/ws", offer(suite.Plain))))
	if resp, body := p.response(); resp.StatusCode != http.StatusBadRequest || strings.Contains(body, "v1.plain,") {
		t.Errorf("%s %s", resp.Status, body)
	}
	e, err := client.DialEcho(t.Context(), s.url("/echo"), s.options(suite.Plain))
	fatal(t, err)
	_ = e.Close(context.Background())
}

// TestTopicsAreChecked: what the token does not wholly cover is refused, the rest is given.
func TestTopicsAreChecked(t *testing.T) {
	s := start(t, withTokens(t, nil))
	p := loggedIn(t, s, token(t, "ann", time.Minute, topics("md:a:*", "news")))
	p.send(p.say(subscribeTo(1, "md:a:x", "md:b:x", "md:**", "md:a:*", "news", "**")))
	var refused []string
	for {
		f := p.hear()
		if e := f.GetError(); e != nil {
			if e.Code != uint32(wire.CloseForbidden) || e.Id != 1 {
				t.Fatalf("%v", e)
			}
			refused = append(refused, e.Filter)
			continue
		}
		if got, want := fmt.Sprint(f.GetSubscribed().GetFilters(), refused), "[md:a:x md:a:* news] [md:b:x md:** **]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		return
	}
}

func subscribeTo(id uint32, filters ...string) *wire.ClientFrame {
	m := &wire.Subscribe{Id: id}
	for _, f := range filters {
		m.Subscriptions = append(m.Subscriptions, &wire.Subscription{Filter: f})
	}
	return &wire.ClientFrame{Message: &wire.ClientFrame_Subscribe{Subscribe: m}}
}

func connectWith(token string) *wire.ClientFrame {
	return &wire.ClientFrame{Message: &wire.ClientFrame_Connect{Connect: &wire.Connect{Token: token}}}
}

func refreshWith(id uint32, token string) *wire.ClientFrame {
	return &wire.ClientFrame{Message: &wire.ClientFrame_Refresh{Refresh: &wire.Refresh{Id: id, Token: token}}}
}

// loggedIn is a peer in service.
func loggedIn(t testing.TB, s *server, token string) *peer {
	t.Helper()
	p := upgraded(t, s, "/ws", suite.AES128GCM)
	p.agree()
	p.send(p.say(connectWith(token)))
	if c := p.hear().GetConnected(); c == nil || token != "" && c.User == "" {
		t.Fatalf("not let in: %v", c)
	}
	return p
}

// TestLimitsOfTheToken narrow the settings'.
func TestLimitsOfTheToken(t *testing.T) {
	s := start(t, withTokens(t, nil))
	for limit, want := range map[int]uint32{2: 2, 1000: 100} {
		p := upgraded(t, s, "/ws", suite.AES128GCM)
		p.agree()
		p.send(p.say(connectWith(token(t, "ann", time.Minute, func(c jwt.MapClaims) { c["limits"] = map[string]int{"subscriptions": limit} }))))
		if got := p.hear().GetConnected().GetLimits().GetSubscriptions(); got != want {
			t.Errorf("limit %d: told %d", limit, got)
		}
		if limit == 2 {
			p.send(p.say(subscribeTo(1, "md:a", "md:b", "md:c")))
			if e := p.hear().GetError(); e.GetCode() != uint32(wire.CloseTooMany) || e.GetFilter() != "md:c" {
				t.Errorf("%v", e)
			}
		}
	}
}

func TestRateOfTheToken(t *testing.T) {
	s := start(t, withTokens(t, func(o *gateway.Options) { o.Limits.MessagesPerSecond = 50 }))
	for limit, want := range map[int]uint32{3: 3, 1000: 50} {
		p := upgraded(t, s, "/ws", suite.AES128GCM)
		p.agree()
		p.send(p.say(connectWith(token(t, "ann", time.Minute, func(c jwt.MapClaims) { c["limits"] = map[string]int{"messages_per_second": limit} }))))
		if got := p.hear().GetConnected().GetLimits().GetMessagesPerSecond(); got != want {
			t.Errorf("limit %d: told %d", limit, got)
		}
	}
}

// slowKeys is a key set that takes its time.
func slowKeys(t testing.TB) (remote *auth.RemoteKeys, asked *atomic.Int32, release func()) {
	t.Helper()
	gate := make(chan struct{})
	asked = new(atomic.Int32)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		http.Error(w, "away", http.StatusBadGateway)
	}))
	t.Cleanup(srv.Close)
	return auth.NewRemoteKeys(srv.URL, time.Hour), asked, func() { close(gate) }
}

// TestNetworkHoldsUpNobodyElse: while a key set does not answer, tokens with known
// keys are taken and echoes flow; the one that waits is told to come back.
func TestNetworkHoldsUpNobodyElse(t *testing.T) {
	remote, asked, release := slowKeys(t)
	s := start(t, withTokens(t, func(o *gateway.Options) {
		o.Auth.Verifier = verifierOf(t, func(a *auth.Options) {
			key, err := auth.NewSecret("known", []byte(tokenSecret))
			if err != nil {
				t.Fatal(err)
			}
			a.Remote, a.Keys = remote, []auth.Key{key}
		})
	}))
	named := func(kid string) string {
		tok := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "aud": "default", "exp": time.Now().Add(time.Hour).Unix(), "topics": "md:**"})
		tok.Header["kid"] = kid
		text, err := tok.SignedString([]byte(tokenSecret))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	p := upgraded(t, s, "/ws", suite.AES128GCM)
	p.agree()
	p.send(p.say(connectWith(named("unknown"))))
	eventually(t, "the set is asked for", func() bool { return asked.Load() == 1 })
	for range 4 {
		if _, err := s.mustDialAs(t, named("known")).Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
	}
	release()
	p.expectClose(wire.CloseTryLater, true)
	if n := s.Stats().Logins; n.Busy != 1 || n.OK != 4 {
		t.Errorf("%+v", n)
	}
}

// TestMessagesBehindConnectWait: Connect and Subscribe may come together; what is
// too much for the wait ends the session.
func TestMessagesBehindConnectWait(t *testing.T) {
	s := start(t, withTokens(t, nil))
	p := upgraded(t, s, "/ws", suite.AES128GCM)
	p.agree()
	burst := p.say(connectWith(token(t, "ann", time.Minute)))
	burst = append(burst, p.say(subscribeTo(1, "md:a"))...)
	burst = append(burst, p.say(subscribeTo(2, "other"))...)
	p.send(burst)
	if p.hear().GetConnected() == nil {
		t.Fatal("not connected")
	}
	got := map[string]bool{}
	for range 3 {
		f := p.hear()
		switch {
		case f.GetError() != nil:
			got["error "+f.GetError().Filter] = true
		case f.GetSubscribed() != nil:
			got[fmt.Sprint("subscribed ", f.GetSubscribed().Id, f.GetSubscribed().Filters)] = true
		}
	}
	if !got["error other"] || !got["subscribed 1 [md:a]"] || !got["subscribed 2 []"] {
		t.Errorf("%v", got)
	}

	remote, asked, release := slowKeys(t)
	defer release()
	s = start(t, withTokens(t, func(o *gateway.Options) {
		o.Auth.Verifier = verifierOf(t, func(a *auth.Options) { a.Remote, a.Keys = remote, nil })
	}))
	for what, message := range map[string]*wire.ClientFrame{
		"many":   subscribeTo(1, "md:a"),
		"long":   subscribeTo(1, strings.Repeat("a", 30_000)),
		"second": connectWith("x"),
	} {
		p = upgraded(t, s, "/ws", suite.AES128GCM)
		p.agree()
		p.send(p.say(connectWith(token(t, "ann", time.Minute))))
		if what == "second" {
			p.send(p.say(message))
			p.expectClose(wire.CloseBadRecord, false)
			continue
		}
		var burst []byte
		for range 17 {
			burst = append(burst, p.say(message)...)
		}
		p.send(burst)
		p.expectClose(wire.CloseTooMany, true)
	}
	eventually(t, "asked", func() bool { return asked.Load() > 0 })
}

// TestClientGoesWhileItsTokenIsVerified leaves nothing behind.
func TestClientGoesWhileItsTokenIsVerified(t *testing.T) {
	remote, asked, release := slowKeys(t)
	s := start(t, withTokens(t, func(o *gateway.Options) {
		o.Auth.Verifier = verifierOf(t, func(a *auth.Options) { a.Remote, a.Keys = remote, nil })
	}))
	p := upgraded(t, s, "/ws", suite.AES128GCM)
	p.agree()
	p.send(p.say(connectWith(token(t, "ann", time.Minute))))
	eventually(t, "asked", func() bool { return asked.Load() == 1 })
	_ = p.conn.Close()
	eventually(t, "gone", func() bool { return s.Stats().Connections == 0 })
	release()
	if _, err := client.DialEcho(t.Context(), s.url("/echo"), s.options()); err != nil {
		t.Fatal(err)
	}
}

// shortLife is a token's whose end a test waits for: long enough to log in and ask
// for something on a machine with much other work.
const shortLife = 15 * time.Second

// TestExpiry: the client is told beforehand, and the session ends with its token.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := start(t, withTokens(t, func(o *gateway.Options) { o.Auth.Notice = time.Hour }))
	expires := time.Now().Add(shortLife)
	p := upgraded(t, s, "/ws", suite.AES128GCM)
	p.agree()
	p.send(p.say(connectWith(token(t, "ann", time.Until(expires)))))
	c := p.hear().GetConnected()
	if c.GetUser() != "ann" || c.GetExpiresAtS() != uint64(expires.Unix()) {
		t.Fatalf("%v", c)
	}
	n := p.hear().GetNotice()
	if n.GetKind() != wire.Notice_KIND_TOKEN_EXPIRES || n.GetExpiresAtS() != c.ExpiresAtS {
		t.Fatalf("%v", n)
	}
	p.expectClose(wire.CloseUnauthenticated, true)
	if time.Now().Unix() < expires.Unix() {
		t.Error("ended too early")
	}
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	s := start(t, withTokens(t, func(o *gateway.Options) { o.Auth.Notice = 0 }))
	short := time.Now().Add(shortLife)
	p := loggedIn(t, s, token(t, "ann", time.Until(short)))
	p.send(p.say(subscribeTo(1, "md:a", "md:b", "md:c:*")))
	p.hear()
	refuse := func(id uint32, token string, code wire.CloseCode) {
		t.Helper()
		p.send(p.say(refreshWith(id, token)))
		if e := p.hear().GetError(); e.GetId() != id || e.GetCode() != uint32(code) {
			t.Fatalf("%v, want %v", e, code)
		}
	}
	refuse(2, "", wire.CloseUnauthenticated)
	refuse(3, token(t, "bob", time.Hour), wire.CloseForbidden)
	refuse(4, token(t, "ann", -time.Hour), wire.CloseUnauthenticated)

	p.send(p.say(refreshWith(5, token(t, "ann", time.Hour, topics("md:a", "md:c:x")))))
	dropped := map[string]int{}
	for range 4 {
		f := p.hear()
		if e := f.GetError(); e != nil && e.Id == 0 && e.Code == uint32(wire.CloseForbidden) {
			dropped[e.Filter]++
		}
		if u := f.GetUnsubscribed(); u != nil && u.Id == 0 {
			dropped[u.Filters[0]]++
		}
	}
	if len(dropped) != 2 || dropped["md:b"] != 2 || dropped["md:c:*"] != 2 {
		t.Errorf("dropped %v", dropped)
	}
	if r := p.hear().GetRefreshed(); r.GetId() != 5 || time.Unix(int64(r.GetExpiresAtS()), 0).Before(time.Now().Add(50*time.Minute)) {
		t.Fatalf("%v", r)
	}
	s.hub.publish("md:b", []byte("no"))
	s.hub.publish("md:a", []byte("yes"))
	if b := p.hear().GetBatch(); string(b.GetPayloads()) != "yes" {
		t.Fatalf("%v", b)
	}
	p.send(p.say(subscribeTo(6, "md:b")))
	if e := p.hear().GetError(); e.GetFilter() != "md:b" {
		t.Fatalf("%v", e)
	}
	p.hear()
	time.Sleep(time.Until(short) + time.Second) // the first token is over
	p.send(p.say(&wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: 7}}}))
	if p.hear().GetPong().GetId() != 7 {
		t.Fatal("the session ended with the token that it had before")
	}
	if n := s.Stats().Logins; n.Refreshed != 1 || n.RefreshRefused != 3 {
		t.Errorf("%+v", n)
	}
}

// TestNarrowedSessionsLeaveTheirCohort: of two sessions with the same
// subscriptions one loses a topic; the other goes on as before.
func TestNarrowedSessionsLeaveTheirCohort(t *testing.T) {
	s := start(t, withTokens(t, func(o *gateway.Options) { o.Loops = 1 }))
	a, b := loggedIn(t, s, token(t, "ann", time.Minute)), loggedIn(t, s, token(t, "bob", time.Minute))
	for _, p := range []*peer{a, b} {
		p.send(p.say(subscribeTo(1, "md:x", "md:y")))
		p.hear()
	}
	a.send(a.say(refreshWith(2, token(t, "ann", time.Minute, topics("md:x")))))
	for range 3 {
		a.hear()
	}
	s.hub.publish("md:y", []byte("y"))
	s.hub.publish("md:x", []byte("x"))
	if got := string(a.hear().GetBatch().GetPayloads()); got != "x" {
		t.Errorf("ann got %q", got)
	}
	for got := ""; got != "yx"; {
		if got += string(b.hear().GetBatch().GetPayloads()); !strings.HasPrefix("yx", got) {
			t.Fatalf("bob got %q", got)
		}
	}
}

func TestRefreshWithoutTokens(t *testing.T) {
	s := start(t, nil)
	p := loggedIn(t, s, "")
	p.send(p.say(refreshWith(1, "x")))
	if e := p.hear().GetError(); e.GetId() != 1 || e.GetCode() != uint32(wire.CloseForbidden) {
		t.Errorf("%v", e)
	}
}
