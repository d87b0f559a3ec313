package fanout

import (
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
)

func withSource(opt Options, topology Topology, source Source) Options {
	opt.Redis.Topology, opt.Redis.Source, opt.Redis.Master = topology, source, redistest.MasterName
	opt.Redis.Canary = 500 * time.Millisecond
	return opt
}

// A pattern of a sharded source is refused, and a rule with one holds up nothing.
func TestShardedHasNoPatterns(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	opt := withSource(quick(c.Nodes[0].Addr), Cluster, Sharded)
	opt.Rules = []Rule{{Match: filter("md:*"), Snapshot: true}}
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("md:**", "md:a")
	eventually(t, "refused", func() bool { return l.state("md:**") == "refused" })
	if l.refused == nil || l.refused != ErrPatterns {
		t.Errorf("refused: %v", l.refused)
	}
	l.confirmed("md:a")
	c.Owner("md:a").Do("SPUBLISH", "md:a", "1")
	l.seen("md:a", "1")
	h.waitReady()
}

// A link waits less for a frozen server where another one may be its successor.
func TestLinksAreImpatientWhereThereIsASuccessor(t *testing.T) {
	for topology, want := range map[Topology]time.Duration{Standalone: 3 * time.Second, Sentinel: time.Second, Cluster: time.Second} {
		r := Redis{Topology: topology}.withDefaults().impatient()
		if r.DialTimeout != want {
			t.Errorf("topology %d: %v, want %v", topology, r.DialTimeout, want)
		}
	}
}
