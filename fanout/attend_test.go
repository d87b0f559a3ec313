package fanout

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sealcast/sealcast/internal/redistest"
)

// watched is a link to the first node of a cluster, with attendants at the other
// masters, and what they say.
type watched struct {
	*attendants
	t     *testing.T
	logs  *observer.ObservedLogs
	items []item
}

func watchOver(t *testing.T, c *redistest.Cluster, canary time.Duration, channels ...string) *watched {
	core, logs := observer.New(zap.InfoLevel)
	opt := withSource(quick(c.Nodes[0].Addr), Cluster, PubSub)
	opt.Redis.Canary, opt.Redis.DialTimeout, opt.Redis.PingTimeout, opt.Log = canary, canary/2, patience, zap.New(core)
	opt = opt.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := dial(ctx, opt.Redis, c.Nodes[0].Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue(opt.QueueTicks, opt.QueueBytes, func() {})
	w := &watched{attendants: newAttendants(opt, q, l, c.Nodes[0].Addr), t: t, logs: logs}
	var running sync.WaitGroup
	running.Go(l.write)
	running.Go(func() {
		for err := error(nil); err == nil; {
			var it item
			if it, err = l.receive(); err == nil && it.kind != itemNothing {
				q.put(it)
			}
		}
	})
	running.Go(func() { w.run(ctx) })
	t.Cleanup(func() {
		cancel()
		l.close()
		running.Wait()
	})
	for _, channel := range channels {
		l.send([]order{{key: channel, add: true}})
		w.eventually("subscribed", func() bool { return w.count(itemAdded, false) > 0 })
	}
	return w
}

func (w *watched) eventually(what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(3 * patience); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never %s; logs %v", what, w.logs.All())
		}
	}
}

// count counts all items of a kind so far.
func (w *watched) count(kind itemKind, again bool) (n int) {
	more := true
	for more {
		w.items, more = w.queue.take(w.items, 1000, 1<<30)
	}
	for _, it := range w.items {
		if it.kind == kind && (it.note != nil && it.note.again) == again {
			n++
		}
	}
	return n
}

// lapses waits for so many, and fails if there are more.
func (w *watched) lapses(whole, again int) {
	w.t.Helper()
	w.eventually("so many lapses", func() bool { return w.count(itemLapse, false) >= whole && w.count(itemLapse, true) >= again })
	if w.count(itemLapse, false) > whole || w.count(itemLapse, true) > again {
		w.t.Fatalf("%d lapses and %d again, expected %d and %d; logs %v",
			w.count(itemLapse, false), w.count(itemLapse, true), whole, again, w.logs.All())
	}
}

// arrived waits until masters are watched.
func (w *watched) arrived(servers ...*redistest.Server) {
	w.t.Helper()
	for _, s := range servers {
		w.eventually("watched: "+s.Addr, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.with[s.Addr] != nil && w.with[s.Addr].id != ""
		})
	}
}

func (w *watched) left(s *redistest.Server) {
	w.t.Helper()
	w.eventually("not watched: "+s.Addr, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.with[s.Addr] == nil
	})
}

func (w *watched) deposes(c *redistest.Cluster, replica, master *redistest.Server) {
	w.t.Helper()
	c.WaitComplete()
	replica.Do("CLUSTER", "FAILOVER")
	w.eventually("deposed", func() bool {
		shards, err := w.opt.askShards(context.Background(), w.node)
		return err == nil && w.opt.isReplica(shards, master.Addr, w.node)
	})
}

// What a gateway takes for a loss of a master, and what not.
func TestAttendants(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, "--cluster-node-timeout", "15000")
	c.Nodes[2].Pause()
	w := watchOver(t, c, 4*time.Second)
	w.arrived(c.Nodes[1])
	const missed = "redis cluster node cannot be watched, trying again"
	w.eventually("missed", func() bool { return w.logs.FilterMessage(missed).Len() > 0 })
	c.Nodes[2].Resume() // what it has lost until it is watched nobody can tell
	w.arrived(c.Nodes[2])
	w.lapses(1, 0)

	c.Nodes[2].Pause() // that may be its end
	w.lapses(2, 1)
	c.Nodes[2].Resume() // but is not: the same process has lost nothing
	w.arrived(c.Nodes[2])

	c.Nodes[2].Kill()
	w.lapses(3, 2)
	c.Nodes[2].Restart() // takes messages before it reaches the other nodes
	w.arrived(c.Nodes[2])
	w.lapses(4, 2)

	w.deposes(c, c.Nodes[4], c.Nodes[1])
	w.left(c.Nodes[1]) // and has lost nothing
	c.Nodes[1].Kill()
	w.arrived(c.Nodes[4])
	w.deposes(c, c.Nodes[5], c.Nodes[2])
	c.Nodes[2].Kill() // before anybody has looked, perhaps
	w.left(c.Nodes[2])
	w.arrived(c.Nodes[5])
	w.lapses(4, 2)

	c.Nodes[4].Kill()
	w.lapses(5, 3)
	if n := w.logs.FilterMessage(missed).Len(); n != 1 {
		t.Errorf("%d log lines of what could not be watched", n)
	}
}

// A link's node may be behind the bus when a master dies: there is a lapse behind the
// last tick that the master had got out, too. And one that is no master any more because
// it failed, unheard, is a loss.
func TestAttendantsLapseBehindTheBus(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	w := watchOver(t, c, 4*time.Second, "a")
	w.arrived(c.Nodes[1], c.Nodes[2])
	conn := c.Nodes[1].Connect()
	conn.Publish("a", "0")
	w.eventually("delivered", func() bool { return w.count(itemTick, false) > 0 })
	c.Nodes[0].Pause()
	const published = 200 // more than the buffers of a connection hold
	for i := 1; i < published; i++ {
		conn.Publish("a", strconv.Itoa(i)+strings.Repeat(" ", 100_000))
	}
	c.Nodes[1].Kill()
	w.left(c.Nodes[1])
	c.Nodes[0].Resume()
	w.lapses(1, 1)
	if err := w.link.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	ticks, last := w.count(itemTick, false), itemNothing
	if ticks == published {
		t.Error("nothing was lost: the test shows nothing")
	}
	for _, it := range w.items {
		if it.kind == itemTick || it.kind == itemLapse {
			last = it.kind
		}
	}
	if last != itemLapse {
		t.Errorf("%d ticks, and no lapse behind the last one", ticks)
	}

	c.WaitComplete()
	c.Nodes[2].Pause()
	w.eventually("replaced", func() bool {
		m, err := w.opt.askNode(t.Context(), w.node)
		return err == nil && !strings.Contains(strings.Join(m.masters(), " "), c.Nodes[2].Addr)
	})
	w.lapses(2, 2)
}

// One more lapse resets no topic that has had no tick since the first.
func TestLapseAgain(t *testing.T) {
	r, loops := newFake(t, Options{}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.hub.Acquire(0, filter("b"))
	r.settle()
	r.publish("a", "1")
	r.publish("b", "1")
	r.hub.queue.put(item{kind: itemLapse, note: &note{}})
	r.publish("b", "2")
	r.hub.queue.put(item{kind: itemLapse, note: &note{again: true}})
	r.settle()
	said := strings.Join(loops[0].said(), "; ")
	if strings.Count(said, "reset 1/") != 1 || strings.Count(said, "reset 2/") != 2 || !strings.Contains(said, "tick 2/1 2; reset 2/1") {
		t.Errorf("said %q", said)
	}
}
