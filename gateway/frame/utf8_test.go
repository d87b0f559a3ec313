package frame

import (
	"slices"
	"testing"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

// Autobahn sections 6.2, 6.5 to 6.22: text that is UTF-8, however it is cut.
func TestConformance6ValidText(t *testing.T) {
	for _, s := range []string{
		"", "Hello-µ@ßöäüàá-UTF-8!!", "κόσμε",
		"\x00", "\u0080", "\u0800", "\U00010000", // 6.6: first of each length
		"\u007f", "\u07ff", "\uffff", "\U0010ffff", // 6.9: last of each length
		"\ud7ff", "\ue000", "\ufffd", // 6.11: around the surrogates
		"\ufffe", "\U0001fffe", "\U0002ffff", "\U0003fffe", "\U0010fffe", // 6.22: non-characters
		"\ufeff", "\u200b\u2028",
	} {
		want := shown(ws.OpText, s)
		expect(t, open, text(s), 0, want...)
		for size := 1; size <= 4; size++ {
			expect(t, open, fragmented(ws.OpText, s, size), 0, want...)
		}
	}
}

// badText is a beginning that could still become UTF-8, and the byte after
// which it cannot (Autobahn sections 6.3, 6.4, 6.6, 6.8, 6.10 to 6.21).
var badText = []struct{ fine, bad string }{
	{"κόσμε\xed", "\xa0"},      // 6.3: half of a surrogate pair
	{"κόσμε\xf4", "\x90"},      // 6.4: above U+10FFFF
	{"", "\x80"}, {"", "\xbf"}, // 6.14: continuation bytes alone
	{"a", "\x80"}, {"ß", "\x80"}, //
	{"\xc3", "\xc3"},             // 6.15: first bytes alone
	{"\xc2", " "}, {"\xdf", " "}, //
	{"\xe0\xa0", " "},          // 6.16: a byte is missing
	{"\xef\xbf", "a"},          //
	{"\xf0\x90", "a"},          //
	{"\xf0\x90\x80", "a"},      //
	{"\xf4\x8f\xbf", "\xc3"},   //
	{"", "\xfe"}, {"", "\xff"}, // 6.17: bytes that never occur
	{"", "\xc0"}, {"", "\xc1"}, // 6.18: overlong, two bytes
	{"\xe0", "\x80"},           // overlong, three bytes
	{"\xe0", "\x9f"},           // 6.19
	{"\xf0", "\x80"},           // overlong, four bytes
	{"\xf0", "\x8f"},           //
	{"", "\xf5"}, {"", "\xf8"}, // 6.10, 6.12: five and more bytes
	{"", "\xfb"}, {"", "\xfc"}, //
	{"\xed", "\xa0"}, // 6.20, 6.21: surrogates
	{"\xed", "\xbf"}, //
	{"a long piece of ASCII, so that words are compared ....", "\xff"},
}

// The connection fails with the first bad byte, not with the end of the frame
// or message.
func TestConformance6FailsAtTheFirstBadByte(t *testing.T) {
	for _, c := range badText {
		s := c.fine + c.bad
		rest := s + "the rest, which is never looked at"
		want := len(text(rest)) - len(rest) + len(s)
		failsAt(t, text(rest), want)

		// In the middle of a message, each frame with one byte.
		stream := fragmented(ws.OpText, rest, 1)
		failsAt(t, stream, len(s)*(2+4+1))

		// In a frame of which the rest has not come, behind whole fragments.
		begin := join(frameOf(more, ws.OpText, "κόσμε"), ping("between"))
		stream = join(begin, frameOf(fin, ws.OpContinuation, rest))
		failsAt(t, stream, len(begin)+want)
	}
}

// failsAt wants 1007 with the byte that makes the first n bytes of the stream.
func failsAt(t *testing.T, stream []byte, n int) {
	t.Helper()
	bytes := decode(t, open, bytewise(stream)...)
	if bytes.code != wire.CloseInvalidUTF8 || bytes.given != n {
		t.Errorf("%q, bytewise: code %d after %d bytes, want 1007 after %d", stream, bytes.code, bytes.given, n)
	}
	if got := decode(t, open, stream[:n]); got.code != wire.CloseInvalidUTF8 {
		t.Errorf("%q: code %d, want 1007", stream[:n], got.code)
	}
	if got := decode(t, open, stream[:n-1]); got.code != 0 {
		t.Errorf("%q: code %d, but could be the start of valid text", stream[:n-1], got.code)
	}
	if got := decode(t, open, stream); got.code != wire.CloseInvalidUTF8 || !slices.Equal(got.events, bytes.events) {
		t.Errorf("%q at once: %v, want as bytewise: %v", stream, got, bytes)
	}
}

// Text that ends within a character fails at its end.
func TestConformance6TextEndsWithinCharacter(t *testing.T) {
	for _, s := range []string{"\xc3", "κόσμ\xce", "\xe2\x82", "\xf0\x9f\x92"} {
		expect(t, open, text(s), wire.CloseInvalidUTF8)
		expect(t, open, fragmented(ws.OpText, s, 1), wire.CloseInvalidUTF8)
		empty := join(frameOf(more, ws.OpText, s), frameOf(fin, ws.OpContinuation, ""))
		expect(t, open, empty, wire.CloseInvalidUTF8)
		// What was open in one message is no part of the next.
		expect(t, open, join(text("ok"), text(s)), wire.CloseInvalidUTF8, shown(ws.OpText, "ok")...)
	}
}

// A reason fails as early as a text: here before the frame is complete.
func TestCloseReasonFailsAtTheFirstBadByte(t *testing.T) {
	for _, c := range badText {
		stream := closing(1000, c.fine+c.bad+"never looked at")
		failsAt(t, stream, 2+4+2+len(c.fine)+1)
	}
}

func TestBinaryMayHoldAnything(t *testing.T) {
	for _, c := range badText {
		s := c.fine + c.bad
		expect(t, open, join(binary_(s), fragmented(ws.OpBinary, s, 1)), 0, shown(ws.OpBinary, s, ws.OpBinary, s)...)
	}
}
