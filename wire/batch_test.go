package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
)

// entry is a batch item in the terms of the messages, before it is encoded.
type entry struct {
	topic    uint32
	seq      uint64
	payload  []byte
	received int64
	skipped  uint64
	reset    *Reset
}

func (e entry) item() BatchItem {
	if e.reset != nil {
		return BatchItem{Topic: e.topic, Reset: &BatchReset{Epoch: e.reset.Epoch, NextSeq: e.reset.NextSeq, Cause: e.reset.Cause}}
	}
	return BatchItem{Topic: e.topic, Seq: e.seq, Skipped: e.skipped, ReceivedUS: e.received, Payload: e.payload}
}

func items(entries []entry) []BatchItem {
	out := make([]BatchItem, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.item())
	}
	return out
}

// message is what Joiner promises to encode.
func message(entries []entry) *Batch {
	b := new(Batch)
	next, payloads := map[uint32]uint64{}, map[uint32][]byte{}
	var last int64
	for _, e := range entries {
		if e.reset != nil {
			r := &Reset{Epoch: e.reset.Epoch, NextSeq: e.reset.NextSeq, Cause: e.reset.Cause, Topic: e.topic, At: uint32(len(b.Order))}
			b.Resets = append(b.Resets, r)
			continue
		}
		first := e.seq - e.skipped
		if _, ok := next[e.topic]; !ok {
			b.Topics, b.Firsts = append(b.Topics, e.topic), append(b.Firsts, first)
			next[e.topic] = first
		}
		delta := int64(0)
		if e.received != 0 {
			if last == 0 {
				b.BaseUs, last = e.received, e.received
			}
			delta, last = e.received-last, e.received
		}
		b.Order = append(b.Order, uint32(slices.Index(b.Topics, e.topic)))
		b.Sizes, b.Deltas = append(b.Sizes, uint32(len(e.payload))), append(b.Deltas, delta)
		b.Skipped, b.Steps = append(b.Skipped, e.skipped), append(b.Steps, int64(first-next[e.topic]))
		next[e.topic] = e.seq + 1
		payloads[e.topic] = append(payloads[e.topic], e.payload...)
	}
	for _, topic := range b.Topics {
		b.Payloads = append(b.Payloads, payloads[topic]...)
	}
	b.leaveOut()
	return b
}

// leaveOut takes out of the columns what need not be told.
func (b *Batch) leaveOut() {
	ordered := true
	for i, place := range b.Order {
		ordered = ordered && int(place) == min(i, len(b.Topics)-1)
	}
	if ordered {
		b.Order = nil
	}
	if n := len(b.Sizes); n > 0 {
		b.Sizes, b.Deltas = b.Sizes[:n-1], b.Deltas[1:]
	}
	b.Deltas, b.Skipped, b.Steps = unlessZero(b.Deltas), unlessZero(b.Skipped), unlessZero(b.Steps)
}

func unlessZero[T int64 | uint64](column []T) []T {
	if slices.ContainsFunc(column, func(v T) bool { return v != 0 }) {
		return column
	}
	return nil
}

const someUS = 1_790_000_000_000_000

