package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/wire/topic"
)

// minSecret is what gateways take for HS256, in bytes (RFC 7518 section 3.2).
const minSecret = 32

// tokenRequest is what a token is to say.
type tokenRequest struct {
	user, realm, issuer, kid, id string
	topics                       []string
	life                         time.Duration
	subscriptions, messages      int
}

// token makes a token for trying a gateway out. Whoever issues tokens in earnest
// has a server for it.
func (a *app) token(_ context.Context, args []string) error {
	r := tokenRequest{id: rand.Text()}
	f := newFlags("token", "", `Prints a token signed with HS256, to try a gateway out whose auth.keys hold the same secret. The
secret is read from --secret-file, or is the value of SEALCTL_TOKEN_SECRET.`)
	secretFile := f.String("secret-file", "", "`FILE` with the secret, of 32 bytes or more; a line feed at its end is no part of it")
	f.StringVar(&r.user, "user", "", "`NAME` of the user (sub)")
	f.list(&r.topics, "topics", true, "names and patterns that the token allows, separated by commas; may be given several times")
	f.DurationVar(&r.life, "for", time.Hour, "how `LONG` the token is good")
	f.StringVar(&r.realm, "realm", "default", "`NAME` that the gateway's settings give as its realm (aud)")
	f.StringVar(&r.issuer, "issuer", "", "`TEXT` of the setting auth.issuer (iss)")
	f.StringVar(&r.kid, "kid", "", "`NAME` of the key in auth.keys")
	f.StringVar(&r.id, "id", r.id, "`NAME` of the token (jti), by which it can be revoked; otherwise a random one")
	f.Lookup("id").DefValue = ""
	f.IntVar(&r.subscriptions, "subscriptions", 0, "most subscriptions of a session; 0: as many as the gateway allows")
	f.IntVar(&r.messages, "messages-per-second", 0, "most messages of a session; 0: as many as the gateway allows")
	if help, err := a.parse(f, args, 0, 0); help || err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	secret, err := a.tokenSecret(*secretFile)
	if err != nil {
		return err
	}
	text, err := r.sign(secret, time.Now())
	if err != nil {
		return advice.Failed(err, "")
	}
	return a.print(text + "\n")
}

func (r *tokenRequest) check() error {
	switch {
	case r.user == "":
		return advice.Misuse("token: --user is missing", "name the user, for example --user ann")
	case len(r.topics) == 0:
		return advice.Misuse("token: --topics is missing", "for example --topics 'md:**', or '**' for all")
	case r.life < time.Second:
		return advice.Misuse("token: --for is shorter than a second", "")
	case r.subscriptions < 0 || r.messages < 0:
		return advice.Misuse("token: limits are 0 or more", "")
	}
	for _, t := range r.topics {
		if _, err := topic.ParseFilter(t); err != nil {
			return advice.Misuse("token: "+err.Error(), "")
		}
	}
	return nil
}

func (a *app) tokenSecret(path string) ([]byte, error) {
	const hint = "make one with `openssl rand -hex 32 > FILE`, and give it to the gateway as {alg: HS256, file: FILE} in auth.keys"
	secret := []byte(a.getenv("SEALCTL_TOKEN_SECRET"))
	if path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, advice.Failed(fmt.Errorf("--secret-file: %w", err), hint)
		}
		secret = []byte(strings.TrimRight(string(content), "\r\n"))
	}
	switch {
	case len(secret) == 0:
		return nil, advice.Misuse("token: there is no secret: give --secret-file or SEALCTL_TOKEN_SECRET", hint)
	case len(secret) < minSecret:
		return nil, advice.Failed(fmt.Errorf("the secret has %d bytes, and gateways take none below %d", len(secret), minSecret), hint)
	}
	return secret, nil
}

func (r *tokenRequest) sign(secret []byte, now time.Time) (string, error) {
	claims := jwt.MapClaims{"sub": r.user, "aud": r.realm, "jti": r.id, "topics": r.topics,
		"iat": now.Unix(), "exp": now.Add(r.life).Unix()}
	if r.issuer != "" {
		claims["iss"] = r.issuer
	}
	limits := map[string]int{}
	if r.subscriptions > 0 {
		limits["subscriptions"] = r.subscriptions
	}
	if r.messages > 0 {
		limits["messages_per_second"] = r.messages
	}
	if len(limits) > 0 {
		claims["limits"] = limits
	}
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	if r.kid != "" {
		t.Header["kid"] = r.kid
	}
	return t.SignedString(secret)
}
