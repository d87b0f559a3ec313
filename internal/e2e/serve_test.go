package e2e

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire"
)

// The first two commands of a new user: a gateway with nothing but defaults, here
// on free ports, and a tail.
func TestFirstSteps(t *testing.T) {
	if err := build(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	g := serve(t, nil)
	if took := time.Since(began); took > 2*time.Second && !testenv.Race {
		t.Errorf("ready after %v", took)
	}
	p := sealctl(t, "tail", g.url(), "--insecure", "--topics", "md:**", "--count", "20", "--for", "30s")
	p.expect(0)
	lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	for _, line := range lines {
		if !strings.Contains(line, " md:demo:") || !strings.Contains(line, `{"symbol":"`) {
			t.Errorf("line %q", line)
		}
	}
	if len(lines) != 20 {
		t.Errorf("%d ticks", len(lines))
	}

	// What the gateway has printed works as it stands.
	fields := strings.Fields(strings.TrimSpace(linesWith(g.stdout.String(), "sealctl tail ")))
	args := append(fields[1:], "--count", "3", "--for", "30s")
	args[len(args)-5] = strings.Trim(args[len(args)-5], "'") // the pattern, as a shell reads it
	sealctl(t, args...).expect(0)
}

// linesWith returns the lines that hold a text.
func linesWith(s, text string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if strings.Contains(line, text) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// What is published in the built-in Redis arrives, byte for byte, whoever publishes it.
func TestPublishToBuiltInRedis(t *testing.T) {
	g := serve(t, nil)
	conn, err := client.Dial(t.Context(), g.url(), g.options())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Subscribe(t.Context(), "mine:*"); err != nil {
		t.Fatal(err)
	}
	sealctl(t, "publish", "mine:a", `{"last":"1.00"}`, "--redis", g.redis()).expect(0)
	start(t, "sealctl", []string{"publish", "mine:b", "-", "--redis", g.redis()}, stdin(strings.NewReader(allBytes))).expect(0)
	sealctl(t, "publish", "mine:a", "", "--redis", g.redis()).expect(0)
	start(t, "sealctl", []string{"publish", "mine:b"}, environ("SEALCTL_REDIS=redis://"+g.redis()), stdin(strings.NewReader(largest))).expect(0)
	redistest.Dial(t, g.redis()).Publish("mine:a", allBytes)
	for _, want := range []tick{{"mine:a", `{"last":"1.00"}`}, {"mine:b", allBytes}, {"mine:a", ""}, {"mine:b", largest}, {"mine:a", allBytes}} {
		got := nextTick(t, conn)
		if got.Topic != want.topic || string(got.Payload) != want.payload {
			t.Errorf("got %s, %d bytes; want %s, %d bytes", got.Topic, len(got.Payload), want.topic, len(want.payload))
		}
	}
}

func nextTick(t *testing.T, conn *client.Conn) *client.Tick {
	t.Helper()
	for {
		event, err := conn.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if tick, ok := event.(*client.Tick); ok {
			return tick
		}
	}
}

// SIGTERM and SIGINT end the gateway with status 0, and everybody is told so in a
// sealed Goodbye.
func TestStopSaysGoodbye(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		g := serve(t, []string{"drain.window=100ms"})
		tail := start(t, "sealctl", []string{"tail", g.url(), "--insecure", "--no-reconnect", "-o", "json"})
		eventually(t, patience, "a tick", func() bool { return tail.stdout.String() != "" })
		opts := g.options()
		opts.Suites = []suite.ID{suite.ChaCha20Poly1305}
		conn, err := client.Dial(t.Context(), g.url(), opts)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		g.signal(sig)
		for err == nil {
			_, err = conn.Next(t.Context())
		}
		g.expect(0, `"stopped"`)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v to stop", took)
		}
		if closed, ok := errors.AsType[*client.ClosedError](err); !ok || !closed.Final || closed.Code != wire.CloseRestart {
			t.Errorf("the client was told %v", err)
		}
		tail.expect(3, "sealctl: error: gateway ended the session: 1012", "hint: ")
	}
}

