package integration

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// toll is what a failure costs the topics.
type toll uint8

const (
	never   toll = iota // the failure has no meaning here
	nothing             // no ticks can be missing, and no reset says so
	those               // the topics of the server that failed are reset, and no others
	all                 // every topic is reset
	perhaps             // a reset wherever ticks may be missing, which depends on the moment

	short = 0x80 // also without SEALCAST_LONG
)

// beds are the columns of the table below.
var beds = []struct {
	name     string
	topology fanout.Topology
	source   fanout.Source
}{
	{"standalone pubsub", fanout.Standalone, fanout.PubSub},
	{"standalone streams", fanout.Standalone, fanout.Streams},
	{"sentinel pubsub", fanout.Sentinel, fanout.PubSub},
	{"sentinel streams", fanout.Sentinel, fanout.Streams},
	{"cluster pubsub", fanout.Cluster, fanout.PubSub},
	{"cluster sharded", fanout.Cluster, fanout.Sharded},
	{"cluster streams", fanout.Cluster, fanout.Streams},
}

// failures are how a source fails. Each returns once Redis takes ticks again. That a
// server is back on another address is a failover where there are several servers.
var failures = []struct {
	name string
	toll [7]toll // by bed
	fail func(x *trial)
}{
	{"away at start", [7]toll{nothing | short, nothing, nothing, nothing, nothing, nothing, nothing}, nil}, // that is how each begins
	{"kill -9 and restart", [7]toll{all | short, nothing | short, all, perhaps, all, those, perhaps}, func(x *trial) {
		s := x.hit("a")
		s.Kill()
		x.awayIfAlone("connection refused")
		s.Restart()
	}},
	{"frozen", [7]toll{all, nothing, never, never, never, never, never}, func(x *trial) {
		s := x.hit("a")
		s.Pause()
		x.awayIfAlone("")
		s.Resume()
	}},
	{"CLIENT KILL", [7]toll{all | short, nothing, all, nothing, all, all, nothing}, func(x *trial) { x.cut() }},
	{"output buffer", [7]toll{all | short, nothing | short, all, nothing, all, those, nothing}, func(x *trial) {
		x.hit("a")
		x.each("CONFIG", "SET", "client-output-buffer-limit", x.kind()+" 100kb 0 0")
		x.burst()
		x.cutOff()
		x.each("CONFIG", "SET", "client-output-buffer-limit", x.kind()+" 0 0 0")
	}},
	{"password rotated", [7]toll{all, nothing, all, nothing, all, all | short, nothing}, func(x *trial) {
		x.each("ACL", "SETUSER", "app", "resetpass", ">second")
		x.cut()
		x.away("WRONGPASS")
		x.know("second")
		x.heal = func() { // servers that start anew know the first one
			x.each("ACL", "SETUSER", "app", ">first")
			x.know("first")
		}
	}},
	{"back on another address", [7]toll{all, nothing, never, never, never, never, never}, func(x *trial) {
		x.relocate()
		x.away("connection refused")
		addrs := []string{x.servers[0].Addr}
		x.addrs.Store(&addrs)
	}},
	{"master killed", [7]toll{never, never, all | short, all, all | short, those | short, those | short}, func(x *trial) { x.failover((*redistest.Server).Kill, (*redistest.Server).Restart) }},
	{"master frozen", [7]toll{never, never, all, all, perhaps, those, those}, func(x *trial) { x.failover((*redistest.Server).Pause, (*redistest.Server).Resume) }},
	{"slot moved", [7]toll{never, never, never, never, nothing, those | short, those | short}, func(x *trial) {
		key := keyOf(x.source, "a")
		to := x.master(key)
		for _, other := range failingTopics { // one of them has another master
			if s := x.master(other); to == x.master(key) {
				to = s
			}
		}
		for _, topic := range failingTopics {
			x.struck[topic] = keyOf(x.source, topic) == key
		}
		x.move(key, to)
	}},
}

