package cryptobench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
)

// quick are options that measure everything as shortly as possible.
func quick() Options {
	return Options{Repeat: 3, For: time.Millisecond, Warmup: time.Millisecond}
}

// TestEverythingRuns measures all there is and looks at what comes out; the
// figures themselves are the machine's affair.
func TestEverythingRuns(t *testing.T) {
	report, err := Run(t.Context(), quick())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]*Result{}
	for i := range report.Results {
		r := &report.Results[i]
		name := fmt.Sprintf("%s/%s/%s/%d", r.Group, r.Operation, r.Suite, r.Size)
		if seen[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = r
		checkFigures(t, name, r)
	}
	for _, name := range wanted() {
		if seen[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	checkAllocations(t, seen)
	checkText(t, report)
}

func checkFigures(t *testing.T, name string, r *Result) {
	t.Helper()
	switch {
	case r.Scenario != "crypto", r.PerSecond <= 0, r.Latency.Samples < 3, r.Latency.P99 < r.Latency.P50,
		r.SpreadPct < 0, r.Allocs < 0, r.Size > 0 && r.Gigabytes <= 0, r.Size == 0 && r.Gigabytes != 0:
		t.Errorf("%s: %+v", name, *r)
	case r.Baseline != nil && r.Baseline.TimeRatio <= 0:
		t.Errorf("%s: %+v", name, *r.Baseline)
	}
}

// wanted names what the product promises to measure.
func wanted() []string {
	var names []string
	for _, id := range suite.All() {
		for _, size := range Defaults().Sizes {
			for _, operation := range []string{"records/seal", "records/open", "mixed/open 70 %, seal 30 %", "messages/encode and seal", "messages/open and decode"} {
				names = append(names, fmt.Sprintf("%s/%v/%d", operation, id, size))
			}
		}
	}
	for _, operation := range []string{
		"RSA-2048 sign", "RSA-2048 verify", "RSA-2048 OAEP encrypt", "RSA-2048 OAEP decrypt", "RSA-4096 sign", "RSA-4096 OAEP decrypt",
		"ECDSA P-256 sign", "ECDSA P-256 verify", "Ed25519 sign", "Ed25519 verify", "X25519 agree",
		"ML-KEM-768 encapsulate", "ML-KEM-768 decapsulate",
	} {
		names = append(names, "public-key/"+operation+"//0")
	}
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10} {
		for _, operation := range []string{"session key, %s/aes-256-gcm", "RSA-wrapped key, %s/aes-256-gcm", "RSA-2048-OAEP in chunks, %s/"} {
			for _, direction := range []string{"protect", "open"} {
				names = append(names, fmt.Sprintf("responses/"+operation+"/%d", direction, size))
			}
		}
	}
	for _, size := range []int{64, 1 << 10, 16 << 10} {
		for _, operation := range []string{
			"misuse/cipher per message/aes-128-gcm", "misuse/cipher per session/sm4-gcm", "misuse/cipher pooled/chacha20-poly1305",
			"misuse/buffer reused/aes-256-gcm", "misuse/buffer fresh for each record/aes-256-gcm",
			"misuse/nonce counted/aes-256-gcm", "misuse/nonce random for each record/aes-256-gcm",
			"others/AES-256-CTR + HMAC-SHA256 seal/", "others/AES-256-CTR + HMAC-SHA256 open/", "others/SHA-256/",
		} {
			names = append(names, fmt.Sprintf("%s/%d", operation, size))
		}
	}
	return names
}

// checkAllocations: sealing and opening promise none, and a fresh buffer is one.
func checkAllocations(t *testing.T, seen map[string]*Result) {
	t.Helper()
	for name, r := range seen {
		want := 0.0
		switch {
		case r.Operation == "buffer fresh for each record":
			want = 1
		case r.Operation == "cipher per message":
			if r.Allocs < 1 {
				t.Errorf("%s: %v allocations", name, r.Allocs)
			}
			continue
		case r.Group == GroupRecords, r.Group == GroupMixed, r.Operation == "encode", r.Operation == "encode and seal", r.Group == GroupMisuse:
		default:
			continue
		}
		if math.Abs(r.Allocs-want) > 0.05 { // the runtime allocates now and then
			t.Errorf("%s: %v allocations, want %v", name, r.Allocs, want)
		}
	}
}

func checkText(t *testing.T, report *Report) {
	t.Helper()
	var b strings.Builder
	if err := report.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, group := range Groups() {
		if !strings.Contains(b.String(), headings[group]) {
			t.Errorf("the text lacks %q", headings[group])
		}
	}
	if n := strings.Count(b.String(), " × "); n < 50 {
		t.Errorf("%d comparisons in the text", n)
	}
}

func TestOnlyWhatIsAskedFor(t *testing.T) {
	o := quick()
	o.Suites = []suite.ID{suite.ChaCha20Poly1305, suite.AES128GCM, suite.ChaCha20Poly1305}
	o.Sizes = []int{2000, 1, 2000}
	o.Groups = []Group{GroupMessages, GroupRecords, GroupRecords}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[Group]int{}
	for _, r := range report.Results {
		counts[r.Group]++
	}
	if want := (map[Group]int{GroupRecords: 8, GroupMessages: 12}); !maps.Equal(counts, want) {
		t.Errorf("results %v, want %v", counts, want)
	}
	if first := report.Results[0]; first.Suite != "chacha20-poly1305" || first.Size != 1 {
		t.Errorf("first %+v", first)
	}
	if s := report.Settings; !slices.Equal(s.Sizes, []int{1, 2000}) || !slices.Equal(s.Suites, []string{"chacha20-poly1305", "aes-128-gcm"}) {
		t.Errorf("settings %+v", s)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for name, o := range map[string]Options{
		"suite":     {Suites: []suite.ID{99}},
		"no bytes":  {Sizes: []int{0}},
		"too large": {Sizes: []int{64, maxSize + 1}},
		"group":     {Groups: []Group{"records", "everything"}},
		"repeat":    {Repeat: -1},
		"repeats":   {Repeat: maxRepeat + 1},
		"for":       {For: -time.Second},
		"warm-up":   {Warmup: -time.Second},
	} {
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := quick()
	o.Groups = []Group{GroupRecords}
	last := 0
	o.Progress = func(done, _ int) {
		if last = done; done == 3 {
			cancel()
		}
	}
	if report, err := Run(ctx, o); report != nil || !errors.Is(err, context.Canceled) || last != 3 {
		t.Errorf("report %v, error %v, after %d steps", report, err, last)
	}
}

// TestErrorNamesTheOperation: a cipher that is wrong is no figure.
func TestErrorNamesTheOperation(t *testing.T) {
	c := new(machine)
	bad := c.task(0, time.Microsecond)
	bad.group, bad.suite, bad.size = GroupRecords, "sm4-gcm", 64
	bad.verify = func() error { return errRoundTrip }
	err := c.meter().all(t.Context(), Options{Repeat: 1}, []*task{bad})
	if !errors.Is(err, errRoundTrip) || !strings.Contains(err.Error(), `records: test, suite "sm4-gcm", 64 bytes`) {
		t.Errorf("%v", err)
	}
}

func TestJSONForm(t *testing.T) {
	o := quick()
	o.Groups, o.Sizes, o.Suites = []Group{GroupMessages, GroupRecords}, []int{64}, []suite.ID{suite.AES128GCM, suite.Plain}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	report.Machine = DescribeMachine(nil, "v1")
	var b strings.Builder
	if err := report.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal([]byte(b.String()), &document); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, document, "machine", "settings", "results")
	machine := document["machine"].(map[string]any)
	wantKeys(t, machine, "cpu", "cores", "go", "goos", "goarch", "aes", "sealcast")
	wantKeys(t, machine["aes"], "hardware", "found", "missing")
	wantKeys(t, document["settings"], "suites", "sizes", "groups", "repeat", "kept", "for", "warmup", "seed", "clock_cost_ns")
	always := []string{"scenario", "group", "operation", "ops_per_second", "spread_pct", "latency_ns", "cpu_ns_per_op", "cpu_share", "allocs_per_op", "alloc_bytes_per_op"}
	for _, r := range document["results"].([]any) {
		result := r.(map[string]any)
		keys := append([]string{"size", "gb_per_second"}, always...)
		for _, optional := range []string{"suite", "vs_baseline"} {
			if _, ok := result[optional]; ok {
				keys = append(keys, optional)
			}
		}
		wantKeys(t, result, keys...)
		wantKeys(t, result["latency_ns"], "p50", "p99", "samples")
		if result["group"] == "messages" && result["suite"] == "aes-128-gcm" || result["group"] == "records" && result["suite"] == "plain" {
			wantKeys(t, result["vs_baseline"], "operation", "suite", "time_ratio", "cpu_ratio", "spread_pct")
		}
	}
}

func wantKeys(t *testing.T, object any, want ...string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(object.(map[string]any)))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

// TestSuitesAreComparedSideBySide: at each size and operation, with the base.
func TestSuitesAreComparedSideBySide(t *testing.T) {
	o := Options{Suites: []suite.ID{suite.AES128GCM, suite.Plain, suite.SM4GCM}, Sizes: []int{1, 2}}
	named := func(operation string) func(suite.ID, int) *task {
		return func(id suite.ID, size int) *task { return named{operation, id.String(), size}.task() }
	}
	var got []string
	for _, task := range bySize(o, suite.Plain, named("a"), named("b")) {
		against := "none"
		if task.baseline != nil {
			against = fmt.Sprintf("%s %s %d", task.baseline.operation, task.baseline.suite, task.baseline.size)
		}
		got = append(got, fmt.Sprintf("%s %s %d: %s", task.operation, task.suite, task.size, against))
	}
	want := []string{
		"a aes-128-gcm 1: a plain 1", "a plain 1: none", "a sm4-gcm 1: a plain 1",
		"b aes-128-gcm 1: b plain 1", "b plain 1: none", "b sm4-gcm 1: b plain 1",
		"a aes-128-gcm 2: a plain 2", "a plain 2: none", "a sm4-gcm 2: a plain 2",
		"b aes-128-gcm 2: b plain 2", "b plain 2: none", "b sm4-gcm 2: b plain 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, task := range bySize(o, suite.AES256GCM, named("a")) {
		if task.baseline != nil {
			t.Error("compared with a suite that is not measured")
		}
	}
}
