package servers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gobwas/ws"
)

// masked is a client's frame.
func masked(payload []byte) []byte {
	b := []byte{0x82}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{1, 2, 3, 4}
	b = append(b, mask[:]...)
	start := len(b)
	b = append(b, payload...)
	ws.Cipher(b[start:], mask, 0)
	return b
}

// unmasked is a server's frame.
func unmasked(payload []byte) []byte {
	b := masked(payload)
	b[1] &= 0x7f
	head := len(b) - len(payload) - 4
	return append(b[:head:head], payload...)
}

func TestEchoOfFrames(t *testing.T) {
	var in, want []byte
	for _, n := range []int{0, 1, 125, 126, 0xffff, 0x10000} {
		payload := bytes.Repeat([]byte{'x'}, n)
		in, want = append(in, masked(payload)...), append(want, unmasked(payload)...)
	}
	for _, part := range []int{1, 2, 3, 7, 1000, len(in)} {
		var got, held []byte
		for rest := in; len(rest) > 0; {
			n := min(part, len(rest))
			held = append(held, rest[:n]...)
			rest = rest[n:]
			if part == 1 && len(held)%97 != 0 && len(rest) > 0 && len(held) > 200 {
				continue // asking after every byte of a long frame is quadratic
			}
			out, took, err := appendEcho(got, held)
			if err != nil {
				t.Fatal(err)
			}
			got, held = out, held[took:]
		}
		if !bytes.Equal(got, want) {
			t.Errorf("in parts of %d bytes, the answers differ", part)
		}
	}
}

func TestFramesThatAreRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"not masked":  unmasked([]byte("hello")),
		"not the end": append([]byte{0x02}, masked([]byte("hello"))[1:]...),
		"too large":   binary.BigEndian.AppendUint64([]byte{0x82, 0xff}, maxFrame+1),
	} {
		if _, _, err := appendEcho(nil, b); !errors.Is(err, errFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
