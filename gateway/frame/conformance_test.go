package frame

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// The tests of this file go through RFC 6455 in the sections of the Autobahn
// test suite (1 to 7, 9, 10). What a gateway answers is tested where it is
// answered; here it is what the decoder makes of a client's bytes.

func TestConformance1Framing(t *testing.T) {
	for _, op := range []ws.OpCode{ws.OpText, ws.OpBinary} {
		for _, size := range []int{0, 1, 125, 126, 127, 128, 65535, 65536} {
			payload := strings.Repeat("*", size)
			expect(t, open, frameOf(fin, op, payload), 0, shown(op, payload)...)
		}
	}
}

func TestConformance2PingsAndPongs(t *testing.T) {
	longest := strings.Repeat("\xfe", 125)
	expect(t, open, ping(""), 0, shown(ws.OpPing, "")...)                           // 2.1
	expect(t, open, ping("Hello, world!"), 0, shown(ws.OpPing, "Hello, world!")...) // 2.2
	expect(t, open, ping("\x00\xff\xfe\xfd\xfc\xfb\x00\xff"), 0, shown(ws.OpPing, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff")...)
	expect(t, open, ping(longest), 0, shown(ws.OpPing, longest)...) // 2.4, 2.6
	expect(t, open, ping(longest+"\xfe"), wire.CloseProtocolError)  // 2.5
	expect(t, open, pong(longest+"\xfe"), wire.CloseProtocolError)
	expect(t, open, pong(""), 0, shown(ws.OpPong, "")...) // 2.7
	expect(t, open, join(pong("unsolicited"), ping("x")), 0, shown(ws.OpPong, "unsolicited", ws.OpPing, "x")...)
	var many []byte
	var events []string
	for i := range 10 { // 2.10, 2.11
		payload := fmt.Sprintf("payload-%d", i)
		many, events = append(many, ping(payload)...), append(events, shown(ws.OpPing, payload)...)
	}
	expect(t, open, many, 0, events...)
}

func TestConformance3ReservedBits(t *testing.T) {
	before := join(text("first"), ping(""))
	for rsv := byte(0x10); rsv <= 0x70; rsv += 0x10 {
		for _, op := range []ws.OpCode{ws.OpText, ws.OpBinary, ws.OpPing, ws.OpPong, ws.OpClose} {
			stream := join(before, frameOf(fin|rsv, op, "xy"), text("never"))
			expect(t, open, stream, wire.CloseProtocolError, shown(ws.OpText, "first", ws.OpPing, "")...)
		}
		continued := join(frameOf(more, ws.OpBinary, "a"), frameOf(fin|rsv, ws.OpContinuation, "b"))
		expect(t, open, continued, wire.CloseProtocolError)
	}
}

func TestConformance4ReservedOpcodes(t *testing.T) {
	for _, op := range []ws.OpCode{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		for _, first := range []byte{fin, more} {
			for _, payload := range []string{"", "payload"} {
				stream := join(text("first"), frameOf(first, op, payload), ping("never"))
				expect(t, open, stream, wire.CloseProtocolError, shown(ws.OpText, "first")...)
			}
		}
	}
}

func TestConformance5Fragmentation(t *testing.T) {
	begin := frameOf(more, ws.OpText, "fragment1")
	middle := frameOf(more, ws.OpContinuation, "fragment2")
	end := frameOf(fin, ws.OpContinuation, "fragment3")
	whole := shown(ws.OpText, "fragment1fragment2fragment3")
	for name, c := range map[string]struct {
		stream []byte
		code   wire.CloseCode
		events []string
	}{
		"5.1 a ping in fragments":               {join(frameOf(more, ws.OpPing, "a"), frameOf(fin, ws.OpContinuation, "b")), 1002, nil},
		"5.2 a pong in fragments":               {join(frameOf(more, ws.OpPong, "a"), frameOf(fin, ws.OpContinuation, "b")), 1002, nil},
		"5.2 a close in fragments":              {frameOf(more, ws.OpClose, "\x03\xe8"), 1002, nil},
		"5.3 two fragments":                     {join(begin, end), 0, shown(ws.OpText, "fragment1fragment3")},
		"5.3 three fragments":                   {join(begin, middle, end), 0, whole},
		"5.6 a ping between":                    {join(begin, ping("p"), middle, end), 0, slices.Concat(shown(ws.OpPing, "p"), whole)},
		"5.7 pings and pongs between":           {join(begin, ping("p"), middle, pong("q"), end), 0, slices.Concat(shown(ws.OpPing, "p", ws.OpPong, "q"), whole)},
		"5.9 continuation of nothing, final":    {join(end, text("x")), 1002, nil},
		"5.12 continuation of nothing":          {join(middle, text("x")), 1002, nil},
		"5.15 continuation after the end":       {join(begin, end, middle, text("x")), 1002, shown(ws.OpText, "fragment1fragment3")},
		"5.15 final one after a whole message":  {join(text("x"), end), 1002, shown(ws.OpText, "x")},
		"5.18 a message within a message":       {join(begin, text("fragment2")), 1002, nil},
		"5.18 another beginning":                {join(begin, frameOf(more, ws.OpText, "x")), 1002, nil},
		"5.18 of another kind":                  {join(begin, binary_("x")), 1002, nil},
		"5.19 several pings, then another text": {join(begin, middle, ping("1"), middle, ping("2"), end, text("x")), 0, slices.Concat(shown(ws.OpPing, "1", ws.OpPing, "2", ws.OpText, "fragment1fragment2fragment2fragment3", ws.OpText, "x"))},
		"6.1.2 only empty fragments":            {join(frameOf(more, ws.OpText, ""), frameOf(more, ws.OpContinuation, ""), frameOf(fin, ws.OpContinuation, "")), 0, shown(ws.OpText, "")},
		"6.1.3 empty but for the middle":        {join(frameOf(more, ws.OpText, ""), middle, frameOf(fin, ws.OpContinuation, "")), 0, shown(ws.OpText, "fragment2")},
		"empty but for the last":                {join(frameOf(more, ws.OpBinary, ""), end), 0, shown(ws.OpBinary, "fragment3")},
	} {
		t.Run(name, func(t *testing.T) { expect(t, open, c.stream, c.code, c.events...) })
	}
}

func TestConformance7Closing(t *testing.T) {
	bye := shown(ws.OpClose, "\x03\xe8")
	normal := closing(1000, "")
	for name, c := range map[string]struct {
		stream []byte
		code   wire.CloseCode
		events []string
	}{
		"7.1.1 after a message":                {join(text("x"), normal), 0, slices.Concat(shown(ws.OpText, "x"), bye)},
		"7.1.2 two closes":                     {join(normal, normal), 0, bye},
		"7.1.3 a ping after":                   {join(normal, ping("x")), 0, bye},
		"7.1.4 a text after":                   {join(normal, text("x")), 0, bye},
		"7.1.5 within a message, rest after":   {join(frameOf(more, ws.OpText, "a"), normal, frameOf(fin, ws.OpContinuation, "b")), 0, bye},
		"7.1.6 rubbish after":                  {join(normal, []byte("\xff\xff\xff\xff")), 0, bye},
		"7.3.1 no payload":                     {frameOf(fin, ws.OpClose, ""), 0, shown(ws.OpClose, "")},
		"7.3.2 one byte":                       {frameOf(fin, ws.OpClose, "\x03"), 1002, nil},
		"7.3.4 code and reason":                {closing(1000, "Hello World!"), 0, shown(ws.OpClose, "\x03\xe8Hello World!")},
		"7.3.5 the longest reason":             {closing(1000, strings.Repeat("*", 123)), 0, shown(ws.OpClose, "\x03\xe8"+strings.Repeat("*", 123))},
		"7.3.6 a reason that is too long":      {closing(1000, strings.Repeat("*", 124)), 1002, nil},
		"7.5.1 a reason that is not UTF-8":     {closing(1000, "κόσμε\xed\xa0\x80edited"), 1007, nil},
		"7.5.1 a reason that ends too early":   {closing(1000, "κόσμ\xce"), 1007, nil},
		"7.5.1 a reason of characters":         {closing(1000, "κόσμε"), 0, shown(ws.OpClose, "\x03\xe8κόσμε")},
		"an invalid code before a bad reason":  {closing(999, "\xff"), 1002, nil},
		"nothing is reported after a bad one":  {join(closing(999, ""), text("x")), 1002, nil},
		"nothing is reported after a bad text": {join(text("\xff"), text("x"), normal), 1007, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, open, c.stream, c.code, c.events...) })
	}
}