var batches = []struct {
	name    string
	entries []entry
}{
	{"empty", nil},
	{"one tick", []entry{{topic: 1, seq: 1, payload: []byte(`{"bid":1}`), received: someUS}}},
	{"empty payload", []entry{{topic: 7, seq: 300, received: someUS}}},
	{"all zero", []entry{{}}},
	{"several topics", []entry{
		{topic: 1, seq: 41, payload: []byte("a"), received: someUS},
		{topic: 2, seq: 8, payload: bytes.Repeat([]byte{0xff}, 200), received: someUS + 15, skipped: 3},
		{topic: 1, seq: 42, payload: nil, received: someUS + 15},
		{topic: math.MaxUint32, seq: MaxNumber, payload: []byte{0}, received: someUS + 90, skipped: MaxNumber},
	}},
	{"two topics, and a reset of a third", []entry{
		{topic: 1, seq: 41, payload: []byte(`{"bid":1}`), received: 1_000_000},
		{topic: 2, seq: 8, payload: []byte(`{"bid":7}`), received: 1_000_015, skipped: 3},
		{topic: 1, seq: 42, payload: []byte(`{"bid":20}`), received: 1_000_030},
		{topic: 3, reset: &Reset{Epoch: 1<<53 - 1, NextSeq: 1, Cause: Cause_CAUSE_SOURCE_LOST}},
	}},
	{"one tick each", []entry{
		{topic: 5, seq: 70, payload: []byte("five"), received: someUS, skipped: 3},
		{topic: 300, seq: 1, payload: []byte("three hundred"), received: someUS},
		{topic: 2, seq: 1 << 40, payload: []byte("two"), received: someUS + 1_000_000},
	}},
	{"one tick each, then the last goes on", []entry{
		{topic: 5, seq: 7, payload: []byte("a"), received: someUS},
		{topic: 6, seq: 8, payload: []byte("b"), received: someUS},
		{topic: 6, seq: 9, payload: []byte("c"), received: someUS},
	}},
	{"one tick each, then the first goes on", []entry{
		{topic: 5, seq: 7, payload: []byte("a"), received: someUS},
		{topic: 6, seq: 8, payload: []byte("b"), received: someUS},
		{topic: 5, seq: 8, payload: []byte("c"), received: someUS},
	}},
	{"one topic goes on before another begins", []entry{
		{topic: 5, seq: 7, payload: []byte("a"), received: someUS},
		{topic: 5, seq: 8, payload: []byte("b"), received: someUS},
		{topic: 6, seq: 8, payload: []byte("c"), received: someUS},
	}},
	{"a hole, and an overlap", []entry{
		{topic: 5, seq: 7, payload: []byte("a"), received: someUS},
		{topic: 5, seq: 20, skipped: 2, payload: []byte("b"), received: someUS},
		{topic: 5, seq: 21, skipped: 9, payload: []byte("c"), received: someUS},
	}},
	{"a time that is not known", []entry{
		{topic: 1, seq: 1, payload: []byte("x")},
		{topic: 1, seq: 2, payload: []byte("y"), received: someUS},
		{topic: 1, seq: 3, payload: []byte("z")},
	}},
	{"clock stepped back", []entry{
		{topic: 1, seq: 1, payload: []byte("x"), received: someUS},
		{topic: 1, seq: 2, payload: []byte("y"), received: someUS - 1_000_000},
	}},
	{"reset first", []entry{
		{topic: 3, reset: &Reset{Epoch: 1<<53 - 1, NextSeq: 1, Cause: Cause_CAUSE_SOURCE_LOST}},
		{topic: 3, seq: 1, payload: []byte("after"), received: someUS},
	}},
	{"reset between", []entry{
		{topic: 3, seq: 9, payload: []byte("before"), received: someUS},
		{topic: 3, reset: &Reset{Epoch: 5, NextSeq: 1, Cause: Cause_CAUSE_SOURCE_OVERFLOW}},
		{topic: 3, seq: 1, payload: []byte("after"), received: someUS + 1},
	}},
	{"the greatest numbers", []entry{
		{topic: 3, seq: MaxNumber, payload: []byte("last"), received: someUS},
		{topic: 3, reset: &Reset{Epoch: MaxNumber, NextSeq: MaxNumber}},
		{topic: 3, seq: MaxNumber, skipped: MaxNumber, payload: []byte("last"), received: someUS},
	}},
	{"only resets", []entry{{topic: 1, reset: &Reset{}}, {topic: 2, reset: &Reset{Epoch: 1}}}},
	{"largest tick", []entry{{topic: 1, seq: 1, payload: make([]byte, MaxTick), received: someUS}}},
}

func TestFramesAreWhatProtobufReads(t *testing.T) {
	for _, tt := range batches {
		t.Run(tt.name, func(t *testing.T) {
			want := &ServerFrame{Message: &ServerFrame_Batch{Batch: message(tt.entries)}}
			wantBytes, err := AppendServerFrame(nil, want)
			if err != nil {
				t.Fatal(err)
			}
			got := AppendBatchFrame([]byte("kept"), items(tt.entries))
			if !bytes.HasPrefix(got, []byte("kept")) || len(got)-4 > len(wantBytes) {
				t.Errorf("%d bytes, the generated code makes %d", len(got)-4, len(wantBytes))
			}
			frame, err := ParseServerFrame(got[4:])
			if err != nil || !proto.Equal(frame, want) {
				t.Errorf("parsed %v, %v; want %v", frame, err, want)
			}
		})
	}
}

// TestJoinerKeepsNothing: a batch is the same after any other, with any clock.
func TestJoinerKeepsNothing(t *testing.T) {
	var j Joiner
	for _, first := range batches {
		for _, second := range batches {
			j.Clock = 0
			j.AppendFrame(nil, items(first.entries))
			if got, _ := j.AppendFrame(nil, items(second.entries)); !bytes.Equal(got, AppendBatchFrame(nil, items(second.entries))) {
				t.Fatalf("%s after %s is another", second.name, first.name)
			}
			j.Clock = someUS - 7
			shifted, err := ParseServerFrame(only(j.AppendFrame(nil, items(second.entries))))
			want := message(second.entries)
			if want.BaseUs != 0 {
				want.BaseUs -= j.Clock
			}
			if err != nil || !proto.Equal(shifted.GetBatch(), want) {
				t.Fatalf("%s by another clock: %v, %v", second.name, shifted, err)
			}
		}
	}
}

