package frame

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// Every connection carries a decoder, so its size counts thousands of times.
func TestDecoderIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Decoder{}); size > 56 {
		t.Errorf("a decoder takes %d bytes, want at most 56", size)
	}
}

func TestMaskIsRequired(t *testing.T) {
	for _, op := range []ws.OpCode{ws.OpText, ws.OpBinary, ws.OpPing, ws.OpPong, ws.OpClose} {
		expect(t, open, join(text("x"), AppendHeader(nil, op, 0)), wire.CloseProtocolError, shown(ws.OpText, "x")...)
		expect(t, open, append(AppendHeader(nil, op, 2), "\x03\xe8"...), wire.CloseProtocolError)
	}
}

func TestEveryMaskUnmasks(t *testing.T) {
	for _, mask := range [][4]byte{{}, {0xff, 0xff, 0xff, 0xff}, {1, 0, 0, 0}, {0, 0, 0, 1}, {1, 2, 3, 4}} {
		stream := []byte{fin | byte(ws.OpBinary), maskBit | 100, mask[0], mask[1], mask[2], mask[3]}
		payload := []byte(strings.Repeat("0123456789", 10))
		want := shown(ws.OpBinary, string(payload))
		for i := range payload { // as RFC 6455 section 5.3 puts it
			payload[i] ^= mask[i%4]
		}
		expect(t, open, append(stream, payload...), 0, want...)
	}
}

// The length must be in its shortest form, below 2^63, and within the limit,
// and is refused before the mask or a byte of payload has come.
func TestLengths(t *testing.T) {
	limits := &Limits{MessageBytes: 70_000, Fragments: 10}
	for name, c := range map[string]struct {
		length string // the bytes after the first
		code   wire.CloseCode
	}{
		"125 in two bytes":    {"\xfe\x00\x7d", wire.CloseProtocolError},
		"0 in two bytes":      {"\xfe\x00\x00", wire.CloseProtocolError},
		"65535 in eight":      {"\xff\x00\x00\x00\x00\x00\x00\xff\xff", wire.CloseProtocolError},
		"0 in eight":          {"\xff\x00\x00\x00\x00\x00\x00\x00\x00", wire.CloseProtocolError},
		"2^63":                {"\xff\x80\x00\x00\x00\x00\x00\x00\x00", wire.CloseProtocolError},
		"2^64 - 1":            {"\xff\xff\xff\xff\xff\xff\xff\xff\xff", wire.CloseProtocolError},
		"2^63 - 1":            {"\xff\x7f\xff\xff\xff\xff\xff\xff\xff", wire.CloseTooBig},
		"one above the limit": {"\xff\x00\x00\x00\x00\x00\x01\x11\x71", wire.CloseTooBig},
		"the limit":           {"\xff\x00\x00\x00\x00\x00\x01\x11\x70", 0},
		"126":                 {"\xfe\x00\x7e", 0},
		"65535":               {"\xfe\xff\xff", 0},
		"65536":               {"\xff\x00\x00\x00\x00\x00\x01\x00\x00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			stream := []byte("\x82" + c.length)
			expect(t, limits, stream, c.code)
			if c.code == 0 {
				return
			}
			if got := decode(t, limits, bytewise(stream)...); got.given != len(stream) {
				t.Errorf("refused after %d bytes, want %d", got.given, len(stream))
			}
		})
	}
}

func TestMessageLimitHoldsOverFragments(t *testing.T) {
	limits := &Limits{MessageBytes: 10, Fragments: 10}
	expect(t, limits, binary_("0123456789"), 0, shown(ws.OpBinary, "0123456789")...)
	expect(t, limits, binary_("0123456789a"), wire.CloseTooBig)
	whole := join(frameOf(more, ws.OpBinary, "01234"), frameOf(more, ws.OpContinuation, "56789"), frameOf(fin, ws.OpContinuation, ""))
	expect(t, limits, join(whole, whole), 0, shown(ws.OpBinary, "0123456789", ws.OpBinary, "0123456789")...)
	expect(t, limits, join(frameOf(more, ws.OpBinary, "01234"), frameOf(more, ws.OpContinuation, "56789a")), wire.CloseTooBig)
	expect(t, limits, join(frameOf(more, ws.OpBinary, "0123456789"), frameOf(fin, ws.OpContinuation, "a")), wire.CloseTooBig)
	// Control frames are no part of the message.
	between := join(frameOf(more, ws.OpBinary, "01234"), ping(strings.Repeat("p", 125)), frameOf(fin, ws.OpContinuation, "56789"))
	expect(t, limits, between, 0, shown(ws.OpPing, strings.Repeat("p", 125), ws.OpBinary, "0123456789")...)
}

func TestNoMessageBytesAllowed(t *testing.T) {
	limits := &Limits{}
	expect(t, limits, join(binary_(""), ping("x")), 0, shown(ws.OpBinary, "", ws.OpPing, "x")...)
	expect(t, limits, binary_("x"), wire.CloseTooBig)
}

