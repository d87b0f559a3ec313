package auth

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

const (
	maxToken = 8 << 10 // bytes
	maxName  = 255     // bytes of sub, jti and kid
	maxTime  = 1 << 40 // Unix seconds; later ones are a mistake, and sums of them might overflow
)

// ErrKeyUnknown says that the token names a key that is not known here, but may
// be in the set of the URL: Seek, then verify again.
var ErrKeyUnknown = errors.New("the token's key is not known")

// Options are the rules for tokens.
type Options struct {
	Keys     []Key       // of the settings
	Remote   *RemoteKeys // nil: none
	Audience string      // the realm
	Issuer   string      // empty: any
	Leeway   time.Duration
	Claims   Claims
	// DefaultTopics are the rights of a token that has no claim of topics.
	DefaultTopics Rights
	Now           func() time.Time
}

// Claims names the claims that are not registered ones.
type Claims struct {
	Topics string // a list of names and patterns, or one
	Limits string // an object: subscriptions, messages_per_second
}

// Verifier judges tokens. It is immutable and safe for concurrent use.
type Verifier struct {
	opt    Options
	parser *jwt.Parser
}

// NewVerifier makes a Verifier, which keeps o.
func NewVerifier(o Options) *Verifier {
	rules := []jwt.ParserOption{
		jwt.WithValidMethods(Algorithms()), jwt.WithStrictDecoding(),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(o.Leeway), jwt.WithTimeFunc(o.Now),
		jwt.WithAudience(o.Audience),
	}
	if o.Issuer != "" {
		rules = append(rules, jwt.WithIssuer(o.Issuer))
	}
	return &Verifier{opt: o, parser: jwt.NewParser(rules...)}
}

// Remote is the key set of a URL, nil if there is none.
func (v *Verifier) Remote() *RemoteKeys { return v.opt.Remote }

// Verify returns what a token grants. Its errors are a *Refusal or, if there is
// a Remote, ErrKeyUnknown. It never waits for the network.
func (v *Verifier) Verify(token string) (*Grant, error) {
	if token == "" {
		return nil, refuse("a token is needed")
	}
	if len(token) > maxToken {
		return nil, refuse("the token is too long")
	}
	claims := jwt.MapClaims{}
	parsed, err := v.parser.ParseWithClaims(token, claims, v.keyFor)
	if err != nil {
		return nil, explain(err)
	}
	if !parsed.Valid {
		return nil, refuse("the token is not valid")
	}
	return v.grant(claims)
}

// keyFor chooses the key by the name in the token's header. The key's own
// algorithm must be the token's. A key without a name is for every token of its
// algorithm that names no other; a token without a name is tried with the one key
// of its algorithm, if there is just one.
func (v *Verifier) keyFor(t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, refuse("the token has extensions that must be understood (crit)")
	}
	id, named := t.Header["kid"].(string)
	if _, ok := t.Header["kid"]; ok && (!named || len(id) > maxName) {
		return nil, refuse("the token's kid is no name")
	}
	var fitting []Key
	mismatch := false
	for _, k := range slices.Concat(v.opt.Keys, v.opt.Remote.known()) {
		switch {
		case k.alg != t.Method.Alg():
			mismatch = mismatch || named && k.id == id
		case named && k.id == id:
			return k.key, nil
		case !named || k.id == "":
			fitting = append(fitting, k)
		}
	}
	switch {
	case mismatch:
		return nil, refuse("the token's alg is not that of its key")
	case len(fitting) == 1:
		return fitting[0].key, nil
	case len(fitting) > 1:
		return nil, refuse("the token does not name its key (kid)")
	case v.opt.Remote != nil:
		return nil, ErrKeyUnknown
	}
	return nil, refuse("the token's key is not known (kid, alg)")
}

