package report

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// result is one of a suite, as a run would leave it.
func result(suite string, rate, p50, p99 float64) Result {
	return Result{
		Case:      Case{Scenario: "echo", Load: "rate", Suite: suite, Size: 1024, Connections: 500},
		RateAsked: 5000, RateReached: rate, Messages: uint64(rate * 10), Repeats: 1,
		Latency: Latency{Avg: p50 * 1.2, P50: p50, P95: p50 * 2, P99: p99, P999: p99 * 2, Max: p99 * 3, Ratio: p99 / p50, Samples: 1000},
		Gateway: &GatewayUse{CPUSeconds: 1, Cores: 0.1, RSSPeak: 30 << 20, PerMessage: p50 / 10},
		Spread:  Spread{Of: "slices", Rate: 4, P50: 10, P99: 20},
		Curves: Curves{
			Percentiles: []Point{{50, p50}, {90, p50 * 2}, {99, p99}, {99.9, p99 * 2}},
			Timeline:    []TimePoint{{1, rate, p50, p99, 0.1, 30 << 20}, {2, rate, p50, p99, 0.2, 31 << 20}},
		},
	}
}

func document(results ...Result) *Document {
	return &Document{
		Machine:  Machine{CPU: "a <processor>", Cores: 2, AES: true, GatewayAES: true, Gateways: []string{"v1"}},
		Settings: Settings{Command: "bench echo", Started: "2026-01-02T03:04:05Z", Gateway: "ws://gateway.example/echo", For: "10s", Repeat: 1},
		Results:  results,
	}
}

func TestJSONRoundTrip(t *testing.T) {
	want := document(result("plain", 5000, 100, 300), result("aes-256-gcm", 4900, 120, 500))
	Compare(want.Results)
	var b bytes.Buffer
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "{}", "[]", `{"settings":{"command":"x"},"results":[]}`, "not JSON"} {
		if _, err := Read(strings.NewReader(bad)); !errors.Is(err, ErrDocument) {
			t.Errorf("%q: %v, want ErrDocument", bad, err)
		}
	}
}

func TestMedianAndSpread(t *testing.T) {
	var runs []Result
	for _, rate := range []float64{100, 102, 98, 500, 1} { // the extremes do not count
		r := result("plain", rate, rate, 2*rate)
		r.Errors, r.ByKind = 1, map[string]uint64{"lost": 1}
		runs = append(runs, r)
	}
	m := Median(runs)
	if m.RateReached != 100 || m.Latency.P50 != 100 || m.Latency.P99 != 200 || m.Repeats != 5 || m.Latency.Ratio != 2 {
		t.Errorf("medians %+v", m)
	}
	if m.Spread.Of != "repeats" || math.Abs(m.Spread.Rate-4) > 1e-9 {
		t.Errorf("spread %+v, want 4 %% without extremes", m.Spread)
	}
	if m.Errors != 5 || m.ByKind["lost"] != 5 {
		t.Errorf("errors %d %v, want the sum", m.Errors, m.ByKind)
	}
	for _, tt := range []struct {
		values       []float64
		median, wide float64
	}{
		{nil, 0, 0}, {[]float64{3}, 3, 0}, {[]float64{4, 2}, 3, 200.0 / 3}, {[]float64{0, 0}, 0, 0}, {[]float64{9, 1, 5, 6, 4}, 5, 40},
	} {
		if m, s := median(tt.values), spreadOf(tt.values); m != tt.median || math.Abs(s-tt.wide) > 1e-9 {
			t.Errorf("%v: median %v, spread %v; want %v, %v", tt.values, m, s, tt.median, tt.wide)
		}
	}
}

func TestBaseline(t *testing.T) {
	all := []Result{result("plain", 5000, 100, 200), result("aes-256-gcm", 4000, 150, 500), result("chacha20-poly1305", 5000, 100, 200)}
	all[2].Size = 64
	Compare(all)
	c := all[1].Baseline
	if c == nil || math.Abs(c.Latency-50) > 1e-9 || math.Abs(c.Throughput+20) > 1e-9 || math.Abs(c.P99-150) > 1e-9 || math.Abs(c.CPU-50) > 1e-9 {
		t.Errorf("against the baseline: %+v", c)
	}
	if all[0].Baseline != nil || all[2].Baseline != nil {
		t.Error("the baseline itself, or another size, was compared")
	}
}

