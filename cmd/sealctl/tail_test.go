package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// tail runs `sealctl tail` in the background and returns once the gateway is
// subscribed at its source; all ticks published from now on arrive.
func (w *world) tail(args ...string) <-chan result {
	w.t.Helper()
	done := make(chan result, 1)
	go func() { done <- run(append([]string{"tail", w.url, "--key", w.pin}, args...)...) }()
	db := redis.NewClient(&redis.Options{Addr: w.redis})
	defer db.Close()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		n, err := db.PubSubNumPat(context.Background()).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		if n > 0 {
			return done
		}
		if time.Since(start) > 20*time.Second {
			w.t.Fatal("nobody subscribed")
		}
	}
}

// lines parses JSON lines.
func lines(t *testing.T, out string) []tickLine {
	t.Helper()
	var all []tickLine
	for line := range strings.Lines(out) {
		var l tickLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %.200s", err, line)
		}
		all = append(all, l)
	}
	return all
}

// payload is the tick's payload, whichever way it was printed.
func (l tickLine) payload() string {
	if l.Payload != nil {
		return *l.Payload
	}
	return string(l.Base64)
}

func TestPublishAndTail(t *testing.T) {
	w := newWorld(t)
	tail := w.tail("--topics", "md:*:ticker,other", "--count", "4", "-o", "json", "--for", "20s")
	run("publish", "md:a:ticker", `{"bid":1,"x":"<é>"}`, "--redis", w.redis).expect(t, statusDone, "published 20 bytes on md:a:ticker", "1 subscriber")
	run("publish", "md:a:trade", "not asked for", "--redis", w.redis).expect(t, statusDone)
	run("publish", "--redis", "redis://"+w.redis+"/0", "md:a:ticker", "").expect(t, statusDone, "published 0 bytes")
	call{stdin: "\x00\xff\n"}.run("publish", "other", "--redis", w.redis).expect(t, statusDone, "published 3 bytes")
	call{stdin: "dash", env: map[string]string{"SEALCTL_REDIS": w.redis}}.run("publish", "other", "-").expect(t, statusDone, "published 4 bytes")
	got := <-tail
	got.expect(t, statusDone)
	want := []struct {
		topic, payload string
		seq            uint64
	}{{"md:a:ticker", `{"bid":1,"x":"<é>"}`, 1}, {"md:a:ticker", "", 2}, {"other", "\x00\xff\n", 1}, {"other", "dash", 2}}
	all := lines(t, got.stdout)
	if len(all) != len(want) {
		t.Fatalf("%d ticks:\n%s", len(all), got.stdout)
	}
	for i, l := range all {
		if l.Topic != want[i].topic || l.payload() != want[i].payload || l.Seq != want[i].seq || l.Epoch == 0 || l.Skipped != 0 || l.TimeUS == 0 {
			t.Errorf("tick %d: %+v, %q", i, l, l.payload())
		}
	}
	if !strings.Contains(got.stdout, `"payload":"{\"bid\":1,\"x\":\"<é>\"}"`) || !strings.Contains(got.stdout, `"payload_base64":"AP8K"`) {
		t.Errorf("%s", got.stdout)
	}
}

func TestPublishNobodyThere(t *testing.T) {
	w := newWorld(t)
	run("publish", "a", "x", "--redis", w.redis).expect(t, statusDone, "0 subscribers", "nobody is subscribed")
	call{stdin: strings.Repeat("x", wire.MaxTick+1)}.run("publish", "a", "--redis", w.redis).expect(t, statusFailed, "longer than")
	call{stdin: "typed", terminal: true}.run("publish", "a", "--redis", w.redis).expect(t, statusDone, "Ctrl-D", "published 5 bytes")
}