// explain words a failure for the client, without anything of the token.
func explain(err error) error {
	var own *Refusal
	for _, known := range []struct {
		is   error
		text string
	}{
		{jwt.ErrTokenMalformed, "the token is malformed"},
		{jwt.ErrTokenSignatureInvalid, "the token's signature is not valid"},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, "the token is issued in the future"},
		{jwt.ErrTokenInvalidAudience, "the token is for another audience (aud): it must be this gateway's realm"},
		{jwt.ErrTokenInvalidIssuer, "the token is of another issuer (iss)"},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks a claim that is needed (exp, aud, iss)"},
	} {
		switch {
		case errors.Is(err, ErrKeyUnknown):
			return ErrKeyUnknown
		case errors.As(err, &own):
			return own
		case errors.Is(err, known.is):
			return refuse(known.text)
		}
	}
	return refuse("the token is not valid")
}

// grant reads the claims of a token whose signature and times are good.
func (v *Verifier) grant(c jwt.MapClaims) (*Grant, error) {
	user, err := c.GetSubject()
	if err != nil || !isName(user) || user == "" {
		return nil, refuse("the token names no user (sub of 1 to 255 bytes)")
	}
	expires, err := c.GetExpirationTime()
	if err != nil || expires == nil || expires.Unix() < 0 || expires.Unix() > maxTime {
		return nil, refuse("the token has no expiry that can be used (exp)")
	}
	g := &Grant{User: user, Authenticated: v.opt.Now().UnixMilli(), Expires: expires.Add(v.opt.Leeway).Unix()}
	if issued, err := c.GetIssuedAt(); err == nil && issued != nil {
		g.Issued = issued.Unix()
	}
	if id, ok := c["jti"]; ok {
		if g.TokenID, ok = id.(string); !ok || !isName(g.TokenID) {
			return nil, refuse("the token's jti is no name of at most 255 bytes")
		}
	}
	if g.Rights, err = v.rights(c); err != nil {
		return nil, err
	}
	g.Limits, err = v.limits(c)
	return g, err
}

func (v *Verifier) rights(c jwt.MapClaims) (Rights, error) {
	claim, ok := c[v.opt.Claims.Topics]
	if !ok {
		return v.opt.DefaultTopics, nil
	}
	var patterns []string
	switch claim := claim.(type) {
	case string:
		patterns = []string{claim}
	case []any:
		for _, p := range claim {
			s, ok := p.(string)
			if !ok {
				return Rights{}, refuse("the token's topics are no list of texts")
			}
			patterns = append(patterns, s)
		}
	default:
		return Rights{}, refuse("the token's topics are no list of texts")
	}
	r, err := ParseRights(patterns)
	if err != nil {
		return Rights{}, refuse("the token's topics: " + err.Error())
	}
	return r, nil
}

// limits reads the claim of limits strictly: one that is misunderstood would
// limit nothing.
func (v *Verifier) limits(c jwt.MapClaims) (Limits, error) {
	claim, ok := c[v.opt.Claims.Limits]
	if !ok {
		return Limits{}, nil
	}
	raw, err := json.Marshal(claim)
	if err != nil {
		return Limits{}, refuse("the token's limits are not understood")
	}
	var l struct {
		Subscriptions     *uint32 `json:"subscriptions"`
		MessagesPerSecond *uint32 `json:"messages_per_second"`
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil || claim == nil {
		return Limits{}, refuse("the token's limits are not understood: subscriptions and messages_per_second are whole numbers from 1 on")
	}
	out := Limits{}
	for _, field := range []struct {
		from *uint32
		to   *int
	}{{l.Subscriptions, &out.Subscriptions}, {l.MessagesPerSecond, &out.MessagesPerSecond}} {
		if field.from == nil {
			continue
		}
		if *field.from == 0 || *field.from > 1<<30 {
			return Limits{}, refuse("the token's limits are whole numbers from 1 on")
		}
		*field.to = int(*field.from)
	}
	return out, nil
}

// isName tells whether a claim can stand in logs, lists and tickets.
func isName(s string) bool {
	return len(s) <= maxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