func only(frame []byte, _ int) []byte { return frame }

func TestLargestTickFitsRecord(t *testing.T) {
	tick := entry{
		topic: math.MaxUint32, seq: math.MaxUint64, payload: make([]byte, MaxTick),
		received: math.MaxInt64, skipped: math.MaxUint64,
	}
	if n := len(AppendBatchFrame(nil, items([]entry{tick}))); n > MaxServerPlaintext {
		t.Errorf("the largest tick makes a plaintext of %d bytes, more than %d", n, MaxServerPlaintext)
	}
}

func TestJoinerDoesNotAllocate(t *testing.T) {
	var j Joiner
	many := make([]entry, 300)
	for i := range many {
		many[i] = entry{topic: uint32(i*i) % 200, seq: uint64(i), skipped: uint64(i % 2), received: someUS + int64(i)}
	}
	for _, entries := range [][]entry{batches[4].entries, many} {
		all := items(entries)
		dst, _ := j.AppendFrame(nil, all)
		if n := testing.AllocsPerRun(100, func() { j.AppendFrame(dst[:0], all) }); n != 0 {
			t.Errorf("%d items: %v allocations", len(all), n)
		}
	}
}

// TestRepack: payloads can be replaced by a shorter form, whatever the lengths of lengths are.
func TestRepack(t *testing.T) {
	for _, size := range []int{2, 100, 127, 128, 140, 16_383, 16_384, 20_000} {
		for _, packed := range []int{1, size / 150, size / 2, size - 1} {
			entries := []entry{
				{topic: 1, seq: 1, payload: bytes.Repeat([]byte("x"), size-1), received: someUS},
				{topic: 2, seq: 1, payload: []byte("y"), received: someUS},
			}
			frame, head := new(Joiner).AppendFrame(nil, items(entries))
			if !bytes.Equal(frame[head:], message(entries).Payloads) {
				t.Fatalf("%d bytes: the head ends at %d of %d", size, head, len(frame))
			}
			want := message(entries)
			want.Payloads = bytes.Repeat([]byte("z"), max(packed, 1))
			got := Repack(frame, head, CodecSnappy, want.Payloads)
			id, f, err := ParsePacked(got)
			if err != nil || id != CodecSnappy || !proto.Equal(f.GetBatch(), want) {
				t.Errorf("%d bytes as %d: %v, %v, %.200v", size, packed, id, err, f)
			}
		}
	}
}

// checkSplit compares what a batch is taken apart into.
func checkSplit(t *testing.T, s *Splitter, b *Batch, want []entry) {
	t.Helper()
	got, err := s.Split(b)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d of %d entries, %v", len(got), len(want), err)
	}
	received := b.BaseUs
	for i, e := range want {
		if e.reset == nil && e.received != 0 {
			received = e.received
		}
		g := &got[i]
		switch {
		case g.Topic != e.topic || (g.Reset != nil) != (e.reset != nil):
			t.Errorf("entry %d came as %+v", i, g)
		case e.reset != nil:
			if g.Reset.Epoch != e.reset.Epoch || g.Reset.NextSeq != e.reset.NextSeq || g.Reset.Cause != e.reset.Cause || g.Payload != nil {
				t.Errorf("reset %d came as %+v", i, g)
			}
		case g.Seq != e.seq || g.Skipped != e.skipped || !bytes.Equal(g.Payload, e.payload) || g.ReceivedUS != received:
			t.Errorf("tick %d came as %+v, want %+v", i, g, e)
		case cap(g.Payload) != len(g.Payload):
			t.Errorf("payload %d can grow into the next", i)
		}
	}
}

func TestSplit(t *testing.T) {
	var s Splitter
	for range 2 {
		for _, tt := range batches {
			checkSplit(t, &s, message(tt.entries), tt.entries)
		}
	}
}

// fullSizes are together more than 32 bits hold.
var fullSizes = []uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32}