// Each failure under load, in every topology and source in which it has a meaning:
// clients stay connected, the first tick comes within two seconds of Redis, whatever
// may be lost is told before the next tick of its topic, and nothing comes twice or
// out of order. A witness looks at every tick.
func TestFailures(t *testing.T) {
	for column, b := range beds {
		t.Run(b.name, func(t *testing.T) {
			var x *trial
			for _, f := range failures {
				cost := f.toll[column]
				if cost&^short == never || cost&short == 0 && !testenv.Long() {
					continue
				}
				if x == nil {
					t.Parallel()
					x = newTrial(t, newBed(t, b.topology, b.source), cost&short != 0 && f.fail == nil || testenv.Long())
				}
				if f.fail != nil && !t.Failed() {
					x.run(f.name, cost&^short, f.fail)
				}
			}
			if testenv.Long() && !t.Failed() {
				x.restore()
			}
		})
	}
}

// trial is a gateway on a bed, with a publisher and clients.
type trial struct {
	*bed
	*system
	t         *testing.T
	p         *publisher
	witnesses []*witness

	struck map[string]bool              // topics of the server that failed
	at     map[string]*redistest.Server // masters of the topics, before
	heal   func()                       // brings the server back; nil: it is there
}

// newTrial starts a gateway, while Redis is away if asked to, and clients.
func newTrial(t *testing.T, b *bed, away bool) *trial {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{bed: b, t: t, system: &system{key: key, rekey: testenv.Rekey()}}
	if away {
		for _, s := range b.asked {
			s.Kill()
		}
	}
	x.startHub(t, &session.GatewayConfig{Key: key, HardwareAES: true, Limits: testenv.Rekey()}, fanout.Options{Redis: b.forGateway()})
	if away {
		x.away("connection refused")
		for _, s := range b.asked {
			s.Restart()
		}
		b.whole()
	}
	x.p = publish(t, b.source, failingTopics)
	filters := [][]string{failingTopics, {"c", "a"}}
	if b.source.Source == fanout.Sharded {
		x.expectNoPatterns()
	} else {
		filters = append(filters, []string{"**"})
	}
	for i, f := range filters {
		x.witnesses = append(x.witnesses, x.testify(t, x.p, fmt.Sprint("client ", i), f...))
	}
	x.flows(time.Now())
	return x
}

