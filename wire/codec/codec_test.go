package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire"
)

// compressing are all codecs but none.
var compressing = []wire.Codec{wire.CodecSnappy, wire.CodecZstd, wire.CodecZstdDict}

// frame is the plaintext of a batch, and how much of it stands before the payloads.
type frame struct {
	bytes []byte
	head  int
}

func (f frame) payloads() []byte { return f.bytes[f.head:] }

func frameOf(items ...wire.BatchItem) frame {
	b, head := new(wire.Joiner).AppendFrame(nil, items)
	return frame{b, head}
}

// of is the frame of one tick.
func of(payload []byte) frame {
	return frameOf(wire.BatchItem{Topic: 1, Seq: 1, Payload: payload})
}

// quote is a batch of n ticks that look like a market's.
func quote(rng *rand.Rand, n int) frame {
	var items []wire.BatchItem
	for range n {
		payload := fmt.Appendf(nil, `{"type":"ticker","product_id":"SYM-%d","price":"%d.%02d","best_bid":"%d.%02d","side":"buy","volume_24h":"%d"}`,
			rng.IntN(20), 100+rng.IntN(9), rng.IntN(100), 100+rng.IntN(9), rng.IntN(100), rng.IntN(1_000_000))
		items = append(items, wire.BatchItem{
			Topic: 1 + rng.Uint32N(20), Seq: 1 + rng.Uint64N(1000), Payload: payload, ReceivedUS: 1_700_000_000_000_000 + rng.Int64N(1_000_000),
		})
	}
	return frameOf(items...)
}

var testDictionary = sync.OnceValue(func() *Dictionary {
	rng := rand.New(rand.NewPCG(1, 2))
	var samples [][]byte
	for range 300 {
		samples = append(samples, quote(rng, 1).payloads())
	}
	d, err := Train(samples, 4<<10)
	if err != nil {
		panic(err)
	}
	return d
})

func dictionaryFor(id wire.Codec) *Dictionary {
	if id == wire.CodecZstdDict {
		return testDictionary()
	}
	return nil
}

func coders(t testing.TB, id wire.Codec, limit int) (*Encoder, *Decoder) {
	t.Helper()
	e, err := NewEncoder(id, dictionaryFor(id))
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder(id, dictionaryFor(id), limit)
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

// checkFrame compresses the frame behind some other bytes and looks at what comes back.
func checkFrame(t testing.TB, e *Encoder, d *Decoder, plain frame) (packed []byte) {
	t.Helper()
	before := []byte("before")
	buf := e.Compress(append(slices.Clone(before), plain.bytes...), len(before), plain.head)
	if !bytes.HasPrefix(buf, before) {
		t.Fatal("bytes before the frame have changed")
	}
	packed = buf[len(before):]
	if wire.Codec(packed[0]) == wire.CodecNone {
		if !bytes.Equal(packed, plain.bytes) {
			t.Fatal("a frame that did not shrink has changed")
		}
		return packed
	}
	id, f, err := wire.ParsePacked(packed)
	if err != nil {
		t.Fatal(err)
	}
	if id != d.Codec() || len(packed) >= len(plain.bytes) {
		t.Fatalf("%v, %d of %d bytes", id, len(packed), len(plain.bytes))
	}
	got, err := d.Decode(nil, f.GetBatch().GetPayloads())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, plain.payloads()) {
		t.Fatal("other payloads came back")
	}
	want, err := wire.ParseServerFrame(plain.bytes)
	if f.GetBatch().Payloads = got; err != nil || !proto.Equal(f, want) {
		t.Fatalf("%v became %v, %v", want, f, err)
	}
	return packed
}

// packed are the payloads of a frame that shrinks.
func packed(t testing.TB, e *Encoder, plain frame) []byte {
	t.Helper()
	_, f, err := wire.ParsePacked(e.Compress(slices.Clone(plain.bytes), 0, plain.head))
	if err != nil {
		t.Fatal(err)
	}
	return f.GetBatch().GetPayloads()
}

func TestRoundTrip(t *testing.T) {
	for _, id := range compressing {
		t.Run(id.String(), func(t *testing.T) {
			e, d := coders(t, id, DefaultLimit)
			rng := rand.New(rand.NewPCG(3, 4))
			for _, n := range []int{1, 2, 50, 256, 5000, 9000} {
				plain := quote(rng, n)
				if packed := checkFrame(t, e, d, plain); n >= 50 && len(packed) > len(plain.bytes)/2 {
					t.Errorf("%d ticks: %d of %d bytes", n, len(packed), len(plain.bytes))
				}
			}
			for n := range 300 {
				checkFrame(t, e, d, of(make([]byte, n)))
			}
		})
	}
}