// Whatever a recording holds, tail prints it byte for byte and in order.
func TestFeedArrivesComplete(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewChaCha8([32]byte{5}))
	want := map[string][]string{}
	var file bytes.Buffer
	zipped := gzip.NewWriter(&file)
	const ticks = 1500
	for i := range ticks {
		payload := make([]byte, random.IntN(200))
		if i%500 == 250 {
			payload = make([]byte, wire.MaxTick)
		}
		for j := range payload {
			payload[j] = byte(random.Uint32())
		}
		payload = bytes.ReplaceAll(payload, []byte("\n"), []byte(" "))
		name := fmt.Sprintf("md:x:%d", random.IntN(7))
		want[name] = append(want[name], string(payload))
		fmt.Fprintf(zipped, "%d\t%s\t%s\n", i*100, name, payload)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "feed.tsv.gz")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	tail := w.tail("--topics", "md:**", "--count", fmt.Sprint(ticks), "-o", "json", "--for", "60s")
	run("feed", "--redis", w.redis, "--file", path, "--speed", "max").expect(t, statusDone, fmt.Sprintf("published %d ticks", ticks))
	got := <-tail
	got.expect(t, statusDone)
	seqs := map[string]uint64{}
	for _, l := range lines(t, got.stdout) {
		seqs[l.Topic]++
		queue := want[l.Topic]
		if len(queue) == 0 || l.payload() != queue[0] || l.Seq != seqs[l.Topic] {
			t.Fatalf("tick %d of %s differs", l.Seq, l.Topic)
		}
		want[l.Topic] = queue[1:]
	}
	for name, rest := range want {
		if len(rest) > 0 {
			t.Errorf("%d ticks of %s did not come", len(rest), name)
		}
	}
}

func TestTailFormats(t *testing.T) {
	w := newWorld(t)
	text, raw := w.tail("--topics", "a", "--count", "1", "--suite", "chacha20-poly1305"), w.tail("--topics", "a,*:**", "--count", "1", "-o", "raw")
	for {
		run("publish", "a", "new\nline", "--redis", w.redis).expect(t, statusDone)
		select {
		case got := <-text:
			got.expect(t, statusDone)
			if !strings.HasSuffix(got.stdout, ` new\nline`+"\n") || !strings.Contains(got.stdout, " a ") {
				t.Errorf("text: %q", got.stdout)
			}
			text = nil
		case got := <-raw:
			if got.status != statusDone || got.stdout != "new\nline\n" {
				t.Errorf("raw: %+v", got)
			}
			raw = nil
		case <-time.After(10 * time.Millisecond):
		}
		if text == nil && raw == nil {
			return
		}
	}
}

func TestTailEnds(t *testing.T) {
	w := newWorld(t)
	base := []string{"tail", w.url, "--key", w.pin}
	run(append(base, "--for", "50ms")...).expect(t, statusDone)
	run(append(base, "--for", "50ms", "--count", "1", "--topics", "none")...).expect(t, statusFailed, "0 of 1 ticks", "50ms")

	interrupt := func(args ...string) result {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(300*time.Millisecond, cancel)
		return call{ctx: ctx}.run(append(base, args...)...)
	}
	interrupt("--topics", "none").expect(t, statusDone)
	interrupt("--topics", "none", "--count", "5").expect(t, statusFailed, "interrupted after 0 of 5")

	tail := w.tail("--topics", "none:*", "--no-reconnect")
	w.stop()
	(<-tail).expect(t, statusRefused, "1012", "hint: run the command again")
	run(append(base, "--for", "5s")...).expect(t, statusRefused, "cannot be reached") // never came about
}

