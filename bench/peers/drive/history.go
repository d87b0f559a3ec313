package drive

import (
	"fmt"
	"io"
	"strings"
)

// WriteHistory writes all samples as benchmarks of Go, one line for each
// server and round: benchstat compares two such files.
func (r *Results) WriteHistory(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: linux\npkg: github.com/sealcast/sealcast/bench/peers\ncpu: %s\n", r.Machine)
	for _, s := range r.Samples {
		fmt.Fprintf(&b, "Benchmark/%s/%s 1", s.Work, fileName(s.Contestant))
		for _, f := range []struct {
			unit  string
			value float64
		}{
			{"cpu-ns/op", s.ServerNS}, {"op/s", s.Rate}, {"RSS-bytes", float64(s.RSS)},
			{"delay-p50-ns", s.P50}, {"delay-p99-ns", s.P99}, {"B/session", s.PerSession},
		} {
			if f.value > 0 {
				fmt.Fprintf(&b, " %.5g %s", f.value, f.unit)
			}
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fileName is a contestant's name without what files and benchmarks cannot have.
func fileName(contestant string) string {
	return strings.NewReplacer(", ", "-", " ", "-").Replace(contestant)
}