func TestNoiseStaysAsItIs(t *testing.T) {
	for _, id := range compressing {
		e, d := coders(t, id, DefaultLimit)
		rng := rand.NewChaCha8([32]byte{1})
		for _, n := range []int{0, 1, 100, 70_000, wire.MaxTick} {
			noise := make([]byte, n)
			_, _ = rng.Read(noise)
			if packed := checkFrame(t, e, d, of(noise)); packed[0] != byte(wire.CodecNone) {
				t.Errorf("%v: noise of %d bytes became %d", id, n, len(packed))
			}
		}
	}
}

// TestADictionaryHelpsSingleTicks: that is what it is for.
func TestADictionaryHelpsSingleTicks(t *testing.T) {
	with, d := coders(t, wire.CodecZstdDict, DefaultLimit)
	without, d2 := coders(t, wire.CodecZstd, DefaultLimit)
	plain := quote(rand.New(rand.NewPCG(5, 6)), 1)
	if a, b := len(checkFrame(t, with, d, plain)), len(checkFrame(t, without, d2, plain)); a*3/2 > b {
		t.Errorf("%d bytes with a dictionary, %d without", a, b)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, id := range compressing {
		t.Run(id.String(), func(t *testing.T) {
			e, d := coders(t, id, DefaultLimit)
			plain := quote(rand.New(rand.NewPCG(7, 8)), 50)
			body := packed(t, e, plain)
			arena := make([]byte, 0, 64<<10)
			room := make([]byte, 0, 64<<10)
			allocs := testing.AllocsPerRun(200, func() {
				e.Compress(append(arena[:0], plain.bytes...), 0, plain.head)
				var err error
				if room, err = d.Decode(room, body); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 && !testenv.Race { // the race detector allocates
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	for _, id := range compressing {
		e, exact := coders(t, id, 10_000)
		_, below := coders(t, id, 9_999)
		body := packed(t, e, of(make([]byte, 10_000)))
		if got, err := exact.Decode(nil, body); err != nil || len(got) != 10_000 {
			t.Errorf("%v at the limit: %d bytes, %v", id, len(got), err)
		}
		if _, err := below.Decode(nil, body); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v above the limit: %v", id, err)
		}
	}
}

// zstdFrame is a frame with an announced size of 8 bytes' width and the given blocks.
func zstdFrame(size uint64, blocks ...byte) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}
	return append(binary.LittleEndian.AppendUint64(frame, size), blocks...)
}

func TestHostileSizes(t *testing.T) {
	rle := func(size int, last int) []byte {
		h := size<<3 | 1<<1 | last
		return []byte{byte(h), byte(h >> 8), byte(h >> 16), 'x'}
	}
	tests := []struct {
		name string
		id   wire.Codec
		body []byte
		want error
	}{
		{"snappy claims 4 GiB", wire.CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, ErrTooLarge},
		{"snappy claims 16 MiB", wire.CodecSnappy, binary.AppendUvarint(nil, 16<<20), ErrCorrupt},
		{"snappy claims more than 32 bits", wire.CodecSnappy, binary.AppendUvarint(nil, 1<<40), ErrCorrupt},
		{"snappy, empty", wire.CodecSnappy, nil, ErrCorrupt},
		{"zstd claims 2^64-1", wire.CodecZstd, zstdFrame(1<<64-1, rle(1, 1)...), ErrTooLarge},
		{"zstd claims 16 MiB in one small block", wire.CodecZstd, zstdFrame(16<<20, rle(1, 1)...), ErrCorrupt},
		{"zstd claims 16 MiB without a block", wire.CodecZstd, zstdFrame(16 << 20), ErrCorrupt},
		{"zstd block beyond the end", wire.CodecZstd, zstdFrame(10, 0x55, 0, 0), ErrCorrupt},
		{"zstd with too large a block", wire.CodecZstd, zstdFrame(200<<10, rle(200<<10, 1)...), ErrCorrupt},
		{"zstd holds less than announced", wire.CodecZstd, zstdFrame(100<<10, 0x0d, 0, 0, 0), ErrCorrupt},
		{"zstd holds more than announced", wire.CodecZstd, zstdFrame(3, rle(4, 1)...), ErrCorrupt},
		{"two zstd frames", wire.CodecZstd, slices.Concat(zstdFrame(4, rle(4, 1)...), zstdFrame(4, rle(4, 1)...)), ErrCorrupt},
		{"zstd with something behind it", wire.CodecZstd, append(zstdFrame(4, rle(4, 1)...), 0), ErrCorrupt},
		{"skippable zstd frame", wire.CodecZstd, []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 0}, ErrCorrupt},
		{"zstd without its size", wire.CodecZstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0}, rle(4, 1)...), ErrCorrupt},
		{"zstd, empty", wire.CodecZstd, nil, ErrCorrupt},
		{"zstd without the dictionary", wire.CodecZstdDict, zstdFrame(4, rle(4, 1)...)[4:], ErrCorrupt},
		{"zstd with its magic number, and the dictionary's codec", wire.CodecZstdDict, zstdFrame(4, rle(4, 1)...), ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, d := coders(t, tt.id, DefaultLimit)
			got, err := d.Decode(nil, tt.body)
			if !errors.Is(err, tt.want) {
				t.Errorf("%d bytes, %v; want %v", len(got), err, tt.want)
			}
			if cap(got) > 1<<20 {
				t.Errorf("%d bytes were taken", cap(got))
			}
			if n := allocatedBy(func() { _, _ = d.Decode(nil, tt.body) }); n > 512<<10 {
				t.Errorf("%d bytes were allocated for a body of %d", n, len(tt.body))
			}
		})
	}
}

