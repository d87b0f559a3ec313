package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/feedfile"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

var recordings = flag.String("recordings", "", "pattern of recorded feeds that TestRecordedFeeds replays besides the made-up one")

// Recorded feeds, replayed with `sealctl feed --speed max`: to `sealctl tail`, to
// 8 clients on 2 event loops with each suite, sealed for each or for groups, to
// clients of every codec, with batches that wait and such that do not, merged and not, and
// so through each topology and source of Redis; some of these, or with
// SEALCAST_LONG=1 all.
func TestRecordedFeeds(t *testing.T) {
	named, err := filepath.Glob(*recordings)
	if err != nil || *recordings != "" && len(named) == 0 {
		t.Fatalf("-recordings %q names no file (%v)", *recordings, err)
	}
	for _, path := range append([]string{madeUpRecording(t)}, named...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := readRecording(t, path)
			t.Logf("%d ticks, %d topics", len(s), len(s.byTopic()))
			t.Run("tail", func(t *testing.T) { replayToTail(t, path, s) })
			for _, id := range chainSuites {
				for _, seal := range []string{"session", "group"} {
					t.Run(id.String()+" for each "+seal, func(t *testing.T) { replayToClients(t, path, s, id, seal) })
				}
			}
			for _, delay := range []string{"0s", "5ms", "100ms"} {
				t.Run("delay of "+delay, func(t *testing.T) { replayToCodecs(t, path, s, delay, "every") })
				t.Run("merging, delay of "+delay, func(t *testing.T) { replayToCodecs(t, path, s, delay, "latest") })
			}
			for _, top := range topologies {
				t.Run(top.name, func(t *testing.T) { replayEveryWay(t, top, path, s) })
			}
		})
	}
}

// madeUpRecording is a compressed feed with binary and empty payloads, some of them large.
func madeUpRecording(t *testing.T) string {
	r := rand.New(rand.NewPCG(11, 12))
	topics := topicNames("made-up", 40)
	s := smallTicks(r, topics, 6000)
	for range 20 {
		s = append(s, tick{topics[r.IntN(len(topics))], largest[:r.IntN(100_000)]})
	}
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(s.recorded())
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "made-up.tsv.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readRecording(t *testing.T, path string) script {
	t.Helper()
	f, err := feedfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s script
	for {
		next, err := f.Next()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, tick{next.Topic, string(next.Payload)})
	}
}

func replay(t *testing.T, redis, source, path string, ticks int) {
	t.Helper()
	p := sealctl(t, "feed", "--redis", redis, "--mode", source, "--file", path, "--speed", "max")
	p.expect(0)
	said := strings.TrimSpace(p.stdout.String())
	if want := fmt.Sprintf("published %d ticks", ticks); !strings.HasPrefix(said, want) {
		t.Errorf("feed said %q, want %q", said, want)
	}
	t.Log(said)
}

func replayToTail(t *testing.T, path string, s script) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r))
	tail := g.tail(r, "1", "--topics", "md:**", "-o", "json", "--count", strconv.Itoa(len(s)), "--for", "60s")
	replay(t, r.Addr, "pubsub", path, len(s))
	tail.expect(0)
	m := member{want: s.byTopic(), seq: map[string]uint64{}, epoch: map[string]uint64{}}
	for i, line := range jsonLines(t, tail.stdout.String()) {
		if err := m.judgeLine(line); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
	}
	if n := m.received.Load(); n != int64(len(s)) {
		t.Errorf("%d ticks of %d", n, len(s))
	}
}

func replayToClients(t *testing.T, path string, s script, id suite.ID, seal string) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "loops=2", "cipher.allow_plain=true", "fanout.seal="+seal))
	opts := g.options()
	opts.Suites = []suite.ID{id}
	a := gather(t, g.url(), opts, 8, s, "md:**")
	replay(t, r.Addr, "pubsub", path, len(s))
	a.verdict()
}

// replayToCodecs has clients of each codec, sealed and plain, on one gateway. With
// policy latest each tick has to come or to be covered by a later one, exactly once.
func replayToCodecs(t *testing.T, path string, s script, delay, policy string) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "loops=2", "cipher.allow_plain=true", "batch.max_delay="+delay, "compress.codecs=[zstd, snappy, none]",
		`topics=[{match: "**", policy: `+policy+`}]`))
	gatherers := map[string]func(testing.TB, string, client.Options, int, script, ...string) *audience{"every": gather, "latest": gatherMerging}
	var audiences []*audience
	for _, codec := range []wire.Codec{wire.CodecNone, wire.CodecSnappy, wire.CodecZstd} {
		for _, id := range []suite.ID{suite.AES128GCM, suite.Plain} {
			opts := g.options()
			opts.Suites, opts.Codecs = []suite.ID{id}, []wire.Codec{codec}
			audiences = append(audiences, gatherers[policy](t, g.url(), opts, 2, s, "md:**"))
		}
	}
	replay(t, r.Addr, "pubsub", path, len(s))
	for _, a := range audiences {
		a.verdict()
		if policy == "latest" && delay == "100ms" && a.members[0].merged == 0 {
			t.Error("nothing was merged")
		}
	}
}
