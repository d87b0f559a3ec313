package auth

import (
	"encoding/base64"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sealcast/sealcast/wire/topic"
)

func TestEveryAlgorithm(t *testing.T) {
	v, p := verifier(t, nil), pairs()
	for kid, token := range map[string]string{
		"hs":                                   signHS(t, good()),
		"rs":                                   sign(t, jwt.SigningMethodRS256, "rs", p.rsa, good()),
		"es":                                   sign(t, jwt.SigningMethodES256, "es", p.ec, good()),
		"ed":                                   sign(t, jwt.SigningMethodEdDSA, "ed", p.ed, good()),
		"no kid, and one key of the algorithm": sign(t, jwt.SigningMethodES256, "", p.ec, good()),
	} {
		g, err := v.Verify(token)
		if err != nil {
			t.Errorf("%s: %v", kid, err)
			continue
		}
		want := Grant{User: "ann", TokenID: "t-1", Issued: noon.Unix() - 60, Authenticated: noon.UnixMilli(),
			Expires: noon.Unix() + 600 + 30, Rights: g.Rights}
		if !reflect.DeepEqual(*g, want) {
			t.Errorf("%s: %+v", kid, *g)
		}
		if !g.Rights.Allow(filter(t, "md:a:b")) || g.Rights.Allow(filter(t, "other")) {
			t.Errorf("%s: rights %v", kid, g.Rights)
		}
	}
}

