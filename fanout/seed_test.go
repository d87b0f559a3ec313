package fanout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire/topic"
)

// seeding is a hub whose first values are read when the test says so.
type seeding struct {
	*fakeRedis
	loop  *recorder
	pages [][]*seed
}

func newSeeding(t *testing.T, opt Options) *seeding {
	t.Helper()
	if opt.Rules == nil {
		opt.Rules = []Rule{{Match: filter("**"), Snapshot: true, Seed: "last:{topic}"}}
	}
	r, loops := newFake(t, opt, 1)
	s := &seeding{fakeRedis: r, loop: loops[0]}
	r.hub.seeds.read = func(page []*seed) { s.pages = append(s.pages, page) }
	r.connect()
	r.settle()
	return s
}

// open subscribes to a name and asks for its value.
func (s *seeding) open(names ...string) {
	for _, name := range names {
		s.acquire(name)
		s.hub.Recall(0, Recall{Filters: []topic.Filter{filter(name)}})
	}
	s.settle()
}

// read ends the reading of the first page.
func (s *seeding) read(value string, err error) {
	page := s.pages[0]
	s.pages = s.pages[1:]
	for _, x := range page {
		x.value, x.err = value, err
	}
	s.hub.post(command{seeds: page})
	s.settle()
}

// values returns what the events since the last call say of ticks and values, in order.
func (s *seeding) values() []string {
	var lines []string
	for _, e := range s.loop.events {
		switch e := e.(type) {
		case *Tick:
			lines = append(lines, eventText(e))
		case *Recalled:
			lines = append(lines, recalledText(e))
		}
	}
	s.loop.events = nil
	return lines
}

func recalledText(e *Recalled) string {
	line := "recalled"
	for _, m := range e.Memories {
		for _, tick := range m.Ticks {
			line += fmt.Sprintf(" %d %s", tick.Seq, tick.Payload)
		}
		switch {
		case m.Epoch == 0 && !m.Stale, m.Epoch == 0 && m.Ticks[0].ReceivedUS != 0:
			line += " with a time, or fresh"
		case m.Stale:
			line += " stale"
		}
	}
	return line
}

