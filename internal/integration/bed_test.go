package integration

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/redistest"
)

// failingTopics lie in slots of all three masters of a cluster, two of them in one's.
var failingTopics = []string{"a", "b", "c", "d"}

// bed is a Redis that fails as a test wants.
type bed struct {
	t       *testing.T
	source  fanout.Redis                           // without a login
	servers []*redistest.Server                    // that hold ticks
	asked   []*redistest.Server                    // whom gateways ask first
	master  func(key string) *redistest.Server     // of a key or channel
	served  func()                                 // waits until Redis takes ticks of every topic
	whole   func()                                 // waits until all that runs works
	move    func(key string, to *redistest.Server) // of a cluster: a slot
	spare   *redistest.Server                      // another address of a standalone server

	addrs    atomic.Pointer[[]string]
	password atomic.Pointer[string]
}

// user is whom gateways log in as.
var user = []string{"--user", "app", "on", ">first", "~*", "&*", "+@all"}

// arguments are those of all servers. Streams are on disk before they are confirmed.
func (b *bed) arguments() []string {
	if b.source.Source == fanout.Streams {
		return append([]string{"--appendonly", "yes", "--appendfsync", "always"}, user...)
	}
	return user
}

func newBed(t *testing.T, topology fanout.Topology, source fanout.Source) *bed {
	b := &bed{t: t, source: fanout.Redis{Topology: topology, Source: source, Master: redistest.MasterName, Streams: []string{"one", "two"}}}
	switch topology {
	case fanout.Sentinel:
		b.onSentinels(redistest.StartSentinels(t, b.arguments()...))
	case fanout.Cluster:
		b.onCluster(redistest.StartCluster(t, b.arguments()...))
	default:
		b.alone(redistest.Start(t, b.arguments()...))
	}
	var addrs []string
	for _, s := range b.asked {
		addrs = append(addrs, s.Addr)
	}
	b.source.Addrs = addrs
	b.addrs.Store(&addrs)
	b.know("first")
	b.source.Current = func() fanout.Redis { return fanout.Redis{Addrs: *b.addrs.Load()} }
	return b
}

func (b *bed) alone(s *redistest.Server) {
	b.servers = []*redistest.Server{s}
	b.asked = b.servers
	b.spare = redistest.Reserve(b.t, b.arguments()...)
	b.master = func(string) *redistest.Server { return b.servers[0] }
	b.served, b.whole = func() {}, func() {}
}

func (b *bed) onSentinels(x *redistest.Sentinels) {
	b.servers, b.asked = x.Servers, x.Sentinels
	b.master = func(string) *redistest.Server { return x.Master() }
	b.served, b.whole = x.WaitServed, x.WaitReplicas
}

func (b *bed) onCluster(c *redistest.Cluster) {
	b.servers, b.asked = c.Nodes, c.Nodes
	b.master, b.whole, b.move = c.Owner, c.WaitComplete, c.MoveSlot
	b.served = func() {
		var keys []string
		for _, name := range failingTopics {
			keys = append(keys, keyOf(b.source, name))
		}
		c.WaitServed(keys...)
	}
}

// forGateway is how a gateway reaches the bed: with a login.
func (b *bed) forGateway() fanout.Redis {
	r := b.source
	r.Current = func() fanout.Redis {
		return fanout.Redis{Addrs: *b.addrs.Load(), Username: "app", Password: *b.password.Load()}
	}
	return r
}

func (b *bed) know(password string) { b.password.Store(&password) }

// each runs a command on all servers.
func (b *bed) each(command ...string) {
	for _, s := range b.servers {
		s.Do(command...)
	}
}

// kind is what Redis calls the connections that ticks come through.
func (b *bed) kind() string {
	if b.source.Source == fanout.Streams {
		return "normal"
	}
	return "pubsub"
}

// cut cuts all connections that ticks come through.
func (b *bed) cut() { b.each("CLIENT", "KILL", "TYPE", b.kind()) }

// burst gives topic a a tick that is larger than its readers' buffers may be.
func (b *bed) burst() {
	large, to := strings.Repeat("x", 200<<10), b.master(keyOf(b.source, "a"))
	switch b.source.Source {
	case fanout.Streams:
		to.Do("XADD", keyOf(b.source, "a"), "*", "topic", "a", "payload", large)
	case fanout.Sharded:
		to.Do("SPUBLISH", "a", large)
	default:
		to.Do("PUBLISH", "a", large)
	}
}

// relocate has the spare server take over from the one that gateways know, with all it has.
func (b *bed) relocate() {
	old := b.servers[0]
	host, port, _ := net.SplitHostPort(old.Addr)
	b.spare.Restart()
	b.spare.Do("REPLICAOF", host, port)
	eventually(b.t, "the spare server has everything", func() bool {
		return strings.Contains(b.spare.Do("INFO", "replication"), "master_link_status:up")
	})
	old.Do("CLIENT", "PAUSE", "60000", "WRITE")
	eventually(b.t, "the spare server has the rest", func() bool {
		return field(b.spare.Do("INFO", "replication"), "slave_repl_offset") == field(old.Do("INFO", "replication"), "master_repl_offset")
	})
	old.Kill()
	b.spare.Do("REPLICAOF", "NO", "ONE")
	b.servers[0], b.spare = b.spare, nil
}

// field is what INFO says of one thing.
func field(info, name string) string {
	_, after, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(after, "\r")
	return value
}
