// Package redistest starts real redis-server processes for tests, on loopback
// ports. A missing redis-server fails the test; it never skips one.
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of this package.
const patience = 10 * time.Second

// Server is a redis-server process. Its address and its folder stay the same
// over restarts.
type Server struct {
	Addr string // host:port

	t    testing.TB
	port string
	dir  string
	args []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	out    *bytes.Buffer
	paused bool
}

// Start runs a redis-server without persistence on a free port, with further
// settings as on its command line ("--maxmemory", "1mb"). It returns once the
// server answers, and stops it at the end of the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := Reserve(t, args...)
	s.Restart()
	return s
}

// FreePort stands in the arguments of a server for a port that nobody uses.
const FreePort = "FREE-PORT"

// Reserve picks a port for a server that is started later, by Restart.
func Reserve(t testing.TB, args ...string) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: no free port: %v", err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := &Server{Addr: l.Addr().String(), t: t, port: port, dir: t.TempDir()}
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", s.dir, "--enable-debug-command", "local"}, args...)
	for i, arg := range s.args {
		if arg == FreePort {
			s.args[i] = freePort(t)
		}
	}
	t.Cleanup(s.Kill)
	return s
}

// Setting is the argument behind a name on the server's command line.
func (s *Server) Setting(name string) string { return s.args[slices.Index(s.args, name)+1] }

// Restart starts the server on its port, after Kill or for the first time.
func (s *Server) Restart() {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redistest: redis-server is not installed: apt-get install redis-server")
	}
	cmd, out := exec.Command(path, s.args...), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.mu.Lock()
	s.cmd, s.out, s.paused = cmd, out, false
	s.mu.Unlock()
	s.waitUntilListening()
}

// waitUntilListening waits for any answer, also one that refuses: settings may ask for a password.
func (s *Server) waitUntilListening() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		err := ask(s.Addr)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Kill()
			s.t.Fatalf("redistest: redis-server does not answer on %s: %v\n%s", s.Addr, err, s.out)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func ask(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := c.Read(answer)
	if err == nil && strings.HasPrefix(string(answer[:n]), "-LOADING") {
		return fmt.Errorf("still loading")
	}
	return err
}

// Kill ends the process at once, as kill -9 does, also a paused one.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Pause freezes the process (SIGSTOP): connections stay, nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a frozen process go on (SIGCONT).
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatal("redistest: the server does not run")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("redistest: %v: %v", sig, err)
	}
	s.paused = sig == syscall.SIGSTOP
}

// running tells whether the process has been started, and is neither killed nor frozen.
func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil && !s.paused
}

// Do runs one command on a connection of its own and returns the answer, an
// array as lines. It fails the test if the server refuses the command.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	c := s.Connect()
	defer c.Close()
	return c.Do(args...)
}