// allocatedBy is how many bytes f takes from the heap.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestAnotherDictionary(t *testing.T) {
	other := *testDictionary()
	other.bytes = slices.Clone(other.bytes)
	binary.LittleEndian.PutUint32(other.bytes[4:], other.id%255+1)
	changed, err := ParseDictionary(other.bytes)
	if err != nil || changed.ID() != other.id%255+1 {
		t.Fatalf("id %d, %v", changed.ID(), err)
	}
	e, _ := coders(t, wire.CodecZstdDict, DefaultLimit)
	d, err := NewDecoder(wire.CodecZstdDict, changed, DefaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(nil, packed(t, e, quote(rand.New(rand.NewPCG(9, 1)), 10))); !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened with another dictionary: %v", err)
	}
}

func TestNotADictionary(t *testing.T) {
	noID := slices.Clone(testDictionary().Bytes())
	clear(noID[4:8])
	for name, b := range map[string][]byte{
		"empty": nil, "text": []byte("a text that is long enough to be one"), "cut": testDictionary().Bytes()[:40],
		"id 0": noID, "huge": make([]byte, MaxDictionary+1),
	} {
		if _, err := ParseDictionary(b); !errors.Is(err, ErrDictionary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Train([][]byte{[]byte("alone")}, 1<<10); err == nil {
		t.Error("trained from nothing")
	}
}

func TestUnknownCodecs(t *testing.T) {
	for _, id := range []wire.Codec{wire.CodecNone, wire.CodecZstdDict, 4, 255} {
		if _, err := NewEncoder(id, nil); err == nil {
			t.Errorf("encoder for %v", id)
		}
		if _, err := NewDecoder(id, nil, 1); err == nil {
			t.Errorf("decoder for %v", id)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	f.Add(quote(rand.New(rand.NewPCG(1, 1)), 3).payloads())
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, id := range compressing {
			e, d := coders(t, id, DefaultLimit)
			checkFrame(t, e, d, of(body))
		}
	})
}

// FuzzDecode: whatever comes, nothing panics, and no result is above the limit.
func FuzzDecode(f *testing.F) {
	const limit = 1 << 20
	for _, id := range compressing {
		e, _ := coders(f, id, limit)
		f.Add(byte(id), packed(f, e, quote(rand.New(rand.NewPCG(1, 1)), 10)))
	}
	f.Add(byte(wire.CodecZstd), zstdFrame(1<<20, 0x0d, 0, 0, 0))
	reference, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		f.Fatal(err)
	}
	decoders := map[wire.Codec]*Decoder{}
	for _, id := range compressing {
		_, decoders[id] = coders(f, id, limit)
	}
	room := make([]byte, 0, limit)
	f.Fuzz(func(t *testing.T, id byte, body []byte) {
		d := decoders[wire.Codec(id)]
		if d == nil {
			return
		}
		got, err := d.Decode(room, body)
		switch {
		case err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge):
			t.Fatalf("an error without a kind: %v", err)
		case len(got) > limit:
			t.Fatalf("%d bytes", len(got))
		case err == nil && d.Codec() == wire.CodecZstd:
			if want, err := reference.DecodeAll(body, nil); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes; the library by itself: %d, %v", len(got), len(want), err)
			}
		}
	})
}
