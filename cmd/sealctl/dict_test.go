package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/internal/feed"
	"github.com/sealcast/sealcast/wire/codec"
)

// writeFeed writes a made-up feed as a recording.
func writeFeed(t *testing.T, ticks int) string {
	t.Helper()
	var b bytes.Buffer
	market := feed.NewSynthetic(10, 1)
	for i := range ticks {
		name, payload := market.Next()
		fmt.Fprintf(&b, "%d\t%s\t%s\n", 100*i, name, payload)
	}
	path := filepath.Join(t.TempDir(), "feed.tsv")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDictTrain(t *testing.T) {
	path := writeFeed(t, 2000)
	out := filepath.Join(t.TempDir(), "dict")
	run(strings.Fields("dict train "+path+" -o "+out+" --size 4KiB")...).expect(t, statusDone, out, "from 2000 ticks")
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := codec.ParseDictionary(b); err != nil || len(d.Bytes()) > 6<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestDictMisuse(t *testing.T) {
	path := writeFeed(t, 1)
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"dict", statusUsage, "dict train FILE"},
		{"dict learn", statusUsage, "unknown command"},
		{"dict train", statusUsage, "FILE... is missing"},
		{"dict train " + path, statusUsage, "-o is missing"},
		{"dict train " + path + " -o x --size 3", statusUsage, "no size"},
		{"dict train " + path + " -o /dev/null", statusFailed, "ticks or more"},
		{"dict train /nowhere -o /dev/null", statusFailed, "no such file"},
		{"bench compression " + path + " --batch 0", statusUsage, "no number of ticks"},
		{"bench compression " + path + " -o xml", statusUsage, "no format"},
		{"bench compression " + path + " --for 0s", statusUsage, "more than 0"},
	} {
		r := run(strings.Fields(tt.args)...)
		r.expect(t, tt.status)
		if !bytes.Contains([]byte(r.stderr), []byte(tt.want)) {
			t.Errorf("%s: %s; want %q", tt.args, r.stderr, tt.want)
		}
	}
}

func TestBenchCompression(t *testing.T) {
	path := writeFeed(t, 2000)
	run(strings.Fields("bench compression "+path+" --batch 1,50 --for 1ms")...).expect(t, statusDone, "feed.tsv", "snappy", "zstd with a dictionary", "payload by frame")
	var results []compressed
	r := run(strings.Fields("bench compression " + path + " --batch 50 --for 1ms -o json")...)
	if err := json.Unmarshal([]byte(r.stdout), &results); err != nil || len(results) != 3 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, c := range results {
		if c.Ratio < 1.5 || c.PackUS <= 0 || c.UnpackUS <= 0 {
			t.Errorf("%+v", c)
		}
	}
}
