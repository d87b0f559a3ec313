package drive

import (
	"math/rand/v2"
	"slices"
)

// median is that of values, of which there is at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// resamples is how often an interval draws anew.
const resamples = 10_000

// interval is where the median lies with 95 % confidence: the percentile
// bootstrap over the rounds. The draws are always the same.
func interval(values []float64) (low, high float64) {
	random := rand.New(rand.NewPCG(1, uint64(len(values))))
	medians := make([]float64, resamples)
	draw := make([]float64, len(values))
	for i := range medians {
		for k := range draw {
			draw[k] = values[random.IntN(len(values))]
		}
		medians[i] = median(draw)
	}
	slices.Sort(medians)
	return medians[resamples*25/1000], medians[resamples*975/1000-1]
}
