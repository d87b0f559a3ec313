package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire/topic"
)

// Auth is the section auth.
type Auth struct {
	Mode          AuthMode
	Keys          []AuthKey
	JWKS          string // a URL; empty: none
	JWKSRefresh   time.Duration
	Issuer        string // empty: any
	Leeway        time.Duration
	TopicsClaim   string
	LimitsClaim   string
	DefaultTopics []topic.Filter
	OnDuplicate   auth.Duplicate
	ExpiryNotice  time.Duration
	KeepRevoked   time.Duration
	ControlSecret Secret
}

// AuthMode says whether clients need a token.
type AuthMode string

// The modes of auth.mode.
const (
	AuthNone AuthMode = "none"
	AuthJWT  AuthMode = "jwt"
)

// AuthKey is one entry of auth.keys. One of Secret, PEM and File is set.
type AuthKey struct {
	KID    string // empty: for tokens that name no other key
	Alg    string // empty: the key's own
	Secret Secret
	PEM    string
	File   string
}

// Audit is the section audit.
type Audit struct {
	File string // empty: the log's own stream
}

func authSettings(c *Auth) []setting {
	return []setting{
		{"auth.mode", "none",
			"none: whoever reaches the port may subscribe to everything. jwt: clients need a JSON Web Token with exp, aud (the realm) and sub (the user).",
			choice(&c.Mode, AuthNone, AuthJWT)},
		{"auth.keys", "[]",
			"Keys that tokens may be signed with, each for one algorithm. secret: the text of a secret for HS256, of 32 bytes or more. pem: a public key in PEM. file: a file with a public key or certificate in PEM, with a JSON Web Key or a set of them, or with a secret if alg is HS256. kid is needed where there are several. Read again with SIGHUP.",
			authKeys(&c.Keys)},
		{"auth.jwks", `""`,
			"URL of a JSON Web Key Set, https, or http on this machine. It is fetched at once, then regularly, and when a token names a key that is not in it; the last set that could be had stays in force. Empty: none.",
			text(&c.JWKS, 2048, "a URL", checkJWKS)},
		{"auth.jwks_refresh", "15m",
			"How often the set is fetched. A key that was taken out of it is good for so long.",
			duration(&c.JWKSRefresh, time.Second, 24*time.Hour)},
		{"auth.issuer", `""`,
			"The iss that tokens must have. Empty: any.",
			text(&c.Issuer, 512, "text", nil)},
		{"auth.leeway", "30s",
			"By how much the clocks of gateway and issuer may differ: for so long after exp, and before nbf and iat, a token is taken.",
			duration(&c.Leeway, 0, 10*time.Minute)},
		{"auth.topics_claim", "topics",
			"The claim that lists the names and patterns of topics that a token may subscribe to. A pattern that is asked for must be covered by one of them wholly.",
			text(&c.TopicsClaim, 255, "the name of a claim", notEmpty)},
		{"auth.limits_claim", "limits",
			"The claim with limits of a token: an object with subscriptions and messages_per_second. They narrow the settings' limits and never widen them.",
			text(&c.LimitsClaim, 255, "the name of a claim", notEmpty)},
		{"auth.default_topics", "[]",
			"Topics of a token without that claim. Empty: none.",
			list(&c.DefaultTopics, "names and patterns of topics", topic.ParseFilter, topic.Filter.String)},
		{"auth.on_duplicate", "allow",
			"What happens to several sessions of one user, over all gateways of this Redis and realm. allow: they may be. reject: the first login stays, others are refused. replace: the newest login stays, the one before is closed (4409). Holds for sessions that begin from now on.",
			choice(&c.OnDuplicate, auth.DuplicateAllow, auth.DuplicateReject, auth.DuplicateReplace)},
		{"auth.expiry_notice", "1m",
			"How long before its token expires a client is told, so that it can send another one; not before half of the token's time is over.",
			duration(&c.ExpiryNotice, 0, 24*time.Hour)},
		{"auth.keep_revoked", "720h",
			"How long a revocation without a duration is kept. Longer than any token lives.",
			duration(&c.KeepRevoked, time.Minute, 366*24*time.Hour)},
		{"auth.control_secret", `""`,
			"Secret that all gateways of this Redis and realm share. With it they take word of revocations and logins from each other only; without it, whoever may publish to Redis can end sessions and lift bans. Better given as SEALCAST_AUTH_CONTROL_SECRET than in a file; never shown or logged.",
			hidden(&c.ControlSecret, 4096)},
	}
}

func auditSettings(c *Audit) []setting {
	return []setting{
		{"audit.file", `""`,
			"File for audit lines: logins, subscriptions, refusals, expiries, revocations. It is opened again with SIGHUP, for logrotate. Empty: they stand in the log, under the name audit, from level info on.",
			atStart(text(&c.File, 4096, "a path", nil))},
	}
}

func checkJWKS(s string) error {
	if s == "" {
		return nil
	}
	return auth.CheckURL(s)
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return nil
}

// authKeyForm is what an entry of auth.keys looks like.
const authKeyForm = "{kid: NAME, alg: HS256, RS256, ES256 or EdDSA, and one of secret: TEXT, pem: TEXT, file: PATH}"

func authKeys(field *[]AuthKey) kind {
	return kind{
		field:   field,
		allowed: "a list of " + authKeyForm,
		show:    func() string { return showAuthKeys(*field) },
		read: func(n *yaml.Node) []problem {
			var keys []AuthKey
			var problems []problem
			for i, item := range elements(n) {
				key, found := authKey(item)
				if found == nil && slices.ContainsFunc(keys, func(k AuthKey) bool { return k.KID == key.KID && key.KID != "" }) {
					found = []problem{{item, ".kid", quote(key.KID) + " is listed twice", "give each key a name of its own"}}
				}
				for j := range found {
					found[j].path = index(n, i) + found[j].path
				}
				problems = append(problems, found...)
				keys = append(keys, key)
			}
			if problems == nil {
				*field = keys
			}
			return problems
		},
	}
}