// Two runs agree when they lie no further apart than their own spread.
func TestTwoRunsAgreeWithinTheirSpread(t *testing.T) {
	a := document(result("plain", 5000, 100, 300), result("aes-128-gcm", 5000, 100, 300))
	b := document(result("plain", 5150, 108, 350), result("aes-128-gcm", 5000, 100, 400), result("aes-256-gcm", 1, 1, 1))
	c := CompareDocuments(a, b)
	if len(c.Cases) != 2 || !c.Cases[0].Agree || c.Cases[1].Agree || c.Cases[1].P99.Agree || !c.Cases[1].P50.Agree || !c.Differs {
		t.Errorf("comparison %+v", c)
	}
	if len(c.Only) != 1 || !strings.Contains(c.Only[0], "aes-256-gcm") {
		t.Errorf("only in one: %v", c.Only)
	}
	var text bytes.Buffer
	if err := c.WriteText(&text); err != nil || !strings.Contains(text.String(), "+33.3 % !") {
		t.Errorf("%v, text\n%s", err, text.String())
	}
	if same := CompareDocuments(a, a); same.Differs {
		t.Errorf("a run differs from itself: %+v", same)
	}
}

func TestThresholds(t *testing.T) {
	results := []Result{result("plain", 5000, 100, 300), result("aes-256-gcm", 4000, 150, 6000)}
	results[1].Errors = 3
	for _, tt := range []struct {
		rule             string
		outcomes, missed int
	}{
		{"echo.p99<5ms", 2, 1}, {"echo.p99 < 7ms", 2, 0}, {"*.p50<=0.1ms", 2, 1}, {"echo/aes-256-gcm.p99<5ms", 1, 1}, {"echo/rate/plain.p99<5ms", 1, 0},
		{"echo/rate.p50<1s", 2, 0}, {"echo/single.p50<1s", 1, 1}, {"fanout.p50<1s", 1, 1}, {"echo.rate>4.5k", 2, 1}, {"echo.errors<1", 2, 1},
		{"echo.reached>=80%", 2, 0}, {"echo.rss<29MiB", 2, 2}, {"echo.cores<0.2", 2, 0}, {"echo.cpu<12us", 2, 1}, {"echo.per_connection<1KiB", 2, 2},
	} {
		th, err := ParseThreshold(tt.rule)
		if err != nil {
			t.Errorf("%q: %v", tt.rule, err)
			continue
		}
		outcomes, missed := Check([]Threshold{th}, results)
		if len(outcomes) != tt.outcomes || missed != tt.missed {
			t.Errorf("%q: %d missed of %+v, want %d of %d", tt.rule, missed, outcomes, tt.missed, tt.outcomes)
		}
	}
	for _, bad := range []string{"", "echo", "echo.p99", "echo.p99<", "echo.p99<5", "echo.p99=5ms", "echo.p98<5ms", "echo.rate>5ms", "echo.rss<5XB", "echo.reached>80ms", "ECHO.p99<5ms"} {
		if _, err := ParseThreshold(bad); !errors.Is(err, ErrThreshold) {
			t.Errorf("%q: %v, want ErrThreshold", bad, err)
		}
	}
	all, err := ReadThresholds(strings.NewReader("# comment\n\necho.p99<5ms # why\nfanout.errors<1\n"))
	if err != nil || len(all) != 2 {
		t.Errorf("file: %v, %v", all, err)
	}
	if _, err := ReadThresholds(strings.NewReader("echo.p99<5ms\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("faulty file: %v", err)
	}
}

// A result that was cut short keeps to no threshold but to that of errors.
func TestPartialResultsMissThresholds(t *testing.T) {
	r := result("plain", 5000, 100, 300)
	r.Partial = "the gateway has ended"
	th, _ := ParseThreshold("echo.p99<1h")
	if _, missed := Check([]Threshold{th}, []Result{r}); missed != 1 {
		t.Error("a partial result has met a threshold")
	}
}

func TestRecommendation(t *testing.T) {
	aes128, aes256, chacha := result("aes-128-gcm", 5000, 100, 300), result("aes-256-gcm", 5000, 105, 310), result("chacha20-poly1305", 5000, 130, 400)
	both, without := Machine{AES: true, GatewayAES: true}, Machine{AES: true}
	dear := result("aes-256-gcm", 5000, 130, 310)
	for _, tt := range []struct {
		name    string
		machine Machine
		results []Result
		wish    Wish
		want    string
	}{
		{"a longer key for a little more", both, []Result{aes128, aes256, chacha}, Wish{}, "aes-256-gcm"},
		{"not for much more", both, []Result{aes128, dear, chacha}, Wish{}, "aes-128-gcm"},
		{"required", both, []Result{aes128, dear, chacha}, Wish{KeyBits: 256}, "aes-256-gcm"},
		{"no instructions", without, []Result{aes128, aes256, chacha}, Wish{}, "chacha20-poly1305"},
		{"P99", both, []Result{aes128, aes256, chacha}, Wish{P99: 305}, "aes-128-gcm"},
		{"nothing fits", both, []Result{aes128, aes256, chacha}, Wish{P99: 200}, ""},
		{"nothing without instructions", without, []Result{aes128, aes256}, Wish{}, ""},
	} {
		r := Recommend(tt.machine, tt.results, tt.wish)
		if r == nil || r.Suite != tt.want || len(r.Because) == 0 || r.Rule == "" {
			t.Errorf("%s: %+v, want %q", tt.name, r, tt.want)
		}
	}
	if r := Recommend(both, []Result{aes128, result("plain", 1, 1, 1)}, Wish{}); r != nil {
		t.Errorf("one suite: %+v, want none", r)
	}
}

// The page stands for itself: it refers to nothing, runs nothing, and shows what
// it was given as text.
func TestPageNeedsNothing(t *testing.T) {
	d := document(result("plain", 5000, 100, 300), result("<script>alert(1)</script>", 4900, 120, 500))
	idle := Result{Case: Case{Scenario: "idle", Suite: "aes-128-gcm", Connections: 2000}, Memory: []MemoryStep{{1000, 30 << 20, 9000, 1}, {2000, 40 << 20, 8000, 2}}}
	for n := 1; n < 8; n *= 2 {
		r := result("plain", 1000*float64(n), 100, 200)
		r.Load, r.Connections = "rise", n
		d.Results = append(d.Results, r)
	}
	d.Results = append(d.Results, idle)
	d.Partial = "interrupted"
	d.Recommendation = Recommend(d.Machine, []Result{result("aes-128-gcm", 1, 1, 1), result("aes-256-gcm", 1, 1, 1)}, Wish{})
	var b bytes.Buffer
	if err := d.WriteHTML(&b, CompareDocuments(d, d)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, forbidden := range []string{`<script`, `src=`, `href=`, `url(`, `@import`, `<link`, `<iframe`, `http-equiv`} {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page holds %q", forbidden)
		}
	}
	if found := regexp.MustCompile(`https?://[^"'< ]*`).FindAllString(page, -1); found != nil {
		t.Errorf("the page names %v", found)
	}
	for _, wanted := range []string{"Latency by percentile", "Throughput by connections", "cores over time", "memory over time", "Memory for each connection", "interrupted", "Recommendation", "<svg", "a &lt;processor&gt;"} {
		if !strings.Contains(page, wanted) {
			t.Errorf("the page holds no %q", wanted)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page draws what is no number")
	}
}

func TestTextTable(t *testing.T) {
	d := document(result("plain", 5000, 100, 300), result("aes-256-gcm", 4900, 120, 5500))
	d.Results[1].Generator.Bottleneck = "busy"
	Compare(d.Results)
	th, _ := ParseThreshold("echo.p99<5ms")
	d.Thresholds, _ = Check([]Threshold{th}, d.Results)
	var b bytes.Buffer
	if err := d.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"echo rate", "5.50 ms", "+20.0 %", "MISSED", "may have been what was measured: busy", "30 MiB"} {
		if !strings.Contains(b.String(), wanted) {
			t.Errorf("no %q in\n%s", wanted, b.String())
		}
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]string{
		"–": Micros(0), "0.50 µs": Micros(0.5), "999 µs": Micros(999.4), "1.00 ms": Micros(1000), "2.50 s": Micros(2.5e6),
		"512 B": Bytes(512), "1 KiB": Bytes(1024), "1.5 MiB": Bytes(1.5 * (1 << 20)), "20 GiB": Bytes(20 * (1 << 30)),
		"1,234,567": Count(1234567), "12.5": Count(12.5), "-3.0 %": Percent(-3),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
