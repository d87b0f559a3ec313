package cryptobench

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// repeats makes repeats of the given times, in nanoseconds; the processor
// takes half as long again.
func repeats(times ...float64) []repeat {
	var out []repeat
	for _, ns := range times {
		out = append(out, repeat{wall: ns, cpu: 1.5 * ns, p50: time.Duration(ns), p99: time.Duration(3 * ns), samples: 10})
	}
	return out
}

func TestResult(t *testing.T) {
	baseline := &task{operation: "good", suite: "x", repeats: repeats(100, 100, 200, 100, 50)}
	// Twice as long in each repeat but the first: the disturbed third counts for both.
	worse := &task{
		group: GroupMisuse, operation: "bad", suite: "x", size: 1000, baseline: baseline,
		repeats: repeats(1000, 200, 400, 200, 100), allocs: allocations{2, 64},
	}
	r := newResult(worse)
	if r.PerSecond != 5e6 || r.Gigabytes != 5 || r.Latency != (Latency{200, 600, 50}) || r.Allocs != 2 || r.AllocBytes != 64 {
		t.Errorf("%+v", r)
	}
	if *r.CPUTime != 300 || *r.CPUShare != 1.5 {
		t.Errorf("%v ns of processor, share %v", *r.CPUTime, *r.CPUShare)
	}
	if r.SpreadPct != 50 { // 2.5 to 5 million a second
		t.Errorf("spread %v", r.SpreadPct)
	}
	if c := r.Baseline; c.Operation != "good" || c.TimeRatio != 2 || *c.CPURatio != 2 || c.SpreadPct != 0 {
		t.Errorf("%+v", *c)
	}
}

func TestTimesBelowTheClock(t *testing.T) {
	zero := &task{repeats: repeats(0, 0, 0)}
	zero.baseline = zero
	if r := newResult(zero); math.IsInf(r.PerSecond, 0) || math.IsNaN(r.Baseline.TimeRatio) || math.IsNaN(*r.CPUShare) {
		t.Errorf("%+v", r)
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{formatTime(0), "0 ns"},
		{formatTime(999.4), "999 ns"},
		{formatTime(999.6), "1.00 µs"},
		{formatTime(12_345), "12.3 µs"},
		{formatTime(9_996), "10.0 µs"},
		{formatTime(999_600), "1.00 ms"},
		{formatTime(145e6), "145 ms"},
		{formatTime(2.5e9), "2.50 s"},
		{formatCount(0), "0"},
		{formatCount(0.5), "0.5"},
		{formatCount(2), "2"},
		{formatCount(6.914), "6.91"},
		{formatCount(9.999), "10"},
		{formatCount(621), "621"},
		{formatCount(999.7), "1,000"},
		{formatCount(1000), "1,000"},
		{formatCount(15_249), "15,200"},
		{formatCount(6_543_210), "6,540,000"},
		{formatCount(99_960), "100,000"},
		{formatSize(64), "64 B"},
		{formatSize(1024), "1 KiB"},
		{formatSize(1500), "1500 B"},
		{formatSize(1 << 20), "1024 KiB"},
		{formatRatio(0.917), "0.92"},
		{formatRatio(11.24), "11.2"},
		{formatRatio(242.4), "242"},
		{formatRatio(23_482), "23,500"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

func TestText(t *testing.T) {
	share, ratio := 1.25, 7.666
	report := &Report{
		Machine: Machine{
			CPU: "a processor", Cores: 2, Go: "go1", GOOS: "plan9", GOARCH: "amd64",
			AES: AES{Found: []string{"SSE4.1"}, Missing: []string{"AES", "PCLMULQDQ"}}, Sealcast: "v1",
		},
		Settings: Settings{Repeat: 5, Kept: 3, For: "40ms", Warmup: "20ms", Seed: 1, ClockCost: 40},
		Results: []Result{
			{Group: GroupPublicKey, Operation: "sign", PerSecond: 724, Latency: Latency{1.3e6, 2.1e6, 20}, SpreadPct: 24},
			{
				Group: GroupMessages, Operation: "seal", Suite: "s", Size: 64, PerSecond: 1.12e6, Gigabytes: 0.0718,
				Latency: Latency{411, 8970, 9}, CPUShare: &share, Allocs: 2, AllocBytes: 1280, SpreadPct: 12,
				Baseline: &Comparison{Operation: "seal", Suite: "plain", TimeRatio: 5, CPURatio: &ratio},
			},
			{
				Group: GroupMessages, Operation: "bad seal", Suite: "s", Size: 1024,
				Baseline: &Comparison{Operation: "seal", Suite: "s", TimeRatio: 5},
			},
		},
	}
	var b strings.Builder
	if err := report.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `a processor, 2 cores, plan9/amd64, go1
AES in software (missing AES, PCLMULQDQ); Sealcast v1
5 repeats of 40ms, 3 of them count; warm-up 20ms; seed 1; 40 ns of clock subtracted from each time

Messages: one tick of that many bytes, encoded as protobuf and sealed; opened and decoded (beside plain)
operation  suite   size      ops/s    GB/s     P50      P99   CPU  allocs   B/op  spread  cost
seal       s       64 B  1,120,000  0.0718  411 ns  8.97 µs  1.25       2  1,280    12 %  7.67 × plain
bad seal   s      1 KiB          0       –    0 ns     0 ns     –       0      0     0 %  5.00 × seal

Public-key operations
operation  ops/s      P50      P99  allocs  B/op  spread
sign         724  1.30 ms  2.10 ms       0     0    24 %
` + legend
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// broken takes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteErrors(t *testing.T) {
	if (&Report{}).WriteText(broken{}) == nil || (&Report{}).WriteJSON(broken{}) == nil {
		t.Error("an error of the writer is lost")
	}
}

func TestModelIn(t *testing.T) {
	for _, test := range []struct{ cpuinfo, want string }{
		{"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9R14\nmodel name\t: other\n", "AMD EPYC 9R14"},
		{"processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n", ""},
		{"processor : 0\n\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"},
		{"", ""},
	} {
		if got := modelIn([]byte(test.cpuinfo)); got != test.want {
			t.Errorf("%q: %q, want %q", test.cpuinfo, got, test.want)
		}
	}
}

func TestDescribeMachine(t *testing.T) {
	m := DescribeMachine(nil, "v1")
	if m.CPU == "" || m.Cores < 1 || m.Go == "" || m.GOOS == "" || m.GOARCH == "" || m.Sealcast != "v1" {
		t.Errorf("%+v", m)
	}
	if m.AES.Hardware != (len(m.AES.Missing) == 0) || m.AES.Found == nil || m.AES.Missing == nil {
		t.Errorf("%+v", m.AES)
	}
	if DescribeMachine([]byte("model name: x\n"), "").CPU != "x" || !slices.Equal(split("a, b"), []string{"a", "b"}) {
		t.Error("the model or the list is lost")
	}
}
