package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/internal/capacity"
)

// The plans that pages show are what the command prints.
func TestPlansOfThePages(t *testing.T) {
	var pages []byte
	for _, name := range []string{"scaling.md", "operations.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page...)
	}
	blocks := regexp.MustCompile("(?s)```sh\n\\$ sealctl ((?:[^\n]*\\\\\n)*[^\n]*)\n(.*?)```").FindAllStringSubmatch(string(pages), -1)
	if len(blocks) < 7 {
		t.Fatalf("only %d plans found", len(blocks))
	}
	for _, b := range blocks {
		args := strings.Fields(strings.ReplaceAll(b[1], "\\\n", " "))
		r := call{}.run(args...)
		if r.status != statusDone || b[2] == "" || !strings.HasPrefix(r.stdout, b[2]) {
			t.Errorf("%v: %d %s\nprints\n%.600s\nand the page has\n%s", args, r.status, r.stderr, r.stdout, b[2])
		}
	}
}

func TestPlanInJSON(t *testing.T) {
	r := call{}.run("plan", "--clients", "1000", "--topics", "10", "--subscriptions", "10", "--lists", "1", "--rate", "10", "--size", "1KiB",
		"--delay", "10ms", "--connects", "50", "--suite", "aes-256-gcm", "--seal", "group", "--codec", "zstd", "--ratio", "2.5",
		"--headroom", "0.5", "--spare", "2", "--cores", "4", "--memory", "2GiB", "--link", "1.5G", "--descriptors", "20000", "--history", "1MiB", "--slow", "10MiB", "-o", "json")
	var p capacity.Plan
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil || r.status != statusDone {
		t.Fatalf("%d %s %v", r.status, r.stderr, err)
	}
	want := capacity.Inputs{Clients: 1000, Topics: 10, PerClient: 10, Lists: 1, Rate: 10, Size: 1024, Connects: 50, DelayMS: 10,
		Suite: "aes-256-gcm", Seal: "group", Codec: "zstd", Ratio: 2.5, Headroom: 0.5, Spare: 2, HistoryBytes: 1 << 20, SlowTotal: 10 << 20,
		Machine: capacity.Machine{Cores: 4, MemoryBytes: 2 << 30, LinkBits: 1.5e9, Descriptors: 20000}}
	if p.Inputs != want || p.Gateways != 3 || len(p.Measured) == 0 || len(p.Parts) != 4 {
		t.Errorf("%+v", p)
	}
}

// Every wrong input is told with a hint and status 2.
func TestPlanRefuses(t *testing.T) {
	good := []string{"plan", "--clients", "100", "--topics", "100"}
	for _, c := range []struct{ args, say string }{
		{"--clients 0", "--clients: between 1"},
		{"--subscriptions 101", "--subscriptions: between 1 and the number of topics"},
		{"--rate -1", "--rate: above 0"},
		{"--size none", `--size: "none" is no amount`},
		{"--size 2MiB", "--size: between 1 byte and 1 MiB"},
		{"--memory 16GB", `--memory: "16GB" is no amount`},
		{"--link NaN", `--link: "NaN" is no amount`},
		{"--suite rot13", `--suite: there is no suite "rot13"`},
		{"--seal never", "--seal: there is no way"},
		{"--codec gzip", "--codec: there is no codec"},
		{"--ratio 3", "--ratio: nothing is compressed"},
		{"--headroom 2", "--headroom: above 0"},
		{"--delay -1s", "--delay: between 0 and 1m"},
		{"-o html", `-o: there is no format "html"`},
		{"more", `unexpected argument "more"`},
		{"--nosuch", "unknown flag --nosuch"},
	} {
		r := call{}.run(append(good[:len(good):len(good)], strings.Fields(c.args)...)...)
		if r.status != statusUsage || !strings.Contains(r.stderr, "sealctl: error: ") || !strings.Contains(r.stderr, c.say) || !strings.Contains(r.stderr, "hint: ") || r.stdout != "" {
			t.Errorf("%s: status %d\n%s%s", c.args, r.status, r.stderr, r.stdout)
		}
	}
	if r := (call{}).run("plan", "--topics", "5"); r.status != statusUsage || !strings.Contains(r.stderr, "--clients is missing") {
		t.Errorf("%d %s", r.status, r.stderr)
	}
	r := call{}.run("plan", "--clients", "10", "--topics", "1000000", "--subscriptions", "1000000", "--rate", "100")
	if r.status != statusFailed || !strings.Contains(r.stderr, "no number of such gateways is enough: each is short of") || !strings.Contains(r.stderr, "hint: ") {
		t.Errorf("%d %s", r.status, r.stderr)
	}
}
