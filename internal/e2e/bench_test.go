package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// benchDoc is what the JSON of `sealctl bench` must hold, by its public names.
type benchDoc struct {
	Machine, Settings map[string]any
	Results           []map[string]any
	Partial           string
	Recommendation    map[string]any
	Thresholds        []map[string]any
}

// bench runs a load test to its end.
func bench(t *testing.T, args ...string) (*process, benchDoc) {
	t.Helper()
	p := start(t, "sealctl", append(append([]string{"bench"}, args...), "-o", "json"))
	p.end()
	var doc benchDoc
	if p.stdout.String() != "" {
		if err := json.Unmarshal([]byte(p.stdout.String()), &doc); err != nil {
			t.Fatalf("%v in %.2000s", err, p.stdout.String())
		}
	}
	return p, doc
}

// fields wants exactly these names, or at least these if more is set.
func fields(t *testing.T, what string, got any, more bool, want string) map[string]any {
	t.Helper()
	object, ok := got.(map[string]any)
	if !ok {
		t.Fatalf("%s is %v, want an object", what, got)
	}
	names := strings.Fields(want)
	for _, name := range names {
		if _, ok := object[name]; !ok {
			t.Errorf("%s has no %s: %v", what, name, slices.Sorted(maps.Keys(object)))
		}
	}
	if !more && len(object) != len(names) {
		t.Errorf("%s holds %v, want %v", what, slices.Sorted(maps.Keys(object)), names)
	}
	return object
}

// wantResult holds a result against the public format and against reason.
func wantResult(t *testing.T, r map[string]any) {
	t.Helper()
	fields(t, "result", r, true, "scenario suite size connections rate_asked rate_reached messages errors latency_us gateway generator repeats spread")
	latency := fields(t, "latency_us", r["latency_us"], false, "avg p50 p95 p99 p999 max p99_to_p50 samples")
	gateway := fields(t, "gateway", r["gateway"], true, "cpu_seconds cores rss_start_bytes rss_peak_bytes rss_end_bytes gc_count gc_pauses_ms")
	fields(t, "generator", r["generator"], false, "cpu_seconds cores late_sends late_by_generator bottleneck processes connecting_seconds")
	if gateway["rss_peak_bytes"].(float64) < 1<<20 {
		t.Errorf("a gateway of %v bytes", gateway["rss_peak_bytes"])
	}
	last := 0.0
	for _, name := range []string{"p50", "p95", "p99", "p999", "max"} {
		v := latency[name].(float64)
		if v < last || r["messages"].(float64) > 0 && v <= 0 {
			t.Errorf("%s is %v, after %v", name, v, last)
		}
		last = v
	}
	if r["errors"].(float64) != 0 {
		t.Errorf("%v of %v: errors %v", r["scenario"], r["suite"], r["errors_by_kind"])
	}
}

// One case of each sort of echo against a gateway that is started for it.
func TestBenchEcho(t *testing.T) {
	p, doc := bench(t, "echo", "--start", "--suites", "plain,aes-256-gcm,chacha20-poly1305,websocket", "--size", "2KiB",
		"--connections", "20", "--rate", "400", "--load", "single,rate,saturate", "--for", "200ms", "--warmup", "50ms", "--repeat", "2",
		"--threshold", "echo.p99<1h", "--threshold", "echo/rate.reached>1%", "--threshold", "echo.errors<1")
	p.expect(0)
	fields(t, "machine", doc.Machine, true, "cpu cores goos goarch go aes_hardware sealctl gateways gateway_aes_hardware same_machine")
	fields(t, "settings", doc.Settings, true, "command started gateway for warmup repeat seed")
	if len(doc.Results) != 4*3 {
		t.Errorf("%d results, want one for each of 4 suites, 3 loads", len(doc.Results))
	}
	for _, r := range doc.Results {
		wantResult(t, r)
		if r["messages"].(float64) == 0 || r["repeats"].(float64) != 2 {
			t.Errorf("%v messages in %v repeats", r["messages"], r["repeats"])
		}
		if gateway := r["gateway"].(map[string]any); r["load"] == "saturate" && r["suite"] != "websocket" && (gateway["seal_us"] == nil || gateway["open_us"] == nil) {
			t.Errorf("no times of sealing and opening: %v", gateway)
		}
		_, compared := r["vs_baseline"]
		if compared != (r["suite"] != "plain") {
			t.Errorf("%v is compared with plain: %v", r["suite"], compared)
		}
		if compared {
			fields(t, "vs_baseline", r["vs_baseline"], true, "latency_pct throughput_pct")
		}
	}
	if len(doc.Thresholds) == 0 || doc.Recommendation["suite"] == "" || doc.Recommendation["rule"] == "" {
		t.Errorf("thresholds %v, recommendation %v", doc.Thresholds, doc.Recommendation)
	}
}