// A tail goes on when its connection does not, and says what happened.
func TestTailComesBack(t *testing.T) {
	w := newWorld(t)
	for format, want := range map[string][]string{
		"json": {`{"event":"disconnected","code":1012,"text":"`, `"retry_ms":`, `{"event":"connected"`, `{"topic":"a","seq":`, `"payload":"late"`},
		"text": {"sealctl: disconnected: ", "1012", "; trying again in ", "sealctl: connected again\n", " late\n"},
	} {
		tail := w.tail("--topics", "a,b:*", "-o", format, "--count", "2", "--for", "30s")
		run("publish", "a", "early", "--redis", w.redis).expect(t, statusDone, "1 subscriber")
		w.endSession()
		for done := false; !done; time.Sleep(20 * time.Millisecond) {
			select {
			case got := <-tail:
				got.expect(t, statusDone, want...)
				done = true
			default:
				run("publish", "a", "late", "--redis", w.redis).expect(t, statusDone)
			}
		}
	}
}

// endSession sends every session away, to come back.
func (w *world) endSession() {
	w.t.Helper()
	ctx := w.t.Context()
	sessions, _, err := w.gateway.Sessions(ctx, 0, 10, "")
	for _, s := range sessions {
		if err == nil {
			_, err = w.gateway.EndSession(ctx, s.ID, true)
		}
	}
	if err != nil || len(sessions) == 0 {
		w.t.Fatalf("%d sessions, %v", len(sessions), err)
	}
}

func TestTailRefused(t *testing.T) {
	w := newWorld(t)
	var filters []string
	for i := range 150 {
		filters = append(filters, fmt.Sprint("t", i))
	}
	run("tail", w.url, "--key", w.pin, "--topics", strings.Join(filters, ","), "--for", "200ms", "-o", "json").
		expect(t, statusDone, `{"event":"refused","filter":"t149","code":4429`)
}

func TestInfo(t *testing.T) {
	w := newWorld(t)
	run("info", w.url).expect(t, statusDone, w.pin, "NOT VERIFIED", "v0.0-test", "aes-128-gcm, chacha20-poly1305", "ML-KEM-768", "in hardware", "every 25s", "64 KiB", "for each session")
	got := run("info", w.url, "--key", w.pin, "-o", "json", "--post-quantum", "off", "--suite", "chacha20-poly1305")
	got.expect(t, statusDone)
	var info gatewayInfo
	if err := json.Unmarshal([]byte(got.stdout), &info); err != nil {
		t.Fatal(err)
	}
	if !info.Verified || info.Hybrid || info.Suite != "chacha20-poly1305" || len(info.Suites) != 2 || info.Key != w.pin || !info.GatewayAES || info.MaxSubscriptions != 100 || info.Seal != "session" {
		t.Errorf("%+v", info)
	}
	w.settings.GroupSeal = true
	w.gateway.Reload(w.settings)
	run("info", w.url).expect(t, statusDone, "once for a group of sessions")
	run("info", w.url, "-o", "json").expect(t, statusDone, `"seal":"group"`)
	run("info", w.url, "--key", strings.Repeat("A", 43)).expect(t, statusRefused, "not the one")
}

