package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/sealcast/sealcast/gateway/admin"
	"github.com/sealcast/sealcast/internal/config"
)

// buffer is written by the gateway while a test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is `sealcast serve` in this process.
type running struct {
	t                *testing.T
	stdout, stderr   buffer
	signals, hangups chan os.Signal
	gone             atomic.Bool // the terminal
	ended            chan int
}

// serveWith starts the gateway on free ports.
func serveWith(t *testing.T, environ []string, sets ...string) *running {
	t.Helper()
	args := []string{"serve", "--set", "listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"}
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	return serveArgs(t, environ, args)
}

// serveArgs runs a whole command line.
func serveArgs(t *testing.T, environ, args []string) *running {
	t.Helper()
	r := &running{t: t, signals: make(chan os.Signal, 2), hangups: make(chan os.Signal, 1), ended: make(chan int, 1)}
	a := app{
		program: "bin/sealcast", environ: environ, stdout: &r.stdout, stderr: &r.stderr,
		signals:  func() (stops, hangups <-chan os.Signal) { return r.signals, r.hangups },
		terminal: func() bool { return !r.gone.Load() },
	}
	go func() { r.ended <- a.run(args) }()
	return r
}

// logged waits for a log line with this message and returns it.
func (r *running) logged(msg string) map[string]any {
	r.t.Helper()
	return r.stderr.logged(r.t, msg, 1)
}

// entries are the log lines so far with this message.
func (b *buffer) entries(msg string) []map[string]any {
	var found []map[string]any
	for line := range strings.Lines(b.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == msg {
			found = append(found, entry)
		}
	}
	return found
}

// logged waits for the nth log line with this message.
func (b *buffer) logged(t *testing.T, msg string, nth int) map[string]any {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found := b.entries(msg); len(found) >= nth {
			return found[nth-1]
		}
	}
	t.Fatalf("no log line %q number %d in\n%s", msg, nth, b.String())
	return nil
}

// stop sends SIGTERM and returns the exit status.
func (r *running) stop() int {
	r.t.Helper()
	r.signals <- syscall.SIGTERM
	select {
	case status := <-r.ended:
		return status
	case <-time.After(20 * time.Second):
		r.t.Fatalf("does not stop; log:\n%s", r.stderr.String())
		return -1
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// infoOf asks the gateway that logged this line.
func infoOf(t *testing.T, ready map[string]any) (info admin.Info) {
	t.Helper()
	_, body := get(t, "http://"+ready["admin"].(string)+"/v1/info")
	if err := json.Unmarshal([]byte(body), &info); err != nil {
		t.Fatal(err)
	}
	return info
}

// words joins a list of a log line.
func words(list any) string {
	var all []string
	for _, w := range list.([]any) {
		all = append(all, w.(string))
	}
	return strings.Join(all, " ")
}

func TestServeEmbedded(t *testing.T) {
	r := serveWith(t, []string{"SEALCAST_SERVICE_HOST=x"}, "cipher.suites=[sm4-gcm, aes-128-gcm]", "cipher.allow_plain=true", "realm=test")
	ready := r.logged("ready")
	adminURL := "http://" + ready["admin"].(string)
	if status, body := get(t, adminURL+"/readyz"); status != 200 {
		t.Errorf("readyz: %d %s", status, body)
	}
	info := infoOf(t, ready)
	if strings.Join(info.Suites, " ") != "sm4-gcm aes-128-gcm plain" || info.Realm != "test" || !info.TemporaryKey {
		t.Errorf("info: %+v", info)
	}
	listen := ready["listen"].(string)
	for _, want := range []string{
		"ws://" + listen + "/ws\n", adminURL + "/\n", info.PublicKey + "  (temporary)\n",
		"bin/sealctl tail ws://" + listen + "/ws --key " + info.PublicKey, "redis-cli -p ", " publish md:",
	} {
		if !strings.Contains(r.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, r.stdout.String())
		}
	}
	if status := upgradeStatus(t, listen, "/ws", "sealcast.v1.aes-256-gcm"); !strings.Contains(status, " 400 ") {
		t.Errorf("a suite that is not enabled: %s", status)
	}
	if status := upgradeStatus(t, listen, "/ws", "sealcast.v1.sm4-gcm"); !strings.Contains(status, " 101 ") {
		t.Errorf("a suite that is enabled: %s", status)
	}
	r.logged("environment variable SEALCAST_SERVICE_HOST is no setting and was ignored")
	if status := r.stop(); status != 0 {
		t.Errorf("status %d, log:\n%s", status, r.stderr.String())
	}
	for _, address := range []string{listen, ready["admin"].(string)} {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			t.Errorf("%s still takes connections", address)
		}
	}
}

// upgradeStatus asks for a WebSocket and returns the status line.
func upgradeStatus(t *testing.T, address, path, protocol string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: "+protocol+"\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer := make([]byte, 64)
	n, err := c.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(answer[:n]), "\r\n")
	return line
}

func TestServeWithKeyFile(t *testing.T) {
	path := t.TempDir() + "/gw.key"
	pin := strings.TrimSpace(execute(t, nil, "keygen", "-o", path).stdout)
	r := serveWith(t, nil, "key_file="+path)
	ready := r.logged("ready")
	_, body := get(t, "http://"+ready["admin"].(string)+"/v1/info")
	if !strings.Contains(body, `"public_key": "`+pin+`"`) || !strings.Contains(body, `"temporary_key": false`) {
		t.Errorf("info: %s", body)
	}
	if r.stop() != 0 || strings.Contains(r.stdout.String()+r.stderr.String(), "temporary") {
		t.Errorf("output:\n%s%s", r.stdout.String(), r.stderr.String())
	}
}

