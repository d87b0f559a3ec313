package frame

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// model decodes a whole stream with the reader of gobwas/ws and rules written
// for whole frames. It does not see what is wrong with a frame until the frame
// is there; whole is false when the stream ends within one.
type model struct {
	limits    *Limits
	events    []string
	message   []byte
	op        ws.OpCode
	fragments int
}

func (m *model) decode(stream []byte) (code wire.CloseCode, whole bool) {
	for r := bytes.NewReader(stream); r.Len() > 0; {
		before := r.Len()
		h, err := ws.ReadHeader(r)
		if errors.Is(err, ws.ErrHeaderLengthMSB) {
			return wire.CloseProtocolError, true
		}
		if err != nil {
			return 0, false
		}
		if code := m.checkHeader(h, before-r.Len()); code != 0 {
			return code, true
		}
		payload := make([]byte, h.Length)
		if _, err := io.ReadFull(r, payload); err != nil {
			return 0, false
		}
		ws.Cipher(payload, h.Mask, 0)
		if code := m.take(h, payload); code != 0 {
			return code, true
		}
		if h.OpCode == ws.OpClose {
			return 0, true
		}
	}
	return 0, true
}

func (m *model) checkHeader(h ws.Header, size int) wire.CloseCode {
	state := ws.StateServerSide
	if m.fragments > 0 {
		state = state.Set(ws.StateFragmented)
	}
	switch {
	case ws.CheckHeader(h, state) != nil, ws.HeaderSize(h) != size:
		return wire.CloseProtocolError
	case h.OpCode.IsData() && int64(len(m.message))+h.Length > int64(m.limits.MessageBytes):
		return wire.CloseTooBig
	case h.OpCode == ws.OpContinuation && m.fragments == m.limits.Fragments:
		return wire.ClosePolicy
	}
	return 0
}

func (m *model) take(h ws.Header, payload []byte) wire.CloseCode {
	if h.OpCode.IsControl() {
		if h.OpCode == ws.OpClose {
			if _, _, err := ParseClose(payload); err != nil {
				return err.(*Error).Code
			}
		}
		m.events = append(m.events, show(Event{h.OpCode, payload}))
		return 0
	}
	if m.fragments++; m.fragments == 1 {
		m.op = h.OpCode
	}
	m.message = append(m.message, payload...)
	if m.op == ws.OpText && !validText(m.message, h.Fin) {
		return wire.CloseInvalidUTF8
	}
	if h.Fin {
		m.events = append(m.events, show(Event{m.op, m.message}))
		m.message, m.fragments = nil, 0
	}
	return 0
}

// validText looks at each character, the last of which may be incomplete while
// more is to come.
func validText(p []byte, whole bool) bool {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r == utf8.RuneError && n == 1 {
			return !whole && !utf8.FullRune(p)
		}
		p = p[n:]
	}
	return true
}

// compare decodes the stream at once, bytewise and in random pieces, which must
// agree with each other, and with the model as far as that can say.
func compare(t *testing.T, limits *Limits, stream []byte, rng *rand.Rand) {
	t.Helper()
	m := model{limits: limits}
	code, whole := m.decode(stream)
	got := decode(t, limits, stream)
	if !slices.Equal(got.events, m.events) || whole && got.code != code {
		t.Fatalf("%x:\ngot  %v\nwant %v code=%d whole=%v", stream, got, m.events, code, whole)
	}
	for _, pieces := range [][][]byte{bytewise(stream), cut(stream, rng), cut(stream, rng)} {
		if other := decode(t, limits, pieces...); got.String() != other.String() {
			t.Fatalf("%x:\nat once %v\nin %d pieces %v", stream, got, len(pieces), other)
		}
	}
}

func cut(stream []byte, rng *rand.Rand) (pieces [][]byte) {
	for len(stream) > 0 {
		n := min(len(stream), 1+rng.IntN(1+rng.IntN(40)))
		pieces, stream = append(pieces, stream[:n]), stream[n:]
	}
	return pieces
}

