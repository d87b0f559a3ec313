package cryptobench

import (
	"math"
	"slices"
	"time"
)

// dropFrom is from how many repeats on the lowest and the highest are left out.
// With fewer, too little would remain to tell a spread.
const dropFrom = 5

// summary is what the repeats of one figure say.
type summary struct {
	median float64
	spread float64 // largest minus smallest, in per cent of the median
}

// summarise drops the extremes of values, takes the median of the others and
// their spread. It changes nothing of values, of which there is at least one.
func summarise(values []float64) summary {
	kept := trim(values)
	s := summary{median: median(kept)}
	if s.median != 0 {
		s.spread = 100 * (kept[len(kept)-1] - kept[0]) / s.median
	}
	return s
}

// trim returns values in order, without the lowest and the highest if there
// are at least dropFrom.
func trim(values []float64) []float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) >= dropFrom {
		sorted = sorted[1 : len(sorted)-1]
	}
	return sorted
}

// median of values in order: the middle one, or the mean of the two middle ones.
func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the smallest of the times, which are in order, that at least
// p per cent of them do not exceed (the nearest rank); 0 if there are none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
