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

// Compress compresses the plaintext buf[start:], a frame that stands uncompressed
// and without padding, in place. It returns buf up to the end of the shorter
// frame; when the frame would not become shorter it stays as it is. It grows
// buf if there is no room to work in behind the frame, and does not allocate
// otherwise.
func (e *Encoder) Compress(buf []byte, start int) []byte {
	body := start + wire.PlainHeaderSize
	end := len(buf)
	if end <= body {
		return buf
	}
	buf = slices.Grow(buf, s2.MaxEncodedLen(end-body)+zstdOverhead)
	packed := e.encode(buf[end:end:cap(buf)], buf[body:end:end])
	if len(packed) >= end-body {
		return buf[:end]
	}
	buf[start] = byte(e.id)
	return buf[:body+copy(buf[body:end], packed)]
}

// zstdOverhead is what a frame without any compression adds to its content: a
// header, and three bytes for each block. Bodies have fewer than 64 blocks.
const zstdOverhead = 18 + 3*64

// encode appends the compressed form of body to dst, which is empty.
func (e *Encoder) encode(dst, body []byte) []byte {
	if e.id == wire.CodecSnappy {
		return s2.EncodeSnappy(dst, body)
	}
	return e.zstd.EncodeAll(body, dst)
}
