package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/internal/redistest"
)

// quickBench keeps a case short.
var quickBench = []string{"--start", "--for", "300ms", "--warmup", "100ms"}

func quick(scenario string, args ...string) []string {
	return append(append([]string{scenario}, quickBench...), args...)
}

// Ticks through a real Redis, to groups, in variants of the gateway's settings.
func TestBenchFanout(t *testing.T) {
	p, doc := bench(t, quick("fanout", "--suites", "plain,aes-128-gcm", "--subscribers", "1,5", "--topics", "2", "--rate", "200",
		"--codecs", "zstd", "--vary", "batch.max_ticks=256|1", "--vary", "compress.codecs=[zstd]|[none]")...)
	p.expect(0)
	if len(doc.Results) != 2*2*4 {
		t.Errorf("%d results, want one for each of 2 suites, 2 groups, 4 variants", len(doc.Results))
	}
	for _, r := range doc.Results {
		wantResult(t, r)
		counts := r["counts"].(map[string]any)
		published, each := counts["ticks published"].(float64), r["subscribers"].(float64)
		if published == 0 || counts["ticks delivered"].(float64) != published*each {
			t.Errorf("%v of %v ticks were delivered to groups of %v", counts["ticks delivered"], published, each)
		}
		_, compressed := counts["compressed bytes"]
		if r["variant"] == "batch.max_ticks=1 compress.codecs=[none]" && compressed {
			t.Errorf("without compression: %v", counts)
		}
	}
}

// Batches that are sealed once for a group are verified as all others.
func TestBenchGroups(t *testing.T) {
	p, doc := bench(t, quick("fanout", "--suites", "aes-128-gcm", "--subscribers", "10", "--rate", "200", "--set", "fanout.seal=group")...)
	p.expect(0)
	wantResult(t, doc.Results[0])
	if counts := doc.Results[0]["counts"].(map[string]any); counts["group records"] == nil || counts["ticks delivered"].(float64) != 10*counts["ticks published"].(float64) {
		t.Errorf("counts %v", counts)
	}
}

// A variant that the gateway refuses is left out, and said so.
func TestBenchVariantRefused(t *testing.T) {
	p, doc := bench(t, quick("echo", "--suites", "aes-128-gcm", "--connections", "2", "--rate", "100", "--vary", "limits.fragments=16|nonsense")...)
	p.expect(0, "limits.fragments=nonsense is left out")
	if len(doc.Results) != 1 || doc.Results[0]["variant"] != "limits.fragments=16" {
		t.Errorf("results %v", doc.Results)
	}
}

// Connections of one process to one gateway, and of two to two.
func TestBenchIdle(t *testing.T) {
	for _, args := range [][]string{nil, {"--gateways", "2"}} {
		p, doc := bench(t, quick("idle", append(args, "--connections", "60", "--steps", "3", "--active", "0.5", "--rate", "10")...)...)
		p.expect(0)
		r := doc.Results[0]
		wantResult(t, r)
		memory := r["memory"].([]any)
		if last := memory[len(memory)-1].(map[string]any); len(memory) != 3 || last["connections"] != 60.0 || last["rss_bytes"].(float64) < 1<<20 {
			t.Errorf("memory %v", memory)
		}
		if want := 1.0 + float64(len(args)); r["generator"].(map[string]any)["processes"] != want || r["messages"].(float64) == 0 {
			t.Errorf("%v messages of %v, want processes %v", r["messages"], r["generator"], want)
		}
	}
}

func TestBenchHandshake(t *testing.T) {
	p, doc := bench(t, quick("handshake", "--connections", "2")...)
	p.expect(0)
	seen := map[any]int{}
	for _, r := range doc.Results {
		wantResult(t, r)
		if seen[r["variant"]]++; r["messages"].(float64) == 0 {
			t.Errorf("no handshake: %v", r)
		}
	}
	if len(seen) != 3 || seen["new"] != 2 || seen["hybrid"] != 2 || seen["resumed"] != 2 {
		t.Errorf("ways to begin: %v, want three, each alone and with ticks", seen)
	}
}

// Noise is counted, and healthy clients have no errors.
func TestBenchMixed(t *testing.T) {
	p, doc := bench(t, "mixed", "--start", "--for", "3s", "--warmup", "100ms", "--connections", "20", "--rate", "100", "--noise", "2",
		"--set", "heartbeat.interval=500ms", "--set", "heartbeat.timeout=1500ms")
	p.expect(0)
	r := doc.Results[0]
	wantResult(t, r)
	counts := r["counts"].(map[string]any)
	for _, name := range []string{"illegal frames", "oversized messages", "disconnects", "ticks published"} {
		if n, _ := counts[name].(float64); n == 0 {
			t.Errorf("no %s: %v", name, counts)
		}
	}
}

// Of two sessions of a user one goes, as auth.on_duplicate says, and no healthy
// client is harmed; also at a gateway that runs already.
func TestBenchMixedDuplicates(t *testing.T) {
	common := []string{"--for", "3s", "--warmup", "100ms", "--connections", "10", "--rate", "50", "--noise", "3"}
	p, doc := bench(t, append([]string{"mixed", "--start", "--on-duplicate", "reject"}, common...)...)
	p.expect(0)
	wantDuplicates(t, doc.Results[0])

	redis, secret := redistest.Start(t), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(tokenSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	g := serve(t, fromRedis(redis, "auth.mode=jwt", "auth.keys=[{alg: HS256, secret: "+tokenSecret+"}]", "auth.on_duplicate=replace"))
	named := []string{"mixed", "ws://" + g.listen + "/ws", "--key", g.pin().String(), "--redis", redis.Addr, "--suites", "aes-128-gcm"}
	p, doc = bench(t, slices.Concat(named, common, []string{"--secret-file", secret, "--admin", "http://" + g.admin})...)
	p.expect(0)
	wantDuplicates(t, doc.Results[0])

	p, _ = bench(t, append(named, "--on-duplicate", "reject")...)
	p.expect(2, "--on-duplicate belongs to --start", "hint: ")
	p, _ = bench(t, "mixed", "--start", "--on-duplicate", "twice")
	p.expect(2, "there is no twice", "hint: ")
	p, _ = bench(t, "mixed", "--start", "--secret-file", secret)
	p.expect(2, "--secret-file belongs to a running gateway", "hint: ")
}

func wantDuplicates(t *testing.T, r map[string]any) {
	t.Helper()
	wantResult(t, r)
	counts := r["counts"].(map[string]any)
	for _, name := range []string{"duplicate logins", "noise: closed 4409", "ticks published"} {
		if n, _ := counts[name].(float64); n == 0 {
			t.Errorf("no %s: %v", name, counts)
		}
	}
}

// A short run of everything, as one document.
func TestBenchAll(t *testing.T) {
	p, doc := bench(t, "all", "--start", "--for", "100ms", "--warmup", "0s", "--suites", "aes-256-gcm")
	p.expect(0)
	seen := map[any]bool{}
	for _, r := range doc.Results {
		seen[r["scenario"]] = true
	}
	if len(seen) != 5 {
		t.Errorf("scenarios %v, want five", seen)
	}
}
