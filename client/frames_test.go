package client

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/wire"
)

// framed is a frame as a gateway sends it, except for what edit changes.
func framed(op ws.OpCode, fin bool, payload string) []byte {
	return ws.MustCompileFrame(ws.NewFrame(op, fin, []byte(payload)))
}

type seen struct {
	op      ws.OpCode
	payload string
}

func drainFrames(f *frames) ([]seen, error) {
	var all []seen
	for {
		op, payload, err := f.next()
		if err != nil {
			return all, err
		}
		all = append(all, seen{op, string(payload)})
		if op == ws.OpBinary {
			f.reuse(payload)
		}
	}
}

func TestFramesInAnyPieces(t *testing.T) {
	large := strings.Repeat("0123456789", 9000) // longer than what is read ahead
	stream := slices.Concat(
		framed(ws.OpBinary, true, ""),
		framed(ws.OpBinary, true, strings.Repeat("a", 125)),
		framed(ws.OpPing, true, "p1"),
		framed(ws.OpBinary, false, "one "),
		framed(ws.OpPing, true, "between"),
		framed(ws.OpContinuation, false, ""),
		framed(ws.OpContinuation, true, "message"),
		framed(ws.OpBinary, true, strings.Repeat("b", 126)),
		framed(ws.OpBinary, false, large),
		framed(ws.OpContinuation, true, large),
		framed(ws.OpClose, true, "\x03\xe8bye"),
	)
	want := []seen{
		{ws.OpBinary, ""}, {ws.OpBinary, strings.Repeat("a", 125)}, {ws.OpPing, "p1"}, {ws.OpPing, "between"},
		{ws.OpBinary, "one message"}, {ws.OpBinary, strings.Repeat("b", 126)}, {ws.OpBinary, large + large}, {ws.OpClose, "\x03\xe8bye"},
	}
	readers := map[string]io.Reader{
		"whole":          bytes.NewReader(stream),
		"byte by byte":   iotest.OneByteReader(bytes.NewReader(stream)),
		"halves":         iotest.HalfReader(bytes.NewReader(stream)),
		"error with EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	}
	for name, r := range readers {
		got, err := drainFrames(newFrames(r, nil, 1<<20))
		if err != io.EOF || !slices.Equal(got, want) {
			t.Errorf("%s: %d frames, %v", name, len(got), err)
		}
	}
	for n := 0; n < len(stream); n += 1 + n/500*499 { // each of the first bytes, then samples
		got, err := drainFrames(newFrames(bytes.NewReader(stream[n:]), stream[:n], 1<<20))
		if err != io.EOF || !slices.Equal(got, want) {
			t.Fatalf("%d bytes early: %d frames, %v", n, len(got), err)
		}
	}
}

// stuttering returns a deadline error before each byte.
type stuttering struct {
	rest []byte
	ok   bool
}

func (s *stuttering) Read(p []byte) (int, error) {
	if s.ok = !s.ok; s.ok {
		return 0, os.ErrDeadlineExceeded
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	p[0], s.rest = s.rest[0], s.rest[1:]
	return 1, nil
}

func TestFramesGoOnAfterAnInterruption(t *testing.T) {
	stream := slices.Concat(framed(ws.OpBinary, false, strings.Repeat("a", 300)),
		framed(ws.OpPing, true, "ping"), framed(ws.OpContinuation, true, "b"))
	f := newFrames(&stuttering{rest: stream}, nil, 1000)
	var got []seen
	for {
		all, err := drainFrames(f)
		got = append(got, all...)
		if err == io.EOF {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if want := []seen{{ws.OpPing, "ping"}, {ws.OpBinary, strings.Repeat("a", 300) + "b"}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestFramesRefuse(t *testing.T) {
	masked := ws.MustCompileFrame(ws.MaskFrameInPlaceWith(ws.NewBinaryFrame([]byte("x")), [4]byte{1, 2, 3, 4}))
	fragment := framed(ws.OpContinuation, false, "")
	tests := []struct {
		name   string
		stream []byte
		want   wire.CloseCode
	}{
		{"masked", masked, wire.CloseProtocolError},
		{"reserved bit", []byte{0xc2, 0}, wire.CloseProtocolError},
		{"reserved opcode", []byte{0x83, 0}, wire.CloseProtocolError},
		{"text", framed(ws.OpText, true, "x"), wire.CloseUnsupported},
		{"fragmented text", framed(ws.OpText, false, "x"), wire.CloseUnsupported},
		{"fragmented ping", framed(ws.OpPing, false, "x"), wire.CloseProtocolError},
		{"long ping", []byte{0x89, 126, 0, 126}, wire.CloseProtocolError},
		{"continuation of nothing", framed(ws.OpContinuation, true, "x"), wire.CloseProtocolError},
		{"message inside a message", slices.Concat(framed(ws.OpBinary, false, "x"), framed(ws.OpBinary, true, "x")), wire.CloseProtocolError},
		{"16-bit length for 125", []byte{0x82, 126, 0, 125}, wire.CloseProtocolError},
		{"64-bit length for 65535", []byte{0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, wire.CloseProtocolError},
		{"64-bit length with the highest bit", []byte{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, wire.CloseProtocolError},
		{"too long", []byte{0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0}, wire.CloseTooBig},
		{"too long in parts", slices.Concat(framed(ws.OpBinary, false, strings.Repeat("x", 600)), framed(ws.OpContinuation, true, strings.Repeat("x", 600))), wire.CloseTooBig},
		{"too many parts", slices.Concat(framed(ws.OpBinary, false, ""), bytes.Repeat(fragment, maxFragments)), wire.ClosePolicy},
	}
	for _, tt := range tests {
		_, err := drainFrames(newFrames(bytes.NewReader(tt.stream), nil, 1000))
		var fault *frameError
		if !errors.As(err, &fault) || fault.code != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestFramesCutAnywhere(t *testing.T) {
	stream := slices.Concat(framed(ws.OpBinary, false, "half"), framed(ws.OpContinuation, true, strings.Repeat("x", 300)))
	for n := 1; n < len(stream); n++ {
		if got, err := drainFrames(newFrames(bytes.NewReader(stream[:n]), nil, 1000)); err != io.ErrUnexpectedEOF || len(got) != 0 {
			t.Errorf("cut at %d: %v, %v", n, got, err)
		}
	}
}

// A frame that announces much and sends little must not cost what it announced.
func TestFramesAllocateForWhatCame(t *testing.T) {
	const announced = 1 << 30
	head := []byte{0x82, 127, 0, 0, 0, 0, 0x40, 0, 0, 0}
	f := newFrames(io.MultiReader(bytes.NewReader(head), strings.NewReader(strings.Repeat("x", 100_000))), nil, announced)
	if _, _, err := f.next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if cap(f.message) > 1<<20 {
		t.Errorf("%d bytes taken for 100,000 that came", cap(f.message))
	}
}

func TestFramesDoNotAllocate(t *testing.T) {
	stream := bytes.Repeat(framed(ws.OpBinary, true, strings.Repeat("x", 1000)), 1200)
	f := newFrames(bytes.NewReader(stream), nil, 2000)
	var last []byte
	if n := testing.AllocsPerRun(1000, func() {
		f.reuse(last)
		var err error
		if _, last, err = f.next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a message", n)
	}
}

func TestFramesGiveUpOnABrokenReader(t *testing.T) {
	if _, _, err := newFrames(iotest.ErrReader(nil), nil, 10).next(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

func TestParseClose(t *testing.T) {
	tests := []struct {
		payload string
		code    wire.CloseCode
		reason  string
		fault   wire.CloseCode
	}{
		{"", wire.CloseNoStatus, "", 0},
		{"\x03\xe8", wire.CloseNormal, "", 0},
		{"\x03\xf4back soon", wire.CloseRestart, "back soon", 0},
		{"\x11\x30", wire.CloseBadRecord, "", 0},
		{"\x03", 0, "", wire.CloseProtocolError},
		{"\x03\xed", 0, "", wire.CloseProtocolError}, // 1005
		{"\x00\x00", 0, "", wire.CloseProtocolError},
		{"\x13\x88", 0, "", wire.CloseProtocolError}, // 5000
		{"\x03\xe8\xff", 0, "", wire.CloseInvalidUTF8},
	}
	for _, tt := range tests {
		code, reason, err := parseClose([]byte(tt.payload))
		var fault *frameError
		if errors.As(err, &fault) != (tt.fault != 0) || fault != nil && fault.code != tt.fault || code != tt.code || reason != tt.reason {
			t.Errorf("%q: %v %q, %v", tt.payload, code, reason, err)
		}
	}
}

func TestMaskFrame(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65535, 65536, 100_000} {
		payload := strings.Repeat("p", n)
		buf := append(make([]byte, headerRoom), payload...)
		frame := maskFrame(buf, ws.OpBinary, [4]byte{9, 8, 7, 6})
		if n > 8 && bytes.Contains(frame, []byte("pppppppp")) {
			t.Errorf("%d bytes: payload is not masked", n)
		}
		rest := bytes.NewReader(frame)
		h, err := ws.ReadHeader(rest)
		if err != nil || ws.CheckHeader(h, ws.StateServerSide) != nil || !h.Fin || h.OpCode != ws.OpBinary || h.Length != int64(n) || rest.Len() != n {
			t.Fatalf("%d bytes: %+v, %v", n, h, err)
		}
		got := frame[len(frame)-n:]
		ws.Cipher(got, h.Mask, 0)
		if string(got) != payload {
			t.Errorf("%d bytes: payload differs", n)
		}
	}
}

func TestAppendClose(t *testing.T) {
	tests := []struct {
		code   wire.CloseCode
		reason string
		want   string
	}{
		{wire.CloseNormal, "", "\x03\xe8"},
		{wire.CloseBadRecord, "x", "\x11\x30x"},
		{wire.CloseNoStatus, "ignored", ""},
		{wire.CloseNormal, strings.Repeat("a", 200), "\x03\xe8" + strings.Repeat("a", 123)},
		{wire.CloseNormal, strings.Repeat("é", 100), "\x03\xe8" + strings.Repeat("é", 61)},
	}
	for _, tt := range tests {
		if got := string(appendClose(nil, tt.code, tt.reason)); got != tt.want {
			t.Errorf("%d %q: %q", tt.code, tt.reason, got)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte(framed(ws.OpBinary, true, "x")), 0)
	f.Add(slices.Concat(framed(ws.OpBinary, false, "x"), framed(ws.OpPing, true, "y"), framed(ws.OpContinuation, true, "z")), 3)
	f.Add([]byte{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, early int) {
		const limit = 300
		n := min(max(early, 0), len(stream))
		got, err := drainFrames(newFrames(bytes.NewReader(stream[n:]), stream[:n], limit))
		again, err2 := drainFrames(newFrames(iotest.OneByteReader(bytes.NewReader(stream)), nil, limit))
		if !slices.Equal(got, again) || (err == io.EOF) != (err2 == io.EOF) {
			t.Errorf("in one piece %v, %v; byte by byte %v, %v", got, err, again, err2)
		}
		for _, m := range got {
			if len(m.payload) > limit {
				t.Errorf("message of %d bytes", len(m.payload))
			}
		}
	})
}
