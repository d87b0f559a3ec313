package client

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/wire"
)

// headerRoom is the longest header of a frame to the gateway: it is masked, and
// as much is kept free before a payload so that the header can be put there.
const headerRoom = ws.MaxHeaderSize

// maskFrame puts the header of a frame before its payload, buf[headerRoom:],
// masks the payload in place (RFC 6455 section 5.3) and returns the frame, a
// slice of buf.
func maskFrame(buf []byte, op ws.OpCode, mask [4]byte) []byte {
	payload := buf[headerRoom:]
	size := ws.HeaderSize(ws.Header{Length: int64(len(payload)), Masked: true})
	frame := buf[headerRoom-size:]
	frame[0] = 0x80 | byte(op)
	switch n := len(payload); size {
	case 2 + 4:
		frame[1] = 0x80 | byte(n)
	case 4 + 4:
		frame[1] = 0x80 | 126
		binary.BigEndian.PutUint16(frame[2:], uint16(n))
	default:
		frame[1] = 0x80 | 127
		binary.BigEndian.PutUint64(frame[2:], uint64(n))
	}
	copy(frame[size-len(mask):], mask[:])
	ws.Cipher(payload, mask, 0)
	return frame
}

// appendClose appends the payload of a close frame. A code that cannot stand in
// one makes it empty; a reason that is too long is cut between two characters.
func appendClose(dst []byte, code wire.CloseCode, reason string) []byte {
	if !code.OnWire() {
		return dst
	}
	if room := ws.MaxControlFramePayloadSize - 2; len(reason) > room {
		for reason = reason[:room]; !utf8.ValidString(reason); {
			reason = reason[:len(reason)-1]
		}
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}
