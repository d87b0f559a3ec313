// Package wire is what travels between gateway and client: the envelope of a
// message, the layout of a record's plaintext, the protobuf messages, the
// close codes. It encodes and decodes; it never encrypts, compresses, or
// touches a socket.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Kind is the first byte of every binary message (docs/protocol.md section 2).
type Kind byte

// The kinds of protocol version 1. The handshake comes first, then records.
const (
	KindHandshakeInit  Kind = 0x01 // client: Noise NX message 1
	KindHandshakeReply Kind = 0x02 // gateway: Noise NX message 2
	KindResumeInit     Kind = 0x03 // client: ticket and Noise NNpsk0 message 1
	KindResumeReply    Kind = 0x04 // gateway: Noise NNpsk0 message 2
	KindResumeRefused  Kind = 0x05 // gateway: empty; the client goes on with KindHandshakeInit
	KindRecord         Kind = 0x10 // both: sealed plaintext
	KindGroupRecord    Kind = 0x11 // gateway: plaintext sealed once for a group of sessions
	KindKeyUpdate      Kind = 0x12 // both: sealed empty plaintext, the sender's last under its key
	KindGoodbye        Kind = 0x13 // both: sealed Goodbye, the only final end
)

// Limits every endpoint of version 1 relies on, in bytes.
const (
	// MaxTick is the largest payload of one tick.
	MaxTick = 1 << 20
	// MaxServerPlaintext bounds the plaintext of a record to the client: one
	// tick of MaxTick, its head and the framing around it.
	MaxServerPlaintext = MaxTick + 4<<10
	// MaxTopicName is the longest topic name or pattern.
	MaxTopicName = 255
)

// Codec names the compression of a plaintext's body.
type Codec byte

// The codecs of version 1. All but CodecNone are for batches alone, and only
// after Connected has named the codec.
const (
	CodecNone     Codec = 0 // a body as it is; every client understands it
	CodecSnappy   Codec = 1 // a Snappy block
	CodecZstd     Codec = 2 // one Zstandard frame
	CodecZstdDict Codec = 3 // one Zstandard frame, with the dictionary of Connected
)

// String is the codec's name in settings and messages.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecSnappy:
		return "snappy"
	case CodecZstd:
		return "zstd"
	case CodecZstdDict:
		return "zstd with a dictionary"
	}
	return "codec " + strconv.Itoa(int(c))
}

// PlainHeaderSize is the length of what stands before a push plaintext's body:
//
//	0  codec    u8
//	1  padding  u16, zeros after the body
const PlainHeaderSize = 3

// ErrPlaintext reports a plaintext that does not have the layout of the push role.
var ErrPlaintext = errors.New("malformed plaintext")

// AppendPlainHeader appends the header of a push plaintext whose body follows.
func AppendPlainHeader(dst []byte, codec Codec, padding uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, byte(codec)), padding)
}

// ParsePlain splits a push plaintext into codec and body. The body aliases
// plaintext. It fails with ErrPlaintext when the padding does not fit or is not zero.
func ParsePlain(plaintext []byte) (Codec, []byte, error) {
	if len(plaintext) < PlainHeaderSize {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrPlaintext, len(plaintext))
	}
	padding := int(binary.BigEndian.Uint16(plaintext[1:]))
	end := len(plaintext) - padding
	if end < PlainHeaderSize {
		return 0, nil, fmt.Errorf("%w: padding of %d in %d bytes", ErrPlaintext, padding, len(plaintext))
	}
	for _, b := range plaintext[end:] {
		if b != 0 {
			return 0, nil, fmt.Errorf("%w: padding is not zero", ErrPlaintext)
		}
	}
	return Codec(plaintext[0]), plaintext[PlainHeaderSize:end], nil
}
