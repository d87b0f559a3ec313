package fanout

import (
	"fmt"
	"strings"
	"testing"
)

func message(channel, payload string) item {
	return item{kind: itemTick, channel: channel, payload: payload}
}

func (q *queue) text() string {
	var parts []string
	items, _ := q.take(nil, 1<<20, 1<<30)
	for _, it := range items {
		switch it.kind {
		case itemTick:
			parts = append(parts, it.payload)
		case itemOverflow:
			parts = append(parts, fmt.Sprintf("dropped %d", len(it.note.dropped)))
		default:
			parts = append(parts, it.channel)
		}
	}
	return strings.Join(parts, " ")
}

func TestQueueBounds(t *testing.T) {
	woken := 0
	q := newQueue(3, 10, func() { woken++ })
	for _, it := range []item{
		message("a", "1"), message("a", "2"), message("a", "3"),
		message("a", "4"), message("b", "5"), message("b", "6"),
		{kind: itemAdded, channel: "ack"},
		message("a", "7"),
	} {
		q.put(it)
	}
	if ticks, bytes, dropped := q.depth(); ticks != 3 || bytes != 6 || dropped != 4 {
		t.Errorf("depth %d, %d bytes, %d dropped", ticks, bytes, dropped)
	}
	if got := q.text(); got != "1 2 3 dropped 2 ack dropped 1" {
		t.Errorf("queue holds %q", got)
	}
	if ticks, bytes, _ := q.depth(); ticks != 0 || bytes != 0 {
		t.Errorf("empty queue counts %d, %d bytes", ticks, bytes)
	}
	if woken != 8 {
		t.Errorf("woken %d times", woken)
	}
}

func TestQueueBoundsBytes(t *testing.T) {
	q := newQueue(100, 10, func() {})
	q.put(message("a", "far more than ten bytes")) // a single one always fits
	q.put(message("a", ""))
	if got := q.text(); got != "far more than ten bytes dropped 1" {
		t.Errorf("queue holds %q", got)
	}
	q.put(message("a", "1234"))
	q.put(message("a", "12345"))
	q.put(message("a", "123"))
	if got := q.text(); got != "1234 dropped 1 123" {
		t.Errorf("queue holds %q", got)
	}
}

func TestQueueNamesOnlySoMany(t *testing.T) {
	q := newQueue(1, 1<<20, func() {})
	q.put(message("first", ""))
	for i := range maxNamed + 2 {
		q.put(message(fmt.Sprint(i), ""))
	}
	items, _ := q.take(nil, 10, 1<<20)
	if len(items) != 2 || items[1].note.dropped != nil {
		t.Errorf("%d items", len(items))
	}
}

// An overflow whose channels nobody could name resets every topic.
func TestOverflowOfManyTopics(t *testing.T) {
	r, loops := newFake(t, Options{QueueTicks: 1}, 1)
	r.connect()
	r.turn()
	r.hub.Acquire(0, filter("a"))
	r.settle()
	r.publish("a", "1")
	for i := range maxNamed + 2 {
		r.hub.queue.put(message(fmt.Sprint(i), ""))
	}
	r.settle()
	expect(t, loops[0], "confirmed a a=1/1", "tick 1/1 1", "reset 1/1 CAUSE_SOURCE_OVERFLOW")
}

func TestQueueTakesInPortions(t *testing.T) {
	q := newQueue(1000, 1<<20, func() {})
	next, want := 0, 0
	for round := range 50 {
		for range 1 + round%7 {
			q.put(message("a", fmt.Sprint(next)))
			next++
		}
		items, _ := q.take(nil, 3, 1<<20)
		for _, it := range items {
			if it.payload != fmt.Sprint(want) {
				t.Fatalf("got %s, want %d", it.payload, want)
			}
			want++
		}
	}
	if ticks, _, _ := q.depth(); ticks != next-want {
		t.Errorf("%d wait, want %d", ticks, next-want)
	}
	items, more := q.take(nil, 1000, 1)
	if len(items) != 1 || !more {
		t.Errorf("one byte's worth: %d items, more %v", len(items), more)
	}
}

func BenchmarkHub(b *testing.B) {
	opt := Options{}
	h := newHub(opt)
	r := &fakeRedis{hub: h, globs: map[string]bool{}, denied: map[string]bool{}}
	h.source = r
	loop := &recorder{}
	h.Attach(loop)
	r.connect()
	h.Acquire(0, filter("md:**"))
	r.settle()
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("md:test:SYM%d:ticker", i)
	}
	payload := strings.Repeat("x", 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.queue.put(item{kind: itemTick, channel: names[i%len(names)], pattern: "md:*", payload: payload})
		if i%64 == 0 {
			for h.turn() {
			}
			loop.events = loop.events[:0]
		}
	}
}
