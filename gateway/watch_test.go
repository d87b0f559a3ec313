package gateway

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestWatchTellsOncePerTurnAndMinute(t *testing.T) {
	begin := time.Unix(1000, 0)
	var w watch
	for _, step := range []struct {
		ms            int64
		turn          uint64
		stalled, tell bool
	}{
		{0, 0, false, false},
		{5, 1, false, false},
		{105, 1, false, false}, // exactly the limit
		{110, 1, true, true},
		{115, 1, false, false}, // counted already
		{120, 3, false, false}, // another turn, seen in the middle
		{221, 3, true, false},  // a minute has not passed
		{230, 4, false, false},
		{990, 4, false, false}, // idle for long
		{60_000, 5, false, false},
		{60_101, 5, true, false},
		{60_200, 7, false, false},
		{60_301, 7, true, true},
	} {
		stalled, tell := w.look(begin.Add(time.Duration(step.ms)*time.Millisecond), step.turn)
		if stalled != step.stalled || tell != step.tell {
			t.Errorf("at %d ms in turn %d: %v, %v", step.ms, step.turn, stalled, tell)
		}
	}
}

func TestPulseOfNestedCallbacks(t *testing.T) {
	var p pulse
	outer := p.beginTurn()
	inner := p.beginTurn()
	if p.turns.Load() != 1 || !outer || inner {
		t.Errorf("turns %d, outer %v, inner %v", p.turns.Load(), outer, inner)
	}
	p.endTurn(inner)
	if p.turns.Load()%2 != 1 {
		t.Error("the inner callback has ended the turn")
	}
	p.endTurn(outer)
	if p.turns.Load() != 2 || p.inTurn {
		t.Errorf("turns %d", p.turns.Load())
	}
}

// busyForLong is what the dump has to name.
func busyForLong(until <-chan struct{}) {
	for {
		select {
		case <-until:
			return
		default:
			time.Sleep(time.Millisecond)
		}
	}
}

func TestStalledLoopLogsItsStack(t *testing.T) {
	g, url := startEcho(t)
	core, logged := observer.New(zapcore.WarnLevel)
	dog := newWatchdog(zap.New(core))
	c := dialEcho(t, url)
	if err := echoes(c); err != nil {
		t.Fatal(err)
	}
	free, busy := make(chan struct{}), make(chan struct{})
	for _, l := range *g.loops.Load() {
		l.call(func() { close(busy); busyForLong(free) })
		<-busy
		for ms := range 200 { // the time is ours, the loop's turn is real
			dog.look(l, time.Unix(0, 0).Add(time.Duration(ms)*time.Millisecond))
		}
	}
	close(free)
	if logged.Len() != 1 {
		t.Fatalf("%d lines logged", logged.Len())
	}
	fields := logged.All()[0].ContextMap()
	stack, _ := fields["stack"].(string)
	if !strings.Contains(stack, "busyForLong") || strings.Contains(stack, "TestStalledLoop(") || fields["for_at_least"] != 101*time.Millisecond {
		t.Errorf("logged %v", fields)
	}
	if n := g.Stats().Stalls; n == 0 {
		t.Error("no stall counted")
	}
	if err := echoes(c); err != nil {
		t.Error(err)
	}
}

func TestStackOfNobody(t *testing.T) {
	if got := string(stackOf([]byte("goroutine 0 ["))); got != "not found" {
		t.Errorf("got %.200s", got)
	}
	if got := string(stackOf(thisGoroutine())); !strings.Contains(got, "TestStackOfNobody") {
		t.Errorf("got %.200s", got)
	}
}

func TestRoster(t *testing.T) {
	var r roster
	conns := make([]*conn, 100)
	for i := range conns {
		conns[i] = &conn{id: uint64(i + 1)}
	}
	for _, c := range conns[:98] {
		r.add(c)
	}
	r.add(conns[99])
	r.add(conns[98]) // out of order, as with two listeners
	if got := r.all(); !slices.Equal(got, conns) {
		t.Fatal("not in order")
	}
	for _, c := range conns {
		if c.id%10 != 0 {
			r.remove(c)
			r.remove(c) // twice does nothing
		}
		if c.id%10 != 0 && r.find(c.id) != nil {
			t.Fatalf("%d is still there", c.id)
		}
	}
	if r.find(50) != conns[49] || r.find(0) != nil || r.find(101) != nil || len(r.all()) != 10 {
		t.Errorf("%d left", len(r.all()))
	}
	if len(r.places) > 20 {
		t.Errorf("%d places for 10", len(r.places))
	}
}