func TestBenchRise(t *testing.T) {
	p, doc := bench(t, "echo", "--start", "--suites", "aes-128-gcm", "--load", "rise", "--connections", "8", "--for", "800ms", "--warmup", "0s")
	p.expect(0)
	for i, r := range doc.Results {
		if wantResult(t, r); r["connections"].(float64) != float64(int(1)<<i) {
			t.Errorf("step %d has %v connections", i, r["connections"])
		}
	}
}

func TestBenchMissedThreshold(t *testing.T) {
	quick := []string{"echo", "--start", "--suites", "aes-128-gcm", "--connections", "1", "--rate", "100", "--for", "100ms", "--warmup", "0s"}
	p, doc := bench(t, append(quick, "--threshold", "echo.p99<1ns")...)
	p.expect(99, "error: 1 of 1 thresholds were missed", "hint: ")
	if len(doc.Thresholds) != 1 || doc.Thresholds[0]["met"] != false {
		t.Errorf("thresholds %v", doc.Thresholds)
	}
	p, _ = bench(t, append(quick, "--threshold", "fanout.p99<1h")...)
	p.expect(99) // what was not measured is not known to be kept
	p, _ = bench(t, append(quick, "--threshold", "echo.p98<1ms")...)
	p.expect(2, "there is no metric")
}

func TestBenchGatewayThatIsNotThere(t *testing.T) {
	p, _ := bench(t, "echo", "ws://"+freeAddress(t)+"/echo", "--insecure")
	p.expect(3, "error: ", "hint: ")
	p, _ = bench(t, "echo", "--start", "--gateway", "/nonexistent")
	p.expect(1, "gateway not started", "hint: ")
	p, _ = bench(t, "echo", "--start", "--set", "nonsense=1")
	p.expect(1, "nonsense")
	p, _ = bench(t, "echo")
	p.expect(2, "--start")
}

// A gateway that is running, with and without its admin interface.
func TestBenchRunningGateway(t *testing.T) {
	g := serve(t, []string{"admin.token=secret"})
	args := []string{"echo", "ws://" + g.listen + "/echo", "--suites", "aes-128-gcm", "--connections", "3", "--rate", "100", "--for", "200ms", "--warmup", "0s"}
	p, _ := bench(t, args...)
	p.expect(3, "is unknown", "--key")
	p, doc := bench(t, append(args, "--insecure")...)
	p.expect(0)
	if doc.Results[0]["gateway"] != nil || !strings.Contains(doc.Settings["more"].(map[string]any)["gateway_figures"].(string), "unavailable") {
		t.Errorf("gateway %v, settings %v", doc.Results[0]["gateway"], doc.Settings)
	}
	p, _ = bench(t, append(args, "--insecure", "--admin", "http://"+g.admin)...)
	p.expect(3, "--admin-token")
	p, doc = bench(t, append(args, "--insecure", "--admin", "http://"+g.admin, "--admin-token", "secret")...)
	p.expect(0)
	wantResult(t, doc.Results[0])
	p, _ = bench(t, append(args, "--insecure", "--suites", "plain")...)
	p.expect(3, "does not accept the suite plain")
}

