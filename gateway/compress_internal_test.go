package gateway

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
	"github.com/sealcast/sealcast/wire/topic"
)

// classRules has two classes of its own, one that is never compressed, and the default.
var classRules = []struct{ match, class string }{
	{"account:a:**", "a"}, {"account:b:**", "b"}, {"secret:**", ""}, {"md:**", DefaultClass},
}

func bareLoop(t *testing.T, o CompressOptions) *loop {
	t.Helper()
	s := Settings{Batch: BatchOptions{MaxTicks: 256, MaxBytes: 16 << 10}, Compress: o}
	for _, r := range classRules {
		f, err := topic.ParseFilter(r.match)
		if err != nil {
			t.Fatal(err)
		}
		s.Topics = append(s.Topics, TopicRule{Match: f, Compress: r.class})
	}
	g := &Gateway{}
	g.live.Store(&live{Settings: s, rules: newRuleTable(s.Topics, s.Batch)})
	l := &loop{gateway: g, live: g.live.Load(), index: newIndex()}
	l.stats.times.init()
	return l
}

// topics that fall into five groups: one for each rule, and one without a rule,
// which is of the default class.
var classedTopics = []string{"account:a:x", "account:b:x", "secret:x", "md:x", "other:x", "account:a:y", "secret:y", "md:y"}

func wantClass(name string) string {
	for i, prefix := range []string{"account:a:", "account:b:", "secret:"} {
		if bytes.HasPrefix([]byte(name), []byte(prefix)) {
			return []string{"a", "b", "off"}[i]
		}
	}
	return DefaultClass
}

// mixedEntries makes ticks and resets of all topics in random order, and other
// things between them.
func mixedEntries(l *loop, rng *rand.Rand, n int) []entry {
	for i, name := range classedTopics {
		number := uint32(i + 1)
		l.index.topics[number] = &loopTopic{TopicState: fanout.TopicState{Number: number, Name: name}}
	}
	seqs := map[uint32]uint64{}
	var entries []entry
	for range n {
		number := rng.Uint32N(uint32(len(classedTopics))) + 1
		seqs[number]++
		t := l.index.topics[number]
		payload := fmt.Appendf(nil, "%s, the same text again and again and again: %d", classedTopics[number-1], seqs[number])
		switch rng.IntN(30) {
		case 0:
			entries = append(entries, entry{what: &fanout.Reset{Topic: number, Epoch: seqs[number], NextSeq: seqs[number]}, topic: t})
		case 1:
			entries = append(entries, entry{what: &fanout.Opened{TopicState: t.TopicState}})
		case 2:
			entries = append(entries, entry{what: &control{plaintext: wire.AppendPlainHeader(nil, wire.CodecNone, 0)}})
		default:
			entries = append(entries, entry{what: &fanout.Tick{Topic: number, Seq: seqs[number], ReceivedUS: 1,
				Payload: payload}, topic: t})
		}
	}
	return entries
}

// TestClassesNeverShareAFrame: for random mixtures, each compressed frame is of
// one class, none of a class that is off, and every topic keeps its order.
func TestClassesNeverShareAFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	o := CompressOptions{Codecs: []wire.Codec{wire.CodecZstd, wire.CodecSnappy}}
	for _, id := range o.Codecs {
		compressed := 0
		for range 50 {
			l := bareLoop(t, o)
			entries := mixedEntries(l, rng, 1+rng.IntN(500))
			before := perTopic(entries)
			l.build(entries, l.agree([]uint32{uint32(id)}))
			if !slices.EqualFunc(before, perTopic(entries), slices.Equal) {
				t.Fatal("a topic's order has changed")
			}
			compressed += checkFrames(t, l, entries)
		}
		if compressed < 100 {
			t.Errorf("%v: only %d compressed frames", id, compressed)
		}
	}
}

// perTopic is the entries of each topic in their order; a control stands in all.
func perTopic(entries []entry) [][]entry {
	lists := make([][]entry, len(classedTopics)+1)
	for _, e := range entries {
		switch x := e.what.(type) {
		case *fanout.Tick:
			lists[x.Topic] = append(lists[x.Topic], e)
		case *fanout.Reset:
			lists[x.Topic] = append(lists[x.Topic], e)
		default:
			for i := range lists {
				lists[i] = append(lists[i], e)
			}
		}
	}
	return lists
}

func checkFrames(t *testing.T, l *loop, entries []entry) (compressed int) {
	t.Helper()
	next := 0
	for _, f := range l.scratch.frames {
		if f.from != next {
			t.Fatalf("a frame begins with entry %d, not %d", f.from, next)
		}
		next = f.to
		if id, _, err := wire.ParsePlain(l.scratch.arena[f.start:f.end]); err != nil {
			t.Fatal(err)
		} else if id == wire.CodecNone {
			continue
		}
		compressed++
		classes := map[string]bool{}
		for _, e := range entries[f.from:f.to] {
			switch x := e.what.(type) {
			case *fanout.Tick:
				classes[wantClass(classedTopics[x.Topic-1])] = true
			case *fanout.Reset:
				classes[wantClass(classedTopics[x.Topic-1])] = true
			default:
				t.Fatalf("%T was compressed", x)
			}
		}
		if len(classes) != 1 || classes["off"] {
			t.Fatalf("classes %v share a compressed frame", classes)
		}
	}
	if next != len(entries) {
		t.Fatalf("frames end with entry %d of %d", next, len(entries))
	}
	return compressed
}

