package main

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/advice"
)

// userFlags say how clients of the mixture become users, each one of its own,
// so that a second login of one of them is a duplicate.
type userFlags struct {
	secretFile, kid, duplicate string
	secret                     []byte // of their tokens; nil: there are none
}

const defaultDuplicate = "replace"

func (u *userFlags) declare(f *flags) {
	f.StringVar(&u.duplicate, "on-duplicate", defaultDuplicate, "with --start, `WHAT` becomes of a user's second login: replace, reject or allow (not with the suite plain)")
	f.StringVar(&u.secretFile, "secret-file", "", "`FILE` with the secret of a running gateway's HS256 key, to make each client a user of its own")
	f.StringVar(&u.kid, "kid", "", "`NAME` of that key in auth.keys")
}

// prepare decides whether there are tokens, and under which secret.
func (u *userFlags) prepare(a *app, b *load) (err error) {
	if b.scenario != "mixed" {
		return nil
	}
	plain := slices.Contains(b.how.suites, suite.Plain.String())
	switch {
	case u.secretFile != "" && (b.gw.start || b.gw.token != ""):
		return advice.Misuse("--secret-file belongs to a running gateway, in the place of --token", "with --start tokens are made by themselves")
	case u.secretFile != "":
		u.secret, err = a.tokenSecret(u.secretFile)
		return err
	case !b.gw.start && u.duplicate != defaultDuplicate:
		return advice.Misuse("--on-duplicate belongs to --start", "a running gateway has its own auth.on_duplicate; --secret-file makes each client a user")
	case !slices.Contains([]string{"replace", "reject", "allow"}, u.duplicate):
		return advice.Misuse("--on-duplicate: there is no "+u.duplicate, "one of replace, reject, allow")
	case plain && u.duplicate != defaultDuplicate:
		return advice.Misuse("--on-duplicate: tokens do not go with the suite plain", "leave plain out, or --on-duplicate")
	case b.gw.start && !plain:
		u.secret = []byte(rand.Text() + rand.Text())
	}
	return nil
}

// settings are what a gateway is started with for these tokens.
func (u *userFlags) settings(b *load) []string {
	if u.secret == nil || !b.gw.start {
		return nil
	}
	return []string{"auth.mode=jwt", "auth.keys=[{alg: HS256, secret: " + string(u.secret) + "}]", "auth.on_duplicate=" + u.duplicate}
}

// token makes the token of a user; nil if there are none.
func (u *userFlags) token(realm string) func(user string) (string, error) {
	if u.secret == nil {
		return nil
	}
	return func(user string) (string, error) {
		r := tokenRequest{user: user, realm: realm, kid: u.kid, id: rand.Text(), topics: []string{"**"}, life: 24 * time.Hour}
		return r.sign(u.secret, time.Now())
	}
}
