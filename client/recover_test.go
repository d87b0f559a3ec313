package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire"
)

func snapshotFrame(values ...*wire.Value) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Snapshot{Snapshot: &wire.Snapshot{Values: values}}}
}

// Every way to come back: recovered with and without ticks, too late, to another
// epoch, to a topic that is new, and without a position.
func TestComeBack(t *testing.T) {
	asked := make(chan *wire.Subscribe, 1)
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		m := p.request().GetSubscribe()
		asked <- m
		recovered, idle := state(1, "a", 7, 5), state(2, "b", 7, 3)
		recovered.Recovered, idle.Recovered = true, true
		p.send(subscribedFrame(m.GetId(), []string{"*"}, recovered, idle, state(3, "c", 7, 9), state(4, "d", 8, 1), state(5, "e", 7, 1)))
		p.send(snapshotFrame(&wire.Value{Topic: 3, Epoch: 7, Seq: 8, TimeUs: 5, Payload: []byte("last")},
			&wire.Value{Topic: 4, Epoch: 6, Seq: 30, TimeUs: 4, Payload: []byte("old"), Stale: true}))
		p.batch(tickItem(1, 5, 0, "missed"), tickItem(1, 6, 0, "too"))
		p.batch(tickItem(1, 7, 0, "live"), tickItem(2, 3, 0, "live"), tickItem(3, 9, 0, "live"))
		p.wait()
	})
	conn := mustDial(t, g.options())
	since := []Position{{"a", 7, 4}, {"b", 7, 2}, {"c", 7, 2}, {"d", 7, 2}, {"other:x", 7, 2}}
	if _, err := conn.SubscribeWith(t.Context(), SubscribeOptions{Since: since}, "*"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range (<-asked).GetSince() {
		got = append(got, fmt.Sprint(p.GetTopic(), p.GetEpoch(), p.GetSeq()))
	}
	if want := []string{"a7 4", "b7 2", "c7 2", "d7 2"}; !slices.Equal(got, want) {
		t.Errorf("positions %q, want %q", got, want)
	}
	expect(t, conn,
		"topics [{a 7 5 true} {b 7 3 true} {c 7 9 false} {d 8 1 false} {e 7 1 false}]",
		"gap c 7/3-8",
		"reset d 8/1 CAUSE_UNSPECIFIED",
		`*client.Snapshot {c 7 8 `+timeText(5)+` [108 97 115 116] false}`,
		`*client.Snapshot {d 6 30 `+timeText(4)+` [111 108 100] true}`,
		`tick a 7/5 -0 m0 "missed"`,
		`tick a 7/6 -0 m0 "too"`,
		`tick a 7/7 -0 m0 "live"`,
		`tick b 7/3 -0 m0 "live"`,
		`tick c 7/9 -0 m0 "live"`,
	)
	positions := conn.Positions()
	slices.SortFunc(positions, func(a, b Position) int { return cmp.Compare(a.Topic, b.Topic) })
	if want := []Position{{"a", 7, 7}, {"b", 7, 3}, {"c", 7, 9}, {"d", 8, 0}, {"e", 7, 0}}; !slices.Equal(positions, want) {
		t.Errorf("positions %v, want %v", positions, want)
	}
}

func TestValueOfAnUnknownTopic(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		p.send(snapshotFrame(&wire.Value{Topic: 3}))
		p.wait()
	})
	conn := mustDial(t, g.options())
	if e, err := conn.Next(t.Context()); err == nil {
		t.Errorf("got %s", show(e))
	}
}

// Positions that do not fit into a message are left out, and their topics told as lost.
func TestTooManyPositions(t *testing.T) {
	const n = 5000
	asked := make(chan *wire.Subscribe, 1)
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		m := p.request().GetSubscribe()
		asked <- m
		p.send(subscribedFrame(m.GetId(), []string{"**"}, state(1, name(n-1), 7, 4)))
		p.wait()
	})
	conn := mustDial(t, g.options())
	var since []Position
	for i := range n {
		since = append(since, Position{name(i), 7, 1})
	}
	if _, err := conn.SubscribeWith(t.Context(), SubscribeOptions{Since: since}, "**"); err != nil {
		t.Fatal(err)
	}
	if k := len((<-asked).GetSince()); k == 0 || k == n {
		t.Errorf("%d positions of %d", k, n)
	}
	expect(t, conn, "topics [{"+name(n-1)+" 7 4 false}]", "gap "+name(n-1)+" 7/2-3")
}

func name(i int) string { return fmt.Sprintf("%s:%d", strings.Repeat("x", 40), i) }

func timeText(us int64) string { return time.UnixMicro(us).String() }
