package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Sentinels are three sentinels that watch a master and its two replicas.
type Sentinels struct {
	Servers   []*Server // the master as of the start, then its replicas
	Sentinels []*Server

	t testing.TB
}

// MasterName is what the sentinels know the master by.
const MasterName = "mymaster"

// StartSentinels runs all six processes. They take a server for dead after half a
// second. It returns once every sentinel knows the others and the replicas.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	args = append(args, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	x := &Sentinels{t: t, Servers: []*Server{Start(t, args...)}}
	host, port, _ := net.SplitHostPort(x.Servers[0].Addr)
	for range 2 {
		x.Servers = append(x.Servers, Start(t, append(args, "--replicaof", host+" "+port)...))
	}
	x.until("the replicas are there", func() bool {
		return strings.Count(x.Servers[0].Do("INFO", "replication"), "state=online") == 2
	})
	for range 3 {
		x.Sentinels = append(x.Sentinels, startSentinel(t, port))
	}
	x.until("the sentinels know each other", func() bool {
		for _, s := range x.Sentinels {
			master := s.Do("SENTINEL", "MASTER", MasterName)
			if !strings.Contains(master, "num-other-sentinels\n2\n") || !strings.Contains(master, "num-slaves\n2\n") {
				return false
			}
		}
		return true
	})
	return x
}

func startSentinel(t testing.TB, masterPort string) *Server {
	t.Helper()
	s := Reserve(t)
	file := filepath.Join(s.dir, "sentinel.conf")
	settings := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %s 2\n"+
		"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n", s.port, s.dir, MasterName, masterPort)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.args = []string{file, "--sentinel"}
	s.Restart()
	return s
}

// Addrs lists the sentinels.
func (x *Sentinels) Addrs() []string {
	var addrs []string
	for _, s := range x.Sentinels {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Master returns the server that the first sentinel names now.
func (x *Sentinels) Master() *Server {
	x.t.Helper()
	at := strings.Split(x.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName), "\n")
	for _, s := range x.Servers {
		if s.port == at[1] {
			return s
		}
	}
	x.t.Fatalf("redistest: the master is %q, none of ours", at)
	return nil
}

// WaitFailover waits until the sentinels name another master than this one and
// that it takes writes.
func (x *Sentinels) WaitFailover(from *Server) *Server {
	x.t.Helper()
	var master *Server
	x.until("another master", func() bool {
		master = x.Master()
		return master != from && strings.HasPrefix(master.Do("ROLE"), "master")
	})
	return master
}

// WaitServed waits until the sentinels name a master that runs and takes writes.
func (x *Sentinels) WaitServed() {
	x.t.Helper()
	x.until("a master", func() bool {
		s := x.Master()
		return s.running() && strings.HasPrefix(s.Do("ROLE"), "master")
	})
}

// WaitReplicas waits until the sentinels know two replicas that work.
func (x *Sentinels) WaitReplicas() {
	x.t.Helper()
	x.until("two replicas", func() bool {
		return strings.Count(x.Master().Do("INFO", "replication"), "state=online") == 2
	})
}

func (x *Sentinels) until(what string, f func() bool) {
	x.t.Helper()
	for end := time.Now().Add(startup); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("redistest: never: %s", what)
		}
	}
}