// contradictions are batches that no receiver may use anything of.
var contradictions = []struct {
	name  string
	batch *Batch
}{
	{"too few bytes", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Sizes: []uint32{2}, Payloads: []byte("x")}},
	{"bytes, no ticks", &Batch{Payloads: []byte("x")}},
	{"sizes, no topics", &Batch{Sizes: []uint32{0}}},
	{"order, no topics", &Batch{Order: []uint32{0}}},
	{"deltas, no topics", &Batch{Deltas: []int64{0}}},
	{"more topics than ticks", &Batch{Topics: []uint32{1, 2}, Firsts: []uint64{1, 1}}},
	{"a topic without a number", &Batch{Topics: []uint32{1, 2}, Firsts: []uint64{1}, Sizes: []uint32{0}}},
	{"a number without a topic", &Batch{Topics: []uint32{1}, Firsts: []uint64{1, 2}, Sizes: []uint32{0}}},
	{"sum over 32 bits", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Sizes: fullSizes, Payloads: []byte("x")}},
	{"size of 31 bits", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Sizes: []uint32{1 << 31}, Payloads: []byte("x")}},
	{"short order", &Batch{Topics: []uint32{1, 2}, Firsts: []uint64{1, 1}, Sizes: []uint32{0}, Order: []uint32{0}}},
	{"long order", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Order: []uint32{0, 0}}},
	{"order of no topic", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Order: []uint32{1}}},
	{"order beyond 31 bits", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Order: []uint32{1 << 31}}},
	{"order of 32 bits", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Order: []uint32{math.MaxUint32}}},
	{"long deltas", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Deltas: []int64{1}}},
	{"short skipped", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Sizes: []uint32{0}, Skipped: []uint64{1}}},
	{"long steps", &Batch{Topics: []uint32{1}, Firsts: []uint64{1}, Steps: []int64{0, 1}}},
	{"skipped above seq", &Batch{Topics: []uint32{1}, Firsts: []uint64{4}, Skipped: []uint64{5}, Steps: []int64{-5}}},
	{"reset behind all", &Batch{Topics: []uint32{1}, Firsts: []uint64{4}, Resets: []*Reset{{At: 2}}}},
	{"resets out of order", &Batch{Topics: []uint32{1}, Firsts: []uint64{4}, Resets: []*Reset{{At: 1}, {At: 0}}}},
	{"skipped around 64 bits", &Batch{Topics: []uint32{1}, Firsts: []uint64{4}, Skipped: []uint64{math.MaxUint64}}},
	{"seq of 2^53", &Batch{Topics: []uint32{1}, Firsts: []uint64{MaxNumber}, Skipped: []uint64{1}}},
	{"seq of 2^53, after one that may be", &Batch{Topics: []uint32{1}, Firsts: []uint64{MaxNumber}, Sizes: []uint32{0}}},
	{"seq of 2^64-1", &Batch{Topics: []uint32{1}, Firsts: []uint64{math.MaxUint64}}},
	{"step before 0", &Batch{Topics: []uint32{1}, Firsts: []uint64{4}, Steps: []int64{-5}}},
	{"reset to a next_seq of 2^53", &Batch{Resets: []*Reset{{Topic: 1, Epoch: 1, NextSeq: MaxNumber + 1}}}},
	{"reset to an epoch of 2^53", &Batch{Resets: []*Reset{{Topic: 1, Epoch: MaxNumber + 1, NextSeq: 1}}}},
}

func TestSplitRefusesContradictions(t *testing.T) {
	for _, c := range contradictions {
		if entries, err := new(Splitter).Split(c.batch); !errors.Is(err, ErrBatch) || entries != nil {
			t.Errorf("%s: %v, %v; want ErrBatch", c.name, entries, err)
		}
	}
}

// FuzzBatchFrame builds batches from fuzz bytes and compares them with protobuf.
func FuzzBatchFrame(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8}, uint64(someUS))
	f.Add([]byte{0, 0, 0, 0, 0x80, 0xff, 1, 0}, uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, script []byte, base uint64) {
		var entries []entry
		for ; len(script) >= 4; script = script[4:] {
			a, b, c, d := script[0], script[1], script[2], script[3]
			e := entry{topic: uint32(a) << (b % 25), seq: base >> (c % 64)}
			if d%4 == 0 {
				e.seq = 0
				e.reset = &Reset{Epoch: base >> (b % 64), NextSeq: uint64(c), Cause: Cause(d % 5)}
			} else {
				e.payload = bytes.Repeat([]byte{a}, int(d))
				e.received = int64(base) + int64(b) - 128
				e.skipped = uint64(c)
			}
			entries = append(entries, e)
		}
		frame, err := ParseServerFrame(AppendBatchFrame(nil, items(entries)))
		if err != nil {
			t.Fatal(err)
		}
		want := message(entries)
		if !proto.Equal(frame.GetBatch(), want) {
			t.Errorf("parsed %v, want %v", frame.GetBatch(), want)
		}
		for _, e := range entries {
			if e.skipped > e.seq || e.seq > MaxNumber || e.reset.GetEpoch() > MaxNumber {
				return
			}
		}
		checkSplit(t, new(Splitter), want, entries)
	})
}

func BenchmarkJoiner(b *testing.B) {
	for _, topics := range []int{1, 20, 50} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			entries := make([]entry, 50)
			for i := range entries {
				entries[i] = entry{topic: uint32(i % topics), seq: 1_000_000 + uint64(i), payload: make([]byte, 100), received: someUS + int64(i)}
			}
			all := items(entries)
			var j Joiner
			dst, _ := j.AppendFrame(nil, all)
			b.ReportAllocs()
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				j.AppendFrame(dst[:0], all)
			}
		})
	}
}
