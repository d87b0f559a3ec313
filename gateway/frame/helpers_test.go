package frame

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// open are limits that stand in no rule's way.
var open = &Limits{MessageBytes: 16 << 20, Fragments: 70_000, Text: true}

var testMask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

const (
	fin  = byte(finBit)
	more = byte(0)
)

// frameOf is a client's frame with the shortest header; first is the first
// byte without the opcode: fin or more, and reserved bits.
func frameOf(first byte, op ws.OpCode, payload string) []byte {
	b := AppendHeader(nil, op, len(payload))
	b[0] = first | byte(op)
	b[1] |= maskBit
	b = append(b, testMask[:]...)
	return append(b, masked(payload)...)
}

func masked(payload string) []byte {
	p := []byte(payload)
	ws.Cipher(p, testMask, 0)
	return p
}

func text(payload string) []byte    { return frameOf(fin, ws.OpText, payload) }
func binary_(payload string) []byte { return frameOf(fin, ws.OpBinary, payload) }
func ping(payload string) []byte    { return frameOf(fin, ws.OpPing, payload) }
func pong(payload string) []byte    { return frameOf(fin, ws.OpPong, payload) }

func closing(code uint16, reason string) []byte {
	return frameOf(fin, ws.OpClose, string(binary.BigEndian.AppendUint16(nil, code))+reason)
}

func join(frames ...[]byte) []byte { return slices.Concat(frames...) }

// outcome is what a stream comes to: its events, then the code of the fault
// and the number of bytes that were given until then.
type outcome struct {
	events []string
	code   wire.CloseCode // 0: no fault
	given  int
	begun  bool // InMessage at the end
}

func (o outcome) String() string {
	return fmt.Sprintf("%s code=%d begun=%v", strings.Join(o.events, " "), o.code, o.begun)
}

// decode gives the pieces one after the other and checks the contract of Next.
func decode(t *testing.T, limits *Limits, pieces ...[]byte) (o outcome) {
	t.Helper()
	d, pool := NewDecoder(limits), NewBuffers(32<<20)
	defer d.Release(pool)
	for _, piece := range pieces {
		piece = slices.Clone(piece) // Next changes it
		for len(piece) > 0 {
			n, ev, ok, err := d.Next(piece, pool)
			o.given += n
			if n <= 0 || n > len(piece) || !ok && n != len(piece) {
				t.Fatalf("Next took %d of %d bytes, ok=%v", n, len(piece), ok)
			}
			if err != nil {
				var fault *Error
				if !errors.As(err, &fault) {
					t.Fatalf("Next: %T is no *Error", err)
				}
				if o.code != 0 || ok {
					t.Fatalf("Next: %v comes after another fault or with an event", err)
				}
				o.code = fault.Code
				return o
			}
			if ok {
				o.events = append(o.events, show(ev))
			}
			piece = piece[n:]
		}
	}
	o.begun = d.InMessage()
	return o
}

// show is the event as text, long payloads by their hash.
func show(ev Event) string {
	if len(ev.Payload) > 1000 {
		return fmt.Sprintf("%x:%d bytes %x", byte(ev.Op), len(ev.Payload), sha256.Sum256(ev.Payload))
	}
	return fmt.Sprintf("%x:%q", byte(ev.Op), ev.Payload)
}

// shown are the events expected, as text: opcode and payload by turns.
func shown(opsAndPayloads ...any) (s []string) {
	for i := 0; i < len(opsAndPayloads); i += 2 {
		s = append(s, show(Event{opsAndPayloads[i].(ws.OpCode), []byte(opsAndPayloads[i+1].(string))}))
	}
	return s
}

// bytewise cuts a stream into single bytes.
func bytewise(stream []byte) [][]byte { return slices.Collect(slices.Chunk(stream, 1)) }

// expect decodes the stream at once, bytewise, and cut in two at each position,
// and wants the same each time.
func expect(t *testing.T, limits *Limits, stream []byte, code wire.CloseCode, events ...string) {
	t.Helper()
	check := func(way string, pieces ...[]byte) {
		t.Helper()
		got := decode(t, limits, pieces...)
		if !slices.Equal(got.events, events) || got.code != code {
			t.Fatalf("%s: got %v\nwant %v code=%d", way, got, events, code)
		}
	}
	check("at once", stream)
	check("bytewise", bytewise(stream)...)
	if len(stream) > 2000 {
		return // every cut of a long stream would take long and show nothing new
	}
	for i := range stream {
		check(fmt.Sprintf("cut at %d", i), stream[:i], stream[i:])
	}
}
