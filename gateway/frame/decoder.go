package frame

import (
	"encoding/binary"
	"math"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

const (
	finBit     = 0x80
	maskBit    = 0x80
	lengthBits = 0x7f
)

// phase is what the next byte belongs to.
//
//	header  -> payload   the header is complete and valid
//	payload -> header    the frame is complete
//	any     -> ended     a close frame came, or a rule was broken
type phase uint8

const (
	phaseHeader phase = iota
	phasePayload
	phaseEnded
)

// Decoder turns the bytes of one client into events. It belongs to the loop of
// its connection, as does the pool that its methods are given.
type Decoder struct {
	limits    *Limits
	parts     *parts                 // pooled; nil: nothing has come that is not in one piece
	remaining int                    // payload bytes of the current frame yet to come
	fragments uint32                 // frames of the current message so far
	progress  uint32                 // see Progress
	header    [ws.MaxHeaderSize]byte // of the current frame; complete in phasePayload
	have      uint8                  // bytes of it
	maskAt    uint8                  // position of the next payload byte in the mask
	partial   uint8                  // bytes at the message's end that begin a character
	op        ws.OpCode              // of the current message; ws.OpContinuation: there is none
	phase     phase
}

// parts are what has come of a message, and of a control frame within it, that are
// not in one piece.
type parts struct{ message, control []byte } // pooled

// NewDecoder is for one connection to the endpoint with these limits.
func NewDecoder(limits *Limits) Decoder { return Decoder{limits: limits} }

// InMessage reports whether something has begun and is not complete: a
// message, a frame, or just a header.
func (d *Decoder) InMessage() bool {
	return d.op != ws.OpContinuation || d.have > 0
}

// Progress is a number that changes whenever a message gets closer to its end.
// A client for which it stays the same while InMessage holds is not getting on;
// control frames between its fragments do not hide that.
func (d *Decoder) Progress() uint32 { return d.progress }

// Release gives the buffers back and ends decoding. It is called once the
// connection is closed.
func (d *Decoder) Release(pool *Buffers) {
	if d.parts != nil {
		pool.put(d.parts.message)
		pool.put(d.parts.control)
		pool.putParts(d.parts)
	}
	*d = Decoder{limits: d.limits, progress: d.progress, phase: phaseEnded}
}

// Next takes bytes off the front of buf, which it unmasks in place, and says
// how many. When ok, ev is the next event and the rest of buf is to be given
// again. Otherwise all of buf was taken and more has to come.
//
// A frame that lies in buf as a whole, and is a message, is not copied.
// The error is an *Error and is returned once. After it, and after the event of
// a close frame, Next takes everything and reports nothing (RFC 6455 section
// 1.4: data after a close frame is discarded).
//
//	in 3 — frames: bounds first, unmasked in place
func (d *Decoder) Next(buf []byte, pool *Buffers) (n int, ev Event, ok bool, err error) {
	for n < len(buf) && d.phase != phaseEnded {
		var fault *Error
		if d.phase == phaseHeader {
			var used int
			used, fault = d.takeHeader(buf[n:])
			n += used
		}
		if fault == nil && d.phase == phasePayload {
			chunk := d.unmask(buf[n:])
			n += len(chunk)
			ev, ok, fault = d.takePayload(chunk, pool)
		}
		if fault != nil {
			d.Release(pool)
			return len(buf), Event{}, false, fault
		}
		if ok {
			return n, ev, true, nil
		}
	}
	return len(buf), Event{}, false, nil
}

// takeHeader collects the header of a frame. When it is complete, the payload
// is next.
func (d *Decoder) takeHeader(buf []byte) (used int, fault *Error) {
	had := int(d.have)
	have := had + copy(d.header[had:], buf)
	size, length, fault := d.parseHeader(d.header[:have])
	if fault != nil || size == 0 {
		d.have = uint8(have)
		return have - had, fault
	}
	d.have = uint8(size)
	d.remaining, d.maskAt, d.phase = length, 0, phasePayload
	if op := d.frameOp(); op == ws.OpContinuation {
		d.fragments++
	} else if op.IsData() {
		d.op, d.fragments = op, 1
	}
	return size - had, nil
}

// parseHeader checks a header as far as it has come, each part as soon as it
// is there. Size is 0 while there is not all of it (RFC 6455 section 5.2).
func (d *Decoder) parseHeader(p []byte) (size, length int, fault *Error) {
	if len(p) < 2 {
		return 0, 0, nil
	}
	length = int(p[1] & lengthBits)
	if fault := d.checkHeader(p[0], p[1], length); fault != nil {
		return 0, 0, fault
	}
	size = 2
	switch length {
	case 126:
		if size = 4; len(p) < size {
			return 0, 0, nil
		}
		length = int(binary.BigEndian.Uint16(p[2:]))
	case 127:
		if size = 10; len(p) < size {
			return 0, 0, nil
		}
		long := binary.BigEndian.Uint64(p[2:])
		if long > math.MaxInt {
			return 0, 0, protocolError("the highest bit of a frame's length is set")
		}
		length = int(long)
	}
	if HeaderSize(length) != size {
		return 0, 0, protocolError("the length of a frame is not in its shortest form")
	}
	if fault := d.checkSize(ws.OpCode(p[0]&0x0f), length); fault != nil {
		return 0, 0, fault
	}
	if size += 4; len(p) < size {
		return 0, 0, nil
	}
	return size, length, nil
}

// checkHeader checks the first two bytes: reserved bits and opcodes, the mask,
// control frames' size and fragmentation, the order of continuations.
func (d *Decoder) checkHeader(first, second byte, length int) *Error {
	if first == finBit|byte(ws.OpBinary) && second&maskBit != 0 && d.op == ws.OpContinuation {
		return nil // nearly all frames: saves a quarter of the time of a small one
	}
	state := ws.StateServerSide
	if d.op != ws.OpContinuation {
		state = state.Set(ws.StateFragmented)
	}
	header := ws.Header{
		Fin:    first&finBit != 0,
		Rsv:    first >> 4 & 7,
		OpCode: ws.OpCode(first & 0x0f),
		Masked: second&maskBit != 0,
		Length: int64(length),
	}
	if err := ws.CheckHeader(header, state); err != nil {
		return protocolError(err.Error())
	}
	if header.OpCode == ws.OpText && !d.limits.Text {
		return &Error{wire.CloseUnsupported, "text messages are not taken here"}
	}
	if header.OpCode == ws.OpClose && length == 1 {
		return protocolError("a close frame has one byte of payload")
	}
	return nil
}

// checkSize holds a data frame against the limits before anything is kept of it.
func (d *Decoder) checkSize(op ws.OpCode, length int) *Error {
	if op.IsControl() {
		return nil
	}
	if length > d.limits.MessageBytes-d.collected() {
		return &Error{wire.CloseTooBig, "the message is larger than allowed"}
	}
	if op == ws.OpContinuation && int(d.fragments) >= d.limits.Fragments {
		return &Error{wire.ClosePolicy, "the message has more fragments than allowed"}
	}
	return nil
}

// collected is how many bytes have come of a message that is not in one piece.
func (d *Decoder) collected() int {
	if d.parts == nil {
		return 0
	}
	return len(d.parts.message)
}

// frameOp is the opcode of the current frame.
func (d *Decoder) frameOp() ws.OpCode { return ws.OpCode(d.header[0] & 0x0f) }

// unmask cuts off buf what belongs to the current frame.
func (d *Decoder) unmask(buf []byte) []byte {
	chunk := buf[:min(len(buf), d.remaining)]
	mask := [4]byte(d.header[d.have-4:]) // the last field of a header
	ws.Cipher(chunk, mask, int(d.maskAt))
	d.remaining -= len(chunk)
	d.maskAt = uint8(int(d.maskAt)+len(chunk)) & 3
	return chunk
}

// takePayload adds a piece of the current frame, and ends the frame if it was
// the last one.
func (d *Decoder) takePayload(chunk []byte, pool *Buffers) (ev Event, ok bool, fault *Error) {
	op := d.frameOp()
	if op.IsControl() {
		ev, ok, fault = d.takeControl(op, chunk, pool)
	} else {
		ev, ok, fault = d.takeData(chunk, pool)
	}
	if d.remaining == 0 && d.phase == phasePayload {
		d.have, d.phase = 0, phaseHeader
	}
	return ev, ok, fault
}

// takeData adds to the message; ok when that completes it.
func (d *Decoder) takeData(chunk []byte, pool *Buffers) (ev Event, ok bool, fault *Error) {
	d.progress++
	last := d.remaining == 0 && d.header[0]&finBit != 0
	message := chunk
	if !last || d.collected() > 0 {
		message = d.collect(pool, chunk, false)
	}
	if d.op == ws.OpText {
		incomplete, valid := checkUTF8(message[len(message)-len(chunk)-int(d.partial):])
		if !valid || last && incomplete > 0 {
			return Event{}, false, &Error{wire.CloseInvalidUTF8, "the text is not UTF-8"}
		}
		d.partial = uint8(incomplete)
	}
	if !last {
		return Event{}, false, nil
	}
	ev = Event{Op: d.op, Payload: message}
	if d.parts != nil {
		pool.put(d.parts.message)
		pool.putParts(d.parts) // no control frame is within a frame
		d.parts = nil
	}
	d.op = ws.OpContinuation
	return ev, true, nil
}

// collect adds to what is not in one piece: the message, or the control frame within it.
func (d *Decoder) collect(pool *Buffers, chunk []byte, control bool) []byte {
	if d.parts == nil {
		if len(chunk) == 0 {
			return nil
		}
		d.parts = pool.getParts()
	}
	part := &d.parts.message
	if control {
		part = &d.parts.control
	}
	*part = pool.append(*part, chunk)
	return *part
}

// takeControl adds to the control frame; ok when that completes it.
func (d *Decoder) takeControl(op ws.OpCode, chunk []byte, pool *Buffers) (ev Event, ok bool, fault *Error) {
	last := d.remaining == 0
	payload := chunk
	if !last || d.parts != nil && len(d.parts.control) > 0 {
		payload = d.collect(pool, chunk, true)
	}
	if op == ws.OpClose {
		if fault := checkClose(payload, last); fault != nil {
			return Event{}, false, fault
		}
	}
	if !last {
		return Event{}, false, nil
	}
	d.endControl(pool)
	if d.op == ws.OpContinuation {
		d.progress++ // no message waits, so this is no dawdling
	}
	if op == ws.OpClose {
		d.Release(pool)
	}
	return Event{Op: op, Payload: payload}, true, nil
}

// endControl gives back what a control frame was collected in.
func (d *Decoder) endControl(pool *Buffers) {
	if d.parts == nil {
		return
	}
	pool.put(d.parts.control)
	d.parts.control = nil
	if d.op == ws.OpContinuation { // nor a message
		pool.putParts(d.parts)
		d.parts = nil
	}
}
