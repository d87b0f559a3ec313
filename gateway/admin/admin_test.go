package admin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func options(reasons ...string) Options {
	return Options{
		Access: func() Access { return Access{} },
		Page:   func() Page { return Page{} },
		Parts:  func() (Gateway, Hub) { return nil, nil },
		Ready:  func() []string { return reasons },
		Info: func() Info {
			return Info{
				Version: "v1", Realm: "default", PublicKey: "PIN", TemporaryKey: true,
				Suites: []string{"aes-128-gcm", "plain"}, PostQuantum: "preferred", HardwareAES: true,
			}
		},
		Log: zap.NewNop(),
	}
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestAnswers(t *testing.T) {
	ready, not := Handler(options()), Handler(options("starting", "redis 127.0.0.1:6379: connection refused"))
	for _, c := range []struct {
		handler      http.Handler
		method, path string
		status       int
		body         string
	}{
		{ready, "GET", "/healthz", 200, "ok\n"},
		{not, "GET", "/healthz", 200, "ok\n"},
		{ready, "GET", "/readyz", 200, "ready\n"},
		{not, "GET", "/readyz", 503, "starting\nredis 127.0.0.1:6379: connection refused\n"},
		{ready, "HEAD", "/readyz", 200, "ready\n"}, // net/http drops the body of HEAD
		{ready, "GET", "/", 200, index},
		{ready, "GET", "/metricz", 404, "404 page not found\n"},
		{ready, "GET", "/v1/info/x", 404, "404 page not found\n"},
		{ready, "POST", "/readyz", 405, "Method Not Allowed\n"},
		{ready, "DELETE", "/v1/info", 405, "Method Not Allowed\n"},
	} {
		w := ask(c.handler, c.method, c.path)
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s %s: got %d %q", c.method, c.path, w.Code, w.Body)
		}
		if w.Code == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", c.method, c.path, w.Header().Get("Allow"))
		}
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s %s: %v", c.method, c.path, w.Header())
		}
	}
}

func TestInfo(t *testing.T) {
	w := ask(Handler(options()), "GET", "/v1/info")
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"version": "v1", "realm": "default", "public_key": "PIN", "temporary_key": true,
		"suites": []any{"aes-128-gcm", "plain"}, "post_quantum": "preferred", "hardware_aes": true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v", h)
	}
}

func TestServeAndShutdown(t *testing.T) {
	s, err := Listen("127.0.0.1:0", options())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	resp, err := http.Get("http://" + s.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(body) != "ok\n" {
		t.Errorf("got %q", body)
	}
	if _, err := Listen(s.Addr().String(), options()); err == nil || !strings.HasPrefix(err.Error(), "admin interface: listen tcp") {
		t.Errorf("second listener: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("still listening")
	}
}

func TestShutdownWithoutServe(t *testing.T) {
	s, err := Listen("127.0.0.1:0", options())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("still listening")
	}
}

func TestServeTellsFailure(t *testing.T) {
	s, err := Listen("127.0.0.1:0", options())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.ln.Close()
	if err := s.Serve(); err == nil {
		t.Error("no error from a listener that broke")
	}
}

func TestWarnsBeyondLoopback(t *testing.T) {
	for address, warnings := range map[string]int{"127.0.0.1:0": 0, "localhost:0": 0, ":0": 1, "0.0.0.0:0": 1} {
		core, logged := observer.New(zapcore.WarnLevel)
		o := options()
		o.Log = zap.New(core)
		s, err := Listen(address, o)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Shutdown(context.Background())
		if logged.Len() != warnings {
			t.Errorf("%s: %d warnings", address, logged.Len())
		}
	}
}
