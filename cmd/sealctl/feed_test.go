package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealcast/sealcast/internal/feed"
	"github.com/sealcast/sealcast/internal/feedfile"
	"github.com/sealcast/sealcast/internal/redistest"
)

// listed is a source of given ticks.
type listed struct {
	ticks []feedfile.Tick
	err   error // at the end; nil means io.EOF
}

func (l *listed) Next() (feedfile.Tick, error) {
	if len(l.ticks) == 0 {
		if l.err != nil {
			return feedfile.Tick{}, l.err
		}
		return feedfile.Tick{}, io.EOF
	}
	t := l.ticks[0]
	l.ticks = l.ticks[1:]
	return t, nil
}

func (l *listed) Close() error { return nil }

// noted is a sink that takes its time and notes what came when.
type noted struct {
	start   time.Time
	takes   time.Duration
	batches []string // "milliseconds: payloads"
	largest int
	fail    error
}

func (n *noted) publish(_ context.Context, ticks []outgoing) (int64, error) {
	var payloads []string
	for _, t := range ticks {
		payloads = append(payloads, string(t.payload))
	}
	n.largest = max(n.largest, len(ticks))
	n.batches = append(n.batches, fmt.Sprintf("%d: %s", time.Since(n.start).Milliseconds(), strings.Join(payloads, " ")))
	time.Sleep(n.takes)
	return int64(2 * len(ticks)), n.fail
}

func at(ms int, payload string) feedfile.Tick {
	return feedfile.Tick{At: time.Duration(ms) * time.Millisecond, Topic: "t", Payload: []byte(payload)}
}

func TestPumpKeepsTime(t *testing.T) {
	ticks := []feedfile.Tick{at(0, "a"), at(0, "b"), at(100, "c"), at(110, "d"), at(115, "e"), at(400, "f")}
	tests := []struct {
		name  string
		speed float64
		takes time.Duration
		limit int64
		want  []string
		late  time.Duration
	}{
		{"as recorded", 1, 0, 0, []string{"0: a b", "100: c", "110: d", "115: e", "400: f"}, 0},
		{"ten times", 10, 0, 0, []string{"0: a b", "10: c", "11: d", "11: e", "40: f"}, 0},
		{"half", 0.5, 0, 0, []string{"0: a b", "200: c", "220: d", "230: e", "800: f"}, 0},
		{"at once", 0, 0, 0, []string{"0: a b c d e f"}, 0},
		{"slow sink", 1, 50 * time.Millisecond, 0, []string{"0: a b", "100: c", "150: d e", "400: f"}, 0},
		{"very slow sink", 1, 500 * time.Millisecond, 0, []string{"0: a b", "500: c d e f"}, 100 * time.Millisecond},
		{"limit", 1, 0, 3, []string{"0: a b", "100: c"}, 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			sink := &noted{start: time.Now(), takes: tt.takes}
			p := &pump{from: &listed{ticks: slices.Clone(ticks)}, to: sink, speed: tt.speed, limit: tt.limit, show: func(*totals) {}}
			if err := p.run(t.Context()); err != nil || !slices.Equal(sink.batches, tt.want) || p.totals.late != tt.late {
				t.Errorf("%s: %q, late %v, %v", tt.name, sink.batches, p.totals.late, err)
			}
			if n := p.totals.ticks; p.totals.reached != 2*n || p.totals.bytes != n || tt.limit > 0 && n != tt.limit {
				t.Errorf("%s: %+v", tt.name, p.totals)
			}
		})
	}
}

func TestPumpBoundsItsBatches(t *testing.T) {
	market := &synthetic{market: feed.NewSynthetic(3, 1), rate: 1e6}
	sink := &noted{}
	p := &pump{from: market, to: sink, limit: 2500, show: func(*totals) {}}
	if err := p.run(t.Context()); err != nil || len(sink.batches) != 3 || sink.largest != batchTicks {
		t.Errorf("%d batches of up to %d, %v", len(sink.batches), sink.largest, err)
	}
	large := strings.Repeat("x", batchBytes/2)
	sink = &noted{}
	p = &pump{from: &listed{ticks: []feedfile.Tick{at(0, large), at(0, large), at(0, "y")}}, to: sink, show: func(*totals) {}}
	if err := p.run(t.Context()); err != nil || len(sink.batches) != 2 {
		t.Errorf("%d batches, %v", len(sink.batches), err)
	}
}

func TestPumpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 105*time.Millisecond)
		defer cancel()
		sink := &noted{start: time.Now()}
		p := &pump{from: &listed{ticks: []feedfile.Tick{at(0, "a"), at(100, "b"), at(200, "c")}}, to: sink, speed: 1, show: func(*totals) {}}
		if err := p.run(ctx); !errors.Is(err, context.DeadlineExceeded) || len(sink.batches) != 2 {
			t.Errorf("%q, %v", sink.batches, err)
		}
		sink = &noted{start: time.Now()}
		damaged := errors.New("damaged")
		p = &pump{from: &listed{ticks: []feedfile.Tick{at(0, "a")}, err: damaged}, to: sink, speed: 1, show: func(*totals) {}}
		if err := p.run(t.Context()); err != damaged || len(sink.batches) != 1 {
			t.Errorf("damaged source: %q, %v", sink.batches, err)
		}
		down := errors.New("down")
		p = &pump{from: &listed{ticks: []feedfile.Tick{at(0, "a"), at(1, "b")}}, to: &noted{fail: down}, speed: 1, show: func(*totals) {}}
		if err := p.run(t.Context()); err != down || p.totals.ticks != 0 {
			t.Errorf("sink is down: %+v, %v", p.totals, err)
		}
	})
}

func TestSyntheticIsEvenlySpaced(t *testing.T) {
	s := &synthetic{market: feed.NewSynthetic(2, 1), rate: 3}
	for i := range 7 {
		tick, err := s.Next()
		want := time.Duration(i) * time.Second / 3
		if err != nil || (tick.At-want).Abs() > time.Microsecond || len(tick.Payload) == 0 {
			t.Errorf("tick %d at %v, %v", i, tick.At, err)
		}
	}
}

func TestRecordingLoops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.tsv")
	if err := os.WriteFile(path, []byte("0\ta\t1\n1000\ta\t2\n2000\ta\t3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &feeding{file: path, loop: true}
	src, err := o.source()
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for i := range 8 {
		tick, err := src.Next()
		if err != nil || tick.At != time.Duration(i)*time.Millisecond || string(tick.Payload) != fmt.Sprint(1+i%3) {
			t.Errorf("tick %d: %+v, %v", i, tick, err)
		}
	}
}

func TestFeedFaults(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run("feed", "--redis", w.redis, "--file", filepath.Join(dir, "absent")).expect(t, statusFailed, "absent")
	run("feed", "--redis", w.redis, "--file", write("damaged", "0\ta\tx\nnonsense\n")).expect(t, statusFailed, "line 2", "published 1 ticks")
	run("feed", "--redis", w.redis, "--file", write("empty", ""), "--loop").expect(t, statusDone, "published 0 ticks")
	run("feed", "--redis", w.redis, "--file", write("large", "0\ta\t"+strings.Repeat("x", 1<<20+1))).expect(t, statusFailed, "no gateway passes on")
	run("feed", "--redis", "127.0.0.1:1", "--symbols", "1").expect(t, statusRefused, "127.0.0.1:1")
	run("feed", "--redis", w.redis, "--symbols", "3", "--rate", "1000", "--count", "20", "--speed", "10").
		expect(t, statusDone, "published 20 ticks", "nobody was subscribed")
	run("feed", "--redis", w.redis, "--symbols", "3", "--for", "50ms").expect(t, statusDone, "published ")

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	call{ctx: ctx}.run("feed", "--redis", w.redis, "--symbols", "3").expect(t, statusDone)
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	call{ctx: ctx}.run("feed", "--redis", w.redis, "--file", write("long", "0\ta\tx\n60000000\ta\tx\n")).expect(t, statusFailed, "interrupted")
}

func TestFeedShowsProgressOnATerminalOnly(t *testing.T) {
	w := newWorld(t)
	args := []string{"feed", "--redis", w.redis, "--symbols", "3", "--count", "5", "--speed", "max"}
	if got := (call{terminal: true}).run(args...); !strings.Contains(got.stderr, "\r") || strings.Contains(got.stdout, "\r") {
		t.Errorf("%+v", got)
	}
	if got := run(args...); strings.Contains(got.stderr, "\r") {
		t.Errorf("%+v", got)
	}
}

func TestRedisAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:7000": "127.0.0.1:7000", "localhost": "localhost:6379", "::1": "[::1]:6379", "[::1]:7000": "[::1]:7000",
		"redis://h": "h:6379", "redis://u:p@h:7/3": "h:7", "rediss://h:7": "h:7",
	} {
		opts, _, err := (&server{text}).options()
		if err != nil || opts.Addr != want || opts.MaxRetries != -1 {
			t.Errorf("%s: %+v, %v", text, opts, err)
		}
	}
	opts, _, err := (&server{"rediss://user:secret@h:7/3"}).options()
	if err != nil || opts.Username != "user" || opts.Password != "secret" || opts.DB != 3 || opts.TLSConfig == nil {
		t.Errorf("%+v, %v", opts, err)
	}
}

