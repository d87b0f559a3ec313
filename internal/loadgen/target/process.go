package target

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrStart reports a gateway that could not be started.
var ErrStart = errors.New("gateway not started")

// startPatience bounds how long a gateway may take until it is ready.
const startPatience = 30 * time.Second

// Process is a gateway that was started for the occasion.
type Process struct {
	Listen, AdminAddress string // host:port
	Redis                string // of the built-in one; empty if it has none

	cmd   *exec.Cmd
	ended chan struct{}
	said  tail
	once  sync.Once
}

// FindGateway looks for the gateway's program: at path if that is given, else
// beside this program, else where programs are.
func FindGateway(path string) (string, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %w", ErrStart, err)
		}
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "sealcast")
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("sealcast")
	if err != nil {
		return "", fmt.Errorf("%w: there is no program sealcast beside this one or on PATH", ErrStart)
	}
	return found, nil
}

// Start runs a gateway on free loopback ports, with further settings as for its
// --set, and waits until it is ready.
func Start(ctx context.Context, program string, settings []string) (*Process, error) {
	args := []string{"serve"}
	for _, s := range append([]string{"listen=127.0.0.1:0", "admin.listen=127.0.0.1:0", "log.level=info", "log.format=json"}, settings...) {
		args = append(args, "--set", s)
	}
	p := &Process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Env = withoutSettings(os.Environ())
	dieWithParent(p.cmd)
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	ready := make(chan struct{})
	go p.follow(logs, ready)
	select {
	case <-ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%w: it has ended at once: %s", ErrStart, p.said.text())
	case <-ctx.Done():
		p.Stop()
		return nil, ctx.Err()
	case <-time.After(startPatience):
		p.Stop()
		return nil, fmt.Errorf("%w: not ready after %v: %s", ErrStart, startPatience, p.said.text())
	}
}

// withoutSettings keeps the user's own settings for a gateway out of a
// measurement, which is to be told everything that makes a difference.
func withoutSettings(environ []string) []string {
	var kept []string
	for _, e := range environ {
		if !strings.HasPrefix(e, "SEALCAST_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// logLine is what matters of the gateway's log.
type logLine struct {
	Message string `json:"msg"`
	Listen  string `json:"listen"`
	Admin   string `json:"admin"`
	Redis   string `json:"redis"`
}

// follow reads the gateway's log to its end.
func (p *Process) follow(logs io.Reader, ready chan struct{}) {
	lines := bufio.NewScanner(logs)
	lines.Buffer(nil, 1<<20)
	first := true
	for lines.Scan() {
		p.said.add(lines.Bytes())
		var l logLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		if l.Redis != "" {
			p.Redis = l.Redis
		}
		if first && l.Message == "ready" && l.Listen != "" {
			p.Listen, p.AdminAddress, first = l.Listen, l.Admin, false
			close(ready)
		}
	}
	_ = p.cmd.Wait()
	close(p.ended)
}

// Ended is closed once the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Last is the end of what the gateway has logged.
func (p *Process) Last() string { return p.said.text() }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the gateway and waits for that. It may be called more than once.
func (p *Process) Stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // a second one: nobody is left to say goodbye to
		select {
		case <-p.ended:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
}

// tail keeps the last lines of a log.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines = append(t.lines, bytes.Clone(line)); len(t.lines) > 8 {
		t.lines = t.lines[1:]
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.Join(t.lines, []byte("; ")))
}
