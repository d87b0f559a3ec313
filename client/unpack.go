package client

import (
	"fmt"
	"slices"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// unpacker reads plaintexts, and undoes the codec that was agreed on.
type unpacker struct {
	decoder *codec.Decoder // nil: nothing may be compressed
	clock   int64          // what times in batches count from, microseconds since the Unix epoch
}

func codecNumbers(codecs []wire.Codec) []uint32 {
	numbers := make([]uint32, len(codecs))
	for i, id := range codecs {
		numbers[i] = uint32(id)
	}
	return numbers
}

// agree gets ready for the codec that the gateway has chosen from the offer, and
// notes its clock.
func (u *unpacker) agree(c *wire.Connected, opts *Options) error {
	u.clock = int64(c.GetClockUs())
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
	if u.decoder == nil || len(plaintext) == 0 || wire.Codec(plaintext[0]) != u.decoder.Codec() {
		frame, err = wire.ParseServerFrame(plaintext) // refuses other codecs than none
		return frame, len(plaintext), err
	}
	if _, frame, err = wire.ParsePacked(plaintext); err != nil {
		return nil, 0, err
	}
	batch := frame.GetBatch()
	packed := len(batch.Payloads)
	if batch.Payloads, err = u.decoder.Decode(nil, batch.Payloads); err != nil {
		return nil, 0, err
	}
	return frame, len(plaintext) - packed + len(batch.Payloads), nil
}