// A second signal ends the gateway at once, also while a client that takes
// nothing keeps it waiting.
func TestSecondSignal(t *testing.T) {
	g := serve(t, nil)
	tail := start(t, "sealctl", []string{"tail", g.url(), "--insecure", "--no-reconnect", "-o", "json"})
	eventually(t, patience, "a tick", func() bool { return tail.stdout.String() != "" })
	tail.signal(syscall.SIGSTOP)
	c := redistest.Dial(t, g.redis())
	for range 20 { // more than the kernel takes for a client that does not read
		c.Publish("large", largest[:1<<19])
	}
	g.signal(syscall.SIGTERM)
	eventually(t, patience, "draining", func() bool { return strings.Contains(g.get("/readyz").body, "draining") })
	if g.get("/healthz").status != http.StatusOK {
		t.Error("healthz fails while draining")
	}
	began := time.Now()
	g.signal(syscall.SIGTERM)
	g.expect(1, "sealcast: error: stopped at once by a second signal")
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v", took)
	}
	tail.signal(syscall.SIGCONT)
	tail.end()
}

// A client that takes nothing does not keep the gateway from stopping in time.
func TestDrainTimeout(t *testing.T) {
	g := serve(t, []string{"drain.timeout=1s"})
	tail := start(t, "sealctl", []string{"tail", g.url(), "--insecure", "--no-reconnect", "-o", "json"})
	eventually(t, patience, "a tick", func() bool { return tail.stdout.String() != "" })
	tail.signal(syscall.SIGSTOP)
	c := redistest.Dial(t, g.redis())
	for range 20 {
		c.Publish("large", largest[:1<<19])
	}
	began := time.Now()
	g.signal(syscall.SIGTERM)
	g.expect(0, "drain timeout")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	tail.signal(syscall.SIGCONT)
	tail.end()
}

// What keeps the gateway from starting is said in an error and a hint.
func TestServeFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	key := filepath.Join(t.TempDir(), "gateway.key")
	start(t, "sealcast", []string{"keygen", "-o", key}).expect(0)
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sets   []string
		status int
		says   []string
	}{
		{[]string{"listen=" + address}, 1, []string{"listen " + address + ": address already in use", "hint: "}},
		{[]string{"admin.listen=" + address}, 1, []string{"admin.listen " + address + ": address already in use", "hint: "}},
		{[]string{"key_file=/nowhere/gateway.key"}, 1, []string{"/nowhere/gateway.key", "no such file", "hint: ", "keygen"}},
		{[]string{"key_file=" + key}, 1, []string{"0644", "hint: chmod 600"}},
		{[]string{"loops=-1", "colour=red", "limits.tick=2GiB", "redis.mode=cloud", "listen=here"}, 2,
			[]string{"loops", "colour: unknown", "limits.tick", "redis.mode", "listen", "hint: "}},
	} {
		p := launch(t, c.sets)
		p.expect(c.status, append(c.says, "sealcast: error: ")...)
		if c.status == 2 && strings.Count(p.stderr.String(), "sealcast: error: ") != len(c.sets) {
			t.Errorf("not all faults at once:\n%s", p.stderr.String())
		}
	}
}

// Faults in a file are found at once, with their lines.
func TestFaultyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	content := "listen: 127.0.0.1:0\ncolour: red\nlimits:\n  tick: lots\n  queue: 1\nslow: {queue: 1B}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--config", file}, {"config", "check", file}, {"config", "show", "--config", file}} {
		p := start(t, "sealcast", args)
		p.expect(2, file+":2: colour", file+":4: limits.tick", file+":5: limits.queue", file+":6: slow.queue", "hint: ")
		if p.stdout.String() != "" {
			t.Errorf("%q: output %q", args, p.stdout.String())
		}
	}
}