func TestPrinter(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	events := []client.Event{
		&client.Tick{Topic: "a", Epoch: 7, Seq: 9, Skipped: 2, Merged: 1, Time: at, Payload: []byte("x\x1b[1m\xff\u202e é")},
		&client.Snapshot{Topic: "a", Epoch: 6, Seq: 3, Time: at, Payload: []byte("{}\n"), Stale: true},
		&client.Snapshot{Topic: "b", Epoch: 7, Seq: 4, Time: at, Payload: []byte{0xff}},
		&client.Gap{Topic: "a", Epoch: 7, From: 0, To: 4},
		&client.Reset{Topic: "a", Epoch: 8, NextSeq: 1, Cause: wire.Cause_CAUSE_SOURCE_LOST},
		&client.Refused{Filter: "b", Code: wire.CloseForbidden, Text: "no"},
		&client.Gap{Topic: "a", Epoch: 8, From: 1, To: 1, Cause: wire.Cause_CAUSE_TOO_SLOW},
		&client.Notice{Kind: wire.Notice_KIND_SLOW},
		&client.Notice{Kind: wire.Notice_KIND_CAUGHT_UP, Merged: 3, Dropped: 1},
		&client.Notice{Kind: wire.Notice_KIND_SOURCE_LOST, Text: "dial tcp"},
		&client.Notice{Kind: wire.Notice_KIND_SOURCE_BACK, Topics: []string{"a", "b"}},
		&client.Notice{Kind: wire.Notice_KIND_TOKEN_EXPIRES, ExpiresAt: at},
		&client.Disconnected{Err: &client.ClosedError{Code: wire.CloseRestart, Final: true}, RetryIn: 1500 * time.Millisecond},
		&client.Connected{Info: client.Info{Resumed: true}},
		&client.Subscribed{Filters: []string{"a"}},
		&client.TopicsAdded{Topics: []client.TopicState{{Topic: "a"}}},
		&client.Heartbeat{Time: at},
	}
	for format, want := range map[string]string{
		"json": `{"topic":"a","seq":9,"epoch":7,"skipped":2,"merged":1,"time_us":` + fmt.Sprint(at.UnixMicro()) + `,"payload_base64":"eBtbMW3/4oCuIMOp"}
{"event":"snapshot","topic":"a","epoch":6,"seq":3,"time_us":1767323045000006,"payload":"{}\n","stale":true}
{"event":"snapshot","topic":"b","epoch":7,"seq":4,"time_us":1767323045000006,"payload_base64":"/w=="}
{"event":"gap","topic":"a","epoch":7,"from":0,"to":4}
{"event":"reset","topic":"a","epoch":8,"next_seq":1,"cause":"source_lost"}
{"event":"refused","filter":"b","code":4403,"text":"no"}
{"event":"gap","topic":"a","epoch":8,"from":1,"to":1,"cause":"too_slow"}
{"event":"notice","kind":"slow"}
{"event":"notice","kind":"caught_up","merged":3,"dropped":1}
{"event":"notice","text":"dial tcp","kind":"source_lost"}
{"event":"notice","kind":"source_back","topics":["a","b"]}
{"event":"notice","kind":"token_expires","expires_at_s":1767323045}
{"event":"disconnected","code":1012,"text":"gateway ended the session: 1012 gateway restarts","retry_ms":1500}
{"event":"connected","resumed":true,"seal":"session"}
`,
		"text": `03:04:05.000006 a 9 x\x1b[1m\xff\u202e é
sealctl: snapshot: a 3 (stale) {}\n
sealctl: snapshot: b 4 \xff
sealctl: gap: a lost 0 to 4
sealctl: reset: a goes on with 1, ticks may be missing (source_lost)
sealctl: refused: "b": 4403 not allowed (no)
sealctl: gap: a lost 1 to 1 (too_slow)
sealctl: notice: this client is slow: ticks wait at the gateway, and may be merged or lost
sealctl: notice: caught up: 3 ticks were merged, 1 lost
sealctl: notice: the gateway's Redis is away: values may be out of date, of all topics (dial tcp)
sealctl: notice: the gateway's Redis is back, for a, b
sealctl: notice: the token expires, and the session with it, at 03:04:05
sealctl: disconnected: gateway ended the session: 1012 gateway restarts; trying again in 1.5s
sealctl: connected again
`,
		"raw": "x\x1b[1m\xff\u202e é\n" + `sealctl: snapshot: a 3 (stale) {}\n
sealctl: snapshot: b 4 \xff
sealctl: gap: a lost 0 to 4
sealctl: reset: a goes on with 1, ticks may be missing (source_lost)
sealctl: refused: "b": 4403 not allowed (no)
sealctl: gap: a lost 1 to 1 (too_slow)
sealctl: notice: this client is slow: ticks wait at the gateway, and may be merged or lost
sealctl: notice: caught up: 3 ticks were merged, 1 lost
sealctl: notice: the gateway's Redis is away: values may be out of date, of all topics (dial tcp)
sealctl: notice: the gateway's Redis is back, for a, b
sealctl: notice: the token expires, and the session with it, at 03:04:05
sealctl: disconnected: gateway ended the session: 1012 gateway restarts; trying again in 1.5s
sealctl: connected again
`,
	} {
		var out bytes.Buffer
		p, err := newPrinter(format, &out, &out)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if tick, ok := e.(*client.Tick); ok {
				err = errors.Join(err, p.tick(tick))
			} else {
				err = errors.Join(err, p.event(e))
			}
		}
		if err := errors.Join(err, p.flush()); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOutputFails(t *testing.T) {
	w := newWorld(t)
	var stderr bytes.Buffer
	a := &app{getenv: func(string) string { return "" }, stdout: brokenWriter{}, stderr: &stderr, terminal: func(any) bool { return false }}
	for _, args := range [][]string{{"help"}, {"version"}, {"info", w.url}, {"publish", "a", "x", "--redis", w.redis}} {
		if status := a.run(t.Context(), args); status != statusFailed || !strings.Contains(stderr.String(), "standard output") {
			t.Errorf("%v: status %d, %s", args, status, stderr.String())
		}
	}
}

func TestHowEndsAreExplained(t *testing.T) {
	cut := func(code wire.CloseCode, final bool, cause error) error {
		return &client.ClosedError{Code: code, Final: final, Err: cause}
	}
	tests := []struct {
		err         error
		dial, later int // status
		hint        string
	}{
		{cut(wire.CloseUnauthenticated, true, nil), statusRefused, statusRefused, "SEALCTL_TOKEN"},
		{cut(wire.CloseTryLater, false, nil), statusRefused, statusRefused, "10s"},
		{cut(wire.CloseTooSlow, true, nil), statusRefused, statusRefused, "fewer topics"},
		{cut(wire.CloseForbidden, true, nil), statusRefused, statusRefused, "operator"},
		{cut(wire.CloseReplaced, true, nil), statusRefused, statusRefused, ""},
		{cut(0, false, io.EOF), statusRefused, statusFailed, "again"},
		{cut(wire.CloseHeartbeatLost, false, client.ErrSilent), statusRefused, statusFailed, "again"},
		{cut(wire.CloseBadRecord, false, session.ErrRecord), statusRefused, statusFailed, "again"},
		{&client.RequestError{Code: wire.CloseForbidden}, statusRefused, statusRefused, ""},
		{fmt.Errorf("x: %w", context.Canceled), statusFailed, statusFailed, ""},
		{fmt.Errorf("%w: x", client.ErrOptions), statusUsage, statusFailed, ""},
		{session.ErrPostQuantumRequired, statusRefused, statusFailed, "preferred"},
		{fmt.Errorf("%w: %w", client.ErrUnreachable, context.DeadlineExceeded), statusRefused, statusFailed, "--timeout"},
		{&client.HTTPError{Status: 503}, statusRefused, statusFailed, "later"},
		{&client.HTTPError{Status: 403}, statusRefused, statusFailed, "Origin"},
		{&client.HTTPError{Status: 500}, statusRefused, statusFailed, "path"},
		{advice.Misuse("x", "y"), statusUsage, statusUsage, "y"},
	}
	for _, tt := range tests {
		var dial, later *advice.Error
		if !errors.As(explainDial(tt.err, &connection{}, "a:1"), &dial) || !errors.As(explainEnd(tt.err), &later) {
			t.Fatalf("%v has no status", tt.err)
		}
		if dial.Status != tt.dial || later.Status != tt.later || !strings.Contains(dial.Hint+later.Hint, tt.hint) {
			t.Errorf("%v: %d %q, later %d %q", tt.err, dial.Status, dial.Hint, later.Status, later.Hint)
		}
	}
	if explainDial(nil, nil, "") != nil || explainEnd(nil) != nil {
		t.Error("no error is an error")
	}
}