func showAuthKeys(keys []AuthKey) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString("\n- {")
		sep := ""
		for _, f := range [][2]string{{"kid", k.KID}, {"alg", k.Alg}, {"secret", k.Secret.String()}, {"pem", k.PEM}, {"file", k.File}} {
			if f[1] != "" {
				b.WriteString(sep + f[0] + ": " + doubleQuote(f[1]))
				sep = ", "
			}
		}
		b.WriteString("}")
	}
	if b.Len() == 0 {
		return "[]"
	}
	return b.String()
}

// authKey reads one entry. What it says is wrong never quotes a secret.
func authKey(n *yaml.Node) (AuthKey, []problem) {
	var key AuthKey
	if n.Kind != yaml.MappingNode {
		return key, []problem{{n, "", "is " + article(n) + ", not a mapping", authKeyForm}}
	}
	algorithms := auth.Algorithms()
	problems := mapping(n, authKeyForm, []string{"kid", "alg", "secret", "pem", "file"}, map[string]kind{
		"kid":    text(&key.KID, 255, "a name", nil),
		"alg":    choice(&key.Alg, algorithms...),
		"secret": hidden(&key.Secret, 4096),
		"pem":    pemText(&key.PEM),
		"file":   text(&key.File, 4096, "a path", nil),
	})
	if problems != nil {
		return key, problems
	}
	if text, hint := key.fault(); text != "" {
		problems = []problem{{n, "", text, hint}}
	}
	return key, problems
}

// fault says what is wrong with an entry as a whole.
func (k *AuthKey) fault() (text, hint string) {
	set := 0
	for _, given := range []bool{k.Secret != Secret{}, k.PEM != "", k.File != ""} {
		if given {
			set++
		}
	}
	hasSecret := k.Secret != Secret{}
	switch {
	case set != 1:
		return "needs exactly one of secret, pem, file", authKeyForm
	case hasSecret && k.Alg != "" && k.Alg != auth.Algorithms()[0]:
		return "secret is for alg HS256 alone", "leave alg out, or give a public key with pem or file"
	}
	if k.File != "" {
		return "", "" // whoever starts the gateway reads it
	}
	if _, err := k.Parse(nil); err != nil {
		return err.Error(), "a secret has 32 bytes or more; a public key begins with -----BEGIN PUBLIC KEY-----"
	}
	return "", ""
}

// Parse returns the keys of the entry. read gets the content of File, which is
// private if it may hold a secret; without a File it is not called.
func (k *AuthKey) Parse(read func(path string, private bool) ([]byte, error)) ([]auth.Key, error) {
	private := k.Alg == auth.Algorithms()[0]
	switch {
	case k.Secret != Secret{}:
		key, err := auth.NewSecret(k.KID, []byte(k.Secret.Reveal()))
		return []auth.Key{key}, err
	case k.PEM != "":
		return auth.ParseKeys([]byte(k.PEM), k.KID, k.Alg)
	}
	content, err := read(k.File, private)
	if err != nil {
		return nil, err
	}
	if private && !strings.HasPrefix(strings.TrimSpace(string(content)), "{") {
		key, err := auth.NewSecret(k.KID, []byte(strings.TrimRight(string(content), "\r\n")))
		return []auth.Key{key}, err
	}
	return auth.ParseKeys(content, k.KID, k.Alg)
}

// pemText is a text of several lines.
func pemText(field *string) kind {
	return scalar(field, "a public key in PEM", func(n *yaml.Node) (string, error) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || len(n.Value) > 16*kib {
			return "", hinted{"is not a text of several lines", "write pem: | and the key in the lines below"}
		}
		return n.Value, nil
	}, quote)
}

func (l *loader) checkAuth(a *Auth) {
	if a.Mode == AuthNone {
		unused := problem{text: "has no effect with auth.mode none", hint: "set auth.mode to jwt, or remove this"}
		l.rule(len(a.Keys) > 0, unused, "auth.keys", "auth.mode")
		l.rule(a.JWKS != "", unused, "auth.jwks", "auth.mode")
		l.rule(a.Issuer != "", unused, "auth.issuer", "auth.mode")
		l.rule(len(a.DefaultTopics) > 0, unused, "auth.default_topics", "auth.mode")
		l.rule(a.OnDuplicate != auth.DuplicateAllow, unused, "auth.on_duplicate", "auth.mode")
		return
	}
	l.rule(len(a.Keys) == 0 && a.JWKS == "", problem{
		text: "jwt needs keys to verify tokens with", hint: "set auth.keys or auth.jwks",
	}, "auth.mode", "auth.keys", "auth.jwks")
	unnamed := slices.ContainsFunc(a.Keys, func(k AuthKey) bool { return k.KID == "" && k.File == "" })
	l.rule(unnamed && (len(a.Keys) > 1 || a.JWKS != ""), problem{
		text: "a key without kid beside others", hint: "give each key the kid that its tokens name",
	}, "auth.keys", "auth.jwks")
	secret := a.ControlSecret.Reveal()
	l.rule(secret != "" && len(secret) < 32, problem{
		text: "is shorter than 32 bytes", hint: "make one with `openssl rand -hex 32`, the same for all gateways",
	}, "auth.control_secret")
}