func (s *seeding) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := s.values(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The Recall waits for the value; ticks from behind it come as such, nothing is double.
func TestSeedIsRecalledUntilATickComes(t *testing.T) {
	s := newSeeding(t, Options{})
	s.open("a")
	s.expect(t)
	if key := s.pages[0][0].key; len(s.pages) != 1 || key != "last:a" {
		t.Fatalf("reads %q", key)
	}
	s.read("first", nil)
	s.expect(t, "recalled 0 first stale")
	s.hub.Recall(0, Recall{Filters: []topic.Filter{filter("a")}})
	s.publish("a", "1")
	s.settle()
	s.hub.Recall(0, Recall{Filters: []topic.Filter{filter("a")}})
	s.settle()
	s.expect(t, "recalled 0 first stale", "tick 1/1 1", "recalled 1 1")
	if st := s.hub.Stats(); st.Kept.Seeds != 1 || st.Kept.Ticks != 1 || st.Resets != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestTickBeforeTheSeedWins(t *testing.T) {
	s := newSeeding(t, Options{})
	s.open("a")
	s.publish("a", "1")
	s.settle()
	s.expect(t, "tick 1/1 1", "recalled 1 1")
	s.read("late", nil)
	s.hub.Recall(0, Recall{Filters: []topic.Filter{filter("a")}})
	s.settle()
	s.expect(t, "recalled 1 1")
	if st := s.hub.Stats(); st.Kept.Seeds != 0 || s.hub.seeds.waited != 0 {
		t.Errorf("stats %+v", st)
	}
}

// A topic that a tick opens, or of which a value is kept, needs none.
func TestSeedOfKnownTopicIsNotRead(t *testing.T) {
	s := newSeeding(t, Options{})
	s.publish("a", "1")
	s.settle()
	s.open("a")
	s.expect(t, "recalled 1 1")
	if len(s.pages) != 0 {
		t.Errorf("reads %v", s.pages)
	}
}

// A seed outlives a reset and stays what it is; a tick of the new epoch takes its place.
func TestSeedOutlivesReset(t *testing.T) {
	s := newSeeding(t, Options{})
	s.open("a")
	s.disconnect()
	s.connect()
	s.settle()
	s.read("first", nil)
	s.disconnect()
	s.connect()
	s.settle()
	s.hub.Recall(0, Recall{Filters: []topic.Filter{filter("a")}})
	s.publish("a", "1")
	s.settle()
	s.hub.Recall(0, Recall{Filters: []topic.Filter{filter("a")}})
	s.settle()
	s.expect(t, "recalled 0 first stale", "recalled 0 first stale", "tick 1/1 1", "recalled 1 1")
}

// Whatever becomes of a first value, nobody waits for ever, and one line is logged.
func TestSeedsThatDoNotCome(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	now := time.Unix(1000, 0)
	s := newSeeding(t, Options{Log: zap.New(core), Now: func() time.Time { return now }})
	s.open("none")
	s.read("", nil)
	s.open("failed")
	s.read("", errors.New("scripted failure"))
	s.open("failed too")
	s.read("", errors.New("scripted failure"))
	s.expect(t, "recalled", "recalled", "recalled")
	s.open("left")
	s.hub.Release(0, filter("left"))
	s.settle()
	s.hub.SetRules([]Rule{{Match: filter("left"), Seed: "x:{topic}"}})
	s.settle()
	s.read("first", nil)
	s.expect(t, "recalled")
	st := s.hub.Stats().Kept
	if st.Seeds != 0 || st.SeedsFailed != 2 || st.Ticks != 0 || s.hub.seeds.waited != 0 || s.hub.seeds.reading != 0 {
		t.Errorf("stats %+v, %+v", st, s.hub.seeds)
	}
	if lines := logs.FilterMessageSnippet("first value").All(); len(lines) != 1 || lines[0].ContextMap()["key"] != "last:failed" {
		t.Errorf("log %v", lines)
	}
}

// So many are read at a time, and those that wait too long for their turn are given up.
func TestSeedsAreReadAFewAtATime(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSeeding(t, Options{Now: func() time.Time { return now }})
	var filters []topic.Filter
	for i := range 3 * seedReaders * seedPage {
		f := filter(fmt.Sprint("t:", i))
		s.hub.Acquire(0, f)
		filters = append(filters, f)
	}
	s.settle()
	s.hub.Recall(0, Recall{Filters: append(filters, filters...)})
	s.settle()
	s.loop.events = nil
	for read := 0; len(s.pages) > 0; read++ {
		if len(s.pages) > seedReaders {
			t.Fatalf("%d pages at a time", len(s.pages))
		}
		if read == seedReaders {
			now = now.Add(seedTimeout + 1)
		}
		s.read("v", nil)
	}
	st := s.hub.Stats().Kept
	if lines := s.values(); len(lines) != 1 || strings.Count(lines[0], "stale") != int(st.Seeds) {
		t.Errorf("answered %q", lines)
	}
	if all := st.Seeds + st.SeedsFailed; all != uint64(len(filters)) || st.Seeds < seedReaders*seedPage || st.SeedsFailed < seedReaders*seedPage {
		t.Errorf("stats %+v", st)
	}
}

func TestSeedsAreBounded(t *testing.T) {
	s := newSeeding(t, Options{HistoryBytes: 1000})
	s.open("a")
	s.read(strings.Repeat("x", 1000), nil)
	s.expect(t, "recalled")
	if st := s.hub.Stats().Kept; st.Bytes != 0 || st.Evicted != 1 {
		t.Errorf("stats %+v", st)
	}
}

// Topics that are there already get theirs when a rule begins to name a key.
func TestSeedOfNewRule(t *testing.T) {
	s := newSeeding(t, Options{Rules: []Rule{}})
	s.open("a")
	s.hub.SetRules([]Rule{{Match: filter("a"), Snapshot: true, Seed: "x:{topic}:y"}})
	s.settle()
	if len(s.pages) != 1 || s.pages[0][0].key != "x:a:y" {
		t.Fatalf("reads %v", s.pages)
	}
	s.read("first", nil)
	s.hub.Recall(0, Recall{Filters: []topic.Filter{filter("*")}})
	s.settle()
	s.expect(t, "recalled", "recalled 0 first stale")
}

// mailLoop passes events on.
type mailLoop chan []Event

func (l mailLoop) Post(events []Event) { l <- events }

// firstValue subscribes to a name and returns what its Recall says.
func firstValue(t *testing.T, h *live, name string) string {
	t.Helper()
	l := make(mailLoop, 1000)
	id := h.Attach(l)
	defer h.Release(id, filter(name))
	h.Acquire(id, filter(name))
	for deadline := time.After(patience); ; {
		select {
		case events := <-l:
			for _, e := range events {
				switch e := e.(type) {
				case *Confirmed:
					h.Recall(id, Recall{Filters: []topic.Filter{filter(name)}})
				case *Recalled:
					return recalledText(e)
				}
			}
		case <-deadline:
			t.Fatal("no answer")
		}
	}
}

// Values of every kind, from each kind of Redis.
func seedsComeFrom(t *testing.T, h *live, do func(args ...string) string) {
	t.Helper()
	for i := range 30 {
		do("SET", fmt.Sprint("last:n:", i), fmt.Sprint("value ", i))
	}
	do("SET", "last:binary", "\x00\r\n\xff")
	do("SET", "last:longest", strings.Repeat("x", 1000))
	do("SET", "last:long", strings.Repeat("x", 1001))
	do("RPUSH", "last:list", "x")
	for i := range 30 {
		if got, want := firstValue(t, h, fmt.Sprint("n:", i)), fmt.Sprintf("recalled 0 value %d stale", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, want := range map[string]string{
		"binary": "recalled 0 \x00\r\n\xff stale", "longest": "recalled 0 " + strings.Repeat("x", 1000) + " stale",
		"long": "recalled", "list": "recalled", "missing": "recalled",
	} {
		if got := firstValue(t, h, name); got != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if st := h.Stats().Kept; st.Seeds != 32 || st.SeedsFailed != 2 {
		t.Errorf("stats %+v", st)
	}
}

func seeded(opt Options) Options {
	opt.MaxTick = 1000
	opt.Rules = []Rule{{Match: filter("**"), Snapshot: true, Seed: "last:{topic}"}}
	return opt
}

func TestSeedsOfRedis(t *testing.T) {
	s := redistest.Start(t)
	h := startLive(t, seeded(quick(s.Addr)))
	seedsComeFrom(t, h, s.Do)
}

func TestSeedsOfMiniredis(t *testing.T) {
	m := miniredis.RunT(t)
	opt := seeded(quick(m.Addr()))
	opt.WholeSource = true
	h := startLive(t, opt)
	c := redistest.Dial(t, m.Addr())
	seedsComeFrom(t, h, c.Do)
}

func TestSeedsOfCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	h := startLive(t, withSource(seeded(quick(c.Addrs()...)), Cluster, Sharded))
	seedsComeFrom(t, h, func(args ...string) string { return c.Owner(args[1]).Do(args...) })
}

// Who may subscribe but not read gets ticks all the same.
func TestSeedsOfUserWithoutKeys(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "gate", "on", ">pw", "resetkeys", "allchannels", "+@pubsub", "+ping", "+getrange")
	opt := seeded(quick(s.Addr))
	opt.Redis.Username, opt.Redis.Password = "gate", "pw"
	h := startLive(t, opt)
	if got := firstValue(t, h, "a"); got != "recalled" {
		t.Errorf("got %q", got)
	}
	if st := h.Stats().Kept; st.SeedsFailed != 1 {
		t.Errorf("stats %+v", st)
	}
}
