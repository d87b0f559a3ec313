package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// A second gateway takes over the port: nobody is refused, and the sessions of the
// first are told to come back. What the kernel has for the first at the moment when
// it closes is lost, unless it passes that on (net.ipv4.tcp_migrate_req): here, one
// connection of each newcomer at most.
func TestTakeOver(t *testing.T) {
	key := t.TempDir() + "/gateway.key"
	start(t, "sealcast", []string{"keygen", "-o", key}).expect(0)
	shared := []string{"socket.reuseport=true", "key_file=" + key, "drain.window=200ms", "cipher.post_quantum=off", "cipher.suites=[chacha20-poly1305]"}
	old := serve(t, shared)
	opts := old.options()
	opts.Suites = []suite.ID{suite.ChaCha20Poly1305}
	session, err := client.Dial(t.Context(), old.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var newcomers sync.WaitGroup
	var taken atomic.Int64
	for range 4 {
		newcomers.Go(func() {
			mayLose := !passesOn()
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := client.Dial(context.Background(), old.url(), opts)
				if errors.Is(err, syscall.ECONNRESET) && mayLose {
					mayLose = false
					continue
				}
				if err != nil {
					t.Errorf("a newcomer was refused: %v", err)
					return
				}
				taken.Add(1)
				_ = c.Close(context.Background())
			}
		})
	}
	more := func() {
		t.Helper()
		from := taken.Load()
		eventually(t, patience, "more newcomers", func() bool { return t.Failed() || taken.Load() > from+20 })
	}
	more()
	// The same command line again, but for the admin interface, which is watched here.
	young := serve(t, append(shared, "listen="+old.listen))
	more()
	old.signal(syscall.SIGTERM)
	for err == nil {
		_, err = session.Next(t.Context())
	}
	if closed, ok := errors.AsType[*client.ClosedError](err); !ok || closed.Code != wire.CloseRestart {
		t.Errorf("a session of the first gateway ended with %v", err)
	}
	old.expect(0, `"stopped"`)
	more()
	close(stop)
	newcomers.Wait()
	young.signal(syscall.SIGTERM)
	young.expect(0, `"stopped"`)
}

// passesOn tells whether the kernel gives what waits for a listener that closes to
// another one on the same address.
func passesOn() bool {
	set, err := os.ReadFile("/proc/sys/net/ipv4/tcp_migrate_req")
	return err == nil && strings.TrimSpace(string(set)) == "1"
}

// Two gateways that do not share cannot have the same port.
func TestTakeOverIsAskedFor(t *testing.T) {
	old := serve(t, nil)
	launch(t, []string{"listen=" + old.listen, "socket.reuseport=true"}).expect(1, "sealcast: error: listen "+old.listen)
}

// Whoever reads the log may go: the gateway serves on.
func TestLogIntoClosedPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := launch(t, []string{"log.level=debug", "drain.window=0s"}, func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = w, w })
	_ = w.Close()
	if _, err := r.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_ = r.Close()
	g.awaitReady()
	opts := g.options()
	for range 3 { // each is worth lines in the log
		c, err := client.Dial(t.Context(), g.url(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = c.Close(t.Context())
	}
	g.signal(syscall.SIGTERM)
	if status := g.end(); status != 0 {
		t.Errorf("status %d, signal %v", status, g.killedBy)
	}
}
