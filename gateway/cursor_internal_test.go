package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// streamTick publishes a tick of a topic and, at the hub's turn's end, the cursor
// behind it.
func (w *world) streamTick(name, cursor string) {
	w.hub.publish(name)
	w.hub.posted = append(w.hub.posted, &fanout.Mark{Cursor: []byte(cursor)})
	w.deliver(len(w.hub.posted))
}

// expectCursor compares where a session stands once all its batches are closed.
func (c *modelClient) expectCursor(want, when string) {
	c.w.t.Helper()
	c.w.pass(6 * time.Millisecond)
	c.read(1 << 20)
	if got := string(c.socket.conn.cursor()); got != want {
		c.w.t.Errorf("%s: the cursor is %q, want %q", when, got, want)
	}
}

// What one client's max_rate holds back costs the others nothing, and holds are no
// more than the topics that wait.
func TestRateOfAClientHoldsItsOwnCursorAlone(t *testing.T) {
	w, slow := oneClient(t, nil, &wire.Subscription{Filter: "latest:*", MaxRate: minRate})
	other := new(modelClient)
	w.connect(other)
	w.l.serve(other.socket.conn, func(x *conn) {
		x.subscribe(&wire.Subscribe{Id: 1, Subscriptions: []*wire.Subscription{{Filter: "latest:*"}}})
	})
	w.deliver(len(w.hub.posted))
	for i := range 100 {
		w.streamTick("latest:"+string(rune('a'+i%2)), fmt.Sprint(i))
	}
	slow.expectCursor("1", "ticks are held back since the third")
	other.expectCursor("99", "nothing is held back")
	for range 3 { // each lets go of two ticks and holds back two again
		w.pass(1001 * time.Second)
		slow.expectCursor("99", "they have been let go")
		w.streamTick("latest:a", "98")
		w.streamTick("latest:b", "99")
		if n := len(slow.socket.conn.sub.cohort.holds.heap); n != 2 {
			t.Fatalf("%d holds of two topics", n)
		}
	}
	if n := len(w.l.index.cursors.holds.heap); n != 0 {
		t.Errorf("%d holds of all, no rule has a rate for these topics", n)
	}
}

// A tick that a rule's rate lets go and the client's rate holds on stands where it
// stood, and one from before the first cursor stands before all of them.
func TestCursorStaysBeforeATickHeldTwice(t *testing.T) {
	w, c := oneClient(t, nil, &wire.Subscription{Filter: "paced:a", MaxRate: 1}, &wire.Subscription{Filter: "every:a"})
	w.hub.publish("paced:a")
	w.hub.publish("paced:a")
	w.deliver(len(w.hub.posted))
	w.streamTick("every:a", "1")
	c.expectCursor("", "held before the first cursor")
	w.pass(20 * time.Millisecond)
	c.expectCursor("", "held on by the client's rate")
	w.pass(2 * time.Second)
	c.expectCursor("1", "let go")

	w.pass(2 * time.Second)
	w.streamTick("paced:a", "2")
	w.streamTick("paced:a", "3")
	w.streamTick("every:a", "4")
	c.expectCursor("2", "held by the rule's rate")
	w.pass(20 * time.Millisecond)
	w.streamTick("every:a", "5")
	c.expectCursor("2", "held on by the client's rate since then")
	w.pass(2 * time.Second)
	c.expectCursor("5", "let go")
	if c.ticks != 7 {
		t.Errorf("%d ticks of 7", c.ticks)
	}
}
