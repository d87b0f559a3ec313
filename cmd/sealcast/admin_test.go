package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// askAdmin asks the admin interface of a running gateway, with a token if there is one.
func askAdmin(t *testing.T, ready map[string]any, path, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+ready["admin"].(string)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// TestAdminTokenAndReload: the token is asked for, never logged, and changes without a restart.
func TestAdminTokenAndReload(t *testing.T) {
	r := serveFile(t, "")
	for _, path := range []string{"/metrics", "/v1/sessions", "/v1/topics", "/v1/info"} {
		if status, body := askAdmin(t, r.ready, path, ""); status != 200 {
			t.Errorf("%s without a token set: %d %s", path, status, body)
		}
	}
	if status, _ := askAdmin(t, r.ready, "/debug/pprof/", ""); status != 404 {
		t.Errorf("profiles although they are off: %d", status)
	}
	const token = "the-token-of-this-test"
	write(t, r.file, strings.Replace(common, "admin: {", "admin: {token: "+token+", pprof: true, ", 1), 0o600)
	r.hangups <- syscall.SIGHUP
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if status, _ := askAdmin(t, r.ready, "/metrics", ""); status == 401 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not reloaded; log:\n%s", r.stderr.String())
		}
	}
	if status, body := askAdmin(t, r.ready, "/metrics", token); status != 200 || !strings.Contains(body, "\nsealcast_source_ready 1\n") {
		t.Errorf("with the token: %d %s", status, body)
	}
	if status, _ := askAdmin(t, r.ready, "/debug/pprof/cmdline", token); status != 200 {
		t.Errorf("profiles: %d", status)
	}
	if status, _ := askAdmin(t, r.ready, "/readyz", ""); status != 200 {
		t.Errorf("a probe is asked for a token: %d", status)
	}
	if line := r.logged(taken); words(line["changed"]) != "admin.token admin.pprof" {
		t.Errorf("log: %v", line)
	}
	if strings.Contains(r.stderr.String(), token) {
		t.Error("the token is in the log")
	}
}

// TestWarnsOfAdminBeyondLoopback unless there is a token.
func TestWarnsOfAdminBeyondLoopback(t *testing.T) {
	for environ, warns := range map[string]bool{"": true, "SEALCAST_ADMIN_TOKEN=t": false} {
		r := serveArgs(t, []string{environ}, []string{"serve", "--set", "listen=127.0.0.1:0", "--set", "admin.listen=0.0.0.0:0", "--set", "loops=1"})
		r.logged("ready")
		r.stop()
		if got := strings.Contains(r.stderr.String(), "asks for no token"); got != warns {
			t.Errorf("%q: warned %v", environ, got)
		}
	}
}
