package fanout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire/topic"
)

// fakeRedis is a scripted source. It does what Redis does with a connection's
// commands, but only when the test says so; the test turns the hub by hand, so
// that everything happens in one goroutine and in the order of the script.
type fakeRedis struct {
	hub    *Hub
	random *rand.Rand // order of copies

	link   uint64
	up     bool
	inbox  []order         // written by the hub, not yet handled
	subs   []string        // keys, in order of subscription
	globs  map[string]bool // which keys are patterns
	denied map[string]bool
}

func (r *fakeRedis) run(ctx context.Context) { <-ctx.Done() }

func (r *fakeRedis) send(link uint64, orders []order) {
	if r.up && link == r.link {
		r.inbox = append(r.inbox, orders...)
	}
}

// newFake returns a hub on a scripted source that is not yet connected.
func newFake(t *testing.T, opt Options, loops int) (*fakeRedis, []*recorder) {
	t.Helper()
	if opt.Random == nil {
		opt.Random = rand.NewPCG(1, 2)
	}
	if opt.Now == nil {
		opt.Now = func() time.Time { return time.Unix(1, 0) }
	}
	r := &fakeRedis{
		hub:    newHub(opt),
		random: rand.New(rand.NewPCG(3, 4)),
		globs:  make(map[string]bool),
		denied: make(map[string]bool),
	}
	r.hub.source = r
	recorders := make([]*recorder, loops)
	for i := range recorders {
		recorders[i] = &recorder{}
		if id := r.hub.Attach(recorders[i]); id != LoopID(i) {
			t.Fatalf("loop %d got id %d", i, id)
		}
	}
	return r, recorders
}

func (r *fakeRedis) connect() {
	r.link++
	r.up = true
	r.hub.status.connected("fake", r.link)
	r.hub.queue.put(item{kind: itemUp, note: &note{link: r.link}})
}

func (r *fakeRedis) disconnect() {
	r.up, r.inbox, r.subs = false, nil, nil
	err := errors.New("scripted loss")
	r.hub.status.down("fake", err)
	r.hub.queue.put(item{kind: itemDown, note: &note{err: err}})
}

// answer handles the next command of the hub, if there is one.
func (r *fakeRedis) answer() bool {
	if len(r.inbox) == 0 {
		return false
	}
	o := r.inbox[0]
	r.inbox = r.inbox[1:]
	switch {
	case o.add && r.denied[o.key]:
		r.hub.queue.put(item{kind: itemRefused, channel: o.key, note: &note{err: ErrDenied}})
	case o.add:
		if slices.Contains(r.subs, o.key) {
			panic("subscribed twice: " + o.key)
		}
		r.subs = append(r.subs, o.key)
		r.globs[o.key] = o.pattern
		r.hub.queue.put(item{kind: itemAdded, channel: o.key})
	default:
		r.end(o.key)
	}
	return true
}

// end removes a subscription, as an answer or by the server's own decision.
func (r *fakeRedis) end(key string) {
	i := slices.Index(r.subs, key)
	if i < 0 {
		panic("not subscribed: " + key)
	}
	r.subs = slices.Delete(r.subs, i, i+1)
	r.hub.queue.put(item{kind: itemRemoved, channel: key})
}

// publish delivers one copy per subscription that matches, in any order.
func (r *fakeRedis) publish(channel, payload string) {
	for _, i := range r.random.Perm(len(r.subs)) {
		key := r.subs[i]
		it := item{kind: itemTick, channel: channel, payload: payload, received: 7}
		switch matched, err := path.Match(key, channel); {
		case err != nil:
			panic(err)
		case r.globs[key] && matched:
			it.pattern = key
		case r.globs[key] || key != channel:
			continue
		}
		if len(payload) > r.hub.opt.MaxTick {
			it.kind, it.payload = itemOversized, ""
		}
		r.hub.queue.put(it)
	}
}

// settle turns the hub and answers its commands until nothing is left to do.
func (r *fakeRedis) settle() {
	for r.turn(); r.answer(); r.turn() {
	}
}

func (r *fakeRedis) turn() {
	for r.hub.turn() {
	}
}

// recorder is a loop that keeps its events as text.
type recorder struct {
	events []Event
	posts  int
	states []SourceState // what said has left out
}

func (l *recorder) Post(events []Event) {
	l.events = append(l.events, events...)
	l.posts++
}

// said returns the events since the last call, one line each, without epochs
// and tickets, which are random or counted elsewhere.
func (l *recorder) said() []string {
	var lines []string
	for _, e := range l.events {
		if s, ok := e.(*SourceState); ok {
			l.states = append(l.states, *s)
			continue
		}
		lines = append(lines, eventText(e))
	}
	l.events = nil
	return lines
}

func eventText(e Event) string {
	switch e := e.(type) {
	case *Tick:
		return fmt.Sprintf("tick %d/%d %s", e.Topic, e.Seq, e.Payload)
	case *Reset:
		return fmt.Sprintf("reset %d/%d %v", e.Topic, e.NextSeq, e.Cause)
	case *Opened:
		return fmt.Sprintf("opened %s=%d/%d", e.Name, e.Number, e.NextSeq)
	case *Confirmed:
		s := "confirmed " + e.Filter.String()
		topics := slices.Clone(e.Topics)
		slices.SortFunc(topics, func(a, b TopicState) int { return int(a.Number) - int(b.Number) })
		for _, t := range topics {
			s += fmt.Sprintf(" %s=%d/%d", t.Name, t.Number, t.NextSeq)
		}
		return s
	case *Forgotten:
		return fmt.Sprintf("forgotten %d", e.Topic)
	case *Refused:
		return "refused " + e.Filter.String()
	}
	return "unknown event"
}

func expect(t *testing.T, l *recorder, want ...string) {
	t.Helper()
	if got := l.said(); !slices.Equal(got, want) {
		t.Errorf("events\n got %q\nwant %q", got, want)
	}
}

func filter(s string) topic.Filter {
	f, err := topic.ParseFilter(s)
	if err != nil {
		panic(err)
	}
	return f
}

func expectSubs(t *testing.T, r *fakeRedis, want ...string) {
	t.Helper()
	got := slices.Sorted(slices.Values(r.subs))
	if !slices.Equal(got, want) {
		t.Errorf("subscriptions at the source: got %q, want %q", got, want)
	}
	if live := r.hub.Stats().Subscriptions; live != len(want) {
		t.Errorf("Stats.Subscriptions = %d, want %d", live, len(want))
	}
}
