package gateway

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/wire"
)

// follow makes a client that takes groups and follows topics.
func (w *world) follow(filters ...string) *conn {
	w.t.Helper()
	c := new(modelClient)
	w.connect(c)
	w.clients = append(w.clients, c)
	x := c.socket.conn
	x.sub.takes = true
	x.asks(filters...)
	for len(w.hub.posted) > 0 {
		w.deliver(1)
	}
	return x
}

func (c *conn) asks(filters ...string) {
	m := &wire.Subscribe{Id: 1}
	for _, f := range filters {
		m.Subscriptions = append(m.Subscriptions, &wire.Subscription{Filter: f})
	}
	c.loop.serve(c, func(c *conn) { c.subscribe(m) })
}

func (c *conn) givesBack(filters ...string) {
	c.loop.serve(c, func(c *conn) { c.unsubscribe(&wire.Unsubscribe{Id: 2, Filters: filters}) })
}

// tick sends one tick to everybody who follows the topic.
func (w *world) tick(name string) {
	w.hub.publish(name)
	w.deliver(math.MaxInt)
	w.pass(10 * time.Millisecond)
}

func groupWorld(t *testing.T) *world {
	return newWorld(t, 1, func(s *Settings) {
		s.GroupSeal, s.Compress = true, CompressOptions{}
		s.Slow.Queue, s.Slow.Total = 1<<20, 0
		s.Session.Limits = record.Limits{Records: record.MaxRecords}
	})
}

// takeAway withdraws a filter as a refreshed token does that does not cover it.
func (w *world) takeAway(c *conn, name string) {
	w.l.serve(c, func(c *conn) { c.withdraw([]*heldFilter{c.find(name)}, errNotCovered) })
}

// A batch that is open while a topic is taken away goes out under a key that seals
// nothing afterwards.
func TestWithdrawnMemberHasNoLaterKey(t *testing.T) {
	w := groupWorld(t)
	out, stays := w.follow("every:a", "every:b"), w.follow("every:a", "every:b")
	w.follow("every:a", "every:b")
	w.tick("every:a")
	if out.sub.member.group == nil || out.sub.cohort.sharing.group != out.sub.member.group {
		t.Fatal("the session is in no group, or this test shows nothing")
	}
	w.hub.publish("every:a")
	w.deliver(math.MaxInt)
	if len(out.sub.cohort.pending.entries) == 0 {
		t.Fatal("nothing is pending, or this test shows nothing")
	}
	w.takeAway(out, "every:b")
	known := out.sub.member.group
	w.tick("every:b")
	if now := stays.sub.cohort.sharing.group; now == nil || now == known {
		t.Error("a batch after the withdrawal was sealed by a key that the session has")
	}
}

// Who has wandered from cohort to cohort and is then sent away has the keys of all.
func TestExpelledMemberHasNoFormerKey(t *testing.T) {
	w := groupWorld(t)
	x := w.follow("every:a")
	first, second := w.follow("every:a"), w.follow("every:a", "every:b")
	for range 2 {
		w.follow("every:a")
		w.follow("every:a", "every:b")
	}
	w.tick("every:a")
	old := x.sub.member.group
	x.asks("every:b")
	w.deliver(math.MaxInt)
	w.tick("every:a")
	if old == nil || x.sub.member.group == old || first.sub.cohort.sharing.group != old {
		t.Fatal("the session has not two keys that are in use, or this test shows nothing")
	}
	latest := x.sub.member.group
	w.l.serve(x, func(c *conn) { c.end(wire.CloseReplaced, "") })
	w.tick("every:a")
	for i, c := range []*conn{first, second} {
		if g := c.sub.cohort.sharing.group; g == nil || g == old || g == latest {
			t.Errorf("cohort %d goes on with a key that the session has", i)
		}
	}
}

// What a session remembers of former groups is bounded, whatever it does.
func TestFormerGroupsAreBounded(t *testing.T) {
	var m member
	first := &group{}
	m.keep(first)
	evicted := 0
	for range 3 * maxFormer {
		if m.keep(&group{}) {
			evicted++
		}
	}
	if len(m.former) != maxFormer || !first.expelled || evicted != 2*maxFormer {
		t.Errorf("%d former groups, %d evicted, the first one goes: %v", len(m.former), evicted, first.expelled)
	}
	for _, g := range m.former {
		g.ended = true
	}
	m.keep(&group{})
	if len(m.former) != 1 {
		t.Errorf("%d former groups when all but one have ended", len(m.former))
	}
}