// expectNoPatterns wants a pattern to be refused by an Error that names the setting.
func (x *trial) expectNoPatterns() {
	x.t.Helper()
	ctx := limited(x.t)
	c, err := client.Dial(ctx, "ws://"+x.addr+"/ws", x.options(suite.AES128GCM))
	if err != nil {
		x.t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Subscribe(ctx, "md:*"); !errors.Is(err, client.ErrRequest) || !strings.Contains(err.Error(), "redis.source is sharded") {
		x.t.Errorf("a pattern of a sharded source: %v", err)
	}
}

// soon is within how long the first tick comes once Redis answers: two seconds, and
// one for machines that run twenty servers and their gateways beside other tests.
const soon = 3 * time.Second

// run lets the source fail once.
func (x *trial) run(name string, cost toll, fail func(*trial)) {
	x.t.Helper()
	x.restore()
	x.struck, x.at = make(map[string]bool), x.masters()
	before := x.resets()
	fail(x)
	x.served()
	took := x.flows(time.Now())
	x.t.Logf("%s: ticks of all topics %v after Redis", name, took.Round(time.Millisecond))
	if took > soon {
		x.t.Errorf("%s: ticks after %v", name, took)
	}
	x.judge(name, cost, before)
	eventually(x.t, name+": ready, and everybody told that the source is back", func() bool {
		return x.hub.Ready() == nil && x.hub.Stats().Stale == 0 && !x.anyStale()
	})
}

// restore brings back what a failure has left away.
func (x *trial) restore() {
	x.t.Helper()
	if x.heal != nil {
		x.heal()
		x.heal = nil
	}
	x.whole()
	x.flows(time.Now())
}

// flows waits until ticks of all topics have come to all clients that were published
// from here on, and returns how long after Redis has taken them without a failure.
func (x *trial) flows(from time.Time) (longest time.Duration) {
	x.t.Helper()
	for _, topic := range failingTopics {
		last := x.p.lastOf(topic)
		for _, w := range x.witnesses {
			if !w.follows(topic) {
				continue
			}
			eventually(x.t, w.name+": a new tick of "+topic, func() bool { return w.valueOf(topic) > last })
		}
		start := from
		if since := x.p.since(topic); since.After(start) {
			start = since
		}
		longest = max(longest, time.Since(start))
	}
	return longest
}

// masters are those of the topics.
func (x *trial) masters() map[string]*redistest.Server {
	at := make(map[string]*redistest.Server)
	for _, topic := range failingTopics {
		at[topic] = x.master(keyOf(x.source, topic))
	}
	return at
}

// resets are those of all clients so far, by client and topic.
func (x *trial) resets() map[string]int {
	n := make(map[string]int)
	for _, w := range x.witnesses {
		for _, topic := range failingTopics {
			n[w.name+topic], _ = w.resetsOf(topic)
		}
	}
	return n
}

// judge holds what clients were told against what the failure may have cost.
func (x *trial) judge(name string, cost toll, before map[string]int) {
	x.t.Helper()
	now := x.masters()
	for _, w := range x.witnesses {
		for _, topic := range failingTopics {
			n, cause := w.resetsOf(topic)
			n -= before[w.name+topic]
			due := cost == all || cost == those && x.struck[topic]
			switch {
			case cost == perhaps || !w.follows(topic):
			case due && n == 0:
				x.t.Errorf("%s: %s: %s is not reset", name, w.name, topic)
			case !due && n > 0 && now[topic] != x.at[topic]:
				x.t.Logf("%s: on this busy machine the servers have changed the master of %s by themselves", name, topic)
			case !due && n > 0:
				x.t.Errorf("%s: %s: %s is reset, %v, of which nothing can be missing", name, w.name, topic, cause)
			case due && cause != wire.Cause_CAUSE_SOURCE_LOST && cause != wire.Cause_CAUSE_RESUBSCRIBED:
				x.t.Errorf("%s: %s: %s is reset because of %v", name, w.name, topic, cause)
			}
		}
	}
}

func (x *trial) anyStale() bool {
	for _, w := range x.witnesses {
		for _, topic := range failingTopics {
			if stale, _ := w.isStale(topic); stale {
				return true
			}
		}
	}
	return false
}

// hit notes which topics go with the server that has this one.
func (x *trial) hit(topic string) *redistest.Server {
	s := x.master(keyOf(x.source, topic))
	for _, other := range failingTopics {
		x.struck[other] = x.master(keyOf(x.source, other)) == s
	}
	return s
}

// away waits until the gateway is not ready for this reason.
func (x *trial) away(reason string) {
	x.t.Helper()
	eventually(x.t, "not ready: "+reason, func() bool {
		err := x.hub.Ready()
		return err != nil && strings.Contains(err.Error(), reason)
	})
}

// awayIfAlone is away where there is one server, whose loss is that of everything.
func (x *trial) awayIfAlone(reason string) {
	x.t.Helper()
	if x.source.Topology == fanout.Standalone {
		x.away(reason)
	}
}

// cutOff waits until Redis has cut readers off that took too little.
func (x *trial) cutOff() {
	x.t.Helper()
	if x.source.Source == fanout.Streams {
		x.away("")
		return
	}
	before, _ := x.witnesses[0].resetsOf("a")
	eventually(x.t, "a is reset", func() bool {
		n, _ := x.witnesses[0].resetsOf("a")
		return n > before
	})
}

// failover takes the server of topic a away until another has its place.
func (x *trial) failover(fail, heal func(*redistest.Server)) {
	s := x.hit("a")
	fail(s)
	x.heal = func() { heal(s) }
}
