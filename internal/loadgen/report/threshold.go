package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrThreshold reports a threshold that is none.
var ErrThreshold = errors.New("not a threshold")

// Threshold is what a result must keep to.
type Threshold struct {
	text                  string
	scenario, load, suite string // empty: any
	metric                string
	operator              string
	bound                 float64 // in the metric's unit
}

// Outcome is what became of a threshold in one result.
type Outcome struct {
	Threshold string  `json:"threshold"`
	Case      string  `json:"case"`
	Value     float64 `json:"value"` // in the metric's unit: microseconds, messages a second, bytes, cores, per cent or a number
	Met       bool    `json:"met"`
}

// metric is what a threshold can be about.
type metric struct {
	unit string // "time", "bytes", "percent" or "" for numbers
	get  func(*Result) (value float64, known bool)
}

func latency(get func(*Latency) float64) metric {
	return metric{"time", func(r *Result) (float64, bool) { return get(&r.Latency), r.Latency.Samples > 0 }}
}

func ofGateway(unit string, get func(*GatewayUse) float64) metric {
	return metric{unit, func(r *Result) (float64, bool) {
		if r.Gateway == nil {
			return 0, false
		}
		return get(r.Gateway), true
	}}
}

func number(unit string, get func(*Result) float64) metric {
	return metric{unit, func(r *Result) (float64, bool) { return get(r), true }}
}

// metrics are what thresholds can name.
func metrics() map[string]metric {
	return map[string]metric{
		"avg":        latency(func(l *Latency) float64 { return l.Avg }),
		"p50":        latency(func(l *Latency) float64 { return l.P50 }),
		"p95":        latency(func(l *Latency) float64 { return l.P95 }),
		"p99":        latency(func(l *Latency) float64 { return l.P99 }),
		"p999":       latency(func(l *Latency) float64 { return l.P999 }),
		"max":        latency(func(l *Latency) float64 { return l.Max }),
		"p99_to_p50": number("", func(r *Result) float64 { return r.Latency.Ratio }),
		"rate":       number("", func(r *Result) float64 { return r.RateReached }),
		"messages":   number("", func(r *Result) float64 { return float64(r.Messages) }),
		"errors":     number("", func(r *Result) float64 { return float64(r.Errors) }),
		"late":       number("", func(r *Result) float64 { return float64(r.Generator.Late) }),
		"reached": {"percent", func(r *Result) (float64, bool) {
			return 100 * Quotient(r.RateReached, r.RateAsked), r.RateAsked > 0
		}},
		"rss":            ofGateway("bytes", func(g *GatewayUse) float64 { return float64(g.RSSPeak) }),
		"cores":          ofGateway("", func(g *GatewayUse) float64 { return g.Cores }),
		"cpu":            ofGateway("time", func(g *GatewayUse) float64 { return g.PerMessage }),
		"per_connection": {"bytes", perConnection},
	}
}

func perConnection(r *Result) (float64, bool) {
	if len(r.Memory) == 0 {
		return 0, false
	}
	return r.Memory[len(r.Memory)-1].PerConnection, true
}

// form is SCENARIO[/LOAD][/SUITE].METRIC OPERATOR VALUE; * is any scenario.
var form = regexp.MustCompile(`^\s*([a-z*]+)(?:/([a-z]+))??(?:/([a-z0-9-]+))?\.([a-z0-9_]+)\s*(<=|>=|<|>)\s*([0-9.]+)\s*([a-zA-Zµ%]*)\s*$`)

// loads are the words that are no suites.
var loads = []string{"single", "rate", "saturate", "rise"}

// ParseThreshold reads one such as "echo.p99<5ms" or "echo/rate/aes-256-gcm.p99<5ms".
func ParseThreshold(s string) (Threshold, error) {
	m := form.FindStringSubmatch(s)
	if m == nil {
		return Threshold{}, fmt.Errorf("%w: %q has not the form SCENARIO.METRIC<VALUE", ErrThreshold, s)
	}
	t := Threshold{text: strings.TrimSpace(s), scenario: m[1], load: m[2], suite: m[3], metric: m[4], operator: m[5]}
	if t.load == "" && contains(loads, t.suite) {
		t.load, t.suite = t.suite, ""
	} else if t.load != "" && !contains(loads, t.load) && t.suite == "" {
		t.load, t.suite = "", t.load
	}
	if t.scenario == "*" {
		t.scenario = ""
	}
	known, ok := metrics()[t.metric]
	if !ok {
		return t, fmt.Errorf("%w: %q: there is no metric %q", ErrThreshold, s, t.metric)
	}
	var err error
	if t.bound, err = parseBound(m[6], m[7], known.unit); err != nil {
		return t, fmt.Errorf("%w: %q: %w", ErrThreshold, s, err)
	}
	return t, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// byteUnits are powers of two, as everywhere in Sealcast's settings.
var byteUnits = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

func parseBound(digits, unit, kind string) (float64, error) {
	if kind == "time" {
		d, err := time.ParseDuration(digits + unit)
		if err != nil {
			return 0, fmt.Errorf("%s%s is no time, such as 5ms", digits, unit)
		}
		return float64(d) / float64(time.Microsecond), nil
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no number", digits)
	}
	factor, ok := map[string]float64{"": 1, "k": 1e3, "M": 1e6}[unit]
	switch kind {
	case "bytes":
		factor, ok = byteUnits[unit]
	case "percent":
		factor, ok = 1, unit == "%" || unit == ""
	}
	if !ok {
		return 0, fmt.Errorf("the unit %q does not fit", unit)
	}
	return v * factor, nil
}

// ReadThresholds reads a file with one threshold a line; # begins a comment.
func ReadThresholds(r io.Reader) ([]Threshold, error) {
	var all []Threshold
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		t, err := ParseThreshold(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, t)
	}
	return all, lines.Err()
}

// Check holds all results against the thresholds. A threshold that fits no
// result is missed: what was not measured is not known to be kept.
func Check(thresholds []Threshold, results []Result) (outcomes []Outcome, missed int) {
	for _, t := range thresholds {
		fits := 0
		for i := range results {
			if !t.concerns(&results[i]) {
				continue
			}
			fits++
			outcomes = append(outcomes, t.check(&results[i]))
		}
		if fits == 0 {
			outcomes = append(outcomes, Outcome{Threshold: t.text, Case: "no result"})
		}
	}
	for _, o := range outcomes {
		if !o.Met {
			missed++
		}
	}
	return outcomes, missed
}

func (t *Threshold) concerns(r *Result) bool {
	return (t.scenario == "" || t.scenario == r.Scenario) && (t.load == "" || t.load == r.Load) && (t.suite == "" || t.suite == r.Suite)
}

func (t *Threshold) check(r *Result) Outcome {
	value, known := metrics()[t.metric].get(r)
	o := Outcome{Threshold: t.text, Case: r.Name(), Value: value}
	if !known || r.Partial != "" && t.metric != "errors" {
		return o
	}
	switch t.operator {
	case "<":
		o.Met = value < t.bound
	case "<=":
		o.Met = value <= t.bound
	case ">":
		o.Met = value > t.bound
	case ">=":
		o.Met = value >= t.bound
	}
	return o
}