// A gateway that dies while it is measured leaves a partial result.
func TestBenchGatewayDies(t *testing.T) {
	g := serve(t, nil)
	p := start(t, "sealctl", []string{"bench", "echo", "ws://" + g.listen + "/echo", "--insecure", "--admin", g.admin, "--suites", "aes-128-gcm",
		"--connections", "5", "--rate", "500", "--for", "1h", "--warmup", "0s", "-o", "json"})
	eventually(t, patience, "load", func() bool { return g.metric(`sealcast_records_total{direction="in"}`) > 200 })
	g.signal(9)
	p.expect(1, "partial", "all connections were lost")
	var doc benchDoc
	if err := json.Unmarshal([]byte(p.stdout.String()), &doc); err != nil {
		t.Fatalf("%v in %.2000s", err, p.stdout.String())
	}
	if doc.Partial == "" || len(doc.Results) != 1 || doc.Results[0]["partial"] == "" || doc.Results[0]["errors_by_kind"].(map[string]any)["lost"] != 5.0 {
		t.Errorf("partial %q, results %v", doc.Partial, doc.Results)
	}
}

// Fewer descriptors than connections: said before anything is tried.
func TestBenchDescriptors(t *testing.T) {
	g := serve(t, nil)
	p := start(t, "sealctl", []string{"bench", "echo", "ws://" + g.listen + "/echo", "--insecure", "--suites", "aes-128-gcm", "--connections", "1000"}, shell("ulimit -n 200"))
	p.expect(1, "descriptors of one generator process", "ulimit -n")
}

// What one command measures, another shows: as a table, as a page that needs no
// network, beside an earlier run.
func TestBenchReport(t *testing.T) {
	var files []string
	for _, seed := range []string{"1", "2"} {
		p, doc := bench(t, "echo", "--start", "--suites", "plain,aes-128-gcm", "--connections", "2", "--rate", "200", "--for", "200ms", "--warmup", "0s", "--seed", seed)
		if p.expect(0); doc.Settings["seed"] == nil {
			t.Errorf("settings %v", doc.Settings)
		}
		name := filepath.Join(t.TempDir(), seed+".json")
		if err := os.WriteFile(name, []byte(p.stdout.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	show := func(status int, args ...string) string {
		p := start(t, "sealctl", append([]string{"report"}, args...))
		p.expect(status)
		return p.stdout.String()
	}
	if text := show(0, files[0]); !strings.Contains(text, "aes-128-gcm") || !strings.Contains(text, "P99.9") {
		t.Errorf("text\n%s", text)
	}
	if text := show(0, files...); !strings.Contains(text, "before: ") || !strings.Contains(text, "echo rate plain") {
		t.Errorf("comparison\n%s", text)
	}
	page := show(0, files[0], files[1], "-o", "html")
	if !strings.Contains(page, "<svg") || !strings.Contains(page, "Compared with") || strings.Contains(page, "<script") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Errorf("page\n%.3000s", page)
	}
	var again benchDoc
	if err := json.Unmarshal([]byte(show(0, files[0], "-o", "json")), &again); err != nil || len(again.Results) != 2 {
		t.Errorf("JSON again: %v, %d results", err, len(again.Results))
	}
	show(2, files[0], "-o", "pdf")
	show(1, filepath.Join(t.TempDir(), "nothing.json"))
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	show(1, other)
}

// A profile of the gateway over the measured part.
func TestBenchProfile(t *testing.T) {
	dir := t.TempDir()
	p, _ := bench(t, "echo", "--start", "--suites", "aes-128-gcm", "--connections", "1", "--rate", "100", "--for", "1s", "--warmup", "0s", "--profile", dir)
	p.expect(0)
	found, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil || len(found) != 2 {
		t.Errorf("profiles %v, %v; want one of the processor, one of the heap", found, err)
	}
}
