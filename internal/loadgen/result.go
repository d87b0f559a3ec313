package loadgen

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/internal/loadgen/target"
)

// result is run 5. rate is what was asked, 0 for as many as possible.
func (r *run) result(rate float64) ([]report.Result, error) {
	var recorders []*measure.Recorder
	r.crew.each(func(s *station) {
		if s.rec != nil {
			if s.rec.Unanswered > 0 {
				s.errors[peer.KindTimeout] += s.rec.Unanswered
			}
			recorders = append(recorders, s.rec)
		}
	})
	byKind := r.crew.errorsByKind()
	if len(recorders) == 0 { // the loops themselves have failed
		return nil, fmt.Errorf("%s: nothing was measured: %s", r.name(), r.partial)
	}
	return []report.Result{r.make(measure.Merge(recorders), byKind, rate)}, nil
}

// make makes a result of figures, wherever they come from.
func (r *run) make(f *measure.Figures, byKind map[string]uint64, rate float64) report.Result {
	seconds := f.Seconds()
	if r.partial != "" {
		seconds = r.marks[len(r.marks)-1].at.Sub(r.marks[0].at).Seconds()
	}
	out := report.Result{
		Case: r.of, RateAsked: rate, RateReached: float64(f.Came) / max(seconds, 1e-9), Messages: f.Came,
		Latency: latencyOf(f.Latency), Repeats: 1, Partial: r.partial, Notes: r.notes,
		Gateway: r.gatewayUse(f.Came), Generator: r.generatorUse(f, seconds, rate),
	}
	for _, n := range byKind {
		out.Errors += n
	}
	if out.Errors > 0 {
		out.ByKind = byKind
	}
	out.Curves = r.curves(f)
	out.Spread = report.SliceSpread(out.Timeline)
	return out
}

const micro = 1e3 // nanoseconds in a microsecond

func latencyOf(h *hdrhistogram.Histogram) report.Latency {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / micro }
	l := report.Latency{
		Avg: h.Mean() / micro, P50: at(50), P95: at(95), P99: at(99), P999: at(99.9),
		Max: float64(h.Max()) / micro, Samples: h.TotalCount(),
	}
	if l.Samples == 0 {
		l.Avg = 0
	}
	l.Ratio = report.Quotient(l.P99, l.P50)
	return l
}

// gatewayUse is what all gateways used; nil if one of them does not tell.
func (r *run) gatewayUse(messages uint64) *report.GatewayUse {
	first, last := r.marks[0], r.marks[len(r.marks)-1]
	u := &report.GatewayUse{RSSStart: first.rss, RSSEnd: last.rss}
	for _, m := range r.marks {
		u.RSSPeak = max(u.RSSPeak, m.rss)
	}
	for i, a := range first.gateways {
		b := last.gateways[i]
		if b == nil && r.partial != "" { // it has died: its last words count
			b = r.lastWord(i)
		}
		if a == nil || b == nil {
			return nil
		}
		addUse(u, a, b)
	}
	u.Cores = u.CPUSeconds / max(last.at.Sub(first.at).Seconds(), 1e-9)
	u.PerMessage = report.Quotient(u.CPUSeconds*1e6, float64(messages))
	return u
}

func (r *run) lastWord(gateway int) (s *target.Sample) {
	for _, m := range r.marks {
		if m.gateways[gateway] != nil {
			s = m.gateways[gateway]
		}
	}
	return s
}

func addUse(u *report.GatewayUse, a, b *target.Sample) {
	u.CPUSeconds += b.CPUSeconds - a.CPUSeconds
	u.GCCount += b.GCCount - a.GCCount
	u.GCPauses += (b.GCPauses - a.GCPauses) * 1e3
	u.GCPauseMax = max(u.GCPauseMax, b.GCLongest*1e3)
	u.Stalls += b.Stalls - a.Stalls
	u.LoopLagP99 = max(u.LoopLagP99, b.Lag.Quantile(a.Lag, 0.99)*1e6)
	u.SealAvg = meanSince(u.SealAvg, a.Seal, b.Seal)
	u.OpenAvg = meanSince(u.OpenAvg, a.Open, b.Open)
}

func meanSince(before *float64, a, b target.Timed) *float64 {
	seconds, ok := b.Since(a)
	if !ok {
		return before
	}
	us := seconds * 1e6
	return &us
}

// Bounds beyond which the generator may have been what was measured.
const (
	busyShare = 0.9   // of its event loops' cores
	lateShare = 0.005 // of the messages, late because the generator was busy
	lateFew   = 10    // messages that are late tell nothing
)

func (r *run) generatorUse(f *measure.Figures, seconds, rate float64) report.GeneratorUse {
	used := r.marks[len(r.marks)-1].own - r.marks[0].own + r.helped
	g := report.GeneratorUse{
		CPUSeconds: used.Seconds(), Cores: used.Seconds() / max(seconds, 1e-9),
		Late: f.Late, LateOwn: f.LateByLoop, Processes: 1 + r.helpers, Connect: r.took.Seconds(),
	}
	g.Bottleneck = bottleneck(&g, len(r.crew.stations)*g.Processes, f.Sent, rate)
	return g
}

// bottleneck says why the generator may have been what was measured. In a
// closed loop a busy generator is one by itself; in an open loop only messages
// that leave late because of it count.
func bottleneck(g *report.GeneratorUse, loops int, sent uint64, rate float64) string {
	switch {
	case rate == 0 && g.Cores > busyShare*float64(loops):
		return fmt.Sprintf("the generator used %.2f cores with %d event loops: --loops gives it more", g.Cores, loops)
	case float64(g.LateOwn) > max(lateShare*float64(sent), lateFew):
		return fmt.Sprintf("%d of %d messages left more than %v late because the generator was busy", g.LateOwn, sent, time.Duration(measure.LateAfter))
	}
	return ""
}

// percentiles of the curve that a report shows.
var percentiles = []float64{1, 5, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99, 100}

func (r *run) curves(f *measure.Figures) report.Curves {
	var c report.Curves
	for _, p := range percentiles {
		c.Percentiles = append(c.Percentiles, report.Point{X: p, Y: float64(f.Latency.ValueAtQuantile(p)) / micro})
	}
	length := f.Window.Seconds() / float64(f.Window.Slices)
	for i := 0; i < len(r.marks)-1 && i < len(f.Slices); i++ {
		s := f.Slices[i]
		p := report.TimePoint{
			Seconds: length * float64(i+1), Rate: float64(s.Came) / length, RSS: r.marks[i+1].rss,
			P50: float64(s.Latency.ValueAtQuantile(50)) / micro, P99: float64(s.Latency.ValueAtQuantile(99)) / micro,
		}
		p.Cores = coresBetween(r.marks[i], r.marks[i+1])
		c.Timeline = append(c.Timeline, p)
	}
	return c
}

func coresBetween(a, b mark) float64 {
	cores := 0.0
	for i := range a.gateways {
		if a.gateways[i] != nil && b.gateways[i] != nil {
			cores += b.gateways[i].CPUSeconds - a.gateways[i].CPUSeconds
		}
	}
	return cores / max(b.at.Sub(a.at).Seconds(), 1e-9)
}