// Filters that the source refuses in one hand-over cost a session one change of its
// cohort, and each is told by itself.
func TestManyRefusalsAreOneChange(t *testing.T) {
	w := newWorld(t, 1, func(s *Settings) { s.Limits.Subscriptions = 1000 })
	all := names(300)
	c, other := w.follow(append(all, "every:a")...), w.follow(all...)
	for _, c := range w.clients {
		c.read(math.MaxInt)
		c.socket.kernel = math.MaxInt32
	}
	var events []fanout.Event
	for _, h := range c.sub.filters {
		if h.String() != "every:a" {
			events = append(events, &fanout.Refused{Filter: h.Filter, Ticket: h.ticket, Err: errors.New("not subscribed: refused")})
		}
	}
	before := w.l.index.turn
	w.turn(events)
	if n := w.l.index.turn - before; n > 2 {
		t.Errorf("%d changes for two sessions", n)
	}
	if len(c.sub.filters) != 1 || len(other.sub.filters) != 0 || len(w.l.index.filters) != 1 {
		t.Errorf("%d and %d filters left, %d in all", len(c.sub.filters), len(other.sub.filters), len(w.l.index.filters))
	}
	w.clients[0].read(1 << 20)
	if left := w.clients[0].held; len(left) != 1 || !left["every:a"] {
		t.Errorf("%d filters are held as far as the client was told", len(left))
	}
	w.tick("every:a")
	w.clients[0].read(1 << 20)
	if w.clients[0].ticks != 1 {
		t.Errorf("%d ticks of what is left", w.clients[0].ticks)
	}
}

// A thousand members that come and go within a minute cost no more than a new group a
// second, and none has a key for longer than that once it has gone.
func TestAThousandComeAndGoInAMinute(t *testing.T) {
	const members, step = 1000, 60 * time.Millisecond
	w := groupWorld(t)
	w.follow("every:a")
	w.follow("every:a")
	var here []*conn // each stays for half a second
	gone := make(map[*group]time.Duration)
	for i := range members {
		here = append(here, w.follow("every:a"))
		for _, c := range w.clients {
			c.socket.unread = nil // all of it is read
		}
		w.tick("every:a") // takes 10 ms
		w.pass(step - 10*time.Millisecond)
		if len(here) > 8 {
			c := here[0]
			here = here[1:]
			c.givesBack("every:a")
			gone[c.sub.member.group] = time.Duration(i) * step
		}
		for g, at := range gone {
			if kept := time.Duration(i)*step - at; !g.ended && kept > rotateEvery {
				t.Fatalf("member %d: a group goes on %v after somebody has left it", i, kept)
			}
		}
	}
	made := w.l.stats.groups.made.Load()
	if most := uint64(members*step/time.Second) + 1; made > most || made < most/2 {
		t.Errorf("%d groups in a minute", made)
	}
	if keys := w.l.stats.groups.keys.Load(); keys < members {
		t.Errorf("%d keys given to %d members: they were not in the group", keys, members)
	}
}

// names are of n topics.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("every:t%d", i))
	}
	return all
}

// However many filters one message gives back, or one token no longer covers, the
// session changes its cohort once: anything that grew with their square would need
// a hundred times the memory.
func TestManyFiltersGoAtOnce(t *testing.T) {
	all := names(900)
	for _, away := range []struct {
		what   string
		errors int
		do     func(*conn)
	}{
		{"unsubscribe", 0, func(c *conn) { c.givesBack(all[:899]...) }},
		{"withdraw", 899, func(c *conn) {
			c.loop.serve(c, func(c *conn) {
				var gone []*heldFilter
				for i := range 899 {
					gone = append(gone, c.find(all[i]))
				}
				c.withdraw(gone, errNotCovered)
			})
		}},
	} {
		t.Run(away.what, func(t *testing.T) {
			w := newWorld(t, 1, func(s *Settings) { s.Limits.Subscriptions, s.Slow.Queue, s.Slow.Total = 1000, 1<<20, 0 })
			x := w.follow(all...)
			if len(x.sub.filters) != 900 {
				t.Fatalf("%d filters", len(x.sub.filters))
			}
			w.clients[0].read(1 << 20)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			away.do(x)
			runtime.ReadMemStats(&after)
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 2<<20 {
				t.Errorf("%d bytes", bytes)
			}
			if len(x.sub.filters) != 1 || len(w.l.index.filters) != 1 || len(w.hub.held) != 1 {
				t.Errorf("%d filters of the session, %d of the loop, %d at the hub",
					len(x.sub.filters), len(w.l.index.filters), len(w.hub.held))
			}
			if got := w.clients[0].errorsOf(); len(got) != away.errors {
				t.Errorf("%d errors", len(got))
			}
		})
	}
}

