package servers

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"

	"github.com/gobwas/ws"
)

// The two servers that have no WebSocket library know as much of RFC 6455 as an
// echo needs: messages in one frame, masked by the client, no extensions.

// errFrame is a frame that these servers do not know.
var errFrame = errors.New("not a whole masked message")

// maxFrame bounds a message.
const maxFrame = 1 << 20

// appendEcho appends the answers to all whole frames in b, which it unmasks in
// place. It returns how much of b they are.
func appendEcho(dst, b []byte) (_ []byte, n int, err error) {
	for {
		p := b[n:]
		if len(p) < 6 {
			return dst, n, nil
		}
		if p[0]&0xf0 != 0x80 || p[1]&0x80 == 0 {
			return dst, n, errFrame
		}
		head, size := 2, int(p[1]&0x7f)
		switch {
		case size == 126:
			head, size = 4, int(binary.BigEndian.Uint16(p[2:]))
		case size == 127 && len(p) >= 10:
			head, size = 10, int(min(binary.BigEndian.Uint64(p[2:]), maxFrame+1))
		case size == 127:
			return dst, n, nil
		}
		if size > maxFrame {
			return dst, n, errFrame
		}
		if len(p) < head+4+size {
			return dst, n, nil
		}
		payload := p[head+4 : head+4+size]
		ws.Cipher(payload, [4]byte(p[head:]), 0)
		dst = append(dst, p[0], p[1]&0x7f)
		dst = append(append(dst, p[2:head]...), payload...)
		n += head + 4 + size
	}
}

// appendUpgrade appends the answer to the upgrade request at the front of b. n
// is its length; 0: it is not complete.
func appendUpgrade(dst, b []byte) (_ []byte, n int, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return dst, 0, nil
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:end+4])))
	if err != nil {
		return dst, 0, err
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "...)
	dst = append(dst, base64.StdEncoding.EncodeToString(sum[:])...)
	return append(dst, "\r\n\r\n"...), end + 4, nil
}

// serveBytes is one turn of a connection: the upgrade if it is still to come,
// then all messages that are there.
func serveBytes(upgraded *bool, dst, b []byte) (_ []byte, n int, err error) {
	if !*upgraded {
		if dst, n, err = appendUpgrade(dst, b); err != nil || n == 0 {
			return dst, n, err
		}
		*upgraded = true
	}
	dst, m, err := appendEcho(dst, b[n:])
	return dst, n + m, err
}