func filter(t testing.TB, s string) topic.Filter {
	t.Helper()
	f, err := topic.ParseFilter(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func with(changes jwt.MapClaims) jwt.MapClaims {
	c := good()
	for k, v := range changes {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

// TestRefusals: one row for each way in which a token is not good.
func TestRefusals(t *testing.T) {
	p, now := pairs(), noon.Unix()
	rsaPEM := publicPEM(t, p.rsa.Public())
	hs := signHS(t, good())
	parts := strings.Split(hs, ".")
	unsigned := sign(t, jwt.SigningMethodNone, "hs", jwt.UnsafeAllowNoneSignatureType, good())
	critical := jwt.NewWithClaims(jwt.SigningMethodHS256, good())
	critical.Header["kid"], critical.Header["crit"] = "hs", []string{"exp"}
	criticalToken, _ := critical.SignedString([]byte(secret))
	numbered := jwt.NewWithClaims(jwt.SigningMethodHS256, good())
	numbered.Header["kid"] = 7
	numberedToken, _ := numbered.SignedString([]byte(secret))
	other, _ := NewSecret("hs2", []byte(strings.Repeat("x", 32)))
	twoSecrets := func(o *Options) { o.Keys = append(o.Keys, other) }

	for _, c := range []struct {
		name, token, text string
		change            func(*Options)
	}{
		{"none", "", "a token is needed", nil},
		{"too long", strings.Repeat("a", maxToken+1), "too long", nil},
		{"no token at all", "hello", "malformed", nil},
		{"two parts", parts[0] + "." + parts[1], "malformed", nil},
		{"alg none", unsigned, "signature", nil},
		{"alg none, signature cut", parts[0] + "." + parts[1] + ".", "signature", nil},
		{"HS256 with the RSA key as secret", sign(t, jwt.SigningMethodHS256, "rs", rsaPEM, good()), "alg is not that of its key", nil},
		{"HS256 with the RSA key as secret, no kid", sign(t, jwt.SigningMethodHS256, "", rsaPEM, good()), "signature", nil},
		{"RS256 under the secret's name", sign(t, jwt.SigningMethodRS256, "hs", p.rsa, good()), "alg is not that of its key", nil},
		{"RS512", sign(t, jwt.SigningMethodRS512, "rs", p.rsa, good()), "signature", nil},
		{"PS256", sign(t, jwt.SigningMethodPS256, "rs", p.rsa, good()), "signature", nil},
		{"unknown kid", sign(t, jwt.SigningMethodHS256, "nobody", []byte(secret), good()), "not known", nil},
		{"no kid and two keys", sign(t, jwt.SigningMethodHS256, "", []byte(secret), good()), "does not name its key", twoSecrets},
		{"kid is a number", numberedToken, "kid is no name", nil},
		{"crit", criticalToken, "crit", nil},
		{"another key of the kind", sign(t, jwt.SigningMethodES256, "es", p.otherEC, good()), "signature", nil},
		{"tampered claims", parts[0] + "." + flip(parts[1]) + "." + parts[2], "", nil},
		{"tampered signature", parts[0] + "." + parts[1] + "." + flip(parts[2]), "signature", nil},
		{"signature with padding", hs + "=", "malformed", nil},
		{"expired", signHS(t, with(jwt.MapClaims{"exp": now - 31})), "expired", nil},
		{"no exp", signHS(t, with(jwt.MapClaims{"exp": nil})), "lacks a claim", nil},
		{"exp is text", signHS(t, with(jwt.MapClaims{"exp": "tomorrow"})), "", nil},
		{"exp without end", signHS(t, with(jwt.MapClaims{"exp": 1e300})), "", nil},
		{"exp far away", signHS(t, with(jwt.MapClaims{"exp": 1 << 41})), "exp", nil},
		{"nbf", signHS(t, with(jwt.MapClaims{"nbf": now + 31})), "not valid yet", nil},
		{"iat in the future", signHS(t, with(jwt.MapClaims{"iat": now + 31})), "issued in the future", nil},
		{"another audience", signHS(t, with(jwt.MapClaims{"aud": "test"})), "audience", nil},
		{"no audience", signHS(t, with(jwt.MapClaims{"aud": nil})), "", nil},
		{"another issuer", signHS(t, with(jwt.MapClaims{"iss": "them"})), "issuer", func(o *Options) { o.Issuer = "us" }},
		{"no issuer", signHS(t, good()), "", func(o *Options) { o.Issuer = "us" }},
		{"no subject", signHS(t, with(jwt.MapClaims{"sub": nil})), "no user", nil},
		{"empty subject", signHS(t, with(jwt.MapClaims{"sub": ""})), "no user", nil},
		{"subject is a number", signHS(t, with(jwt.MapClaims{"sub": 7})), "", nil},
		{"subject too long", signHS(t, with(jwt.MapClaims{"sub": strings.Repeat("a", 256)})), "no user", nil},
		{"subject with a line feed", signHS(t, with(jwt.MapClaims{"sub": "a\nb"})), "no user", nil},
		{"jti is a number", signHS(t, with(jwt.MapClaims{"jti": 7})), "jti", nil},
		{"topics is a number", signHS(t, with(jwt.MapClaims{"topics": 7})), "topics", nil},
		{"topics of numbers", signHS(t, with(jwt.MapClaims{"topics": []int{7}})), "topics", nil},
		{"bad pattern", signHS(t, with(jwt.MapClaims{"topics": []string{"a*"}})), "whole segment", nil},
		{"too many topics", signHS(t, with(jwt.MapClaims{"topics": strings.Split(strings.Repeat("a ", 1000)+"a", " ")})), "at most 1000", nil},
		{"limits is text", signHS(t, with(jwt.MapClaims{"limits": "few"})), "limits", nil},
		{"unknown limit", signHS(t, with(jwt.MapClaims{"limits": map[string]int{"x": 1}})), "limits", nil},
		{"negative limit", signHS(t, with(jwt.MapClaims{"limits": map[string]int{"subscriptions": -1}})), "limits", nil},
		{"limit 0", signHS(t, with(jwt.MapClaims{"limits": map[string]int{"subscriptions": 0}})), "limits", nil},
		{"limit with a fraction", signHS(t, with(jwt.MapClaims{"limits": map[string]any{"subscriptions": 1.5}})), "limits", nil},
	} {
		g, err := verifier(t, c.change).Verify(c.token)
		var no *Refusal
		if g != nil && err == nil || !errors.As(err, &no) || no.Forbidden {
			t.Errorf("%s: %+v, %v", c.name, g, err)
			continue
		}
		if !strings.Contains(no.Text, c.text) {
			t.Errorf("%s: %q", c.name, no.Text)
		}
		for _, private := range []string{secret, "ann", "t-1", parts[2]} {
			if strings.Contains(no.Text, private) {
				t.Errorf("%s: the text tells %q", c.name, private)
			}
		}
	}
}

// flip changes a bit in the middle of a base64url text.
func flip(s string) string {
	b, _ := base64.RawURLEncoding.DecodeString(s)
	b[len(b)/2] ^= 1
	return base64.RawURLEncoding.EncodeToString(b)
}

func TestLeeway(t *testing.T) {
	v, now := verifier(t, nil), noon.Unix()
	g, err := v.Verify(signHS(t, with(jwt.MapClaims{"exp": now - 29, "nbf": now + 29, "iat": now + 29})))
	if err != nil || g.Expires != now+1 {
		t.Errorf("%+v, %v", g, err)
	}
	if g.Expired(noon) || !g.Expired(noon.Add(1e9)) {
		t.Error("a session ends when its token is not taken any more, and not before")
	}
}

func TestClaimsAreReadByTheirNames(t *testing.T) {
	all, _ := ParseRights([]string{"free:*"})
	v := verifier(t, func(o *Options) {
		o.Claims = Claims{Topics: "https://example.com/topics", Limits: "quota"}
		o.DefaultTopics, o.Issuer = all, "us"
	})
	claims := with(jwt.MapClaims{"aud": []string{"x", "default"}, "iss": "us", "quota": map[string]int{"subscriptions": 3, "messages_per_second": 9}})
	g, err := v.Verify(signHS(t, claims))
	if err != nil {
		t.Fatal(err)
	}
	if g.Limits != (Limits{3, 9}) || !g.Rights.Allow(filter(t, "free:a")) || g.Rights.Allow(filter(t, "md:a")) {
		t.Errorf("%+v", g)
	}
	named := maps.Clone(claims)
	named["https://example.com/topics"] = "md:*"
	if g, err = v.Verify(signHS(t, named)); err != nil || !g.Rights.Allow(filter(t, "md:a")) || g.Rights.Allow(filter(t, "free:a")) {
		t.Errorf("%+v, %v", g, err)
	}
	named["https://example.com/topics"] = []string{}
	if g, err = v.Verify(signHS(t, named)); err != nil || g.Rights.Allow(filter(t, "free:a")) {
		t.Errorf("an empty list is a list: %+v, %v", g, err)
	}
}

func TestRightsCoverWholly(t *testing.T) {
	r, err := ParseRights([]string{"md:a:*", "md:b:**", "news"})
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[string]bool{
		"md:a:x": true, "md:a:*": true, "md:a:**": false, "md:a:x:y": false, "md:b:x:y": true, "md:b:*:*": true, "md:b:**": true, "md:b": false,
		"md:*:x": false, "md:**": false, "**": false, "news": true, "news:x": false, "*": false,
	} {
		if r.Allow(filter(t, f)) != want {
			t.Errorf("%s: allowed %v", f, !want)
		}
	}
	two, _ := ParseRights([]string{"a:*", "a:*:**"}) // together they cover a:**
	if two.Allow(filter(t, "a:**")) {
		t.Error("covered by two together")
	}
	if (Rights{}).Allow(filter(t, "a")) || !Everything().Allow(filter(t, "**")) {
		t.Error("nothing, everything")
	}
}

func TestNarrow(t *testing.T) {
	for _, c := range [][3]int{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}} {
		got := Limits{c[0], c[1]}.Narrow(Limits{c[1], c[0]})
		if got != (Limits{c[2], c[2]}) {
			t.Errorf("%v: %v", c, got)
		}
	}
}

func TestGrantInATicket(t *testing.T) {
	rights, _ := ParseRights([]string{"md:**", "x"})
	g := &Grant{User: "ann", TokenID: "t-1", Login: "gw-7", Issued: 5, Authenticated: 6_000, Expires: 9,
		Rights: rights, Limits: Limits{3, 4}}
	raw := g.EncodeRights()
	back, err := DecodeGrant("ann", 9, raw)
	if err != nil || !reflect.DeepEqual(back, g) {
		t.Fatalf("%+v, %v", back, err)
	}
	for n := range raw {
		if cut, err := DecodeGrant("ann", 9, raw[:n]); err == nil && cut.Rights.Allow(filter(t, "x")) {
			t.Errorf("cut at %d: %+v", n, cut)
		}
	}
	raw[0]++
	if _, err := DecodeGrant("ann", 9, raw); err == nil {
		t.Error("another version is read")
	}
}

// FuzzVerify: no token, however made, does harm; and one that passes keeps to the rules.
func FuzzVerify(f *testing.F) {
	v := verifier(f, nil)
	hs := signHS(f, good())
	f.Add(hs)
	f.Add(sign(f, jwt.SigningMethodNone, "", jwt.UnsafeAllowNoneSignatureType, good()))
	f.Add(strings.Replace(hs, ".", "..", 1))
	f.Add(`{}.{}.`)
	f.Fuzz(func(t *testing.T, token string) {
		if g, err := v.Verify(token); err == nil && (g.User != "ann" || token != hs && !strings.HasPrefix(hs, token[:10])) {
			t.Fatalf("taken: %q %+v", token, g)
		}
	})
}

// FuzzClaims signs whatever comes as claims.
func FuzzClaims(f *testing.F) {
	v := verifier(f, nil)
	f.Add(`{"sub":"a","aud":"default","exp":1800000600,"topics":["a:*"],"limits":{"subscriptions":1}}`)
	f.Add(`{"sub":"a","aud":["default"],"exp":1e999,"topics":null,"limits":null}`)
	f.Add(`{"sub":{},"aud":{},"exp":{},"jti":[],"topics":{"a":1}}`)
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"hs"}`))
	f.Fuzz(func(t *testing.T, claims string) {
		text := header + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
		mac, err := jwt.SigningMethodHS256.Sign(text, []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		g, err := v.Verify(text + "." + base64.RawURLEncoding.EncodeToString(mac))
		if err != nil {
			return
		}
		if g.User == "" || g.Expires <= noon.Unix() || g.Limits.Subscriptions < 0 || g.Limits.MessagesPerSecond < 0 {
			t.Fatalf("%+v of %q", g, claims)
		}
		if back, err := DecodeGrant(g.User, g.Expires, g.EncodeRights()); err != nil || !reflect.DeepEqual(back.Rights, g.Rights) && len(g.Rights.filters) > 0 {
			t.Fatalf("%v: %+v", err, back)
		}
	})
}
