package client

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/wire"
)

// Bounds of what the gateway may send.
const (
	readAhead    = 16 << 10 // bytes read from the socket at a time
	maxFragments = 1024     // of one message
	growStep     = 64 << 10 // a message's buffer grows by what came, never by what was announced
)

// frameError is a violation of WebSocket framing by the gateway, with the code to close with.
type frameError struct {
	code wire.CloseCode
	text string
}

func (e *frameError) Error() string { return "WebSocket: " + e.text }

// frames reads the gateway's frames and joins fragments to messages. Its state
// survives a read that was interrupted by a deadline: the next call goes on
// where it stopped.
type frames struct {
	from  io.Reader
	limit int // bytes of one message

	in      []byte // in[at:end] was read and not yet used
	at, end int

	header ws.Header // of the frame in progress
	left   int64     // bytes of its payload still to come
	inside bool      // header is valid

	fragments int    // of the message in progress; 0: there is none
	message   []byte // what came of it
	control   []byte // what came of a control frame's payload
}

// newFrames reads from r, after early, bytes which were read from r already.
func newFrames(r io.Reader, early []byte, limit int) *frames {
	f := &frames{from: r, limit: limit, in: make([]byte, max(readAhead, len(early)))}
	f.end = copy(f.in, early)
	return f
}

// reuse offers a buffer for the next message. The reader owns it from now on.
func (f *frames) reuse(buf []byte) {
	if f.fragments == 0 && cap(f.message) < cap(buf) {
		f.message = buf[:0]
	}
}

// next returns the next message (OpBinary) or control frame. A message's bytes
// belong to the caller; those of a control frame are valid until the next call.
// The error is a *frameError, or that of the socket; io.EOF only when the
// stream ended between two frames.
func (f *frames) next() (ws.OpCode, []byte, error) {
	for {
		if !f.inside {
			if err := f.readHeader(); err != nil {
				return 0, nil, err
			}
		}
		if f.header.OpCode.IsControl() {
			return f.readControl()
		}
		var err error
		if f.message, err = f.readPayload(f.message); err != nil {
			return 0, nil, err
		}
		f.inside = false
		if f.header.Fin {
			whole := f.message
			f.message, f.fragments = nil, 0
			return ws.OpBinary, whole, nil
		}
	}
}

// idle reports whether no frame has begun.
func (f *frames) idle() bool {
	return !f.inside && f.fragments == 0 && f.at == f.end
}

// readHeader parses a frame header once all of its bytes are there, and checks
// it before anything is read or allocated for it.
func (f *frames) readHeader() error {
	if err := f.need(ws.MinHeaderSize); err != nil {
		return err
	}
	b0, b1 := f.in[f.at], f.in[f.at+1]
	h := ws.Header{
		Fin:    b0&0x80 != 0,
		Rsv:    b0 >> 4 & 7,
		OpCode: ws.OpCode(b0 & 0x0f),
		Masked: b1&0x80 != 0,
		Length: int64(b1 & 0x7f),
	}
	size := ws.MinHeaderSize
	switch {
	case h.Masked: // refused below, by its second byte
	case h.Length == 126:
		size += 2
	case h.Length == 127:
		size += 8
	}
	if err := f.need(size); err != nil {
		return err
	}
	extended := f.in[f.at+ws.MinHeaderSize : f.at+size]
	switch len(extended) {
	case 2:
		h.Length = int64(binary.BigEndian.Uint16(extended))
	case 8:
		h.Length = int64(binary.BigEndian.Uint64(extended))
	}
	if err := f.check(h, size); err != nil {
		return err
	}
	f.at += size
	f.header, f.left, f.inside = h, h.Length, true
	if !h.OpCode.IsControl() {
		f.fragments++
	}
	return nil
}

