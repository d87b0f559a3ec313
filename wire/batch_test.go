package wire

import (
	"bytes"
	"errors"
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
		return BatchItem{Head: AppendReset(nil, e.topic, e.reset.Epoch, e.reset.NextSeq, e.reset.Cause)}
	}
	return BatchItem{
		Head:       AppendHead(nil, e.topic, e.seq, len(e.payload)),
		Payload:    e.payload,
		ReceivedUS: e.received,
		Skipped:    e.skipped,
	}
}

func items(entries []entry) []BatchItem {
	out := make([]BatchItem, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.item())
	}
	return out
}

// message is what AppendBatchFrame promises to encode.
func message(entries []entry) *Batch {
	b := new(Batch)
	for _, e := range entries {
		if b.BaseUs == 0 {
			b.BaseUs = uint64(e.received)
		}
		h := &Head{Topic: e.topic, Seq: e.seq, Size: uint32(len(e.payload)), Skipped: e.skipped, Reset_: e.reset}
		if e.received != 0 {
			h.Dt = e.received - int64(b.BaseUs)
		}
		b.Heads = append(b.Heads, h)
		b.Payloads = append(b.Payloads, e.payload...)
	}
	return b
}

const someUS = 1_790_000_000_000_000

var batches = []struct {
	name    string
	entries []entry
}{
	{"empty", nil},
	{"one tick", []entry{{topic: 1, seq: 1, payload: []byte(`{"bid":1}`), received: someUS}}},
	{"empty payload", []entry{{topic: 7, seq: 300, received: someUS}}},
	{"zero head", []entry{{}}},
	{"several topics", []entry{
		{topic: 1, seq: 41, payload: []byte("a"), received: someUS},
		{topic: 2, seq: 8, payload: bytes.Repeat([]byte{0xff}, 200), received: someUS + 15, skipped: 3},
		{topic: 1, seq: 42, payload: nil, received: someUS + 15},
		{topic: math.MaxUint32, seq: math.MaxUint64, payload: []byte{0}, received: someUS + 90, skipped: math.MaxUint64},
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
	{"only resets", []entry{{topic: 1, reset: &Reset{}}, {topic: 2, reset: &Reset{Epoch: 1}}}},
	{"largest tick", []entry{{topic: 1, seq: 1, payload: make([]byte, MaxTick), received: someUS}}},
}

func TestAppendBatchFrameEqualsProtobuf(t *testing.T) {
	for _, tt := range batches {
		t.Run(tt.name, func(t *testing.T) {
			want := &ServerFrame{Message: &ServerFrame_Batch{Batch: message(tt.entries)}}
			wantBytes, err := AppendServerFrame(nil, want)
			if err != nil {
				t.Fatal(err)
			}
			got := AppendBatchFrame([]byte("kept"), items(tt.entries))
			if !bytes.Equal(got, append([]byte("kept"), wantBytes...)) {
				t.Errorf("the bytes differ from those of proto.Marshal:\n%.200x\n%.200x", got[4:], wantBytes)
			}
			if n := BatchFrameSize(items(tt.entries)); n != len(got)-4 {
				t.Errorf("BatchFrameSize = %d, %d were appended", n, len(got)-4)
			}
			frame, err := ParseServerFrame(got[4:])
			if err != nil || !proto.Equal(frame, want) {
				t.Errorf("parsed %v, %v", frame, err)
			}
		})
	}
}

func TestLargestTickFitsRecord(t *testing.T) {
	tick := entry{
		topic: math.MaxUint32, seq: math.MaxUint64, payload: make([]byte, MaxTick),
		received: math.MaxInt64, skipped: math.MaxUint64,
	}
	if n := BatchFrameSize(items([]entry{tick})); n > MaxServerPlaintext {
		t.Errorf("the largest tick makes a plaintext of %d bytes, more than %d", n, MaxServerPlaintext)
	}
}

func TestAppendBatchFrameDoesNotAllocate(t *testing.T) {
	all := items(batches[4].entries)
	dst := make([]byte, 0, BatchFrameSize(all))
	if n := testing.AllocsPerRun(100, func() { AppendBatchFrame(dst, all) }); n != 0 {
		t.Errorf("AppendBatchFrame: %v allocations", n)
	}
	head := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { AppendHead(head, 1, math.MaxUint64, MaxTick) }); n != 0 {
		t.Errorf("AppendHead: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { AppendReset(head, 1, 1<<53, 1, Cause_CAUSE_OVERSIZED) }); n != 0 {
		t.Errorf("AppendReset: %v allocations", n)
	}
}

func TestEach(t *testing.T) {
	for _, tt := range batches {
		if tt.name == "zero head" || len(tt.entries) == 0 {
			continue
		}
		b := message(tt.entries)
		i := 0
		err := b.Each(func(h *Head, payload []byte) error {
			e := tt.entries[i]
			i++
			if h.Topic != e.topic || h.Seq != e.seq || !bytes.Equal(payload, e.payload) {
				t.Errorf("%s: entry %d came as %v with %.20x", tt.name, i-1, h, payload)
			}
			if e.reset != nil && (payload != nil || !proto.Equal(h.GetReset_(), e.reset)) {
				t.Errorf("%s: reset came as %v with %v", tt.name, h, payload)
			}
			if e.received != 0 && b.ReceivedUS(h) != e.received {
				t.Errorf("%s: received at %d, want %d", tt.name, b.ReceivedUS(h), e.received)
			}
			if cap(payload) != len(payload) {
				t.Errorf("%s: a payload can grow into the next", tt.name)
			}
			return nil
		})
		if err != nil || i != len(tt.entries) {
			t.Errorf("%s: %d of %d entries, %v", tt.name, i, len(tt.entries), err)
		}
	}
}

func TestEachRefusesContradictions(t *testing.T) {
	full := make([]*Head, 5)
	for i := range full {
		full[i] = &Head{Size: math.MaxUint32}
	}
	tests := map[string]*Batch{
		"too few bytes":     {Heads: []*Head{{Size: 2}}, Payloads: []byte("x")},
		"too many bytes":    {Heads: []*Head{{Size: 2}}, Payloads: []byte("xyz")},
		"bytes, no heads":   {Payloads: []byte("x")},
		"sum over 32 bits":  {Heads: append(slices.Clone(full), &Head{Size: 6}), Payloads: []byte("x")},
		"reset with size":   {Heads: []*Head{{Size: 1, Reset_: &Reset{}}}, Payloads: []byte("x")},
		"skipped above seq": {Heads: []*Head{{Seq: 4, Skipped: 5}}},
	}
	for name, b := range tests {
		err := b.Each(func(*Head, []byte) error {
			t.Errorf("%s: called for a malformed batch", name)
			return nil
		})
		if !errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v, want ErrBatch", name, err)
		}
	}
}

func TestEachStopsAtError(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	err := (&Batch{Heads: []*Head{{}, {}}}).Each(func(*Head, []byte) error {
		calls++
		return stop
	})
	if calls != 1 || !errors.Is(err, stop) {
		t.Errorf("%d calls, %v", calls, err)
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
		if want := message(entries); !proto.Equal(frame.GetBatch(), want) {
			t.Errorf("parsed %v, want %v", frame.GetBatch(), want)
		}
	})
}

func BenchmarkAppendBatchFrame(b *testing.B) {
	entries := make([]entry, 50)
	for i := range entries {
		entries[i] = entry{topic: uint32(i), seq: 1_000_000, payload: make([]byte, 100), received: someUS + int64(i)}
	}
	all := items(entries)
	dst := make([]byte, 0, BatchFrameSize(all))
	b.ReportAllocs()
	b.SetBytes(int64(cap(dst)))
	for b.Loop() {
		AppendBatchFrame(dst, all)
	}
}
