package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	o := options()
	token := "correct horse"
	o.Access = func() Access { return Access{Token: token, Pprof: true} }
	h := Handler(o)
	for _, c := range []struct {
		path, given string
		status      int
	}{
		{"/", "", 200},
		{"/healthz", "", 200},
		{"/readyz", "Bearer wrong", 200},
		{"/v1/info", "", 401},
		{"/metrics", "", 401},
		{"/v1/sessions", "", 401},
		{"/v1/topics", "Bearer ", 401},
		{"/v1/revoke", "", 401},
		{"/debug/pprof/", "", 401},
		{"/nothing", "", 401},
		{"/healthz/", "", 401},
		{"/v1/info", "Bearer correct hors", 401},
		{"/v1/info", "Bearer correct horse ", 401},
		{"/v1/info", "correct horse", 401},
		{"/v1/info", "Basic correct horse", 401},
		{"/v1/info", "Bearer correct horse", 200},
		{"/v1/info", "bearer correct horse", 200},
		{"/metrics", "Bearer correct horse", 200},
		{"/debug/pprof/cmdline", "Bearer correct horse", 200},
		{"/nothing", "Bearer correct horse", 404},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		if c.given != "" {
			r.Header.Set("Authorization", c.given)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s with %q: %d %s", c.path, c.given, w.Code, w.Body)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (w.Code == 401) != strings.HasPrefix(challenge, "Bearer") {
			t.Errorf("%s: challenge %q", c.path, challenge)
		}
		if strings.Contains(w.Body.String(), token) && c.path != "/debug/pprof/cmdline" {
			t.Errorf("%s tells the token", c.path)
		}
	}
	token = "" // as by a reload
	if w := ask(h, "GET", "/v1/info"); w.Code != 200 {
		t.Errorf("without a token set: %d", w.Code)
	}
}

func TestPprofIsOffUnlessSet(t *testing.T) {
	o := options()
	on := false
	o.Access = func() Access { return Access{Pprof: on} }
	h := Handler(o)
	if w := ask(h, "GET", "/debug/pprof/"); w.Code != 404 || !strings.Contains(w.Body.String(), "admin.pprof") {
		t.Errorf("off: %d %s", w.Code, w.Body)
	}
	on = true
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=2": "TestPprofIsOffUnlessSet",
	} {
		if w := ask(h, "GET", path); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
}

// TestHostCheck: a page whose name was rebound to this machine reads nothing.
func TestHostCheck(t *testing.T) {
	s, err := Listen("localhost:0", options())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve() }()
	defer func() { _ = s.Shutdown(context.Background()) }()
	_, port, _ := net.SplitHostPort(s.Addr().String())
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:" + port: 200, "127.0.0.1": 200, "127.0.0.1:" + port: 200, "127.9.9.9:1": 200, "[::1]:" + port: 200, "[::1]": 200,
		"evil.example": 403, "evil.example:" + port: 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
		"10.0.0.1": 403, "0.0.0.0": 403,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr().String()+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("Host %q: %d, want %d", host, resp.StatusCode, status)
		}
	}
}

func TestHostCheckTakesTheAddressAsGiven(t *testing.T) {
	h := onlyLocalHosts("gateway.internal:8081", http.NotFoundHandler())
	for host, status := range map[string]int{"gateway.internal": 404, "Gateway.Internal:8081": 404, "other.internal": 403, "": 404} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%q: %d", host, w.Code)
		}
	}
}

// TestNoHostCheckBeyondLoopback: there the names under which clients come are not known.
func TestNoHostCheckBeyondLoopback(t *testing.T) {
	s, err := Listen("0.0.0.0:0", options())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown(context.Background()) }()
	r := httptest.NewRequest("GET", "/healthz", nil)
	r.Host = "gateway.example"
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
}
