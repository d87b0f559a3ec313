package loadgen

import (
	"testing"
)

// A server that answers everything after a millisecond, but one connection in
// fifty after 20: two per cent of all messages, so that P99 shows exactly that.
func TestDelayOnOneLoopShowsInP99(t *testing.T) {
	net := &simnet{answers: func(socket int, at int64) int64 {
		if socket%50 == 7 {
			return at + 20*ms
		}
		return at + ms
	}}
	f, errors := simulate(t, net, 100, 1000)
	near(t, "P50", f.Latency.ValueAtQuantile(50), ms)
	near(t, "P95", f.Latency.ValueAtQuantile(95), ms)
	near(t, "P99", f.Latency.ValueAtQuantile(99), 20*ms)
	near(t, "P99.9", f.Latency.ValueAtQuantile(99.9), 20*ms)
	if len(errors) > 0 || f.Late != 0 || f.LateByLoop != 0 {
		t.Errorf("errors %v, %d late, %d of them by the loop; want none", errors, f.Late, f.LateByLoop)
	}
}

// The rate is kept to the message, whatever the server does.
func TestOpenLoopKeepsItsRate(t *testing.T) {
	for _, delay := range []int64{0, 3 * ms, 240 * ms} {
		f, _ := simulate(t, &simnet{answers: func(_ int, at int64) int64 { return at + delay }}, 50, 500)
		if f.Sent != 25_000 || f.Latency.TotalCount() != 25_000 {
			t.Errorf("delay %d: %d sent and %d answered in 50 s at 500/s, want 25000", delay, f.Sent, f.Latency.TotalCount())
		}
		near(t, "rate", int64(f.Rate()), 500)
	}
}

// A server that stands still for a second: messages of that second wait for it.
// A generator that waited with its clock would see one slow message for each connection.
func TestStallShowsInTheTailAndInLateSends(t *testing.T) {
	const from, to = 30_000 * ms, 31_000 * ms
	net := &simnet{answers: func(_ int, at int64) int64 {
		if at >= from && at < to {
			return to
		}
		return at + ms
	}}
	f, errors := simulate(t, net, 100, 1000) // 10 a second on each connection, of which 3 may be under way
	near(t, "max", f.Latency.Max(), 1000*ms)
	// 1000 of 50000 messages fell into the stall: their waits are spread evenly over a second.
	near(t, "P99.9", f.Latency.ValueAtQuantile(99.9), 950*ms)
	if p := f.Latency.ValueAtQuantile(99); p < 450*ms || p > 550*ms {
		t.Errorf("P99 %d ms, want half a second", p/ms)
	}
	if f.Late < 650 || f.Late > 750 || f.LateByLoop != 0 {
		t.Errorf("%d messages left late, %d because of the loop; want 700, since 3 of 10 were under way, and none", f.Late, f.LateByLoop)
	}
	if len(errors) > 0 || f.Unanswered != 0 {
		t.Errorf("errors %v, %d unanswered", errors, f.Unanswered)
	}
}

// A generator that is busy itself is told apart from a slow server.
func TestBusyGeneratorIsToldApart(t *testing.T) {
	stalled := false
	net := &simnet{answers: func(_ int, at int64) int64 { return at + ms }}
	net.stretch = func(now int64) int64 {
		if now > 30_000*ms && !stalled {
			stalled = true
			return now + 500*ms
		}
		return now
	}
	f, _ := simulate(t, net, 100, 1000)
	// Of each connection's five messages, two had to wait for the answers to the others besides.
	if f.Late < 480 || f.Late > 520 || f.LateByLoop < 280 || f.LateByLoop > 320 {
		t.Errorf("%d late, %d of them by the loop; want about 500 and 300", f.Late, f.LateByLoop)
	}
	near(t, "max", f.Latency.Max(), 501*ms)
}

func TestScheduleIsTheSeeds(t *testing.T) {
	clients := make([]*echoClient, 40)
	times := func(seed uint64) (all []int64) {
		c := newCycle(clients, 100, 0, 1<<40, seed)
		for k := range 120 {
			all = append(all, c.at(k))
		}
		return all
	}
	a, b, other := times(3), times(3), times(4)
	same := 0
	for k := range a {
		if a[k] != b[k] {
			t.Fatalf("message %d: %d and %d with one seed", k, a[k], b[k])
		}
		if a[k] == other[k] {
			same++
		}
		if k > 0 && a[k] < a[k-1] {
			t.Fatalf("message %d is before message %d", k, k-1)
		}
	}
	if same == len(a) {
		t.Error("two seeds make one schedule")
	}
}
