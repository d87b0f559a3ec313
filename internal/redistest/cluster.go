package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startup bounds the wait for servers that have to find each other.
const startup = 30 * time.Second

// Cluster is a Redis Cluster of three masters, each with a replica.
type Cluster struct {
	Nodes []*Server // the masters as of the start, then their replicas in the same order

	t   testing.TB
	ids []string
}

// slotsOf is the first and last slot of each master.
var slotsOf = [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}}

// StartCluster runs a cluster whose nodes take each other for dead after half a
// second. It returns once all of them say that it is complete.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for i := range 2 * len(slotsOf) {
		s := Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", FreePort, "--cluster-node-timeout", "500",
			"--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"}, args...)...)
		c.Nodes = append(c.Nodes, s)
		c.ids = append(c.ids, s.Do("CLUSTER", "MYID"))
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		_, port, _ := net.SplitHostPort(c.Nodes[0].Addr)
		if s != c.Nodes[0] {
			s.Do("CLUSTER", "MEET", "127.0.0.1", port, c.Nodes[0].Setting("--cluster-port"))
		}
	}
	for i, span := range slotsOf {
		c.Nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(span[0]), strconv.Itoa(span[1]))
	}
	for i, s := range c.Nodes[len(slotsOf):] {
		c.until("a replica knows its master", func() bool {
			_, err := s.Connect().Try("CLUSTER", "REPLICATE", c.ids[i])
			return err == nil
		})
	}
	c.WaitComplete()
	return c
}

func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: no free port: %v", err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Addrs lists all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// WaitComplete waits until every node that runs says that the cluster is
// complete, and no replica waits for its master's data.
func (c *Cluster) WaitComplete() {
	c.t.Helper()
	var why string
	defer func() {
		if c.t.Failed() {
			c.t.Logf("redistest: %s", why)
		}
	}()
	c.until("the cluster is complete", func() bool {
		for _, s := range c.Nodes {
			if !s.running() {
				continue
			}
			info := s.Do("CLUSTER", "INFO")
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(c.Nodes))) {
				why = s.Addr + " says " + info + s.Do("CLUSTER", "NODES")
				return false
			}
			if role := s.Do("ROLE"); strings.HasPrefix(role, "slave") && !strings.Contains(role, "connected") {
				why = s.Addr + " is " + role
				return false
			}
		}
		return true
	})
}

// Owner returns the node that is the master of a key's or channel's slot now.
func (c *Cluster) Owner(key string) *Server {
	c.t.Helper()
	for _, s := range c.Nodes {
		if s.running() {
			slot := s.Do("CLUSTER", "KEYSLOT", key)
			return c.ownerOf(s, slot)
		}
	}
	c.t.Fatal("redistest: no node of the cluster runs")
	return nil
}

// WaitOwnerNot waits until the slot of a key or channel has another master than this.
func (c *Cluster) WaitOwnerNot(key string, before *Server) {
	c.t.Helper()
	c.until("another master", func() bool { return c.Owner(key) != before })
}

// ownerOf asks a node who owns a slot.
func (c *Cluster) ownerOf(asked *Server, slot string) *Server {
	n, _ := strconv.Atoi(slot)
	lines := strings.Split(asked.Do("CLUSTER", "NODES"), "\n")
	for _, line := range lines {
		fields := strings.Fields(line)
		for _, span := range fields[min(8, len(fields)):] {
			var low, high int
			if k, _ := fmt.Sscanf(span, "%d-%d", &low, &high); k == 1 {
				high = low
			}
			if n >= low && n <= high && strings.Contains(fields[2], "master") {
				return c.Nodes[slices.Index(c.ids, fields[0])]
			}
		}
	}
	c.t.Fatalf("redistest: nobody has slot %s:\n%s", slot, strings.Join(lines, "\n"))
	return nil
}

// WaitServed waits until the masters of these keys or channels run and serve them.
func (c *Cluster) WaitServed(keys ...string) {
	c.t.Helper()
	c.until("served: "+strings.Join(keys, " "), func() bool {
		for _, key := range keys {
			if s := c.Owner(key); !s.running() || !strings.Contains(s.Do("CLUSTER", "INFO"), "cluster_state:ok") || c.Owner(key) != s {
				return false
			}
		}
		return true
	})
}

// MoveSlot gives the slot of a key or channel, with all keys in it, to another master.
func (c *Cluster) MoveSlot(key string, to *Server) {
	c.t.Helper()
	from := c.Owner(key)
	slot := from.Do("CLUSTER", "KEYSLOT", key)
	id := c.ids[slices.Index(c.Nodes, to)]
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[slices.Index(c.Nodes, from)])
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", id)
	for keys := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100"); keys != ""; keys = from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100") {
		from.Do(append([]string{"MIGRATE", "127.0.0.1", to.port, "", "0", "5000", "KEYS"}, strings.Split(keys, "\n")...)...)
	}
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", id) // it says so with a newer epoch, as it was importing
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
}

func (c *Cluster) until(what string, f func() bool) {
	c.t.Helper()
	for end := time.Now().Add(startup); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("redistest: never: %s", what)
		}
	}
}
