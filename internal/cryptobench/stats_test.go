package cryptobench

import (
	"slices"
	"testing"
	"time"
)

func TestSummarise(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   summary
	}{
		{"one", []float64{7}, summary{7, 0}},
		{"two", []float64{10, 30}, summary{20, 100}},
		{"three keep their extremes", []float64{30, 10, 20}, summary{20, 100}},
		{"four keep their extremes", []float64{40, 10, 20, 30}, summary{25, 120}},
		{"five lose both", []float64{1000, 20, 1, 10, 30}, summary{20, 100}},
		{"six lose both", []float64{0, 10, 20, 20, 30, 999}, summary{20, 100}},
		{"one of equal extremes goes", []float64{5, 5, 5, 9, 9}, summary{5, 80}},
		{"equal", []float64{4, 4, 4, 4, 4}, summary{4, 0}},
		{"zero has no spread in per cent", []float64{0, 0, 0, 0, 0}, summary{0, 0}},
	} {
		before := slices.Clone(test.values)
		if got := summarise(test.values); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("%s: the values were changed", test.name)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{nil, 50, 0},
		{hundred[:1], 50, 1},
		{hundred[:1], 99, 1},
		{hundred[:2], 50, 1},
		{hundred[:3], 50, 2},
		{hundred[:10], 99, 10},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.1, 100},
		{hundred, 100, 100},
	} {
		if got := percentile(test.sorted, test.p); got != test.want {
			t.Errorf("P%v of %d values: %v, want %v", test.p, len(test.sorted), got, test.want)
		}
	}
}
