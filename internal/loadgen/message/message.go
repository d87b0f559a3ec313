// Package message is what load generators send and hold answers against: text
// that looks like market data, stamped with a number and a time. It sends
// nothing and reads no clock.
package message

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Min is the size of the smallest message: what stands in front of its text.
//
//	0  sequence number   u64
//	8  intended time     u64, nanoseconds of the generator's clock
const Min = 16

// text makes n bytes that look like what exchanges send: JSON with numbers that
// hardly repeat, so that compression finds what it would find there.
func text(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 0x5ea1ca57))
	var b []byte
	for len(b) < n {
		b = fmt.Appendf(b, `{"symbol":"%c%cUSD","bid":"%d.%02d","ask":"%d.%02d","size":%d,"id":%d},`,
			'A'+random.IntN(26), 'A'+random.IntN(26), random.IntN(1e5), random.IntN(100),
			random.IntN(1e5), random.IntN(100), random.IntN(1e4), random.Uint32())
	}
	return b[:n]
}

// Template is a message of size bytes, at least Min, without its stamp.
func Template(seed uint64, size int) []byte {
	size = max(size, Min)
	return append(make([]byte, Min), text(seed, size-Min)...)
}

// Stamp writes the part of a message that differs.
func Stamp(b []byte, seq uint64, at int64) {
	binary.LittleEndian.PutUint64(b, seq)
	binary.LittleEndian.PutUint64(b[8:], uint64(at))
}

// Stamped reads the stamp of b. ok is false when b is too short for one.
func Stamped(b []byte) (seq uint64, at int64, ok bool) {
	if len(b) < Min {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:])), true
}

// Check reads a stamp. ok is false when the message is not made from the template.
func Check(b, template []byte) (seq uint64, at int64, ok bool) {
	if len(b) != len(template) || !bytes.Equal(b[Min:], template[Min:]) {
		return 0, 0, false
	}
	return Stamped(b)
}