// check refuses what RFC 6455 section 5 forbids, and what is too large.
func (f *frames) check(h ws.Header, size int) error {
	state := ws.StateClientSide
	if f.fragments > 0 {
		state = state.Set(ws.StateFragmented)
	}
	if h.Length < 0 || size == 4 && h.Length < 126 || size == 10 && h.Length <= 0xffff {
		return &frameError{wire.CloseProtocolError, "frame length is not in its shortest form"}
	}
	if err := ws.CheckHeader(h, state); err != nil {
		return &frameError{wire.CloseProtocolError, err.Error()}
	}
	switch {
	case h.OpCode == ws.OpText:
		return &frameError{wire.CloseUnsupported, "text message; Sealcast speaks binary"}
	case h.OpCode.IsControl():
		return nil
	case h.Length > int64(f.limit-len(f.message)):
		return &frameError{wire.CloseTooBig, fmt.Sprintf("message is longer than %d bytes", f.limit)}
	case f.fragments >= maxFragments:
		return &frameError{wire.ClosePolicy, fmt.Sprintf("message has more than %d fragments", maxFragments)}
	}
	return nil
}

func (f *frames) readControl() (ws.OpCode, []byte, error) {
	var err error
	if f.control, err = f.readPayload(f.control); err != nil {
		return 0, nil, err
	}
	payload := f.control
	f.control = f.control[:0]
	f.inside = false
	return f.header.OpCode, payload, nil
}

// readPayload appends the rest of the frame's payload to dst. With an error it
// returns what came so far.
func (f *frames) readPayload(dst []byte) ([]byte, error) {
	for f.left > 0 {
		if f.at == f.end && f.left >= readAhead {
			n, err := f.readDirect(&dst)
			f.left -= int64(n)
			if err != nil {
				return dst, err
			}
			continue
		}
		if err := f.need(1); err != nil {
			return dst, err
		}
		n := min(f.left, int64(f.end-f.at))
		dst = append(dst, f.in[f.at:f.at+int(n)]...)
		f.at += int(n)
		f.left -= n
	}
	return dst, nil
}

// readDirect reads a part of a long payload from the socket straight into *dst.
func (f *frames) readDirect(dst *[]byte) (int, error) {
	buf := *dst
	room := min(f.left, int64(max(growStep, len(buf))))
	buf = slices.Grow(buf, int(room))
	n, err := readSome(f.from, buf[len(buf):len(buf)+int(room)])
	*dst = buf[:len(buf)+n]
	if n > 0 {
		return n, nil
	}
	return 0, unexpected(err)
}

// need makes sure that at least n bytes stand in in[at:end].
func (f *frames) need(n int) error {
	if f.at == f.end {
		f.at, f.end = 0, 0
	}
	if f.at+n > len(f.in) {
		f.end = copy(f.in, f.in[f.at:f.end])
		f.at = 0
	}
	for f.end-f.at < n {
		m, err := readSome(f.from, f.in[f.end:])
		f.end += m
		if m == 0 {
			if f.idle() {
				return err
			}
			return unexpected(err)
		}
	}
	return nil
}

// readSome reads at least one byte, or fails. A reader that returns neither
// bytes nor an error many times in a row is broken.
func readSome(r io.Reader, p []byte) (int, error) {
	for range 100 {
		if n, err := r.Read(p); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseClose reads the payload of a close frame. An empty one is CloseNoStatus.
func parseClose(payload []byte) (wire.CloseCode, string, error) {
	if len(payload) == 0 {
		return wire.CloseNoStatus, "", nil
	}
	if len(payload) == 1 {
		return 0, "", &frameError{wire.CloseProtocolError, "close frame of one byte"}
	}
	code := wire.CloseCode(binary.BigEndian.Uint16(payload))
	if !code.OnWire() {
		return 0, "", &frameError{wire.CloseProtocolError, fmt.Sprintf("close code %d", code)}
	}
	reason := payload[2:]
	if !utf8.Valid(reason) {
		return 0, "", &frameError{wire.CloseInvalidUTF8, "close reason is not UTF-8"}
	}
	return code, string(reason), nil
}
