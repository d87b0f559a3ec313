package frame

import "math/bits"

const (
	smallestShift = 8 // 256 bytes: the smallest buffer, holds any control frame
	classes       = 17
	keepParts     = 1024 // 48 bytes each
)

// Buffers are the free buffers of one event loop, for messages that do not
// come in one piece. Sizes are powers of two from 256 bytes to 16 MiB, each
// with a list of its own; larger ones are left to the garbage collector.
// There is no lock: only the loop's goroutine may use it.
type Buffers struct {
	keep  int // bytes kept in one list
	free  [classes][][]byte
	parts []*parts // at most keepParts
}

// NewBuffers makes an empty set that keeps at most keep bytes of each size.
// For steady traffic without allocations keep has to be at least the size of
// the largest message.
func NewBuffers(keep int) *Buffers { return &Buffers{keep: keep} }

// class is the index of the smallest size that holds n bytes.
func class(n int) int {
	return max(bits.Len(uint(n-1)), smallestShift) - smallestShift
}

// append is the built-in append, but grows dst by exchanging it for the next
// sizes. So memory follows what was really received, never what was announced,
// and a message is copied twice at most.
func (b *Buffers) append(dst, p []byte) []byte {
	need := len(dst) + len(p)
	if need <= cap(dst) {
		return append(dst, p...)
	}
	grown := append(b.get(need), dst...)
	b.put(dst)
	return append(grown, p...)
}

func (b *Buffers) get(size int) []byte {
	c := class(size)
	if c < classes {
		if last := len(b.free[c]) - 1; last >= 0 {
			p := b.free[c][last]
			b.free[c][last] = nil
			b.free[c] = b.free[c][:last]
			return p
		}
	}
	return make([]byte, 0, 1<<(c+smallestShift))
}

// put takes a buffer of get back. Its bytes stay as they are until a get.
func (b *Buffers) put(p []byte) {
	if cap(p) == 0 {
		return
	}
	c := class(cap(p))
	if c < classes && (len(b.free[c])+1)*cap(p) <= b.keep {
		b.free[c] = append(b.free[c], p[:0])
	}
}

func (b *Buffers) getParts() *parts {
	last := len(b.parts) - 1
	if last < 0 {
		return &parts{}
	}
	p := b.parts[last]
	b.parts = b.parts[:last]
	return p
}

// putParts takes parts back whose buffers were put.
func (b *Buffers) putParts(p *parts) {
	if *p = (parts{}); len(b.parts) < keepParts {
		b.parts = append(b.parts, p)
	}
}
