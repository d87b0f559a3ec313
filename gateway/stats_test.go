package gateway

import (
	"math"
	"strconv"
	"testing"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// TestEveryCloseCodeIsCounted: a code that wire has a meaning for has a counter of its own.
func TestEveryCloseCodeIsCounted(t *testing.T) {
	var s loopStats
	s.times.init()
	known := 0
	for code := wire.CloseCode(1); code < 5000; code++ {
		if code.String() != strconv.Itoa(int(code)) {
			known++
			s.closed(code, byGateway)
		}
	}
	s.closed(closeLost, byClient)
	s.closed(3000, byClient)
	s.closed(4999, byClient)
	all := Stats{Handshakes: Handshakes{}, Closes: newCloses(), Times: newTimes()}
	s.addTo(&all)
	if known != len(closeCodes)-1 {
		t.Errorf("wire knows %d codes, %d are counted", known, len(closeCodes)-1)
	}
	for _, c := range all.Closes {
		want := Closes{Code: c.Code, ByGateway: 1}
		switch c.Code {
		case closeLost:
			want = Closes{Code: c.Code, ByClient: 1}
		case 0:
			want = Closes{ByClient: 2}
		}
		if c != want {
			t.Errorf("got %+v", c)
		}
	}
}

func TestHandshakesThatBreak(t *testing.T) {
	var h handshakeCounts
	h.done(suite.AES128GCM, false)
	h.done(suite.AES128GCM, true)
	h.broken(suite.SM4GCM, wire.CloseTryLater, byGateway)
	h.broken(suite.SM4GCM, wire.CloseTooLate, byGateway)
	h.broken(suite.SM4GCM, wire.CloseBadRecord, byGateway)
	h.broken(suite.SM4GCM, wire.CloseForbidden, byGateway)
	h.broken(suite.SM4GCM, wire.CloseRestart, byGateway)
	h.broken(suite.Plain, wire.CloseBadRecord, byClient)
	got := Handshakes{}
	h.addTo(got)
	if got[suite.AES128GCM] != (HandshakeResults{OK: 1, Resumed: 1}) ||
		got[suite.SM4GCM] != (HandshakeResults{Busy: 1, Late: 1, Failed: 2, Gone: 1}) || got[suite.Plain] != (HandshakeResults{Gone: 1}) {
		t.Errorf("got %+v", got)
	}
	if sum := got.Sum(); sum != (HandshakeResults{OK: 1, Resumed: 1, Failed: 2, Busy: 1, Late: 1, Gone: 2}) {
		t.Errorf("sum %+v", sum)
	}
}

func TestHistogram(t *testing.T) {
	h := histogram{base: firstLag}
	d := newDistribution(firstLag, 1e9)
	values := []int64{-5, 0, 1, firstLag, firstLag + 1, 2 * firstLag, 2*firstLag + 1, firstLag << (steps - 1), firstLag<<(steps-1) + 1, 1 << 40}
	sum := 0.0
	for _, v := range values {
		h.observe(v)
		sum += float64(max(v, 0)) / 1e9
	}
	h.addTo(&d)
	want := make([]uint64, steps+1)
	for _, v := range values {
		place := 0
		for place < steps && float64(v)/1e9 > d.Bounds[place] {
			place++
		}
		want[place]++
	}
	for i := range want {
		if d.Counts[i] != want[i] {
			t.Errorf("%v, want %v", d.Counts, want)
			break
		}
	}
	if math.Abs(d.Sum-sum) > 1e-9 || d.Bounds[0] != 0.0001 || d.Bounds[14] != 1.6384 {
		t.Errorf("sum %v, want %v; bounds %v", d.Sum, sum, d.Bounds)
	}
	if n := testing.AllocsPerRun(100, func() { h.observe(123_456) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
