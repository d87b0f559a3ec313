package client

import (
	"fmt"
	"slices"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// keepRoom is how much room a connection keeps for the next decompressed batch.
const keepRoom = 1 << 20

// unpacker reads plaintexts, and undoes the codec that was agreed on.
type unpacker struct {
	decoder *codec.Decoder // nil: nothing may be compressed
	room    []byte         // for a decompressed body
}

func codecNumbers(codecs []wire.Codec) []uint32 {
	numbers := make([]uint32, len(codecs))
	for i, id := range codecs {
		numbers[i] = uint32(id)
	}
	return numbers
}

// agree gets ready for the codec that the gateway has chosen from the offer.
func (u *unpacker) agree(c *wire.Connected, opts *Options) error {
	id := wire.Codec(c.GetCodec())
	switch {
	case c.GetCodec() == uint32(wire.CodecNone):
		return nil
	case c.GetCodec() > uint32(wire.CodecZstdDict) || !slices.Contains(opts.Codecs, id):
		return fmt.Errorf("%w: %d, which was not offered", wire.ErrCodec, c.GetCodec())
	}
	var dictionary *codec.Dictionary
	var err error
	if id == wire.CodecZstdDict {
		if dictionary, err = codec.ParseDictionary(c.GetDictionary()); err != nil {
			return err
		}
	}
	u.decoder, err = codec.NewDecoder(id, dictionary, opts.MaxBatch)
	return err
}

// parse reads a plaintext. size is how many bytes it has, decompressed. The
// frame owns its memory.
func (u *unpacker) parse(plaintext []byte) (frame *wire.ServerFrame, size int, err error) {
	id, body, err := wire.ParsePlain(plaintext)
	if err != nil {
		return nil, 0, err
	}
	if u.decoder == nil || id != u.decoder.Codec() {
		frame, err = wire.ParseServerFrame(plaintext) // refuses other codecs than none
		return frame, len(plaintext), err
	}
	if body, err = u.decoder.Decode(u.room, body); err != nil {
		return nil, 0, err
	}
	if cap(body) <= keepRoom {
		u.room = body
	}
	frame, err = wire.ParseBatchBody(body)
	return frame, wire.PlainHeaderSize + len(body), err
}