// randomStream is valid: messages whole and in fragments, control frames
// between and within them.
func randomStream(rng *rand.Rand) (stream []byte) {
	control := func() {
		if rng.IntN(3) == 0 {
			op := []ws.OpCode{ws.OpPing, ws.OpPong}[rng.IntN(2)]
			stream = append(stream, randomFrame(rng, fin, op, randomBytes(rng, 125))...)
		}
	}
	for range 1 + rng.IntN(4) {
		op, payload := ws.OpBinary, randomBytes(rng, 300)
		if rng.IntN(2) == 0 {
			op, payload = ws.OpText, bytes.ToValidUTF8(payload, []byte("é€𝄞"))
		}
		payload = payload[:min(len(payload), 290)]
		if op == ws.OpText {
			for !utf8.Valid(payload) {
				payload = payload[:len(payload)-1]
			}
		}
		for range rng.IntN(4) {
			n := rng.IntN(len(payload) + 1)
			stream = append(stream, randomFrame(rng, more, op, payload[:n])...)
			op, payload = ws.OpContinuation, payload[n:]
			control()
		}
		stream = append(stream, randomFrame(rng, fin, op, payload)...)
		control()
	}
	if rng.IntN(3) == 0 {
		stream = append(stream, closing(uint16(1000+rng.IntN(4)), "bye")...)
	}
	return stream
}

func randomFrame(rng *rand.Rand, first byte, op ws.OpCode, payload []byte) []byte {
	frame := frameOf(first, op, string(payload))
	header := len(frame) - len(payload)
	mask := [4]byte(frame[header-4:])
	ws.Cipher(frame[header:], mask, 0)
	mask[rng.IntN(4)] ^= byte(rng.IntN(256))
	copy(frame[header-4:], mask[:])
	ws.Cipher(frame[header:], mask, 0)
	return frame
}

func randomBytes(rng *rand.Rand, most int) []byte {
	p := make([]byte, rng.IntN(1+rng.IntN(most+1)))
	for i := range p {
		p[i] = byte(rng.IntN(256))
	}
	return p
}

// modelLimits are small, so that random streams come to them.
var modelLimits = &Limits{MessageBytes: 290, Fragments: 4, Text: true}

func TestRandomStreamsAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(6455, 5))
	for range 300 {
		stream := randomStream(rng)
		m := model{limits: modelLimits}
		if code, whole := m.decode(stream); code != 0 || !whole {
			t.Fatalf("a random stream is not valid: code %d, whole %v", code, whole)
		}
		compare(t, modelLimits, stream, rng)
		for range 10 {
			compare(t, modelLimits, mutate(bytes.Clone(stream), rng), rng)
		}
	}
}

// mutate changes, drops or repeats some bytes.
func mutate(stream []byte, rng *rand.Rand) []byte {
	for range 1 + rng.IntN(3) {
		if len(stream) == 0 {
			break
		}
		at := rng.IntN(len(stream))
		switch rng.IntN(4) {
		case 0:
			stream[at] = byte(rng.IntN(256))
		case 1:
			stream[at] ^= 1 << rng.IntN(8)
		case 2:
			stream = slices.Delete(stream, at, min(len(stream), at+1+rng.IntN(4)))
		case 3:
			stream = slices.Insert(stream, at, stream[at:min(len(stream), at+1+rng.IntN(8))]...)
		}
	}
	return stream
}

func FuzzDecoder(f *testing.F) {
	rng := rand.New(rand.NewPCG(6455, 1))
	for range 20 {
		f.Add(randomStream(rng), rng.Uint64())
	}
	for _, stream := range [][]byte{
		nil, text("x"), closing(999, ""), closing(1000, "\xff"), frameOf(fin, ws.OpClose, "\x03"),
		frameOf(fin|0x40, ws.OpText, "x"), frameOf(fin, 3, "x"), frameOf(more, ws.OpPing, "x"), ping(string(make([]byte, 126))),
		frameOf(fin, ws.OpContinuation, "x"), join(frameOf(more, ws.OpText, "x"), text("y")), text("κόσμε\xf4\x90"),
		[]byte("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00"), []byte("\x82\xfe\x00\x01\x00\x00\x00\x00x"),
	} {
		f.Add(stream, uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cuts uint64) {
		compare(t, modelLimits, stream, rand.New(rand.NewPCG(cuts, 0)))
	})
}
