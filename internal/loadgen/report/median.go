package report

import (
	"math"
	"slices"
)

// spreadOf is the distance between the largest and the smallest value, in per
// cent of the median. From five values on, one extreme on each side is left out.
func spreadOf(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) >= 5 {
		s = s[1 : len(s)-1]
	}
	if len(s) == 0 || median(s) == 0 {
		return 0
	}
	return 100 * (s[len(s)-1] - s[0]) / median(s)
}

// median of values, in any order.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Median makes one result of the repeats of a case: medians of what varies, sums
// of errors, the curves of the repeat in the middle by P99. There must be at least one.
func Median(runs []Result) Result {
	if len(runs) == 1 {
		return runs[0]
	}
	of := func(get func(*Result) float64) float64 {
		var values []float64
		for i := range runs {
			values = append(values, get(&runs[i]))
		}
		return median(values)
	}
	out := middle(runs)
	out.Repeats = len(runs)
	out.RateReached = of(func(r *Result) float64 { return r.RateReached })
	out.Messages = uint64(of(func(r *Result) float64 { return float64(r.Messages) }))
	out.Latency = medianLatency(of)
	out.Generator = medianGenerator(runs, of)
	out.Gateway = medianGateway(runs)
	out.Errors, out.ByKind = sumErrors(runs)
	out.Spread = spreadOver(runs)
	for _, r := range runs {
		if r.Partial != "" {
			out.Partial = r.Partial
		}
		for _, n := range r.Notes {
			if !slices.Contains(out.Notes, n) {
				out.Notes = append(out.Notes, n)
			}
		}
	}
	return out
}

// middle is the repeat whose P99 is in the middle.
func middle(runs []Result) Result {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b Result) int {
		switch {
		case a.Latency.P99 < b.Latency.P99:
			return -1
		case a.Latency.P99 > b.Latency.P99:
			return 1
		}
		return 0
	})
	out := sorted[(len(sorted)-1)/2]
	out.Notes = slices.Clone(out.Notes)
	return out
}

func medianLatency(of func(func(*Result) float64) float64) Latency {
	l := Latency{
		Avg:     of(func(r *Result) float64 { return r.Latency.Avg }),
		P50:     of(func(r *Result) float64 { return r.Latency.P50 }),
		P95:     of(func(r *Result) float64 { return r.Latency.P95 }),
		P99:     of(func(r *Result) float64 { return r.Latency.P99 }),
		P999:    of(func(r *Result) float64 { return r.Latency.P999 }),
		Max:     of(func(r *Result) float64 { return r.Latency.Max }),
		Samples: int64(of(func(r *Result) float64 { return float64(r.Latency.Samples) })),
	}
	l.Ratio = Quotient(l.P99, l.P50)
	return l
}

func medianGenerator(runs []Result, of func(func(*Result) float64) float64) GeneratorUse {
	g := GeneratorUse{
		CPUSeconds: of(func(r *Result) float64 { return r.Generator.CPUSeconds }),
		Cores:      of(func(r *Result) float64 { return r.Generator.Cores }),
		Late:       uint64(of(func(r *Result) float64 { return float64(r.Generator.Late) })),
		LateOwn:    uint64(of(func(r *Result) float64 { return float64(r.Generator.LateOwn) })),
		Connect:    of(func(r *Result) float64 { return r.Generator.Connect }),
		Processes:  runs[0].Generator.Processes,
	}
	for _, r := range runs {
		if r.Generator.Bottleneck != "" {
			g.Bottleneck = r.Generator.Bottleneck
		}
	}
	return g
}

