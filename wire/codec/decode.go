package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/sealcast/sealcast/wire"
)

// Decoder decompresses bodies of one codec. It belongs to one goroutine.
type Decoder struct {
	id    wire.Codec
	dict  uint32
	limit int
	zstd  *zstd.Decoder

	framed []byte // a body behind what was left out of it
}

// NewDecoder makes a decoder for CodecSnappy, CodecZstd, or CodecZstdDict with
// its dictionary. No body becomes larger than limit bytes.
func NewDecoder(id wire.Codec, dictionary *Dictionary, limit int) (*Decoder, error) {
	d := &Decoder{id: id, limit: limit}
	options := []zstd.DOption{
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(limit)),
		zstd.WithDecodeAllCapLimit(true), // room is made here, once a claim is believed
	}
	switch {
	case id == wire.CodecSnappy:
		return d, nil
	case id == wire.CodecZstdDict && dictionary != nil:
		d.dict = dictionary.id
		options = append(options, zstd.WithDecoderDicts(dictionary.bytes))
	case id != wire.CodecZstd:
		return nil, fmt.Errorf("no decoder for %v", id)
	}
	var err error
	if d.zstd, err = zstd.NewReader(nil, options...); err != nil {
		return nil, fmt.Errorf("decoder for %v: %w", id, err)
	}
	return d, nil
}

// Codec is what the decoder undoes.
func (d *Decoder) Codec() wire.Codec { return d.id }

// Decode decompresses body into dst[:0], or into new memory when dst has too
// little room. It keeps neither. The error wraps ErrCorrupt or ErrTooLarge. No
// memory is taken for a size that the body claims but cannot have.
func (d *Decoder) Decode(dst, body []byte) ([]byte, error) {
	if d.id == wire.CodecSnappy {
		return d.snappy(dst, body)
	}
	if d.id == wire.CodecZstdDict {
		d.framed = append(append(d.framed[:0], zstdMagic...), body...)
		body = d.framed
	}
	size, err := d.zstdSize(body)
	if err != nil {
		return nil, err
	}
	room := size + decodeSlack
	if room > cap(dst) {
		dst = make([]byte, 0, room)
	}
	out, err := d.zstd.DecodeAll(body, dst[:0:room])
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case len(out) != size:
		return nil, fmt.Errorf("%w: %d bytes announced, %d came", ErrCorrupt, size, len(out))
	}
	return dst[:size], nil // which is out, with all of its room
}

// decodeSlack is room behind the result that lets the decoder copy in whole words.
const decodeSlack = 16

// maxSnappyRatio is what three bytes of a block, a copy of 64, make at best.
const maxSnappyRatio = 64/3 + 1

func (d *Decoder) snappy(dst, body []byte) ([]byte, error) {
	size, err := s2.DecodedLen(body)
	switch {
	case errors.Is(err, s2.ErrTooLarge): // more than an int of 32 bits holds
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case size > d.limit:
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, size, d.limit)
	case size > maxSnappyRatio*len(body):
		return nil, fmt.Errorf("%w: %d bytes cannot become %d", ErrCorrupt, len(body), size)
	}
	out, err := s2.Decode(dst[:0], body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return out, nil
}

// The parts of a Zstandard frame that matter for its size (RFC 8878 section 3.1.1).
const (
	blockHeaderSize = 3
	maxBlock        = 128 << 10
	blockRLE        = 1
	blockCompressed = 2
	checksumSize    = 4
)

// zstdSize is the size that a body announces. The body must be exactly one
// frame with the agreed dictionary, and its blocks must be able to hold as much
// as it announces.
func (d *Decoder) zstdSize(body []byte) (int, error) {
	var h zstd.Header
	if err := h.Decode(body); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	switch {
	case h.Skippable || !h.HasFCS:
		return 0, fmt.Errorf("%w: a frame that does not announce its size", ErrCorrupt)
	case h.DictionaryID != d.dict:
		return 0, fmt.Errorf("%w: dictionary %d, agreed is %d", ErrCorrupt, h.DictionaryID, d.dict)
	case h.FrameContentSize > uint64(d.limit):
		return 0, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, h.FrameContentSize, d.limit)
	}
	checksum := 0
	if h.HasCheckSum {
		checksum = checksumSize
	}
	size := int(h.FrameContentSize)
	if most, ok := blocksHold(body[h.HeaderSize:], checksum); !ok || size > most {
		return 0, fmt.Errorf("%w: its blocks cannot hold %d bytes", ErrCorrupt, size)
	}
	return size, nil
}

// blocksHold walks over the blocks of a frame. It reports how many bytes they
// hold at most, and whether they end with the frame.
func blocksHold(rest []byte, checksum int) (most int, ok bool) {
	for len(rest) >= blockHeaderSize {
		header := int(rest[0]) | int(binary.LittleEndian.Uint16(rest[1:]))<<8
		last, kind, size := header&1 == 1, header>>1&3, header>>3
		stored := size
		switch kind {
		case blockRLE:
			stored = 1
		case blockCompressed:
			size = maxBlock
		}
		if rest = rest[blockHeaderSize:]; stored > len(rest) {
			return 0, false
		}
		rest = rest[stored:]
		most += min(size, maxBlock)
		if last {
			return most, len(rest) == checksum
		}
	}
	return 0, false
}
