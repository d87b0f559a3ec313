package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// tokenBy makes a token that is good for an hour.
func tokenBy(t *testing.T, kid string, method jwt.SigningMethod, key any) string {
	t.Helper()
	tok := jwt.NewWithClaims(method, jwt.MapClaims{"sub": "ann", "aud": "default", "topics": "md:**", "jti": "of-" + kid,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
	tok.Header["kid"] = kid
	text, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func secretOf(kid string) []byte { return []byte(strings.Repeat(kid, 32)[:32]) }

func tokenHS(t *testing.T, kid string) string {
	return tokenBy(t, kid, jwt.SigningMethodHS256, secretOf(kid))
}

func (r *reloadable) try(token string) (*client.Conn, error) {
	opts := client.Options{Pins: []session.PublicKey{r.pin()}, Token: token}
	return client.Dial(r.t.Context(), "ws://"+r.ready["listen"].(string)+"/ws", opts)
}

// pin is the gateway's key, as its log tells it.
func (r *reloadable) pin() session.PublicKey {
	r.t.Helper()
	pin, err := session.ParsePin(r.logged("gateway")["public_key"].(string))
	if err != nil {
		r.t.Fatal(err)
	}
	return pin
}

// refused wants a token not to be taken.
func (r *reloadable) refused(token string, code wire.CloseCode) {
	r.t.Helper()
	conn, err := r.try(token)
	if err == nil {
		leave(conn)
	}
	var end *client.ClosedError
	if !errors.As(err, &end) || end.Code != code {
		r.t.Errorf("got %v, want %v", err, code)
	}
}

func (r *reloadable) taken(token string) *client.Conn {
	r.t.Helper()
	conn, err := r.try(token)
	if err != nil {
		r.t.Fatalf("%v, log:\n%s", err, r.stderr.String())
	}
	r.t.Cleanup(func() { leave(conn) })
	if _, err := conn.Subscribe(r.t.Context(), "md:**"); err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// TestTokenKeysChangeUnderSessions: SIGHUP brings keys and takes them away, and
// no session ends for it.
func TestTokenKeysChangeUnderSessions(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), string(secretOf("a"))+"\n", 0o600)
	settings := func(keys string) string { return "auth: {mode: jwt, keys: [" + keys + "]}\n" }
	inFile, inline := "{kid: a, alg: HS256, file: "+a+"}", "{kid: b, secret: "+string(secretOf("b"))+"}"
	r := serveFile(t, settings(inFile))
	conn := r.taken(tokenHS(t, "a"))
	r.refused("", wire.CloseUnauthenticated)
	r.refused(tokenHS(t, "b"), wire.CloseUnauthenticated)

	r.reload(settings(inFile+", "+inline), taken)
	r.taken(tokenHS(t, "a"))
	r.taken(tokenHS(t, "b"))
	r.reload(settings(inline), taken)
	r.refused(tokenHS(t, "a"), wire.CloseUnauthenticated)
	r.taken(tokenHS(t, "b"))

	// Faulty keys leave the old ones in force, and all faults are told.
	r.reload(settings("{kid: c, file: /does/not/exist}, {kid: d, alg: HS256, file: "+write(t, filepath.Join(dir, "d"), "short", 0o644)+"}"), notTaken)
	for _, text := range []string{"auth.keys[0] /does/not/exist", "others than its owner may use it"} {
		if !strings.Contains(r.stderr.String(), text) {
			t.Errorf("%q is not logged", text)
		}
	}
	r.taken(tokenHS(t, "b"))
	state := demoTicks{t: t, conn: conn}
	state.expect(20) // the first session lives on
	if text := r.stderr.String(); strings.Contains(text, string(secretOf("a"))) || strings.Contains(text, string(secretOf("b"))) {
		t.Error("a secret is logged")
	}
}

// TestKeySetOfAURL: a provider that is away at first, then changes its keys.
func TestKeySetOfAURL(t *testing.T) {
	var set atomic.Pointer[[]byte]
	var fetches atomic.Int32
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		if s := set.Load(); s != nil {
			_, _ = w.Write(*s)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer provider.Close()
	keys := map[string]*ecdsa.PrivateKey{}
	publish := func(names ...string) {
		var all []json.RawMessage
		for _, name := range names {
			if keys[name] == nil {
				keys[name], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			}
			k, err := jwkset.NewJWKFromKey(keys[name].Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: name}})
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := json.Marshal(k.Marshal())
			all = append(all, raw)
		}
		raw, _ := json.Marshal(map[string]any{"keys": all})
		set.Store(&raw)
	}
	by := func(name string) string { return tokenBy(t, name, jwt.SigningMethodES256, keys[name]) }
	r := &reloadable{file: write(t, filepath.Join(t.TempDir(), "gw.yaml"), common+"auth: {mode: jwt, jwks: '"+provider.URL+"', jwks_refresh: 1s}\n", 0o600)}
	r.running = serveArgs(t, nil, []string{"serve", "--config", r.file})
	t.Cleanup(func() { r.stop() })
	line := r.logged("not ready")
	if got := fmt.Sprint(line["reasons"]); !strings.Contains(got, "auth.jwks") {
		t.Errorf("reasons: %s", got)
	}
	publish("one")
	r.ready = r.logged("ready")
	conn := r.taken(by("one"))
	publish("one", "two")
	deadline := time.Now().Add(20 * time.Second)
	for second, err := r.try(by("two")); ; second, err = r.try(by("two")) {
		if err == nil {
			leave(second)
			break
		}
		var end *client.ClosedError // the set was fetched a moment ago: the key may still come
		if !errors.As(err, &end) || end.Code != wire.CloseTryLater || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	set.Store(nil) // away: what is known stays, also over a reload
	before := fetches.Load()
	r.reload("slow: {timeout: 9s}\nauth: {mode: jwt, jwks: '"+provider.URL+"', jwks_refresh: 1s}\n", taken)
	for fetches.Load() < before+2 {
		time.Sleep(10 * time.Millisecond)
	}
	r.taken(by("one"))
	r.taken(by("two"))
	state := demoTicks{t: t, conn: conn}
	state.expect(10)
}

func readLines(t *testing.T, path string) []map[string]any {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range strings.Lines(string(content)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, m)
	}
	return lines
}

func waitForLine(t *testing.T, path, event string) map[string]any {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		for _, l := range readLines(t, path) {
			if l["msg"] == event {
				return l
			}
		}
	}
	t.Fatalf("%s: no line %q", path, event)
	return nil
}

