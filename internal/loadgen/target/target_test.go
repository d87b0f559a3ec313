package target

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const metrics = `# HELP process_cpu_seconds_total text
process_cpu_seconds_total 12.5
process_resident_memory_bytes 3.1e+07
go_gc_duration_seconds{quantile="0"} 1e-05
go_gc_duration_seconds{quantile="1"} 0.002
go_gc_duration_seconds_sum 0.25
go_gc_duration_seconds_count 40
sealcast_seal_seconds_sum 2e-05
sealcast_seal_seconds_count 10
sealcast_loop_lag_seconds_bucket{le="0.001"} 90
sealcast_loop_lag_seconds_bucket{le="0.01"} 99
sealcast_loop_lag_seconds_bucket{le="+Inf"} 100
sealcast_loop_stalls_total 3
sealcast_records_total{direction="in"} 5
sealcast_records_total{direction="out"} 7
`

func TestParseMetrics(t *testing.T) {
	s, err := ParseMetrics(strings.NewReader(metrics))
	if err != nil {
		t.Fatal(err)
	}
	if s.CPUSeconds != 12.5 || s.RSS != 31e6 || s.GCCount != 40 || s.GCPauses != 0.25 || s.GCLongest != 0.002 || s.Stalls != 3 {
		t.Errorf("sample %+v", s)
	}
	if mean, ok := s.Seal.Since(Timed{Count: 6, Sum: 1.2e-5}); !ok || mean < 1.99e-6 || mean > 2.01e-6 {
		t.Errorf("seal: %v, %v, want 2 µs", mean, ok)
	}
	if _, ok := s.Open.Since(Timed{}); ok {
		t.Error("what was never timed has a mean")
	}
	if s.Counters["sealcast_records_total"] != 12 || s.Counters[`sealcast_records_total{direction="in"}`] != 5 {
		t.Errorf("counters %v", s.Counters)
	}
	for _, tt := range []struct{ p, want float64 }{{0.5, 0.001}, {0.95, 0.01}, {1, 0.01}} {
		if got := s.Lag.Quantile(Spread{}, tt.p); got != tt.want {
			t.Errorf("quantile %v: %v, want %v", tt.p, got, tt.want)
		}
	}
	if got := s.Lag.Quantile(s.Lag, 0.5); got != 0 {
		t.Errorf("quantile of nothing new: %v", got)
	}
	for _, bad := range []string{"nonsense\n", "name value\n"} {
		if _, err := ParseMetrics(strings.NewReader(bad)); !errors.Is(err, ErrAdmin) {
			t.Errorf("%q: %v, want ErrAdmin", bad, err)
		}
	}
}

func TestAdmin(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(metrics))
	})
	mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.RawQuery)) })
	mux.HandleFunc("/debug/pprof/heap", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("heap")) })
	server := httptest.NewServer(mux)
	defer server.Close()
	a, err := NewAdmin(strings.TrimPrefix(server.URL, "http://"), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := a.Sample(t.Context()); err != nil || s.GCCount != 40 {
		t.Errorf("sample %+v, %v", s, err)
	}
	stranger, _ := NewAdmin(server.URL, "")
	var status *StatusError
	if _, err := stranger.Sample(t.Context()); !errors.As(err, &status) || status.Status != http.StatusUnauthorized {
		t.Errorf("without the token: %v", err)
	}
	if _, err := a.Info(t.Context()); !errors.As(err, &status) || status.Status != http.StatusNotFound {
		t.Errorf("what is not there: %v", err)
	}
	prefix := filepath.Join(t.TempDir(), "new", "case")
	if err := a.Profile(t.Context(), 2*time.Second, prefix); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{".cpu.pprof": "seconds=2", ".heap.pprof": "heap"} {
		if got, err := os.ReadFile(prefix + name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "ftp://host", "http://"} {
		if _, err := NewAdmin(bad, ""); !errors.Is(err, ErrAdmin) {
			t.Errorf("%q: %v, want ErrAdmin", bad, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	if _, err := FindGateway("/nonexistent"); !errors.Is(err, ErrStart) {
		t.Errorf("no program: %v", err)
	}
	script := filepath.Join(t.TempDir(), "gateway")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho 'sealcast: error: no luck' >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(context.Background(), script, nil); !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("a program that ends: %v", err)
	}
}
