package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// How a tail ends: with what was asked for, or too late, or interrupted.
func TestTailEnds(t *testing.T) {
	g := serve(t, []string{everyTick})
	tail := func(args ...string) *process {
		return start(t, "sealctl", append([]string{"tail", g.url(), "--key", g.pin().String(), "-o", "json"}, args...))
	}
	enough := tail("--count", "5", "--for", "30s")
	enough.expect(0)
	ticks := slices.DeleteFunc(jsonLines(t, enough.stdout.String()), func(l jsonLine) bool { return l.Event == "snapshot" })
	if len(ticks) != 5 {
		t.Errorf("%d ticks:\n%s", len(ticks), enough.stdout.String())
	}
	tail("--topics", "quiet", "--count", "1", "--for", "300ms").expect(1, "sealctl: error: 0 of 1 ticks came within 300ms", "hint: ")
	tail("--topics", "quiet", "--for", "300ms").expect(0)

	for sig, args := range map[syscall.Signal][]string{syscall.SIGINT: nil, syscall.SIGTERM: {"--for", "1h"}} {
		p := tail(args...)
		eventually(t, patience, "a tick", func() bool { return p.stdout.String() != "" })
		p.signal(sig)
		p.expect(0)
		jsonLines(t, p.stdout.String()) // each complete
	}
	p := tail("--count", "1000000")
	eventually(t, patience, "a tick", func() bool { return p.stdout.String() != "" })
	p.signal(syscall.SIGINT)
	p.expect(1, "sealctl: error: interrupted after ")
}

// `sealctl tail | head -1` ends with its reader, silently, as such programs do.
func TestTailIntoClosedPipe(t *testing.T) {
	g := serve(t, []string{everyTick})
	for _, format := range []string{"text", "json", "raw"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, "sealctl", []string{"tail", g.url(), "--key", g.pin().String(), "--topics", "md:*:*:trade", "-o", format}, func(cmd *exec.Cmd) { cmd.Stdout = w })
		_ = w.Close() // the process has it
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Error(err)
		}
		_ = r.Close()
		if p.end(); p.killedBy != syscall.SIGPIPE || p.stderr.String() != "" {
			t.Errorf("%s: status %d, %v, %s", format, p.status, p.killedBy, p.stderr.String())
		}
	}
	full := start(t, "sealctl", []string{"tail", g.url(), "--key", g.pin().String()}, shell("exec >/dev/full"))
	full.expect(1, "sealctl: error: standard output: ", "no space left")
}

// A reader that pauses for a while loses nothing as long as slow.queue holds it.
func TestTailIsPaused(t *testing.T) {
	g := serve(t, []string{everyTick})
	const ticks = 3000
	p := start(t, "sealctl", []string{"tail", g.url(), "--key", g.pin().String(), "--topics", "md:synth:**", "-o", "json", "--count", strconv.Itoa(ticks), "--for", "60s"})
	feed := start(t, "sealctl", []string{"feed", "--redis", g.redis(), "--symbols", "10", "--rate", "3000", "--count", "100000"})
	eventually(t, patience, "a tick", func() bool { return p.stdout.String() != "" })
	p.signal(syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond) // what is published meanwhile waits at the gateway
	p.signal(syscall.SIGCONT)
	p.expect(0)
	seqs := map[string]uint64{}
	for _, l := range jsonLines(t, p.stdout.String()) {
		if before, known := seqs[l.Topic]; l.Event != "" || known && l.Seq != before+1 {
			t.Fatalf("%+v after %d", l, before)
		}
		seqs[l.Topic] = l.Seq
	}
	feed.signal(syscall.SIGINT)
	feed.expect(0)
}

// What cannot be meant is refused with status 2 before anything is sent.
func TestUsageErrors(t *testing.T) {
	url := "ws://" + freeAddress(t) + "/ws"
	for _, args := range [][]string{
		{},
		{"tial", url},
		{"tail"},
		{"tail", url, url},
		{"tail", "http://127.0.0.1:8080/ws"},
		{"tail", "127.0.0.1:8080"},
		{"tail", ""},
		{"tail", url, "--topics", ""},
		{"tail", url, "--topics", "md:**:x"},
		{"tail", url, "--topics", "md:a*"},
		{"tail", url, "--topics", "a\nb"},
		{"tail", url, "--topics", "\xff"},
		{"tail", url, "--topics", strings.Repeat("x", 256)},
		{"tail", url, "--suite", "rot13"},
		{"tail", url, "--key", "abc"},
		{"tail", url, "--key", strings.Repeat("A", 43), "--insecure"},
		{"tail", url, "--insecure", "--token", "t"},
		{"tail", url, "--count", "-1"},
		{"tail", url, "--count", "many"},
		{"tail", url, "--for", "5"},
		{"tail", url, "--colour"},
		{"tail", url, "-o", "xml"},
		{"publish"},
		{"publish", "", "x"},
		{"publish", "md:*", "x"},
		{"publish", "a", "b", "c"},
		{"feed"},
		{"feed", "--file", "a", "--symbols", "3"},
		{"feed", "--symbols", "-3"},
		{"feed", "--symbols", "3", "--speed", "fast"},
		{"feed", "--symbols", "3", "--rate", "0"},
		{"info"},
		{"info", url, "-o", "xml"},
	} {
		p := sealctl(t, args...)
		p.expect(2, "sealctl: error: ", "hint: ")
		if p.stdout.String() != "" {
			t.Errorf("%q: output %q", args, p.stdout.String())
		}
	}
}

// Commands that meet a Redis that is away, or a file that is no recording.
func TestFeedFails(t *testing.T) {
	g := serve(t, nil)
	nobody := freeAddress(t)
	notATable := filepath.Join(t.TempDir(), "feed.tsv")
	if err := os.WriteFile(notATable, []byte("0\tmd:a\tok\nhello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   []string
	}{
		{[]string{"publish", "a", "x", "--redis", nobody}, 3, []string{"redis " + nobody, "connection refused", "hint: "}},
		{[]string{"feed", "--symbols", "3", "--redis", nobody}, 3, []string{"redis " + nobody, "connection refused", "hint: "}},
		{[]string{"feed", "--file", "/nowhere", "--redis", g.redis()}, 1, []string{"/nowhere", "no such file"}},
		{[]string{"feed", "--file", notATable, "--redis", g.redis()}, 1, []string{notATable, "line 2", "not a recorded feed"}},
	} {
		sealctl(t, c.args...).expect(c.status, append(c.says, "sealctl: error: ")...)
	}
	tooLong := start(t, "sealctl", []string{"publish", "a", "--redis", g.redis()}, stdin(strings.NewReader(largest+"x")))
	tooLong.expect(1, "sealctl: error: ", "longer than 1048576 bytes")
}
