package e2e

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/internal/redistest"
)

// topology is a way in which servers of Redis belong together.
type topology struct {
	name  string
	ways  []way
	start func(t *testing.T) (addrs, settings []string)
}

// way is how ticks come out of Redis and are sealed; always: also without SEALCAST_LONG.
type way struct {
	source, seal string
	always       bool
}

var topologies = []topology{
	// TestRecordedFeeds goes through a standalone server's channels with each suite.
	{"standalone", []way{{"streams", "session", false}, {"streams", "group", true}}, func(t *testing.T) ([]string, []string) {
		return []string{redistest.Start(t).Addr}, []string{"redis.mode=standalone"}
	}},
	{"sentinel", []way{{"pubsub", "session", true}, {"pubsub", "group", false}, {"streams", "session", false}, {"streams", "group", false}},
		func(t *testing.T) ([]string, []string) {
			return redistest.StartSentinels(t).Addrs(), []string{"redis.mode=sentinel", "redis.master=" + redistest.MasterName}
		}},
	{"cluster", []way{
		{"pubsub", "session", false}, {"pubsub", "group", false},
		{"sharded", "session", false}, {"sharded", "group", true},
		{"streams", "session", true}, {"streams", "group", false},
	}, func(t *testing.T) ([]string, []string) {
		return redistest.StartCluster(t).Addrs(), []string{"redis.mode=cluster"}
	}},
}

// replayEveryWay sends a recording through one topology, to 8 clients on 2 loops each time.
func replayEveryWay(t *testing.T, top topology, path string, s script) {
	addrs, settings := top.start(t)
	settings = append(settings, "redis.addrs=["+strings.Join(addrs, ",")+"]", everyTick, "loops=2")
	for _, w := range top.ways {
		if !w.always && os.Getenv("SEALCAST_LONG") == "" {
			continue
		}
		t.Run(w.source+" for each "+w.seal, func(t *testing.T) {
			g := serve(t, append(settings[:len(settings):len(settings)], "redis.source="+w.source, "fanout.seal="+w.seal))
			filters := []string{"md:**"}
			if w.source == "sharded" { // which knows no patterns
				filters = slices.Sorted(maps.Keys(s.byTopic()))
			}
			a := gather(t, g.url(), g.options(), 8, s, filters...)
			replay(t, addrs[len(addrs)-1], w.source, path, len(s))
			a.verdict()
		})
	}
}
