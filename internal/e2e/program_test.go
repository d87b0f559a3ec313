package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/testenv"
)

// patience bounds every wait that has no limit of its own. It is long, because
// nothing depends on it but how soon a broken test ends.
const patience = 30 * time.Second

// programs is the folder that the programs are built into.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sealcast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	return m.Run()
}

// root is the repository, seen from this package's folder.
const root = "../.."

// build builds both programs, once.
var build = sync.OnceValue(func() error {
	commands := []string{"./cmd/sealcast", "./cmd/sealctl"}
	dirs, err := goTool(append([]string{"list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}`}, commands...)...)
	if err != nil {
		return err
	}
	for dir := range strings.Lines(dirs) {
		// Reading them here lets a cached result end when the programs' source changes.
		if _, err := os.ReadDir(strings.TrimSpace(dir)); err != nil {
			return err
		}
	}
	args := []string{"build", "-buildvcs=false", "-o", programs + string(filepath.Separator)}
	if testenv.Race {
		args = append(args, "-race")
	}
	_, err = goTool(append(args, commands...)...)
	return err
})

func goTool(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return string(out), nil
}

// output is what a process has written, readable while it writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a program that runs.
type process struct {
	t              testing.TB
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{} // closed once status holds
	status         int           // -1: ended by a signal
	killedBy       syscall.Signal
}

// setup changes a process before it starts.
type setup func(*exec.Cmd)

// stdin gives a process something to read.
func stdin(r io.Reader) setup { return func(cmd *exec.Cmd) { cmd.Stdin = r } }

// environ sets variables of the process's environment, as NAME=VALUE.
func environ(pairs ...string) setup {
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, pairs...) }
}

// shell starts the program through a shell that runs this before it.
func shell(before string) setup {
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", before + `; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
}

// start runs a program in a folder and with a home of its own. The end of the test kills it.
func start(t testing.TB, program string, args []string, setups ...setup) *process {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, ended: make(chan struct{})}
	home := t.TempDir()
	p.cmd = exec.Command(filepath.Join(programs, program), args...)
	p.cmd.Dir = home
	p.cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"} // else each end takes a second
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	dieWithParent(p.cmd)
	for _, s := range setups {
		s(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.reap()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if strings.Contains(p.stderr.String(), "DATA RACE") {
			t.Errorf("%s: %s", program, p.stderr.String())
		}
	})
	return p
}

// reap waits for the end of the process; start has begun it, and others call end.
func (p *process) reap() {
	defer close(p.ended)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			p.killedBy = ws.Signal()
		}
		p.status = exit.ExitCode()
	} else if err != nil {
		fmt.Fprintf(&p.stderr, "wait: %v\n", err)
		p.status = -1
	}
}

// signal sends a signal.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%v: %v", sig, err)
	}
}

// end waits for the end of the process and returns its status.
func (p *process) end() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%q does not end; it has written\n%.2000s\n%.4000s", p.cmd.Args, p.stdout.String(), p.stderr.String())
	}
	return p.status
}

// expect waits for the end and wants the status, and each text somewhere in what
// was written for people.
func (p *process) expect(status int, texts ...string) {
	p.t.Helper()
	if got := p.end(); got != status {
		p.t.Errorf("%q: status %d, want %d\n%.2000s\n%.4000s", p.cmd.Args[1:], got, status, p.stdout.String(), p.stderr.String())
	}
	for _, text := range texts {
		if !strings.Contains(p.stderr.String(), text) {
			p.t.Errorf("%q: no %q in\n%.4000s", p.cmd.Args[1:], text, p.stderr.String())
		}
	}
}

// sealctl runs a command that ends by itself.
func sealctl(t testing.TB, args ...string) *process {
	t.Helper()
	p := start(t, "sealctl", args)
	p.end()
	return p
}

// eventually waits until something holds.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