// A feed to a stream adds an entry with topic and payload for each tick, in order.
func TestFeedToAStream(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "feed.tsv")
	if err := os.WriteFile(file, []byte("0\ta\tone\n0\tb\ttwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("feed", "--redis", w.redis, "--file", file, "--mode", "streams", "--stream", "mine").expect(t, statusDone, "published 2 ticks")
	db, err := (&server{text: w.redis}).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	entries, err := db.XRange(t.Context(), "mine", "-", "+").Result()
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	for i, want := range []map[string]any{{"topic": "a", "payload": "one"}, {"topic": "b", "payload": "two"}} {
		if got := entries[i].Values; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("entry %d: %v", i, got)
		}
	}
	run("feed", "--redis", w.redis, "--file", file, "--stream", "mine").expect(t, statusUsage, "--mode streams")
}

// One address is enough for each topology. All ticks of a topic go through one node.
func TestFeedThroughSentinelsAndCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feed.tsv")
	if err := os.WriteFile(file, []byte("0\ta\tone\n0\tb\ttwo\n0\ta\tthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := redistest.StartCluster(t)
	sentinels := redistest.StartSentinels(t)
	master := sentinels.Master().Connect()
	master.Do("ACL", "SETUSER", "pub", "on", ">secret", "allchannels", "-@all", "+ping", "+publish")
	for _, node := range cluster.Nodes {
		node.Do("ACL", "SETUSER", "pub", "on", ">secret", "allchannels", "~ticks", "-@all", "+ping", "+publish", "+spublish", "+xadd", "+cluster|slots")
	}
	watched := "redis://pub:secret@" + sentinels.Sentinels[1].Addr
	tests := []struct {
		name, redis, mode string
		subscriber        func() *redistest.Conn // has asked for a
		says              string
	}{
		{"sentinel", watched, "pubsub", func() *redistest.Conn { master.Do("SUBSCRIBE", "a"); return master }, "2 deliveries"},
		{"named master", watched + "?master=" + redistest.MasterName, "pubsub", func() *redistest.Conn { return master }, "2 deliveries"},
		{"cluster", "redis://pub:secret@" + cluster.Nodes[4].Addr, "pubsub", func() *redistest.Conn { // a node that neither topic belongs to
			c := cluster.Nodes[5].Connect()
			c.Do("SUBSCRIBE", "a")
			return c
		}, "published 3 ticks"},
		{"sharded", "redis://pub:secret@" + cluster.Nodes[0].Addr, "sharded", func() *redistest.Conn {
			c := cluster.Owner("a").Connect()
			c.Do("SSUBSCRIBE", "a")
			return c
		}, "2 deliveries"},
	}
	for _, tt := range tests {
		c := tt.subscriber()
		run("feed", "--redis", tt.redis, "--file", file, "--mode", tt.mode, "--speed", "max").expect(t, statusDone, "published 3 ticks", tt.says)
		run("publish", "--redis", tt.redis, "--mode", tt.mode, "a", "four").expect(t, statusDone, "published 4 bytes on a")
		for _, want := range []string{"one", "three", "four"} {
			if got, err := c.Receive(); err != nil || !strings.HasSuffix(got, "message\na\n"+want) {
				t.Errorf("%s: %q, %v", tt.name, got, err)
			}
		}
	}
	run("feed", "--redis", "redis://pub:secret@"+cluster.Nodes[3].Addr, "--file", file, "--mode", "streams").expect(t, statusDone, "published 3 ticks")
	if n := cluster.Owner("ticks").Do("XLEN", "ticks"); n != "3" {
		t.Errorf("%s entries", n)
	}
	run("feed", "--redis", watched, "--file", file, "--mode", "sharded").expect(t, statusUsage, "is no cluster")
	run("feed", "--redis", watched+"?master=other", "--file", file).expect(t, statusUsage, redistest.MasterName)
	run("feed", "--redis", "redis://pub:wrong@"+sentinels.Sentinels[0].Addr, "--file", file).expect(t, statusRefused, "user and password")
	run("feed", "--redis", "redis://"+cluster.Nodes[0].Addr+"/3", "--file", file).expect(t, statusUsage, "no database but 0")
	run("feed", "--redis", "redis://"+cluster.Nodes[0].Addr+"?master=x", "--file", file).expect(t, statusUsage, "no sentinel")
}
