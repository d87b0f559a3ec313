package codec

import (
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/dict"
	"github.com/klauspost/compress/zstd"
)

// matchLength is how long a piece of a sample has to be at least to get into a
// dictionary. Six was best for recorded market data.
const matchLength = 6

// trainedID is the number of a dictionary that is made from samples, from 1 to
// 255: every frame names it, and a larger one takes more bytes. It need not be
// unique, for a client has one dictionary, from its gateway.
func trainedID(samples [][]byte) uint32 {
	sum := crc32.NewIEEE()
	for _, s := range samples {
		_, _ = sum.Write(s)
	}
	return 1 + sum.Sum32()%255
}

// Train makes a dictionary of about size bytes from payloads that are typical. It
// keeps nothing of them. Training takes seconds and memory of many times the
// samples' size. The error says why the samples are not fit for it.
func Train(samples [][]byte, size int) (*Dictionary, error) {
	b, err := dict.BuildZstdDict(samples, dict.Options{
		MaxDictSize: size,
		HashBytes:   matchLength,
		ZstdLevel:   zstd.SpeedFastest,
		ZstdDictID:  trainedID(samples),
	})
	if err != nil {
		return nil, fmt.Errorf("train dictionary: %w", err)
	}
	return ParseDictionary(b)
}
