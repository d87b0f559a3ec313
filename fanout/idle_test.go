package fanout

import (
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire/topic"
)

// An idle topic that only patterns follow is given up, history and all, and comes
// back where it was: silence is no loss.
func TestIdleTopicComesBackWhereItWas(t *testing.T) {
	now := time.Unix(1000, 0)
	r, loops := newFake(t, Options{
		Now: func() time.Time { return now }, TopicIdle: time.Minute,
		Rules: []Rule{{Match: filter("md:**"), History: 5, MaxAge: 10 * time.Second}},
	}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("md:**"))
	r.hub.Acquire(0, filter("md:named"))
	r.settle()
	publish := func(name, payload string) {
		r.publish(name, payload)
		r.settle()
		r.hub.topics[name].touched = now.UnixMicro()
		if f := r.hub.topics[name]; f.past.last != nil {
			f.past.last.received = now.UnixMicro()
		}
	}
	publish("md:a", "1")
	publish("md:named", "1")
	epoch := r.hub.topics["md:a"].epoch
	loops[0].said()

	now = now.Add(11 * time.Second)
	r.hub.sweep()
	if s := r.hub.Stats(); s.Kept.Ticks != 0 || s.Topics != 2 {
		t.Errorf("after the history's time: %+v", s)
	}
	now = now.Add(time.Minute)
	r.hub.sweep()
	if s := r.hub.Stats(); s.Topics != 1 {
		t.Errorf("after a minute: %d topics", s.Topics)
	}
	expect(t, loops[0], "forgotten 2")

	publish("md:a", "2")
	expect(t, loops[0], "opened md:a=2/2", "tick 2/2 2")
	if f := r.hub.topics["md:a"]; f.epoch != epoch {
		t.Error("it has another epoch")
	}
	r.hub.Recall(0, Recall{Filters: []topic.Filter{filter("md:a")}, Since: []Position{{Topic: "md:a", Epoch: epoch, Seq: 1}}})
	r.settle()
	if e, ok := loops[0].events[0].(*Recalled); !ok || len(e.Memories) != 1 || !e.Memories[0].Recovered || len(e.Memories[0].Ticks) != 1 {
		t.Errorf("recalled %+v", loops[0].events)
	}
}

// Ticks may be lost while a topic is forgotten, or may have been before: then it
// begins anew, under its number, so that whoever follows it sees another epoch.
func TestIdleTopicThatMayHaveLostTicks(t *testing.T) {
	for name, lose := range map[string]func(r *fakeRedis, idle func()){
		"forgotten while the source is away": func(r *fakeRedis, idle func()) {
			r.disconnect()
			r.turn()
			idle()
			r.connect()
		},
		"a source that is lost while it is forgotten": func(r *fakeRedis, idle func()) {
			idle()
			r.disconnect()
			r.connect()
		},
		"an overflow too large to name": func(r *fakeRedis, idle func()) {
			idle()
			r.hub.queue.put(item{kind: itemOverflow, note: &note{}})
		},
		"a lapse": func(r *fakeRedis, idle func()) {
			idle()
			r.hub.queue.put(item{kind: itemLapse, note: &note{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			r, loops := newFake(t, Options{Now: func() time.Time { return now }, TopicIdle: time.Minute}, 1)
			r.connect()
			r.turn()
			r.hub.Acquire(0, filter("md:**"))
			r.settle()
			r.publish("md:a", "1")
			r.settle()
			epoch := r.hub.topics["md:a"].epoch
			lose(r, func() {
				now = now.Add(time.Hour)
				r.hub.sweep()
			})
			r.settle()
			loops[0].said()
			r.publish("md:a", "2")
			r.settle()
			expect(t, loops[0], "opened md:a=1/1", "tick 1/1 2")
			if r.hub.topics["md:a"].epoch == epoch {
				t.Error("the same epoch")
			}
		})
	}
}
