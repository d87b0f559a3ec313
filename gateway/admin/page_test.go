package admin

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pageAt is the interface with the page, whose gateway listens on addr.
func pageAt(t *testing.T, publicURL, addr string) http.Handler {
	t.Helper()
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Page = func() Page { return Page{Served: true, PublicURL: publicURL, Listen: tcp} }
	return Handler(o)
}

// request asks for a path as a browser that found the page under host.
func request(h http.Handler, method, host, path string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, "http://"+host+path, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestPageIsServed(t *testing.T) {
	h := pageAt(t, "", "127.0.0.1:8080")
	for path, kind := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := request(h, method, "localhost:8081", path, nil)
			if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), kind) {
				t.Errorf("%s %s: %s, %s", method, path, got.Status, got.Header.Get("Content-Type"))
			}
		}
		if got := request(h, http.MethodPost, "localhost:8081", path, nil); got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %s", path, got.Status)
		}
	}
	if got := request(h, http.MethodGet, "localhost:8081", "/page.html", nil); got.StatusCode != http.StatusNotFound {
		t.Errorf("no such file: %s", got.Status)
	}
}

func TestPageIsAskedAgainAndKept(t *testing.T) {
	h := pageAt(t, "", "127.0.0.1:8080")
	first := request(h, http.MethodGet, "localhost", "/page.js", nil)
	tag := first.Header.Get("ETag")
	if first.Header.Get("Cache-Control") != "no-cache" || tag == "" {
		t.Fatalf("headers: %v", first.Header)
	}
	again := request(h, http.MethodGet, "localhost", "/page.js", http.Header{"If-None-Match": {tag}})
	if again.StatusCode != http.StatusNotModified || again.ContentLength > 0 {
		t.Errorf("with its tag: %s", again.Status)
	}
	other := request(h, http.MethodGet, "localhost", "/page.js", http.Header{"If-None-Match": {`"another"`}})
	if other.StatusCode != http.StatusOK {
		t.Errorf("with another tag: %s", other.Status)
	}
}

func TestPagePolicyNamesTheGatewayAlone(t *testing.T) {
	tests := []struct{ name, public, listen, host, want, policy string }{
		{"loopback", "", "127.0.0.1:8080", "localhost:8081", "ws://127.0.0.1:8080/ws", "ws://127.0.0.1:8080"},
		{"every interface", "", "0.0.0.0:80", "gw.example:8081", "ws://gw.example:80/ws", "ws://gw.example:80"},
		{"IPv6", "", "[::1]:8080", "[::1]:8081", "ws://[::1]:8080/ws", "ws://[::1]:8080"},
		{"every interface, IPv6", "", "[::]:8080", "[fe80::1]:8081", "ws://[fe80::1]:8080/ws", "ws://[fe80::1]:8080"},
		{"public", "wss://push.example/a/ws", "127.0.0.1:8080", "localhost", "wss://push.example/a/ws", "wss://push.example"},
		{"public without a path", "wss://push.example:444", "127.0.0.1:8080", "localhost", "wss://push.example:444/ws", "wss://push.example:444"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := pageAt(t, tt.public, tt.listen)
			var told pageSettings
			if err := json.NewDecoder(request(h, http.MethodGet, tt.host, "/page.json", nil).Body).Decode(&told); err != nil || told.WebSocket != tt.want {
				t.Errorf("page.json tells %q, %v; want %q", told.WebSocket, err, tt.want)
			}
			want := "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' " + tt.policy +
				"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
			if got := request(h, http.MethodGet, tt.host, "/", nil).Header.Get("Content-Security-Policy"); got != want {
				t.Errorf("policy %q\nwant   %q", got, want)
			}
		})
	}
}

func TestPagePolicyTakesNothingFromAStrangeHost(t *testing.T) {
	h := pageAt(t, "", "0.0.0.0:8080")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "x; script-src *"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if policy := w.Result().Header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self';") || strings.Contains(policy, "*") {
		t.Errorf("policy %q", policy)
	}
}

func TestPageNeedsNoTokenButWhatItShowsDoes(t *testing.T) {
	o := options()
	o.Access = func() Access { return Access{Token: "secret"} }
	o.Page = func() Page { return Page{Served: true} }
	h := Handler(o)
	for _, path := range append([]string{"/page.json"}, pagePaths()...) {
		want := http.StatusOK
		if path == "/index.html" {
			want = http.StatusNotFound // it is at /
		}
		if got := request(h, http.MethodGet, "localhost", path, nil); got.StatusCode != want {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
	for _, path := range []string{"/v1/info", "/metrics", "/v1/sessions"} {
		if got := request(h, http.MethodGet, "localhost", path, nil); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
}

func TestPageCanBeLeftOut(t *testing.T) {
	o := options()
	o.Page = func() Page { return Page{} }
	h := Handler(o)
	if got := request(h, http.MethodGet, "localhost", "/", nil); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("/: %s, %v", got.Status, got.Header)
	}
	for _, path := range []string{"/page.js", "/page.json"} {
		if got := request(h, http.MethodGet, "localhost", path, nil); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
}

// TestPageNamesNoOtherPlace: nothing in the page is fetched from elsewhere.
func TestPageNamesNoOtherPlace(t *testing.T) {
	html, err := os.ReadFile(filepath.Join("page", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"//", "<style", "style=", "onclick=", "<script>"} {
		if strings.Contains(string(html), forbidden) {
			t.Errorf("index.html has %q", forbidden)
		}
	}
}
