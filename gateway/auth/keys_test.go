package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
)

// jwkOf is a key as JSON.
func jwkOf(t testing.TB, key any, id string, change func(*jwkset.JWKMarshal)) json.RawMessage {
	t.Helper()
	k, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Marshal: jwkset.JWKMarshalOptions{Private: true}, Metadata: jwkset.JWKMetadataOptions{KID: id}})
	if err != nil {
		t.Fatal(err)
	}
	m := k.Marshal()
	m.ALG = ""
	if change != nil {
		change(&m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func setOf(keys ...json.RawMessage) []byte {
	raw, _ := json.Marshal(map[string]any{"keys": keys})
	return raw
}

func TestKeyFiles(t *testing.T) {
	p := pairs()
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&p.rsa.PublicKey)})
	cert := certificate(t, p.ec)
	privateDER, _ := x509.MarshalPKCS8PrivateKey(p.ec)
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER})
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	large, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	off := jwkOf(t, p.ec.Public(), "x", func(m *jwkset.JWKMarshal) { m.Y = m.X })
	for _, c := range []struct {
		name    string
		content []byte
		alg     string
		want    string // what the keys print as, or part of the error after "!"
	}{
		{"PKIX RSA", publicPEM(t, p.rsa.Public()), "", `[RS256 key "id"]`},
		{"PKIX EC", publicPEM(t, p.ec.Public()), es256, `[ES256 key "id"]`},
		{"PKIX Ed25519", publicPEM(t, p.ed.Public()), edDSA, `[EdDSA key "id"]`},
		{"PKCS 1", pkcs1, "", `[RS256 key "id"]`},
		{"certificate", cert, "", `[ES256 key "id"]`},
		{"JWK with a name of its own", jwkOf(t, p.rsa.Public(), "own", nil), "", `[RS256 key "own"]`},
		{"JWK without", jwkOf(t, p.ed.Public(), "", nil), "", `[EdDSA key "id"]`},
		{"JWK of a secret", jwkOf(t, []byte(secret), "s", nil), "", `[HS256 key "s"]`},
		{"JWK set", setOf(jwkOf(t, p.rsa.Public(), "a", nil), jwkOf(t, p.ec.Public(), "b", nil)), "", `[RS256 key "a" ES256 key "b"]`},
		{"set with keys for other things", setOf(jwkOf(t, p.rsa.Public(), "a", func(m *jwkset.JWKMarshal) { m.USE = "enc" }),
			jwkOf(t, p.rsa.Public(), "b", func(m *jwkset.JWKMarshal) { m.ALG = "PS256" }), jwkOf(t, p.ec.Public(), "c", nil)), "", `[ES256 key "c"]`},
		{"wrong alg", publicPEM(t, p.rsa.Public()), es256, "!another type"},
		{"RSA key as a secret", publicPEM(t, p.rsa.Public()), hs256, "!another type"},
		{"JWK and setting differ", jwkOf(t, p.ec.Public(), "a", func(m *jwkset.JWKMarshal) { m.ALG = es256 }), rs256, "!another type"},
		{"private PEM", private, "", "!private key"},
		{"private JWK", jwkOf(t, p.ec, "a", nil), "", "!private key"},
		{"short RSA", publicPEM(t, weak.Public()), "", "!1024 bits"},
		{"P-384", publicPEM(t, large.Public()), "", "!P-256"},
		{"off the curve", off, "", "!JSON Web Key"},
		{"short secret", jwkOf(t, []byte("short"), "a", nil), "", "!too short"},
		{"empty set", []byte(`{"keys":[]}`), "", "!no key"},
		{"nothing", nil, "", "!neither"},
		{"other PEM", pem.EncodeToMemory(&pem.Block{Type: "X"}), "", "!public key"},
	} {
		keys, err := ParseKeys(c.content, "id", c.alg)
		got := fmt.Sprintf("%v", keys)
		if err != nil {
			got = "!" + err.Error()
		}
		if want := strings.TrimPrefix(c.want, "!"); (got[0] == '!') != (c.want[0] == '!') || !strings.Contains(got, want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

func certificate(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: noon}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestKeysDoNotPrint(t *testing.T) {
	k, err := NewSecret("hs", []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
		if s := fmt.Sprintf(verb, k); strings.Contains(s, "0123") || strings.Contains(s, "30313233") {
			t.Errorf("%s prints %s", verb, s)
		}
	}
}

func TestWhichURLs(t *testing.T) {
	for u, ok := range map[string]bool{
		"https://id.example/keys": true, "http://127.0.0.1:1/k": true, "http://localhost/k": true, "http://[::1]/k": true,
		"http://id.example/keys": false, "http://127.0.0.1.evil.example/": false, "file:///etc/passwd": false, "https://": false,
		"https://a:b@id.example/": false, "": false, "%": false,
	} {
		if (CheckURL(u) == nil) != ok {
			t.Errorf("%s: allowed %v", u, !ok)
		}
	}
}

// keyServer serves whatever set it is told to.
type keyServer struct {
	*httptest.Server
	set     atomic.Pointer[[]byte]
	fetches atomic.Int32
}

func newKeyServer(t *testing.T) *keyServer {
	s := &keyServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.fetches.Add(1)
		if set := s.set.Load(); set != nil {
			_, _ = w.Write(*set)
			return
		}
		http.Error(w, "away", http.StatusBadGateway)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) serve(set []byte) {
	if set == nil {
		s.set.Store(nil)
		return
	}
	s.set.Store(&set)
}

// forget lets the next Seek fetch at once.
func (r *RemoteKeys) forget() { r.mu.Lock(); r.tried = time.Time{}; r.mu.Unlock() }

func TestKeyRotationAndOutage(t *testing.T) {
	p, s := pairs(), newKeyServer(t)
	remote := NewRemoteKeys(s.URL, time.Hour)
	v := verifier(t, func(o *Options) { o.Keys, o.Remote = nil, remote })
	first := sign(t, jwt.SigningMethodES256, "first", p.ec, good())
	second := sign(t, jwt.SigningMethodES256, "second", p.otherEC, good())

	expect := func(what, token string, want error) {
		t.Helper()
		if _, err := v.Verify(token); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	expect("nothing fetched", first, ErrKeyUnknown)
	if err := remote.Seek(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("away from the start: %v", err)
	}
	s.serve(setOf(jwkOf(t, p.ec.Public(), "first", nil)))
	remote.forget()
	if err := remote.Seek(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("the first key", first, nil)
	expect("a key to come", second, ErrKeyUnknown)

	// Made-up names cannot keep the server busy, and a key to come is not denied.
	before := s.fetches.Load()
	for range 100 {
		if err := remote.Seek(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if n := s.fetches.Load() - before; n != 0 {
		t.Errorf("%d fetches", n)
	}

	s.serve(setOf(jwkOf(t, p.ec.Public(), "first", nil), jwkOf(t, p.otherEC.Public(), "second", nil)))
	remote.forget()
	if err := remote.Seek(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("first, both valid", first, nil)
	expect("second, both valid", second, nil)

	for name, set := range map[string][]byte{"away": nil, "nonsense": []byte("<html>"), "no keys": setOf(),
		"secrets only": setOf(jwkOf(t, []byte(secret), "second", nil)), "endless": make([]byte, maxSetBytes+1)} {
		s.serve(set)
		remote.forget()
		if err := remote.Seek(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		expect(name, second, nil)
	}

	s.serve(setOf(jwkOf(t, p.otherEC.Public(), "second", nil)))
	remote.forget()
	if err := remote.Seek(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("the first key is gone", first, ErrKeyUnknown)
	expect("second alone", second, nil)
}

// TestRunFetches: the set comes without anybody asking, and stays fresh.
func TestRunFetches(t *testing.T) {
	s := newKeyServer(t)
	s.serve(setOf(jwkOf(t, pairs().ec.Public(), "first", nil)))
	remote := NewRemoteKeys(s.URL, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); remote.Run(ctx, zap.NewNop()) }()
	for s.fetches.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if len(remote.known()) != 1 {
		t.Errorf("%d keys", len(remote.known()))
	}
}

// TestWaitersShareAFetch: whoever waits behind a fetch takes its result.
func TestWaitersShareAFetch(t *testing.T) {
	release := make(chan struct{})
	var fetches atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		<-release
		_, _ = w.Write(setOf(jwkOf(t, pairs().ec.Public(), "first", nil)))
	}))
	defer s.Close()
	remote := NewRemoteKeys(s.URL, time.Hour)
	results := make(chan error, 8)
	for range cap(results) {
		go func() { results <- remote.Seek(context.Background()) }()
	}
	for fetches.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	for range cap(results) {
		// Who comes only after the fetch has ended is told that it was a moment ago.
		if err := <-results; err != nil && !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
	if n := fetches.Load(); n != 1 || len(remote.known()) != 1 {
		t.Errorf("%d fetches, %d keys", n, len(remote.known()))
	}
}

func TestRedirectionsMayNotLeaveTLS(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("http://id.example/keys", http.StatusFound))
	defer s.Close()
	err := NewRemoteKeys(s.URL, time.Hour).Seek(t.Context())
	if err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("followed: %v", err)
	}
}