func TestConformance7CloseCodes(t *testing.T) {
	for _, code := range []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		expect(t, open, closing(code, "why"), 0, shown(ws.OpClose, string([]byte{byte(code >> 8), byte(code)})+"why")...)
	}
	for _, code := range []uint16{0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		expect(t, open, closing(code, ""), wire.CloseProtocolError)
		expect(t, open, closing(code, "why"), wire.CloseProtocolError)
	}
}

func TestConformance9LargeMessagesAndManyFragments(t *testing.T) {
	for _, op := range []ws.OpCode{ws.OpText, ws.OpBinary} {
		for _, size := range []int{64 << 10, 1 << 20, 16 << 20} {
			payload := strings.Repeat("κόσμε9", size/11) // 11 bytes, so characters fall across every cut
			want := shown(op, payload)
			whole := frameOf(fin, op, payload)
			for _, chop := range []int{1461, 65536} {
				got := decode(t, open, slices.Collect(slices.Chunk(whole, chop))...)
				if got.code != 0 || !slices.Equal(got.events, want) {
					t.Errorf("%x of %d bytes, %d at a time: code %d, %d events", byte(op), size, chop, got.code, len(got.events))
				}
			}
		}
		payload := strings.Repeat("κόσμε9", 65536/11)
		for _, size := range []int{1, 64, 1024, 10_000} {
			got := decode(t, open, fragmented(op, payload, size))
			if got.code != 0 || !slices.Equal(got.events, shown(op, payload)) {
				t.Errorf("%x in fragments of %d bytes: code %d, %d events", byte(op), size, got.code, len(got.events))
			}
		}
	}
}

func TestConformance10AutoFragmentation(t *testing.T) {
	payload := strings.Repeat("*", 65536)
	stream := fragmented(ws.OpText, payload, 1300)
	expect(t, open, stream, 0, shown(ws.OpText, payload)...)
}

// fragmented is a message in frames of at most size bytes.
func fragmented(op ws.OpCode, payload string, size int) (stream []byte) {
	for len(payload) > size {
		stream = append(stream, frameOf(more, op, payload[:size])...)
		payload, op = payload[size:], ws.OpContinuation
	}
	return append(stream, frameOf(fin, op, payload)...)
}
