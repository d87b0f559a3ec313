package config

import (
	"reflect"
	"strings"
	"testing"
)

const (
	authSecret = "0123456789abcdef0123456789abcdef"
	authPEM    = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
`
)

func TestAuthKeys(t *testing.T) {
	content := "auth:\n  mode: jwt\n  keys:\n  - {kid: a, alg: HS256, secret: " + authSecret + "}\n  - kid: b\n    pem: |\n      " +
		strings.ReplaceAll(strings.TrimSpace(authPEM), "\n", "\n      ") + "\n  - {kid: c, file: keys/c.pem}\n  jwks: https://id.example/keys\n" +
		"  default_topics: [md:**]\n  on_duplicate: replace\n  control_secret: " + authSecret + "x\n"
	l := load(t, Sources{File: writeFile(t, content)})
	a := &l.Config.Auth
	if len(a.Keys) != 3 || a.Keys[0].Secret.Reveal() != authSecret || a.Keys[1].PEM != authPEM || a.Keys[2].File != "keys/c.pem" {
		t.Fatalf("%+v", a.Keys)
	}
	for _, k := range a.Keys[:2] {
		if keys, err := k.Parse(nil); err != nil || len(keys) != 1 {
			t.Errorf("%s: %v, %v", k.KID, keys, err)
		}
	}
	shown := l.Show()
	if strings.Contains(shown, authSecret) || !strings.Contains(shown, `{kid: "a", alg: "HS256", secret: "(hidden)"}`) || !strings.Contains(shown, "control_secret: (hidden)") {
		t.Errorf("shown:\n%s", shown)
	}
	masked := strings.ReplaceAll(shown, `"(hidden)"`, authSecret)
	masked = strings.ReplaceAll(masked, "(hidden)", authSecret+"x")
	if again := load(t, Sources{File: writeFile(t, masked)}); !reflect.DeepEqual(again.Config.Auth, *a) {
		t.Errorf("read back: %+v", again.Config.Auth)
	}
	env := load(t, Sources{Environ: []string{"SEALCAST_AUTH_MODE=jwt", `SEALCAST_AUTH_KEYS=[{secret: "` + authSecret + `"}]`}})
	if keys := env.Config.Auth.Keys; len(keys) != 1 || keys[0].KID != "" {
		t.Errorf("%+v", keys)
	}
}

func TestAuthFaults(t *testing.T) {
	const jwt = "auth:\n  mode: jwt\n  "
	key := "{secret: " + authSecret + "}"
	named := "{kid: a, secret: " + authSecret + "}"
	for _, c := range []struct{ name, file, want string }{
		{"no keys", "auth: {mode: jwt}", "gw.yaml:1: auth.mode: jwt needs keys to verify tokens with | set auth.keys or auth.jwks\n"},
		{"not a mode", "auth: {mode: oauth}", `gw.yaml:1: auth.mode: "oauth" is not a known value | allowed: none, jwt` + "\n"},
		{"keys without mode", "auth:\n  keys: [" + key + "]\n  jwks: https://a.example/k\n  on_duplicate: reject",
			"gw.yaml:2: auth.keys: has no effect with auth.mode none | set auth.mode to jwt, or remove this\n" +
				"gw.yaml:3: auth.jwks: has no effect with auth.mode none | set auth.mode to jwt, or remove this\n" +
				"gw.yaml:4: auth.on_duplicate: has no effect with auth.mode none | set auth.mode to jwt, or remove this\n"},
		{"several faults at once", jwt + "jwks: http://a.example/k\n  leeway: 1h\n  keys: [{alg: none, secret: short}, {kid: 7}]",
			"gw.yaml:3: auth.jwks: must begin with https://, or with http:// on this machine | allowed: a URL\n" +
				"gw.yaml:4: auth.leeway: is out of range | allowed: 0s to 10m\n" +
				`gw.yaml:5: auth.keys[0].alg: "none" is not a known value | allowed: HS256, RS256, ES256, EdDSA` + "\n" +
				"gw.yaml:5: auth.keys[1].kid: is a number, not text | put the value in quotes\n"},
		{"a short secret", jwt + "keys: [{secret: tooshort}]",
			"gw.yaml:3: auth.keys[0]: a secret of 8 bytes is too short for HS256: at least 32 | a secret has 32 bytes or more; a public key begins with -----BEGIN PUBLIC KEY-----\n"},
		{"a secret for another algorithm", jwt + "keys: [{alg: RS256, secret: " + authSecret + "}]",
			"gw.yaml:3: auth.keys[0]: secret is for alg HS256 alone | leave alg out, or give a public key with pem or file\n"},
		{"a public key as a secret", jwt + "keys:\n  - alg: HS256\n    pem: |\n      " + strings.ReplaceAll(authPEM, "\n", "\n      "),
			"gw.yaml:4: auth.keys[0]: the key is of another type than alg says | a secret has 32 bytes or more; a public key begins with -----BEGIN PUBLIC KEY-----\n"},
		{"nothing in an entry", jwt + "keys: [{kid: a}]", "gw.yaml:3: auth.keys[0]: needs exactly one of secret, pem, file | " + authKeyForm + "\n"},
		{"two in an entry", jwt + "keys: [{secret: " + authSecret + ", file: x}]", "gw.yaml:3: auth.keys[0]: needs exactly one of secret, pem, file | " + authKeyForm + "\n"},
		{"a bare secret", jwt + "keys: " + authSecret, "gw.yaml:3: auth.keys: is a value of another type, not a mapping | " + authKeyForm + "\n"},
		{"unknown field", jwt + "keys: [{sekret: " + authSecret + "}]", "gw.yaml:3: auth.keys[0].sekret: unknown setting | did you mean secret?\n"},
		{"twice the same kid", jwt + "keys: [" + named + ", " + named + "]", "gw.yaml:3: auth.keys[1].kid: a is listed twice | give each key a name of its own\n"},
		{"one of several without kid", jwt + "keys: [" + named + ", " + key + "]", "gw.yaml:3: auth.keys: a key without kid beside others | give each key the kid that its tokens name\n"},
		{"without kid beside a set", jwt + "keys: [" + key + "]\n  jwks: https://a.example/k", "gw.yaml:3: auth.keys: a key without kid beside others | give each key the kid that its tokens name\n"},
		{"short control secret", jwt + "keys: [" + key + "]\n  control_secret: short", "gw.yaml:4: auth.control_secret: is shorter than 32 bytes | make one with `openssl rand -hex 32`, the same for all gateways\n"},
	} {
		_, err := Load(Sources{File: writeFile(t, c.file)})
		if got := report(err); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, got, c.want)
		} else if strings.Contains(got, authSecret) || strings.Contains(got, "tooshort") {
			t.Errorf("%s tells a secret", c.name)
		}
	}
}
