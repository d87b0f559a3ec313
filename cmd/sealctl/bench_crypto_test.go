package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/internal/advice"
)

// bench runs `sealctl bench` with stderr a terminal or not.
func bench(ctx context.Context, terminal bool, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, terminal: func(any) bool { return terminal }}
	err = a.bench(ctx, args)
	return out.String(), errs.String(), err
}

const quickCrypto = "crypto --for 1ms --warmup 1ms --repeat 3 --suites aes-128-gcm,plain --size 64,1KiB --only records,messages"

func TestBenchCrypto(t *testing.T) {
	stdout, stderr, err := bench(t.Context(), false, strings.Fields(quickCrypto)...)
	if err != nil || stderr != "" {
		t.Fatalf("%v, %q", err, stderr)
	}
	for _, text := range []string{"3 repeats of 1ms, 3 of them count", "aes-128-gcm", "1 KiB", "encode and seal", "× plain"} {
		if !strings.Contains(stdout, text) {
			t.Errorf("%q is missing in:\n%s", text, stdout)
		}
	}
	if strings.Contains(stdout, "chacha20") || strings.Contains(stdout, "RSA") {
		t.Errorf("more than asked for:\n%s", stdout)
	}
}

func TestBenchCryptoJSON(t *testing.T) {
	stdout, stderr, err := bench(t.Context(), true, strings.Fields(quickCrypto+" -o json --seed 7")...)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Machine  struct{ CPU, Go, Sealcast string }
		Settings struct {
			Sizes []int
			Seed  uint64
		}
		Results []struct{ Scenario, Operation string }
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Machine.CPU == "" || report.Machine.Go == "" || report.Machine.Sealcast == "" ||
		report.Settings.Seed != 7 || len(report.Settings.Sizes) != 2 || len(report.Results) != 20 || report.Results[0].Scenario != "crypto" {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(stderr, "of 80 measurements") || !strings.HasSuffix(stderr, "\r\x1b[K") {
		t.Errorf("progress on a terminal: %q", stderr)
	}
}

func TestBenchMisuse(t *testing.T) {
	for _, test := range []struct{ args, text string }{
		{"", "nothing to measure"},
		{"nonsense", `no benchmark "nonsense"`},
		{"crypto ws://x/", "unexpected argument"},
		{"crypto --suites aes", `no suite "aes"`},
		{"crypto --size 0", `"0" is no size`},
		{"crypto --size 64,2MiB", `"2MiB" is no size`},
		{"crypto --size 1025KiB", "between 1 and"},
		{"crypto --only rsa", `no group "rsa"`},
		{"crypto --repeat 0", "--repeat"},
		{"crypto --repeat 100000", "repeats"},
		{"crypto --for 0s", "--for"},
		{"crypto --warmup -1s", "--warmup"},
		{"crypto -o yaml", `no format "yaml"`},
	} {
		_, _, err := bench(t.Context(), false, strings.Fields(test.args)...)
		var f *advice.Error
		if !errors.As(err, &f) || f.Status != statusUsage || f.Hint == "" && !strings.Contains(err.Error(), "--") || !strings.Contains(err.Error(), test.text) {
			t.Errorf("bench %s: %v", test.args, err)
		}
	}
}

func TestBenchUsage(t *testing.T) {
	if stdout, _, err := bench(t.Context(), false, "-h"); err != nil || !strings.Contains(stdout, "usage: sealctl bench WHAT") {
		t.Errorf("%v, %q", err, stdout)
	}
	stdout, _, err := bench(t.Context(), false, "crypto", "-h")
	for _, text := range []string{"usage: sealctl bench crypto [flags]", "--suites LIST", "default 40ms", "public-key"} {
		if err != nil || !strings.Contains(stdout, text) {
			t.Errorf("%q is missing in: %v, %s", text, err, stdout)
		}
	}
}

func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := bench(ctx, false, strings.Fields(quickCrypto)...); !errors.Is(err, errInterrupted) {
		t.Errorf("%v", err)
	}
}

// full is an output that takes no more.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestBenchOutputFails(t *testing.T) {
	a := &app{stdout: full{}, stderr: io.Discard, terminal: func(any) bool { return false }}
	if err := a.bench(t.Context(), strings.Fields(quickCrypto)); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
}
