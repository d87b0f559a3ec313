package codec

import (
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/sealcast/sealcast/wire"
)

// encodeWindow is how far back a Zstandard encoder looks, and what most of its
// memory goes into. Batches are 16 KiB by default.
const encodeWindow = 128 << 10

// Encoder compresses with one codec. It belongs to one goroutine, which uses it
// for everything it compresses with that codec.
type Encoder struct {
	id   wire.Codec
	zstd *zstd.Encoder
}

// NewEncoder makes an encoder for CodecSnappy, CodecZstd, or CodecZstdDict with
// its dictionary.
func NewEncoder(id wire.Codec, dictionary *Dictionary) (*Encoder, error) {
	options := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // records are authenticated
		zstd.WithSingleSegment(true),
		zstd.WithWindowSize(encodeWindow),
		zstd.WithLowerEncoderMem(true),
	}
	switch {
	case id == wire.CodecSnappy:
		return &Encoder{id: id}, nil
	case id == wire.CodecZstdDict && dictionary != nil:
		options = append(options, zstd.WithEncoderDict(dictionary.bytes))
	case id != wire.CodecZstd:
		return nil, fmt.Errorf("no encoder for %v", id)
	}
	e, err := zstd.NewWriter(nil, options...)
	if err != nil {
		return nil, fmt.Errorf("encoder for %v: %w", id, err)
	}
	return &Encoder{id: id, zstd: e}, nil
}

// Compress compresses the payloads of the plaintext buf[start:], a Batch that stands
// uncompressed and without padding, in place. Its first head bytes stand before the
// payloads; they stay as they are, for they would hardly shrink and spoil the
// coding of what does. It returns buf up to the end of the shorter frame; when the
// frame would not become shorter it stays as it is. It grows buf if there is no room
// to work in behind the frame, and does not allocate otherwise.
func (e *Encoder) Compress(buf []byte, start, head int) []byte {
	end, from := len(buf), start+head
	if from >= end {
		return buf
	}
	buf = slices.Grow(buf, s2.MaxEncodedLen(end-from)+zstdOverhead)
	packed := e.encode(buf[end:end:cap(buf)], buf[from:end:end])
	if len(packed) >= end-from {
		return buf[:end]
	}
	return buf[:start+len(wire.Repack(buf[start:end], head, e.id, packed))]
}

// zstdOverhead is what a frame without any compression adds to its content: a
// header, and three bytes for each block. Payloads have fewer than 64 blocks.
const zstdOverhead = 18 + 3*64

// zstdMagic begins a Zstandard frame, and is left out with CodecZstdDict: most of
// what is compressed with that is a tick alone.
const zstdMagic = "\x28\xb5\x2f\xfd"

// encode appends the compressed form of payloads to dst, which is empty.
func (e *Encoder) encode(dst, payloads []byte) []byte {
	switch e.id {
	case wire.CodecSnappy:
		return s2.EncodeSnappy(dst, payloads)
	case wire.CodecZstdDict:
		return e.zstd.EncodeAll(payloads, dst)[len(zstdMagic):]
	}
	return e.zstd.EncodeAll(payloads, dst)
}
