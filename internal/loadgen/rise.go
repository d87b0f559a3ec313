package loadgen

import (
	"context"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/report"
)

// Rise looks for the point at which more connections bring no more throughput,
// in closed loops.
type Rise struct {
	Of   report.Case // Connections is the most that are tried
	P99  time.Duration
	Each time.Duration // measured at each step
}

// When to stop.
const (
	riseGain = 1.05 // a step that brings less than this brings nothing
	riseAway = 20   // P99 has run away when it is so many times that of the first step
)

// Run implements Case.
func (s *Rise) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	short := *env
	short.For, short.Warmup = s.Each, s.Each/4
	var all []report.Result
	best, flat := 0.0, 0
	for n := 1; n <= s.Of.Connections; n *= 2 {
		step := Echo{Of: s.Of}
		step.Of.Connections = n
		found, err := step.Run(ctx, &short)
		if err != nil {
			return all, err
		}
		r := found[0]
		all = append(all, r)
		if flat++; r.RateReached > best*riseGain {
			flat = 0
		}
		best = max(best, r.RateReached)
		if r.Partial != "" || flat == 2 || s.ranAway(all) {
			break
		}
	}
	return all, nil
}

func (s *Rise) ranAway(all []report.Result) bool {
	last := all[len(all)-1].Latency.P99
	if s.P99 > 0 {
		return last > float64(s.P99.Microseconds())
	}
	return last > riseAway*all[0].Latency.P99
}
