package cryptobench

import (
	"encoding/json"
	"io"
	"slices"
	"time"
)

// Report is what a run has found. Its JSON form is a public format. Run leaves
// the machine to its caller, who may read files: see DescribeMachine.
type Report struct {
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`
	Results  []Result `json:"results"`
}

// Settings are the options of the run, as they were in force.
type Settings struct {
	Suites    []string `json:"suites"`
	Sizes     []int    `json:"sizes"`
	Groups    []Group  `json:"groups"`
	Repeat    int      `json:"repeat"`
	Kept      int      `json:"kept"` // repeats that the figures come from
	For       string   `json:"for"`
	Warmup    string   `json:"warmup"`
	Seed      uint64   `json:"seed"`
	ClockCost int64    `json:"clock_cost_ns"` // subtracted from every time
}

// Result is one operation's figures: medians over the repeats without the
// extremes.
type Result struct {
	Scenario  string `json:"scenario"` // "crypto"
	Group     Group  `json:"group"`
	Operation string `json:"operation"`
	Suite     string `json:"suite,omitempty"`
	Size      int    `json:"size,omitempty"` // bytes of plaintext

	PerSecond  float64  `json:"ops_per_second"`
	Gigabytes  float64  `json:"gb_per_second,omitempty"` // 10^9 bytes of plaintext
	SpreadPct  float64  `json:"spread_pct"`              // of the throughput, largest minus smallest
	Latency    Latency  `json:"latency_ns"`
	CPUTime    *float64 `json:"cpu_ns_per_op"` // of all threads; null where the system does not tell
	CPUShare   *float64 `json:"cpu_share"`     // cores kept busy
	Allocs     float64  `json:"allocs_per_op"`
	AllocBytes float64  `json:"alloc_bytes_per_op"`

	Baseline *Comparison `json:"vs_baseline,omitempty"`
}

// Latency is the time of single operations, in nanoseconds. With fewer than a
// hundred samples a repeat, P99 is the slowest of them.
type Latency struct {
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Samples int     `json:"samples"` // in all repeats
}

// Comparison sets an operation beside another of the same run and size.
type Comparison struct {
	Operation string   `json:"operation"`
	Suite     string   `json:"suite,omitempty"`
	TimeRatio float64  `json:"time_ratio"` // time of this one divided by the other's
	CPURatio  *float64 `json:"cpu_ratio"`  // the same of processor time: other programs hardly disturb it
	SpreadPct float64  `json:"spread_pct"` // of CPURatio, or of TimeRatio if that is all there is
}

// WriteJSON writes the report as one JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func newReport(o Options, clockCost time.Duration, tasks []*task) *Report {
	r := &Report{Settings: newSettings(o, clockCost)}
	for _, t := range tasks {
		r.Results = append(r.Results, newResult(t))
	}
	return r
}

func newSettings(o Options, clockCost time.Duration) Settings {
	var names []string
	for _, id := range o.Suites {
		names = append(names, id.String())
	}
	kept := len(trim(make([]float64, o.Repeat)))
	return Settings{
		Suites: names, Sizes: o.Sizes, Groups: o.Groups, Repeat: o.Repeat, Kept: kept,
		For: o.For.String(), Warmup: o.Warmup.String(), Seed: o.Seed, ClockCost: clockCost.Nanoseconds(),
	}
}

// shortest is what a time is taken for that is below the clock's resolution,
// in nanoseconds, so that nothing is divided by zero.
const shortest = 0.1

func newResult(t *task) Result {
	perSecond := t.over(func(r repeat) float64 { return 1e9 / max(r.wall, shortest) })
	r := Result{
		Scenario: "crypto", Group: t.group, Operation: t.operation, Suite: t.suite, Size: t.size,
		PerSecond: perSecond.median, SpreadPct: perSecond.spread,
		Gigabytes: perSecond.median * float64(t.size) / 1e9,
		Latency: Latency{
			P50: t.over(func(r repeat) float64 { return float64(r.p50) }).median,
			P99: t.over(func(r repeat) float64 { return float64(r.p99) }).median,
		},
		Allocs: t.allocs.objects, AllocBytes: t.allocs.bytes,
		Baseline: compare(t),
	}
	for _, repeat := range t.repeats {
		r.Latency.Samples += repeat.samples
	}
	if t.cpuKnown() {
		used := t.over(func(r repeat) float64 { return r.cpu }).median
		share := t.over(func(r repeat) float64 { return r.cpu / max(r.wall, shortest) }).median
		r.CPUTime, r.CPUShare = &used, &share
	}
	return r
}

// over summarises one figure of all repeats.
func (t *task) over(figure func(repeat) float64) summary {
	values := make([]float64, len(t.repeats))
	for i, r := range t.repeats {
		values[i] = figure(r)
	}
	return summarise(values)
}

func (t *task) cpuKnown() bool {
	return !slices.ContainsFunc(t.repeats, func(r repeat) bool { return r.cpu < 0 })
}

func compare(t *task) *Comparison {
	if t.baseline == nil {
		return nil
	}
	wall := t.against(func(r repeat) float64 { return r.wall })
	c := &Comparison{
		Operation: t.baseline.operation, Suite: t.baseline.suite,
		TimeRatio: wall.median, SpreadPct: wall.spread,
	}
	if t.cpuKnown() {
		cpu := t.against(func(r repeat) float64 { return r.cpu })
		c.CPURatio, c.SpreadPct = &cpu.median, cpu.spread
	}
	return c
}

// against divides a figure by the baseline's, repeat by repeat, so that a
// disturbance that lasts longer than a round falls on both sides of a ratio.
func (t *task) against(figure func(repeat) float64) summary {
	ratios := make([]float64, len(t.repeats))
	for i, r := range t.repeats {
		ratios[i] = figure(r) / max(figure(t.baseline.repeats[i]), shortest)
	}
	return summarise(ratios)
}