func TestServeWithoutRedis(t *testing.T) {
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := unused.Addr().String()
	_ = unused.Close()
	r := serveWith(t, []string{"SEALCAST_REDIS_PASSWORD=hunter2"}, "redis.mode=standalone", "redis.addrs="+address)
	waiting := r.logged("not ready")
	if reasons := waiting["reasons"].([]any); len(reasons) != 1 || !strings.HasPrefix(reasons[0].(string), "redis "+address+": ") {
		t.Errorf("reasons %v", reasons)
	}
	if r.stop() != 0 || r.stdout.String() != "" {
		t.Errorf("output %q", r.stdout.String())
	}
	if strings.Contains(r.stderr.String(), "hunter2") {
		t.Error("a secret is logged")
	}
}

func TestServeAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, c := range []struct{ key, address, want string }{
		{"listen", address, "sealcast: error: listen " + address + ": address already in use\nhint: stop the program that listens there, or choose another port with --set listen=HOST:PORT\n"},
		{"admin.listen", address, "sealcast: error: admin.listen " + address + ": address already in use\nhint: stop the program that listens there, or choose another port with --set admin.listen=HOST:PORT\n"},
		{"listen", "192.0.2.1:80", "sealcast: error: listen 192.0.2.1:80: cannot assign requested address\nhint: name an address of this machine with --set listen=HOST:PORT\n"},
	} {
		r := serveWith(t, nil, c.key+"="+c.address)
		if status := <-r.ended; status != 1 || !strings.HasSuffix(r.stderr.String(), c.want) {
			t.Errorf("%s: status %d, output\n%s", c.key, status, r.stderr.String())
		}
	}
}

func TestServeFaultySettings(t *testing.T) {
	r := serveWith(t, nil, "loops=x")
	if status := <-r.ended; status != 2 || r.stderr.String() != "sealcast: error: --set: loops: \"x\" is not a whole number\nhint: allowed: 0 to 256\n" {
		t.Errorf("status %d, output\n%s", status, r.stderr.String())
	}
}

func TestAwaitEnd(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		after time.Duration // the services end
		err   error
		again time.Duration // a second signal
		want  error
		takes time.Duration
	}{
		{"in time", time.Second, nil, time.Hour, nil, time.Second},
		{"with an error", time.Second, broken, time.Hour, broken, time.Second},
		{"too late", time.Hour, nil, time.Hour, nil, 30 * time.Second},
		{"second signal", time.Hour, nil, 2 * time.Second, errInsisted, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ended, signals := make(chan error, 1), make(chan os.Signal, 1)
			time.AfterFunc(c.after, func() { ended <- c.err })
			time.AfterFunc(c.again, func() { signals <- os.Interrupt })
			began := time.Now()
			err := awaitEnd(ended, signals, 30*time.Second, zap.NewNop())
			if !errors.Is(err, c.want) || time.Since(began) != c.takes {
				t.Errorf("%s: got %v after %v", c.name, err, time.Since(began))
			}
		})
	}
}

func TestWatchEndsServices(t *testing.T) {
	cfg := config.Default()
	s := newServices(&cfg, newLogger(io.Discard, cfg.Log), nil)
	broken := errors.New("broken")
	s.watch(func() error { return nil })
	s.watch(func() error { return broken })
	s.watch(func() error { return errors.New("second") })
	if err := <-s.failed; err != broken {
		t.Errorf("got %v", err)
	}
	s.phase.Store(int32(draining))
	s.watch(func() error { return broken })
	select {
	case err := <-s.failed:
		t.Errorf("while draining: %v", err)
	default:
	}
}

func TestLogger(t *testing.T) {
	for _, c := range []struct {
		settings config.Log
		level    zapcore.Level
		want     string
	}{
		{config.Log{Level: config.LogDebug, Format: config.LogJSON}, zapcore.DebugLevel, `"level":"debug"`},
		{config.Log{Level: config.LogInfo, Format: config.LogJSON}, zapcore.DebugLevel, ""},
		{config.Log{Level: config.LogInfo, Format: config.LogText}, zapcore.InfoLevel, "\tINFO\tmsg\t{\"wait\": \"1.5s\"}\n"},
		{config.Log{Level: config.LogWarn, Format: config.LogJSON}, zapcore.InfoLevel, ""},
		{config.Log{Level: config.LogError, Format: config.LogJSON}, zapcore.ErrorLevel, `"wait":"1.5s"`},
	} {
		var out bytes.Buffer
		newLogger(&out, c.settings).Log(c.level, "msg", zap.Duration("wait", 1500*time.Millisecond))
		if c.want == "" && out.Len() > 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%+v: got %q", c.settings, &out)
		}
	}
}

func TestReachable(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0:1": "127.0.0.1:1", "[::]:1": "127.0.0.1:1", "192.0.2.1:1": "192.0.2.1:1"} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := reachable(tcp); got != want {
			t.Errorf("%s: got %s", address, got)
		}
	}
}
