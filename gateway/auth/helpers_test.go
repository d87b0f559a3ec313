package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// noon is the time of these tests.
var noon = time.Unix(1_800_000_000, 0)

func atNoon() time.Time { return noon }

const secret = "0123456789abcdef0123456789abcdef"

// pairs are keys of every kind, made once.
var pairs = sync.OnceValue(func() (p struct {
	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	ed      ed25519.PrivateKey
	otherEC *ecdsa.PrivateKey
}) {
	p.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	p.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.otherEC, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, p.ed, _ = ed25519.GenerateKey(rand.Reader)
	return p
})

func publicPEM(t testing.TB, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// allKeys are a key of each algorithm, named hs, rs, es, ed.
func allKeys(t testing.TB) []Key {
	t.Helper()
	hs, err := NewSecret("hs", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	keys := []Key{hs}
	p := pairs()
	for _, k := range []struct {
		id  string
		key crypto.PublicKey
	}{{"rs", p.rsa.Public()}, {"es", p.ec.Public()}, {"ed", p.ed.Public()}} {
		parsed, err := ParseKeys(publicPEM(t, k.key), k.id, "")
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, parsed...)
	}
	return keys
}

func verifier(t testing.TB, change func(*Options)) *Verifier {
	t.Helper()
	o := Options{Keys: allKeys(t), Audience: "default", Leeway: 30 * time.Second,
		Claims: Claims{Topics: "topics", Limits: "limits"}, Now: atNoon}
	if change != nil {
		change(&o)
	}
	return NewVerifier(o)
}

// good are claims that pass.
func good() jwt.MapClaims {
	return jwt.MapClaims{"sub": "ann", "aud": "default", "iat": noon.Unix() - 60, "exp": noon.Unix() + 600,
		"jti": "t-1", "topics": []string{"md:**"}}
}

func sign(t testing.TB, method jwt.SigningMethod, kid string, key any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signHS(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	return sign(t, jwt.SigningMethodHS256, "hs", []byte(secret), claims)
}