// TestAuditFile: what happens is in the file, also in a new one after logrotate,
// and the log is spared.
func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	settings := "auth: {mode: jwt, keys: [{kid: a, secret: " + string(secretOf("a")) + "}]}\naudit: {file: " + path + "}\n"
	r := serveFile(t, settings)
	conn := r.taken(tokenHS(t, "a"))
	login := waitForLine(t, path, "login")
	if login["user"] != "ann" || login["jti"] != "of-a" || login["logger"] != "audit" {
		t.Errorf("%v", login)
	}
	waitForLine(t, path, "subscription")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	r.reload(settings, taken)
	r.refused("x", wire.CloseUnauthenticated)
	if no := waitForLine(t, path, "refusal"); !strings.Contains(fmt.Sprint(no["reason"]), "malformed") {
		t.Errorf("%v", no)
	}
	resp, err := http.Post("http://"+r.ready["admin"].(string)+"/v1/revoke", "application/json", strings.NewReader(`{"user":"ann","for":"1h"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	if l := waitForLine(t, path, "revocation"); l["value"] != "ann" || l["ban"] != true {
		t.Errorf("%v", l)
	}
	waitForLine(t, path, "revoked")
	for {
		if _, err := conn.Next(t.Context()); err != nil {
			var end *client.ClosedError
			if !errors.As(err, &end) || end.Code != wire.CloseForbidden {
				t.Errorf("%v", err)
			}
			break
		}
	}
	if len(r.stderr.entries("login")) != 0 {
		t.Error("audit lines in the log")
	}
}

// TestFullDisk: audit lines are lost and counted, and nothing else happens.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Logf("no /dev/full on this system: %v", err)
		return
	}
	r := serveFile(t, "auth: {mode: jwt, keys: [{kid: a, secret: "+string(secretOf("a"))+"}]}\naudit: {file: /dev/full}\n")
	state := demoTicks{t: t, conn: r.taken(tokenHS(t, "a"))}
	state.expect(10)
	if line := r.logged("audit lines are lost"); !strings.Contains(fmt.Sprint(line["error"]), syscall.ENOSPC.Error()) {
		t.Errorf("%v", line)
	}
	if n := r.metric("sealcast_audit_lines_lost_total"); n == "0" || n == "" {
		t.Errorf("%q lost", n)
	}
	// The built-in Redis carries the control channel, too.
	for deadline := time.Now().Add(10 * time.Second); r.metric("sealcast_control_connected") != "1"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no control channel")
		}
	}
}

// metric is the value of one without labels.
func (r *reloadable) metric(name string) string {
	r.t.Helper()
	resp, err := http.Get("http://" + r.ready["admin"].(string) + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestAuditQueueOverflows: a stuck file holds up nobody; what is too much is counted.
func TestAuditQueueOverflows(t *testing.T) {
	stuck, release := make(chan struct{}), make(chan struct{})
	a := &auditLog{out: writerFunc(func(p []byte) (int, error) { stuck <- struct{}{}; <-release; return len(p), nil }),
		queue: make(chan []byte, 4), turns: make(chan struct{}, 1), ended: make(chan struct{}), log: newLogger(io.Discard, config.Log{Level: config.LogInfo, Format: config.LogJSON})}
	go a.run()
	_, _ = a.Write([]byte("first\n"))
	<-stuck
	for range 10 {
		_, _ = a.Write([]byte("line\n"))
	}
	if n := a.lost.Load(); n != 6 {
		t.Errorf("%d lost", n)
	}
	go func() {
		for range stuck {
		}
	}()
	close(release)
	a.close()
	a.close()
	if len(a.queue) != 0 {
		t.Error("lines were left")
	}
	close(stuck)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
