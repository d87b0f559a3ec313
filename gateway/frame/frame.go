// Package frame is the gateway's half of WebSocket framing (RFC 6455 section
// 5): bytes of a client to whole messages and control frames, and the headers
// of what goes back. It is strict in every rule that the RFC leaves no choice
// in. It opens no socket, starts no goroutine and reads no clock.
package frame

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// Limits are the bounds of one endpoint. They are shared by its decoders and
// must not change while one of them is in use.
type Limits struct {
	MessageBytes int  // largest message, in bytes, over all its fragments
	Fragments    int  // most frames of one message; below 2 no message may be fragmented
	Text         bool // text messages are taken, and checked to be UTF-8
}

// Event is a whole message (Op is ws.OpText or ws.OpBinary) or a control frame
// (ws.OpClose, ws.OpPing, ws.OpPong), unmasked.
//
// Payload is part of the buffer given to Next, or of one that is back in the
// pool already: it is valid until Next is called for any decoder of that pool.
type Event struct {
	Op      ws.OpCode
	Payload []byte
}

// Error is a violation of the framing rules or of the limits. The connection
// has to be closed with Code.
type Error struct {
	Code   wire.CloseCode
	Reason string // for the log and for the close frame; no input is quoted
}

func (e *Error) Error() string { return fmt.Sprintf("frame: %s (close code %d)", e.Reason, e.Code) }

func protocolError(reason string) *Error { return &Error{wire.CloseProtocolError, reason} }

// maxControl is the largest payload of a control frame (RFC 6455 section 5.5).
const maxControl = ws.MaxControlFramePayloadSize

// HeaderSize is the number of bytes that AppendHeader adds for a payload of n
// bytes.
func HeaderSize(n int) int {
	switch {
	case n < 126:
		return 2
	case n < 1<<16:
		return 4
	default:
		return 10
	}
}

// AppendHeader appends the header of an unmasked, unfragmented frame with n
// bytes of payload, which the caller appends next.
func AppendHeader(dst []byte, op ws.OpCode, n int) []byte {
	dst = append(dst, finBit|byte(op))
	switch HeaderSize(n) {
	case 2:
		return append(dst, byte(n))
	case 4:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	}
}

// AppendClose appends a whole close frame. With wire.CloseNoStatus its payload
// is empty; a reason that does not fit is cut at a character.
func AppendClose(dst []byte, code wire.CloseCode, reason string) []byte {
	if code == wire.CloseNoStatus {
		return AppendHeader(dst, ws.OpClose, 0)
	}
	if limit := maxControl - 2; len(reason) > limit {
		for limit > 0 && !utf8.RuneStart(reason[limit]) {
			limit--
		}
		reason = reason[:limit]
	}
	dst = AppendHeader(dst, ws.OpClose, 2+len(reason))
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}

// ParseClose reads the payload of a close frame. An empty one means
// wire.CloseNoStatus. The error is an *Error; payloads of events never have one.
func ParseClose(payload []byte) (code wire.CloseCode, reason string, err error) {
	if len(payload) == 0 {
		return wire.CloseNoStatus, "", nil
	}
	if e := checkClose(payload, true); e != nil {
		return 0, "", e
	}
	return wire.CloseCode(binary.BigEndian.Uint16(payload)), string(payload[2:]), nil
}

// checkClose checks as much of a close frame's payload as is there, so that a
// fault is found with the byte that makes it one.
func checkClose(payload []byte, whole bool) *Error {
	if len(payload) < 2 {
		if whole && len(payload) == 1 {
			return protocolError("a close frame has one byte of payload")
		}
		return nil
	}
	if !validCloseCode(binary.BigEndian.Uint16(payload)) {
		return protocolError("the close code must not be sent")
	}
	if incomplete, ok := checkUTF8(payload[2:]); !ok || whole && incomplete > 0 {
		return &Error{wire.CloseInvalidUTF8, "the reason in a close frame is not UTF-8"}
	}
	return nil
}

// validCloseCode reports whether an endpoint may send code: the registered
// ones without those kept for local use, and the ranges of libraries and
// applications (RFC 6455 section 7.4, IANA's WebSocket Close Code registry).
func validCloseCode(code uint16) bool {
	switch {
	case code >= 3000:
		return code <= 4999
	case code >= 1007:
		return code <= 1014
	default:
		return code >= 1000 && code <= 1003
	}
}

// checkUTF8 reports whether p can be the beginning of valid UTF-8, and how
// many bytes at its end belong to a character that is not yet complete.
func checkUTF8(p []byte) (incomplete int, ok bool) {
	for n := 1; n <= len(p) && n < utf8.UTFMax; n++ {
		tail := p[len(p)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if !utf8.FullRune(tail) {
			incomplete = n
		}
		break
	}
	return incomplete, utf8.Valid(p[:len(p)-incomplete])
}
