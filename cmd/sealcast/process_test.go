package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
)

// runAsSealcast in the environment makes the test binary the program itself.
const runAsSealcast = "TEST_RUN_AS_SEALCAST=1"

func TestMain(m *testing.M) {
	if name, value, _ := strings.Cut(runAsSealcast, "="); os.Getenv(name) == value {
		main()
	}
	os.Exit(m.Run())
}

// process is `sealcast serve` as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr buffer
}

func startProcess(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], append([]string{"serve"}, args...)...)}
	p.cmd.Env = append(append(os.Environ(), runAsSealcast), environ...)
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // has ended already if all went well
	return p
}

// stop sends SIGTERM and wants the process to end well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v, log:\n%s", err, p.stderr.String())
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// A real SIGHUP, while ticks come.
func TestHangupReloads(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "gw.yaml"), "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\nloops: 1\n", 0o600)
	p := startProcess(t, []string{"SEALCAST_CIPHER_ALLOW_PLAIN=true"}, "--config", file, "--set", "realm=flag")
	ready := p.stderr.logged(t, "ready", 1)
	conn := subscribed(t, ready, client.Options{Insecure: true, Realm: "flag", Suites: []suite.ID{suite.AES128GCM}})
	state := demoTicks{t: t, conn: conn}
	state.expect(20)
	write(t, file, "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\nloops: 1\ncipher: {suites: [sm4-gcm]}\n", 0o600)
	p.signal(syscall.SIGHUP)
	reloaded := p.stderr.logged(t, "settings reloaded", 1)
	if got := words(reloaded["changed"]); got != "cipher.suites" {
		t.Errorf("changed: %s", got)
	}
	if got := infoOf(t, ready); strings.Join(got.Suites, " ") != "sm4-gcm plain" || got.Realm != "flag" {
		t.Errorf("info: %+v", got)
	}
	state.expect(20)
	leave(conn)
	p.stop()
}

// Without AES instructions, an automatic choice is ChaCha20-Poly1305 for a
// client that offers it, whatever it ranks first.
func TestWithoutAESInstructions(t *testing.T) {
	p := startProcess(t, []string{"GODEBUG=cpu.aes=off,cpu.pclmulqdq=off,cpu.pmull=off"},
		"--set", "listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0", "--set", "loops=1")
	ready := p.stderr.logged(t, "ready", 1)
	line := p.stderr.logged(t, "gateway", 1)["hardware"].(string)
	if !strings.HasPrefix(line, runtime.GOARCH+": AES-GCM in software (missing ") {
		t.Errorf("hardware: %s", line)
	}
	const hidden = "this CPU has AES instructions, but they are hidden from this process"
	if onLinux := runtime.GOOS == "linux"; strings.Contains(p.stderr.String(), hidden) != (onLinux && suite.Detect().AES) {
		t.Errorf("the warning about hidden instructions; log:\n%s", p.stderr.String())
	}
	if infoOf(t, ready).HardwareAES {
		t.Error("/v1/info tells of AES in hardware")
	}
	all := []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305}
	for _, c := range []struct {
		offered []suite.ID
		want    suite.ID
	}{{all, suite.ChaCha20Poly1305}, {all[:2], suite.AES128GCM}} {
		conn := dial(t, ready, client.Options{Insecure: true, Suites: c.offered})
		if info := conn.Info(); info.Suite != c.want || info.GatewayAES {
			t.Errorf("offered %v: got %+v", c.offered, info)
		}
		leave(conn)
	}
	p.stop()
}

// With AES instructions, the automatic choice is the client's, and the start says what was found.
func TestHardwareIsLogged(t *testing.T) {
	r := serveWith(t, nil, "loops=1")
	ready := r.logged("ready")
	if got := r.logged("gateway")["hardware"]; got != suite.Detect().String() {
		t.Errorf("got %v", got)
	}
	if strings.Contains(r.stderr.String(), "hidden") && suite.Detect().AES {
		t.Errorf("log:\n%s", r.stderr.String())
	}
	want := suite.AES256GCM
	if !suite.Detect().AES {
		want = suite.ChaCha20Poly1305
	}
	conn := dial(t, ready, client.Options{Insecure: true, Suites: []suite.ID{suite.AES256GCM, suite.ChaCha20Poly1305}})
	if got := conn.Info().Suite; got != want {
		t.Errorf("got %v", got)
	}
	leave(conn)
	r.stop()
}

// dial connects to the gateway that logged this line.
func dial(t *testing.T, ready map[string]any, opts client.Options) *client.Conn {
	t.Helper()
	conn, err := client.Dial(t.Context(), "ws://"+ready["listen"].(string)+"/ws", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(conn) })
	return conn
}

// leave says goodbye, so that the gateway needs not wait for this client when it stops.
func leave(conn *client.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may have ended
}

func subscribed(t *testing.T, ready map[string]any, opts client.Options) *client.Conn {
	t.Helper()
	conn := dial(t, ready, opts)
	if _, err := conn.Subscribe(t.Context(), "md:**"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// demoTicks follows the demo feed on one connection.
type demoTicks struct {
	t    *testing.T
	conn *client.Conn
	last map[string]uint64 // seq by topic
}

// expect reads so many ticks and wants no tick lost since the first one.
func (d *demoTicks) expect(count int) {
	d.t.Helper()
	if d.last == nil {
		d.last = map[string]uint64{}
	}
	for count > 0 {
		event, err := d.conn.Next(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		switch e := event.(type) {
		case *client.Tick:
			if last, ok := d.last[e.Topic]; ok && e.Seq-e.Merged != last+1 { // the demo's topics have policy latest
				d.t.Errorf("%s: tick %d after %d", e.Topic, e.Seq, last)
			}
			d.last[e.Topic] = e.Seq
			count--
		case *client.Gap, *client.Reset:
			d.t.Errorf("%+v", e)
		}
	}
}
