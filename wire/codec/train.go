package codec

import (
	"fmt"

	"github.com/klauspost/compress/dict"
	"github.com/klauspost/compress/zstd"
)

// matchLength is how long a piece of a sample has to be at least to get into a
// dictionary. Six was best for recorded market data.
const matchLength = 6

// Train makes a dictionary of about size bytes from bodies that are typical. It
// keeps nothing of them. Training takes seconds and memory of many times the
// samples' size. The error says why the samples are not fit for it.
func Train(samples [][]byte, size int) (*Dictionary, error) {
	b, err := dict.BuildZstdDict(samples, dict.Options{
		MaxDictSize: size,
		HashBytes:   matchLength,
		ZstdLevel:   zstd.SpeedFastest,
	})
	if err != nil {
		return nil, fmt.Errorf("train dictionary: %w", err)
	}
	return ParseDictionary(b)
}
