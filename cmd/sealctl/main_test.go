package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/embedded"
	"github.com/sealcast/sealcast/session"
)

// world is a gateway with a Redis of its own, on loopback ports.
type world struct {
	t     *testing.T
	url   string
	redis string
	pin   string
	known string // file of known gateways, at first absent
	stop  func() // shuts the gateway down

	gateway  *gateway.Gateway
	settings gateway.Settings
}

func newWorld(t *testing.T) *world {
	t.Helper()
	source, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub := fanout.NewHub(fanout.Options{Redis: fanout.Redis{Addrs: []string{source.Addr()}}, WholeSource: true})
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var o gateway.Options
	o.Loops, o.Realm, o.Version, o.Hub, o.Log = 1, "default", "v0.0-test", hub, zap.NewNop()
	o.Suites = suite.Policy{Enabled: []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305}, Hardware: suite.Detect()}
	o.Session = &session.GatewayConfig{Key: key, HardwareAES: true}
	o.Limits = gateway.Limits{Subscriptions: 100, Message: 64 << 10, Fragments: 1024}
	o.Slow = gateway.SlowOptions{Queue: 16 << 20, Timeout: 10 * time.Second}
	o.Heartbeat = gateway.HeartbeatOptions{Interval: 25 * time.Second, Timeout: 75 * time.Second}
	o.Batch = gateway.BatchOptions{MaxTicks: 256, MaxBytes: 16 << 10}
	gw, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = hub.Run(ctx) })
	running.Go(func() {
		if err := gw.Serve(listener); err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	stop := sync.OnceFunc(func() {
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := gw.Shutdown(limit); err != nil {
			t.Errorf("gateway: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		cancel()
		running.Wait()
		source.Close()
	})
	return &world{t: t, url: "ws://" + listener.Addr().String() + "/ws", redis: source.Addr(), pin: key.Public().String(),
		known: filepath.Join(t.TempDir(), "sealcast", "known_gateways"), stop: stop, gateway: gw, settings: o.Settings}
}

// result is what a command has done.
type result struct {
	status         int
	stdout, stderr string
}

// call describes how a command is run.
type call struct {
	ctx      context.Context
	env      map[string]string
	stdin    string
	terminal bool
	known    string
}

func (c call) run(args ...string) result {
	var stdout, stderr bytes.Buffer
	a := &app{
		getenv:        func(name string) string { return c.env[name] },
		stdin:         strings.NewReader(c.stdin),
		stdout:        &stdout,
		stderr:        &stderr,
		terminal:      func(any) bool { return c.terminal },
		knownGateways: c.known,
	}
	if c.ctx == nil {
		c.ctx = context.Background()
	}
	status := a.run(c.ctx, args)
	return result{status, stdout.String(), stderr.String()}
}

func run(args ...string) result { return call{}.run(args...) }

// expect checks status and what the outputs contain.
func (r result) expect(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d\n%s%s", r.status, status, r.stdout, r.stderr)
	}
	if (status != statusDone) != strings.Contains(r.stderr, "sealctl: error: ") {
		t.Errorf("status %d with the message %q", r.status, r.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("%q is missing in:\n%s%s", text, r.stdout, r.stderr)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, c := range commands() {
		for _, help := range []string{"-h", "--help"} {
			got := run(c.name, help)
			got.expect(t, statusDone, "usage: sealctl "+c.name)
			if got.stderr != "" {
				t.Errorf("%s %s: %s", c.name, help, got.stderr)
			}
		}
		run("help").expect(t, statusDone, "sealctl "+c.name)
	}
	run("version").expect(t, statusDone, "sealctl ", "go1.")
	run("--version").expect(t, statusDone, "sealctl ")
}

func TestMisuse(t *testing.T) {
	const url = "ws://127.0.0.1:1/ws"
	pin := strings.Repeat("A", 43)
	tests := []struct {
		args string
		text string
	}{
		{"", "no command"},
		{"nonsense", `unknown command "nonsense"`},
		{"version x", "unexpected argument"},
		{"tail", "URL is missing"},
		{"tail " + url + " more", `unexpected argument "more"`},
		{"tail " + url + " --nonsense", "unknown flag --nonsense"},
		{"tail " + url + " --count x", "count"},
		{"tail " + url + " --count -1", "negative"},
		{"tail " + url + " -o yaml", "yaml"},
		{"tail " + url + " --max-rate -1", "--max-rate"},
		{"tail " + url + " --max-rate NaN", "--max-rate"},
		{"tail " + url + " --max-age -1s", "--max-age"},
		{"tail " + url + " --max-age 25h", "--max-age"},
		{"tail " + url + " --topics a,b*", "topics"},
		{"tail " + url + " --topics ,", "no topic"},
		{"tail " + url + " --key short", "not a pin"},
		{"tail " + url + " --insecure --key " + pin, "exclude"},
		{"tail " + url + " --insecure --token x", "not sent"},
		{"tail " + url + " --suite aes", `no suite "aes"`},
		{"tail " + url + " --insecure --suite plain,aes-128-gcm", "plain"},
		{"tail " + url + " --post-quantum maybe", "maybe"},
		{"tail " + url + " --header x", "NAME: VALUE"},
		{"tail " + url + " --insecure --header Sec-WebSocket-Key:x", "header"},
		{"tail http://127.0.0.1:1 --insecure", "ws://"},
		{"info " + url + " -o raw", "raw"},
		{"publish", "TOPIC is missing"},
		{"publish a:* x", "invalid topic"},
		{"publish a x --redis redis://u:secret%@h", "not a URL"},
		{"publish a x --redis http://h", "scheme"},
		{"feed", "either --file or --symbols"},
		{"feed --file x --symbols 1", "either --file or --symbols"},
		{"feed --symbols -1", "between 1"},
		{"feed --symbols 1 --loop", "--loop"},
		{"feed --symbols 1 --rate 0", "--rate"},
		{"feed --file x --rate 5", "--rate"},
		{"feed --symbols 1 --speed fast", "fast"},
		{"feed --symbols 1 --speed 0", "speed"},
		{"feed --symbols 1 --speed NaN", "speed"},
		{"feed --symbols 1 --mode queue", "the modes are: pubsub"},
		{"feed --symbols 1 --for -1s", "negative"},
	}
	for _, tt := range tests {
		got := run(strings.Fields(tt.args)...)
		got.expect(t, statusUsage, tt.text)
		if !strings.Contains(got.stderr, "hint: ") {
			t.Errorf("%s: no hint: %s", tt.args, got.stderr)
		}
		if strings.Contains(got.stderr, "secret") || got.stdout != "" {
			t.Errorf("%s: %s%s", tt.args, got.stdout, got.stderr)
		}
	}
}

func TestFlagsStandAnywhere(t *testing.T) {
	for _, args := range []string{"--count 3 URL -x", "URL --count 3 -x", "-x URL --count=3", "-x --count 3 -- URL"} {
		f := newFlags("test", "URL", "")
		count, x := f.Int("count", 0, ""), f.Bool("x", false, "")
		help, err := new(app).parse(f, strings.Fields(args), 1, 1)
		if help || err != nil || *count != 3 || !*x || f.Arg(0) != "URL" || f.NArg() != 1 {
			t.Errorf("%s: %v, count %d, x %v, %q", args, err, *count, *x, f.Args())
		}
	}
	f := newFlags("test", "A B", "")
	if _, err := new(app).parse(f, []string{"a", "--", "--count"}, 2, 2); err != nil || f.Arg(1) != "--count" {
		t.Errorf("behind --: %v, %q", err, f.Args())
	}
}

func TestCouldNotConnect(t *testing.T) {
	w := newWorld(t)
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tests := map[string]struct {
		args  []string
		texts []string
	}{
		"unreachable":     {[]string{"tail", "ws://" + closed.Addr().String(), "--insecure"}, []string{"cannot be reached", "hint: is the gateway running"}},
		"not a gateway":   {[]string{"tail", "ws" + strings.TrimPrefix(page.URL, "http"), "--insecure"}, []string{"not a Sealcast gateway", "404", "hint: "}},
		"no TLS":          {[]string{"info", strings.Replace(w.url, "ws:", "wss:", 1)}, []string{"TLS", "hint: the server does not speak TLS there"}},
		"no common suite": {[]string{"tail", w.url, "--insecure", "--suite", "sm4-gcm"}, []string{"sm4-gcm", "--suite aes-128-gcm,chacha20-poly1305"}},
		"unknown":         {[]string{"tail", w.url}, []string{"is unknown", w.pin, "--key"}},
		"wrong pin":       {[]string{"tail", w.url, "--key", strings.Repeat("A", 43)}, []string{"not the one with --key", w.pin}},
		"other realm":     {[]string{"tail", w.url, "--key", w.pin, "--realm", "other"}, []string{"handshake failed", "--realm"}},
		"other path":      {[]string{"tail", strings.Replace(w.url, "/ws", "/x", 1), "--key", w.pin}, []string{"404", "/ws"}},
		"Redis":           {[]string{"publish", "a", "x", "--redis", closed.Addr().String()}, []string{"redis " + closed.Addr().String(), "--redis"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { run(tt.args...).expect(t, statusRefused, tt.texts...) })
	}
}

func TestKnownGateways(t *testing.T) {
	w := newWorld(t)
	asked := call{terminal: true, known: w.known}
	tail := []string{"tail", w.url, "--topics", "none", "--for", "500ms"}

	asked.stdin = "no\n"
	asked.run(tail...).expect(t, statusRefused, w.pin, "(yes/no)?", "is unknown")
	asked.stdin = "" // nobody answers
	asked.run(tail...).expect(t, statusRefused, "is unknown")
	if _, err := os.Stat(w.known); err == nil {
		t.Error("a key was remembered without a yes")
	}
	asked.stdin = "yes\n"
	asked.run(tail...).expect(t, statusDone, "(yes/no)?")

	later := call{known: w.known}
	if got := later.run(tail...); got.status != statusDone || got.stderr != "" {
		t.Errorf("known by now, but: %+v", got)
	}
	later.run("info", w.url).expect(t, statusDone, "(verified)")

	address := strings.TrimSuffix(strings.TrimPrefix(w.url, "ws://"), "/ws")
	other := strings.Repeat("A", 43)
	if err := os.WriteFile(w.known, []byte(address+" "+other+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked.run(tail...).expect(t, statusRefused, "not the one in "+w.known, w.pin)
	run(append(tail, "--insecure")...).expect(t, statusDone, "not verified")
	if err := os.WriteFile(w.known, []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	later.run(tail...).expect(t, statusFailed, w.known+":1:", "--known-gateways")
}

// The environment's token is under the same rule as the flag's.
func TestNoTokenWithoutVerification(t *testing.T) {
	w := newWorld(t)
	c := call{env: map[string]string{"SEALCTL_TOKEN": "secret"}}
	c.run("tail", w.url, "--insecure").expect(t, statusUsage, "not sent")
	c.run("tail", w.url, "--key", w.pin, "--for", "500ms").expect(t, statusDone)
	if got := c.run("tail", "-h"); strings.Contains(got.stdout, "secret") {
		t.Error("the usage shows the token")
	}
}
