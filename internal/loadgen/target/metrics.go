package target

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Sample is what a gateway has used and counted since its start.
type Sample struct {
	CPUSeconds float64
	RSS        float64 // bytes, now
	GCCount    float64
	GCPauses   float64 // seconds, all
	GCLongest  float64 // seconds, of the latest pauses
	Stalls     float64
	Seal, Open Timed
	Lag        Spread
	Counters   map[string]float64 // by name, labels added up
}

// Timed is a sum over samples.
type Timed struct{ Count, Sum float64 }

// Spread is a histogram: how many lie at or below each bound.
type Spread struct {
	Bounds []float64
	Counts []float64
}

// Sample reads /metrics.
func (a *Admin) Sample(ctx context.Context) (*Sample, error) {
	body, err := a.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return ParseMetrics(body)
}

// ParseMetrics reads the text format of Prometheus, as far as a Sample needs it.
func ParseMetrics(r io.Reader) (*Sample, error) {
	s := &Sample{Counters: map[string]float64{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			return nil, fmt.Errorf("%w: /metrics: %.60q", ErrAdmin, line)
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%w: /metrics: %.60q", ErrAdmin, line)
		}
		name, labels, _ := strings.Cut(line[:end], "{")
		s.take(name, labels, value)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: /metrics: %w", ErrAdmin, err)
	}
	return s, nil
}

func (s *Sample) take(name, labels string, v float64) {
	switch name {
	case "process_cpu_seconds_total":
		s.CPUSeconds = v
	case "process_resident_memory_bytes":
		s.RSS = v
	case "go_gc_duration_seconds_count":
		s.GCCount = v
	case "go_gc_duration_seconds_sum":
		s.GCPauses = v
	case "go_gc_duration_seconds":
		if strings.Contains(labels, `quantile="1"`) {
			s.GCLongest = v
		}
	case "sealcast_loop_stalls_total":
		s.Stalls = v
	case "sealcast_seal_seconds_sum":
		s.Seal.Sum = v
	case "sealcast_seal_seconds_count":
		s.Seal.Count = v
	case "sealcast_open_seconds_sum":
		s.Open.Sum = v
	case "sealcast_open_seconds_count":
		s.Open.Count = v
	case "sealcast_loop_lag_seconds_bucket":
		if bound, err := strconv.ParseFloat(label(labels, "le"), 64); err == nil {
			s.Lag.Bounds, s.Lag.Counts = append(s.Lag.Bounds, bound), append(s.Lag.Counts, v)
		}
	default:
		if strings.HasPrefix(name, "sealcast_") && !strings.HasSuffix(name, "_bucket") {
			s.Counters[name] += v
			if labels != "" {
				s.Counters[name+"{"+labels] += v
			}
		}
	}
}

func label(labels, name string) string {
	_, rest, ok := strings.Cut(labels, name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Since is the mean of what was timed since an earlier sample; false if nothing was.
func (t Timed) Since(earlier Timed) (seconds float64, ok bool) {
	n := t.Count - earlier.Count
	if n <= 0 {
		return 0, false
	}
	return (t.Sum - earlier.Sum) / n, true
}

// Quantile is the bound below which a share p of what came since an earlier
// sample lies; 0 if nothing came.
func (s Spread) Quantile(earlier Spread, p float64) float64 {
	if len(s.Counts) == 0 {
		return 0
	}
	since := func(i int) float64 {
		if i < len(earlier.Counts) {
			return s.Counts[i] - earlier.Counts[i]
		}
		return s.Counts[i]
	}
	last := len(s.Counts) - 1
	total := since(last)
	for i, bound := range s.Bounds {
		if total > 0 && since(i) >= p*total {
			if i == last && last > 0 {
				return s.Bounds[last-1] // the last bound is infinite
			}
			return bound
		}
	}
	return 0
}
