package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
)

// ask runs `sealcast health` and returns its status and what it printed.
func ask(args ...string) (status int, stdout, stderr string) {
	var out, errs buffer
	a := app{program: "sealcast", stdout: &out, stderr: &errs}
	status = a.run(append([]string{"health"}, args...))
	return status, out.String(), errs.String()
}

func TestHealth(t *testing.T) {
	r := serveWith(t, nil, "loops=1")
	admin := "admin.listen=" + r.logged("ready")["admin"].(string)
	if status, out, errs := ask("--set", admin); status != statusDone || out != "ready\n" {
		t.Errorf("ready gateway: %d %q %q", status, out, errs)
	}
	r.stop()
	status, _, errs := ask("--live", "--set", admin)
	if status != statusFailed || !strings.Contains(errs, "hint: is a gateway running") {
		t.Errorf("no gateway: %d %q", status, errs)
	}
}

// A gateway without its Redis lives, but is not ready, and the probe says why.
func TestHealthWithoutRedis(t *testing.T) {
	redis, admin := redistest.Reserve(t), "admin.listen="+redistest.Reserve(t).Addr
	r := serveWith(t, nil, "loops=1", "redis.mode=standalone", "redis.addrs="+redis.Addr, admin)
	r.logged("not ready")
	if status, _, errs := ask("--set", admin, "--live"); status != statusDone {
		t.Errorf("live: %d %q", status, errs)
	}
	status, _, errs := ask("--set", admin)
	if status != statusFailed || !strings.Contains(errs, "503") || !strings.Contains(errs, redis.Addr) {
		t.Errorf("ready: %d %q", status, errs)
	}
	r.stop()
}

// systemd is told when the gateway takes connections, Redis or not, and when it stops.
func TestServiceManagerIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := startProcess(t, []string{"NOTIFY_SOCKET=" + socket}, "--set", "listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0",
		"--set", "loops=1", "--set", "redis.mode=standalone", "--set", "redis.addrs="+redistest.Reserve(t).Addr)
	told := func() string {
		buf := make([]byte, 256)
		_ = l.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := l.Read(buf)
		if err != nil {
			t.Fatalf("nothing told: %v; log:\n%s", err, p.stderr.String())
		}
		return string(buf[:n])
	}
	if got := told(); got != "READY=1" {
		t.Errorf("first told: %q", got)
	}
	p.stop()
	if got := told(); got != "STOPPING=1" {
		t.Errorf("then told: %q", got)
	}
}