func medianGateway(runs []Result) *GatewayUse {
	for _, r := range runs {
		if r.Gateway == nil {
			return nil
		}
	}
	of := func(get func(*GatewayUse) float64) float64 {
		var values []float64
		for _, r := range runs {
			values = append(values, get(r.Gateway))
		}
		return median(values)
	}
	optional := func(get func(*GatewayUse) *float64) *float64 {
		var values []float64
		for _, r := range runs {
			if v := get(r.Gateway); v != nil {
				values = append(values, *v)
			}
		}
		if len(values) == 0 {
			return nil
		}
		m := median(values)
		return &m
	}
	return &GatewayUse{
		CPUSeconds: of(func(g *GatewayUse) float64 { return g.CPUSeconds }),
		Cores:      of(func(g *GatewayUse) float64 { return g.Cores }),
		RSSStart:   int64(of(func(g *GatewayUse) float64 { return float64(g.RSSStart) })),
		RSSPeak:    int64(of(func(g *GatewayUse) float64 { return float64(g.RSSPeak) })),
		RSSEnd:     int64(of(func(g *GatewayUse) float64 { return float64(g.RSSEnd) })),
		GCCount:    of(func(g *GatewayUse) float64 { return g.GCCount }),
		GCPauses:   of(func(g *GatewayUse) float64 { return g.GCPauses }),
		GCPauseMax: of(func(g *GatewayUse) float64 { return g.GCPauseMax }),
		PerMessage: of(func(g *GatewayUse) float64 { return g.PerMessage }),
		LoopLagP99: of(func(g *GatewayUse) float64 { return g.LoopLagP99 }),
		Stalls:     of(func(g *GatewayUse) float64 { return g.Stalls }),
		SealAvg:    optional(func(g *GatewayUse) *float64 { return g.SealAvg }),
		OpenAvg:    optional(func(g *GatewayUse) *float64 { return g.OpenAvg }),
	}
}

func sumErrors(runs []Result) (sum uint64, byKind map[string]uint64) {
	for _, r := range runs {
		sum += r.Errors
		for kind, n := range r.ByKind {
			if byKind == nil {
				byKind = map[string]uint64{}
			}
			byKind[kind] += n
		}
	}
	return sum, byKind
}

func spreadOver(runs []Result) Spread {
	var rates, p50s, p99s, memory []float64
	for _, r := range runs {
		rates = append(rates, r.RateReached)
		p50s = append(p50s, r.Latency.P50)
		p99s = append(p99s, r.Latency.P99)
		if r.Gateway != nil {
			memory = append(memory, float64(r.Gateway.RSSPeak))
		}
	}
	return Spread{Of: "repeats", Rate: spreadOf(rates), P50: spreadOf(p50s), P99: spreadOf(p99s), Memory: spreadOf(memory)}
}

// SliceSpread is the spread of one run, from its timeline.
func SliceSpread(points []TimePoint) Spread {
	var rates, p50s, p99s []float64
	for _, p := range points {
		rates, p50s, p99s = append(rates, p.Rate), append(p50s, p.P50), append(p99s, p.P99)
	}
	return Spread{Of: "slices", Rate: spreadOf(rates), P50: spreadOf(p50s), P99: spreadOf(p99s)}
}

// Quotient is a/b; 0 when there is nothing to divide by.
func Quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// change is how much v differs from base, in per cent.
func change(v, base float64) float64 {
	if base == 0 || math.IsNaN(v) {
		return 0
	}
	return 100 * (v/base - 1)
}

// Baseline is the suite that others are held against.
const Baseline = "plain"

// Compare sets each result beside the baseline's of the same case.
func Compare(results []Result) {
	for i := range results {
		r := &results[i]
		if r.Suite == Baseline {
			continue
		}
		wanted := r.Case
		wanted.Suite = Baseline
		j := slices.IndexFunc(results, func(o Result) bool { return o.Case == wanted })
		if j < 0 {
			continue
		}
		r.Baseline = newChange(r, &results[j])
	}
}

func newChange(r, base *Result) *Change {
	c := &Change{
		Suite:      base.Suite,
		Latency:    change(r.Latency.Avg, base.Latency.Avg),
		P99:        change(r.Latency.P99, base.Latency.P99),
		Throughput: change(r.RateReached, base.RateReached),
	}
	if r.Gateway != nil && base.Gateway != nil {
		c.CPU = change(r.Gateway.PerMessage, base.Gateway.PerMessage)
	}
	return c
}
