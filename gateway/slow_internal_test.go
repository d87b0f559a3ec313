package gateway

import (
	"math"
	"testing"
	"time"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// The last tick of a topic comes although the topic is forgotten while a
// subscription's rate holds it back.
func TestForgottenTopicLosesNoTick(t *testing.T) {
	w, c := oneClient(t, nil, &wire.Subscription{Filter: "latest:*", MaxRate: 0.01})
	for range 3 {
		w.hub.publish("latest:a")
		w.deliver(math.MaxInt)
		w.pass(10 * time.Millisecond)
	}
	c.read(1 << 20)
	if c.ticks != 1 {
		t.Fatalf("%d ticks before the topic is forgotten", c.ticks)
	}
	w.turn([]fanout.Event{&fanout.Forgotten{Topic: 1}})
	w.pass(10 * time.Millisecond)
	c.read(1 << 20)
	w.verdict()
	if c.ticks != 2 || c.merged != 1 {
		t.Errorf("%d ticks, %d merged", c.ticks, c.merged)
	}
}

// However often a session overflows, the topics that are refreshed for it are
// remembered once.
func TestFreshTopicsAreBounded(t *testing.T) {
	w := newWorld(t, 1, nil)
	total := 0
	b := &backlog{base: firstNumber, total: &total}
	var topics []*loopTopic
	for i := range 3 {
		topics = append(topics, &loopTopic{TopicState: fanout.TopicState{Number: uint32(i + 1), Name: names(3)[i]}})
	}
	for i := range 2 * maxFresh {
		for _, lt := range topics {
			b.append(entry{what: &fanout.Tick{Topic: lt.Number, Seq: uint64(2*i + 1)}, topic: lt}, false)
		}
		b.drop(w.l, true)
		b.taken(len(b.queue))
	}
	if len(b.fresh) > maxFresh || cap(b.fresh) > 2*maxFresh {
		t.Errorf("%d topics are remembered of three, room for %d", len(b.fresh), cap(b.fresh))
	}
	c := w.follow("every:a")
	w.l.recallFresh(c, b.fresh)
	if got := len(w.l.index.asked); got != 1 {
		t.Errorf("%d questions", got)
	}
}

// What the source's state costs grows with the cohorts that it concerns: each is
// looked up once for a topic, and gets one message, which all of its members share.
func TestSourceStateIsEncodedOncePerCohort(t *testing.T) {
	w := groupWorld(t)
	both, one := w.follow("every:a", "every:*"), w.follow("every:a")
	w.follow("every:a", "every:*")
	other := w.follow("latest:a")
	w.tick("every:a")
	w.tick("every:b")
	numbers := map[string]uint32{}
	for _, lt := range w.l.index.topics {
		numbers[lt.Name] = lt.Number
	}
	a, b := numbers["every:a"], numbers["every:b"]
	got := w.l.affected([]uint32{a, 999, b})
	if len(got) != 2 {
		t.Fatalf("%d cohorts: %v", len(got), got)
	}
	for _, x := range got {
		want := map[*cohort][]uint32{both.sub.cohort: {a, b}, one.sub.cohort: {a}}[x.cohort]
		if len(x.topics) != len(want) || x.topics[0] != a || x.topics[len(want)-1] != b && len(want) == 2 {
			t.Errorf("%v, want %v", x.topics, want)
		}
	}
	if all := w.l.affected(nil); len(all) != 3 {
		t.Errorf("%d cohorts follow something", len(all))
	}
	w.turn([]fanout.Event{&fanout.SourceState{Lost: true, Topics: []uint32{b}}})
	if n := len(w.clients[0].socket.unread); n == 0 || len(other.gc.(*modelSocket).unread) >= len(w.clients[0].socket.unread) {
		t.Errorf("%d bytes for a session that is concerned, %d for another", n, len(other.gc.(*modelSocket).unread))
	}
}

// The session that most waits for pays for slow.total also while another one
// catches up.
func TestTotalWhileCatchingUp(t *testing.T) {
	w := groupWorld(t)
	small, between, most := w.follow("every:a"), w.follow("every:a"), w.follow("every:a")
	waits := func(c *conn, bytes int) {
		c.gc.(*modelSocket).unread = make([]byte, 4<<10) // or it would catch up
		w.l.enqueue(c, []entry{{what: &control{plaintext: make([]byte, bytes)}}})
	}
	waits(small, 1<<10)
	w.l.enqueue(between, []entry{{what: &seam{}}})
	waits(most, 8<<10)
	between.asks("every:b")
	for len(w.hub.posted) > 0 {
		w.deliver(1)
	}
	if len(between.sub.requests) != 1 {
		t.Fatalf("%d requests wait, or this test shows nothing", len(between.sub.requests))
	}
	r := between.sub.requests[0]
	for _, h := range r.filters { // so that it is granted without asking the hub
		w.l.letGo(h)
	}
	r.filters = nil
	r.options[between.sub.filters[0].Filter] = options{interval: time.Second}
	w.hub.publish("every:a")
	w.deliver(math.MaxInt)
	w.l.live.Slow.Total = w.l.slow.bytes + tickOverhead
	w.l.serveSlow()
	if small.phase != phaseOpen || most.phase == phaseOpen {
		t.Errorf("the one with little is in phase %d, the one with most in %d", small.phase, most.phase)
	}
	if len(w.l.slow.conns) != 1 || w.l.slow.conns[0] != small {
		t.Errorf("%d sessions are listed", len(w.l.slow.conns))
	}
}