// Filters that are held and filters that wait go by one message, and a filter that
// it names twice is given back once.
func TestUnsubscribeOfBoth(t *testing.T) {
	w := newWorld(t, 1, nil)
	x := w.follow("every:a", "every:b")
	x.asks("every:c", "every:d")
	x.givesBack("every:c", "every:a", "every:c", "every:x")
	for len(w.hub.posted) > 0 {
		w.deliver(1)
	}
	w.clients[0].read(1 << 20)
	held := w.clients[0].held
	if len(held) != 2 || !held["every:b"] || !held["every:d"] || len(w.l.index.filters) != 2 {
		t.Errorf("the client has %v, the loop %d", held, len(w.l.index.filters))
	}
}

// errorsOf reads what a client was sent and returns the Errors in it.
func (c *modelClient) errorsOf() (all []*wire.Error) {
	for {
		_, payload, rest, ok := cutFrame(c.socket.unread)
		if !ok {
			return all
		}
		c.socket.unread = rest
		kind, plain, err := c.sess.Open(slices.Clone(payload))
		if err != nil || kind != wire.KindRecord {
			continue
		}
		f, err := wire.ParseServerFrame(plain)
		if err != nil {
			c.fail("%v", err)
		}
		if m, ok := f.Message.(*wire.ServerFrame_Error); ok {
			all = append(all, m.Error)
		}
	}
}

// A message with more filters than anybody needs is refused as a whole.
func TestLongRequestsAreRefusedAtOnce(t *testing.T) {
	w := newWorld(t, 1, func(s *Settings) { s.Slow.Queue, s.Slow.Total = 1<<20, 0 })
	x := w.follow("every:a")
	c := w.clients[0]
	c.errorsOf()
	most := 100 + spareEntries
	for _, n := range []int{most, most + 1, 20_000} {
		filters := make([]string, n) // empty ones are invalid
		for what, ask := range map[string]func(){"subscribe": func() { x.asks(filters...) }, "unsubscribe": func() { x.givesBack(filters...) }} {
			ask()
			w.pass(time.Millisecond)
			got := c.errorsOf()
			switch {
			case n == most && len(got) != n:
				t.Errorf("%s: %d errors for %d filters", what, len(got), n)
			case n > most && (len(got) != 1 || got[0].Code != uint32(wire.CloseTooMany) || got[0].Filter != ""):
				t.Errorf("%s of %d filters: %v", what, n, got)
			}
		}
	}
	if len(x.sub.filters) != 1 || len(x.sub.requests) != 0 {
		t.Errorf("%d filters, %d requests", len(x.sub.filters), len(x.sub.requests))
	}
}

// A request with many filters that its token does not cover is one line.
func TestForbiddenFiltersAreOneLine(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	w := newWorld(t, 1, func(s *Settings) { s.Slow.Queue, s.Slow.Total = 1<<20, 0 })
	w.g.opts.Audit = zap.New(core)
	x := w.follow()
	w.l.live.Auth.Verifier = new(auth.Verifier)
	x.sub.who.grant = &auth.Grant{User: "ann"}
	x.asks(names(50)...)
	if lines.Len() != 1 || fmt.Sprint(lines.All()[0].ContextMap()["filters"]) != fmt.Sprint(names(50)) {
		t.Errorf("%d lines: %v", lines.Len(), lines.All())
	}
	if len(w.hub.posted) != 0 {
		t.Errorf("the hub was asked: %v", w.hub.posted)
	}
}