// TestUnknownTopicsStayUncompressed: ticks of a topic that nobody follows have no
// class that could be looked up.
func TestUnknownTopicsStayUncompressed(t *testing.T) {
	l := bareLoop(t, CompressOptions{Codecs: []wire.Codec{wire.CodecSnappy}})
	entries := mixedEntries(l, rand.New(rand.NewPCG(2, 2)), 100)
	for i := range entries {
		entries[i].topic = nil
	}
	l.build(entries, l.agree([]uint32{uint32(wire.CodecSnappy)}))
	if n := checkFrames(t, l, entries); n != 0 {
		t.Errorf("%d compressed frames", n)
	}
}

func TestAlternatingClassesStillMakeFewFrames(t *testing.T) {
	l := bareLoop(t, CompressOptions{Codecs: []wire.Codec{wire.CodecSnappy}})
	all := mixedEntries(l, rand.New(rand.NewPCG(3, 3)), 200)
	ticks := slices.DeleteFunc(all, func(e entry) bool { _, ok := e.what.(*fanout.Tick); return !ok })
	l.build(ticks, l.agree([]uint32{uint32(wire.CodecSnappy)}))
	if n := len(l.scratch.frames); n != 4 {
		t.Errorf("%d frames for four classes", n)
	}
}

func TestMinBytes(t *testing.T) {
	for _, min := range []int{0, 100_000} {
		l := bareLoop(t, CompressOptions{Codecs: []wire.Codec{wire.CodecSnappy}, MinBytes: min})
		entries := mixedEntries(l, rand.New(rand.NewPCG(4, 4)), 200)
		l.build(entries, l.agree([]uint32{uint32(wire.CodecSnappy)}))
		if n := checkFrames(t, l, entries); (n > 0) != (min == 0) {
			t.Errorf("min_bytes %d: %d compressed frames", min, n)
		}
	}
}

func TestChoiceOfACodec(t *testing.T) {
	dictionary := new(codec.Dictionary)
	const none, snappy, zstd, withDict = uint32(wire.CodecNone), uint32(wire.CodecSnappy), uint32(wire.CodecZstd), uint32(wire.CodecZstdDict)
	all := []wire.Codec{wire.CodecZstd, wire.CodecSnappy, wire.CodecNone}
	tests := []struct {
		allowed    []wire.Codec
		dictionary *codec.Dictionary
		offered    []uint32
		want       wire.Codec
	}{
		{all, nil, nil, wire.CodecNone},
		{all, nil, []uint32{zstd, snappy, none}, wire.CodecZstd},
		{all, nil, []uint32{snappy, zstd}, wire.CodecSnappy},
		{all, nil, []uint32{none, zstd}, wire.CodecNone},
		{all[:1], nil, []uint32{none, snappy, zstd}, wire.CodecZstd},
		{all, nil, []uint32{withDict, snappy}, wire.CodecSnappy},
		{all[1:], dictionary, []uint32{withDict, snappy}, wire.CodecSnappy},
		{all, nil, []uint32{77, 256 + snappy, 1 << 31, snappy}, wire.CodecSnappy},
		{nil, dictionary, []uint32{withDict, zstd, snappy, none}, wire.CodecNone},
	}
	for _, tt := range tests {
		l := bareLoop(t, CompressOptions{Codecs: tt.allowed, Dictionary: tt.dictionary})
		got := wire.CodecNone
		if c := l.agree(tt.offered); c != nil {
			got = c.id
		}
		if got != tt.want {
			t.Errorf("%v allowed, %v offered: %v, want %v", tt.allowed, tt.offered, got, tt.want)
		}
	}
}

// TestCompressorsAreShared: one for each codec, gone after its last session.
func TestCompressorsAreShared(t *testing.T) {
	l := bareLoop(t, CompressOptions{Codecs: []wire.Codec{wire.CodecSnappy, wire.CodecZstd}})
	a, b, c := l.agree([]uint32{1}), l.agree([]uint32{1}), l.agree([]uint32{2})
	if a != b || a == c || len(l.index.compressors) != 2 {
		t.Fatalf("%p, %p, %p; %d compressors", a, b, c, len(l.index.compressors))
	}
	if cohortKey(nil, a, sharing{}) == cohortKey(nil, c, sharing{}) || cohortKey(nil, a, sharing{}) == cohortKey(nil, nil, sharing{}) {
		t.Error("sessions of different codecs share a cohort")
	}
	for _, x := range []*compressor{a, b, c, nil} {
		l.part(x)
	}
	if len(l.index.compressors) != 0 {
		t.Errorf("%d compressors are left", len(l.index.compressors))
	}
	if d := l.agree([]uint32{1}); d.serial == a.serial {
		t.Error("a serial number came twice")
	}
}
