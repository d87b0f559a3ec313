// Package codec compresses the payloads of batches and undoes that within bounds.
// It never sees a key or a socket, and keeps nothing from one batch to the next:
// what shares a batch is its caller's choice.
package codec

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// DefaultLimit is what a body may become when decompressed, in bytes, unless a
// client's settings say otherwise.
const DefaultLimit = 16 << 20

// MaxDictionary is the size of the largest dictionary, in bytes. It has to fit
// into Connected beside everything else.
const MaxDictionary = 256 << 10

// Errors of decompression. All mean that the peer is faulty.
var (
	// ErrCorrupt reports a body that its codec does not undo.
	ErrCorrupt = errors.New("compressed body is corrupt")
	// ErrTooLarge reports a body that would become larger than the limit.
	ErrTooLarge = errors.New("compressed body is too large")
)

// ErrDictionary reports bytes that are no Zstandard dictionary, or one that
// cannot be used.
var ErrDictionary = errors.New("not a Zstandard dictionary")

// Dictionary is a Zstandard dictionary (RFC 8878 section 5). It is immutable
// and may be shared.
type Dictionary struct {
	id    uint32
	bytes []byte
}

// ParseDictionary checks a dictionary. It keeps b, which must not change.
func ParseDictionary(b []byte) (*Dictionary, error) {
	if len(b) > MaxDictionary {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrDictionary, len(b), MaxDictionary)
	}
	d, err := zstd.InspectDictionary(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDictionary, err)
	case d.ID() == 0:
		return nil, fmt.Errorf("%w: its id is 0", ErrDictionary)
	}
	return &Dictionary{id: d.ID(), bytes: b}, nil
}

// ID is the number that compressed frames name the dictionary by.
func (d *Dictionary) ID() uint32 { return d.id }

// Bytes are the whole dictionary, read only.
func (d *Dictionary) Bytes() []byte { return d.bytes }