func TestFragmentLimit(t *testing.T) {
	limits := &Limits{MessageBytes: 100, Fragments: 3}
	begin, next, end := frameOf(more, ws.OpBinary, "a"), frameOf(more, ws.OpContinuation, "b"), frameOf(fin, ws.OpContinuation, "c")
	three := join(begin, next, end)
	expect(t, limits, join(three, three), 0, shown(ws.OpBinary, "abc", ws.OpBinary, "abc")...)
	expect(t, limits, join(begin, next, ping(""), next, end), wire.ClosePolicy, shown(ws.OpPing, "")...)
	expect(t, limits, join(begin, next, next, next), wire.ClosePolicy)
	nothing := frameOf(more, ws.OpContinuation, "")
	expect(t, limits, join(frameOf(more, ws.OpBinary, ""), nothing, nothing, nothing), wire.ClosePolicy)

	none := &Limits{MessageBytes: 100, Fragments: 1}
	expect(t, none, join(binary_("a"), binary_("b")), 0, shown(ws.OpBinary, "a", ws.OpBinary, "b")...)
	expect(t, none, join(begin, end), wire.ClosePolicy)
}

func TestTextRefused(t *testing.T) {
	limits := &Limits{MessageBytes: 100, Fragments: 3}
	expect(t, limits, join(binary_("x"), text("y")), wire.CloseUnsupported, shown(ws.OpBinary, "x")...)
	if got := decode(t, limits, bytewise(text("y"))...); got.given != 2 {
		t.Errorf("text refused after %d bytes, want 2", got.given)
	}
}

// The rules of the first two bytes need no third.
func TestFirstTwoBytesAreEnough(t *testing.T) {
	for _, head := range []string{"\xc2\x80", "\x83\x80", "\x82\x00", "\x89\xfe", "\x09\x80", "\x80\x80", "\x88\x81"} {
		if got := decode(t, open, []byte(head)); got.code != wire.CloseProtocolError {
			t.Errorf("%x: %v, want 1002", head, got)
		}
	}
}

func TestInMessage(t *testing.T) {
	for name, c := range map[string]struct {
		stream []byte
		want   bool
	}{
		"nothing":                     {nil, false},
		"whole frames":                {join(text("x"), ping("y")), false},
		"one byte of a header":        {[]byte{0x82}, true},
		"a header":                    {binary_("x")[:6], true},
		"a part of a payload":         {binary_("xyz")[:7], true},
		"a part of a control frame":   {ping("xyz")[:7], true},
		"between fragments":           {frameOf(more, ws.OpBinary, "x"), true},
		"a ping between fragments":    {join(frameOf(more, ws.OpBinary, "x"), ping("y")), true},
		"the last fragment":           {fragmented(ws.OpBinary, "xyz", 1), false},
		"after a close frame":         {join(frameOf(more, ws.OpBinary, "x"), closing(1000, "")), false},
		"bytes after a close frame":   {join(closing(1000, ""), []byte{0x82}), false},
		"a begun header after a text": {join(text("x"), []byte{0x82}), true},
	} {
		if got := decode(t, open, c.stream).begun; got != c.want {
			t.Errorf("%s: InMessage = %v, want %v", name, got, c.want)
		}
	}
}

func TestProgress(t *testing.T) {
	d, pool := NewDecoder(open), NewBuffers(1<<16)
	give := func(stream []byte) (moved bool) {
		before := d.Progress()
		for len(stream) > 0 {
			n, _, _, err := d.Next(stream, pool)
			if err != nil {
				t.Fatal(err)
			}
			stream = stream[n:]
		}
		return d.Progress() != before
	}
	begin := frameOf(more, ws.OpBinary, "xyz")
	if !give(begin[:7]) || !give(begin[7:]) {
		t.Error("no progress with bytes of a message")
	}
	if give(ping("x")) || give(pong("x")) || give(ping("x")[:3]) || give(ping("x")[3:]) {
		t.Error("control frames between fragments count as progress")
	}
	if !give(frameOf(more, ws.OpContinuation, "")) || !give(frameOf(fin, ws.OpContinuation, "")) {
		t.Error("no progress with fragments")
	}
	if !give(binary_("x")) || !give(binary_("")) {
		t.Error("no progress with whole messages")
	}
	// A client that has begun a header at each look, but ends it in between.
	give(ping("x")[:1])
	if !give(join(ping("x")[1:], ping("y")[:1])) {
		t.Error("no progress although no message waits")
	}
}

func TestReleaseEndsDecoding(t *testing.T) {
	d, pool := NewDecoder(open), NewBuffers(1<<16)
	d.Next(frameOf(more, ws.OpBinary, "x"), pool)
	d.Release(pool)
	if n, _, ok, err := d.Next(binary_("y"), pool); n != len(binary_("y")) || ok || err != nil {
		t.Errorf("Next after Release: %d, %v, %v", n, ok, err)
	}
	if d.InMessage() {
		t.Error("InMessage after Release")
	}
}

// A message in one piece is a part of the caller's buffer, not a copy.
func TestWholeFramesAreNotCopied(t *testing.T) {
	d, pool := NewDecoder(open), NewBuffers(1<<16)
	for _, stream := range [][]byte{text("payload"), binary_("payload"), ping("payload")} {
		_, ev, ok, err := d.Next(stream, pool)
		if !ok || err != nil || string(ev.Payload) != "payload" {
			t.Fatalf("got %v %v %v", ev, ok, err)
		}
		if &ev.Payload[0] != &stream[6] {
			t.Errorf("%x: the payload was copied", byte(ev.Op))
		}
	}
	if !slices.Equal(held(pool), make([]int, classes)) {
		t.Errorf("buffers were taken: %v", held(pool))
	}
}

// held is the number of free buffers of each size.
func held(pool *Buffers) (n []int) {
	for _, list := range pool.free {
		n = append(n, len(list))
	}
	return n
}
