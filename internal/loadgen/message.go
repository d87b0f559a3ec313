package loadgen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// minMessage is the size of the smallest message: what stands in front of its text.
//
//	0  sequence number   u64
//	8  intended time     u64, nanoseconds of the generator's clock
const minMessage = 16

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

// template is a message of size bytes, without its stamp.
func template(seed uint64, size int) []byte {
	size = max(size, minMessage)
	return append(make([]byte, minMessage), text(seed, size-minMessage)...)
}

// stamp writes the part of a message that differs.
func stamp(b []byte, seq uint64, at int64) {
	binary.LittleEndian.PutUint64(b, seq)
	binary.LittleEndian.PutUint64(b[8:], uint64(at))
}

// check reads a stamp. ok is false when the message is not made from the template.
func check(b, template []byte) (seq uint64, at int64, ok bool) {
	if len(b) != len(template) || !bytes.Equal(b[minMessage:], template[minMessage:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:])), true
}
