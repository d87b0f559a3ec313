package gateway_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// stage is a point of a connection's life at which frames are tested.
type stage struct {
	name   string
	enter  func(t testing.TB, s *server) *peer
	sealed bool // the gateway can say Goodbye
	text   bool
	limit  int // bytes of a message
}

var stages = []stage{
	{"plain echo", func(t testing.TB, s *server) *peer { return upgraded(t, s, "/echo") }, false, true, 1 << 20},
	{"push, no keys yet", func(t testing.TB, s *server) *peer { return upgraded(t, s, "/ws", suite.AES128GCM) }, false, false, 64<<10 + 17},
	{"push, no Connect yet", func(t testing.TB, s *server) *peer { return established(t, s, "/ws", suite.AES128GCM) }, true, false, 64<<10 + 17},
	{"push, in service", func(t testing.TB, s *server) *peer { return connected(t, s, suite.ChaCha20Poly1305) }, true, false, 64<<10 + 17},
	{"sealed echo, no keys yet", func(t testing.TB, s *server) *peer { return upgraded(t, s, "/echo", suite.AES128GCM) }, false, false, 1<<20 + 17},
	{"sealed echo", func(t testing.TB, s *server) *peer { return established(t, s, "/echo", suite.AES256GCM) }, true, false, 1<<20 + 17},
}

// header is a frame's header with a mask of zeros, byte for byte.
func header(first, second byte, extended ...byte) []byte {
	return append(append([]byte{first, second}, extended...), 0, 0, 0, 0)
}

func length64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// violations are bytes that no client may send, in any stage.
var violations = []struct {
	name  string
	bytes []byte
	code  wire.CloseCode
}{
	{"not masked", []byte{0x82, 0x01, 'x'}, 1002},
	{"not masked, no payload", []byte{0x82, 0x00}, 1002},
	{"first reserved bit", header(0xc2, 0x80), 1002},
	{"second reserved bit", header(0xa2, 0x80), 1002},
	{"third reserved bit", header(0x92, 0x80), 1002},
	{"reserved bit of a ping", header(0xc9, 0x80), 1002},
	{"opcode 3", header(0x83, 0x80), 1002},
	{"opcode 7", header(0x87, 0x80), 1002},
	{"opcode 11", header(0x8b, 0x80), 1002},
	{"opcode 15", header(0x8f, 0x80), 1002},
	{"ping in fragments", header(0x09, 0x80), 1002},
	{"pong in fragments", header(0x0a, 0x80), 1002},
	{"close in fragments", header(0x08, 0x80), 1002},
	{"ping of 126 bytes", header(0x89, 0xfe, 0, 126), 1002},
	{"close of 126 bytes", header(0x88, 0xfe, 0, 126), 1002},
	{"125 in 16 bits", header(0x82, 0xfe, 0, 125), 1002},
	{"0 in 16 bits", header(0x82, 0xfe, 0, 0), 1002},
	{"65535 in 64 bits", header(0x82, 0xff, length64(65535)...), 1002},
	{"0 in 64 bits", header(0x82, 0xff, length64(0)...), 1002},
	{"highest bit of the length", header(0x82, 0xff, length64(1<<63)...), 1002},
	{"all bits of the length", header(0x82, 0xff, length64(1<<64-1)...), 1002},
	{"63 bits of length", header(0x82, 0xff, length64(1<<63-1)...), 1009},
	{"continuation of nothing", header(0x80, 0x80), 1002},
	{"continuation of nothing, not last", header(0x00, 0x80), 1002},
	{"continuation of what is complete", append(binaryParts("a"), header(0x80, 0x80)...), 1002},
	{"message within a message", append(frame(ws.OpBinary, false, "a"), header(0x82, 0x80)...), 1002},
	{"close of one byte", frame(ws.OpClose, true, "x"), 1002},
	{"close code 0", closeFrame(0, ""), 1002},
	{"close code 999", closeFrame(999, ""), 1002},
	{"close code 1004", closeFrame(1004, ""), 1002},
	{"close code 1005", closeFrame(1005, ""), 1002},
	{"close code 1006", closeFrame(1006, ""), 1002},
	{"close code 1015", closeFrame(1015, ""), 1002},
	{"close code 2999", closeFrame(2999, ""), 1002},
	{"close code 5000", closeFrame(5000, ""), 1002},
	{"close reason in Latin-1", closeFrame(1000, "caf\xe9"), 1007},
	{"close reason cut off", closeFrame(1000, "caf\xc3"), 1007},
	{"one fragment too many", fragments(ws.OpBinary, 1025), 1008},
}

// binaryParts is a message in as many fragments.
func binaryParts(parts ...string) []byte {
	var all []byte
	for i, part := range parts {
		op := ws.OpContinuation
		if i == 0 {
			op = ws.OpBinary
		}
		all = append(all, frame(op, i == len(parts)-1, part)...)
	}
	return all
}

// fragments is the beginning of a message in n frames without content.
func fragments(op ws.OpCode, n int) []byte {
	return append(frame(op, false, ""), bytes.Repeat(frame(ws.OpContinuation, false, ""), n-1)...)
}

func TestFramingViolationsInEveryStage(t *testing.T) {
	s := start(t, nil)
	for _, at := range stages {
		for _, v := range violations {
			if strings.HasPrefix(v.name, "continuation of what is complete") && at.name != "plain echo" {
				continue // elsewhere the complete message is a violation already
			}
			t.Run(at.name+"/"+v.name, func(t *testing.T) {
				p := at.enter(t, s)
				p.send(v.bytes)
				if v.name == "continuation of what is complete" {
					p.read() // its echo
				}
				if reason := p.expectClose(v.code, at.sealed); reason == "" {
					t.Error("a framing error is told without a reason")
				}
			})
		}
	}
	expectBase(t, s)
}

// expectBase wants every connection gone, and none of them by a panic.
func expectBase(t testing.TB, s *server) {
	t.Helper()
	eventually(t, "no connection left", func() bool { return s.Stats().Connections == 0 })
	if n := s.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

// TestMessageSizeLimit: a message that is too large is refused by its header
// alone, also when only its fragments together are too large.
func TestMessageSizeLimit(t *testing.T) {
	s := start(t, nil)
	for _, at := range stages {
		half := at.limit/2 + 1
		for name, bytes := range map[string][]byte{
			"announced":    header(0x82, 0xff, length64(uint64(at.limit)+1)...),
			"far too long": header(0x82, 0xff, length64(1<<40)...),
			"in fragments": append(frame(ws.OpBinary, false, make([]byte, half)),
				header(0x80, 0xff, length64(uint64(max(at.limit-half+1, 1<<16)))...)...),
		} {
			t.Run(at.name+"/"+name, func(t *testing.T) {
				p := at.enter(t, s)
				p.send(bytes)
				p.expectClose(wire.CloseTooBig, at.sealed)
			})
		}
	}
	p := connected(t, s, suite.AES128GCM)
	p.send(p.seal(wire.KindRecord, make([]byte, 64<<10+1)))
	p.expectClose(wire.CloseTooBig, true)
	expectBase(t, s)
}

// TestLargestMessages: what is exactly at the limit is taken, in one piece and in
// as many fragments as allowed.
func TestLargestMessages(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.Fragments = 16 })
	p := upgraded(t, s, "/echo")
	p.expectEcho(ws.OpBinary, strings.Repeat("a", 1<<20))
	part := strings.Repeat("b", 1<<20/16)
	p.send(binaryParts(strings.Split(strings.Repeat(part+" ", 15)+part, " ")...))
	if header, got := p.read(); header.OpCode != ws.OpBinary || len(got) != 1<<20 {
		t.Errorf("%+v with %d bytes", header, len(got))
	}
	e := established(t, s, "/echo", suite.AES128GCM)
	plaintext := bytes.Repeat([]byte("c"), 1<<20)
	e.send(e.seal(wire.KindRecord, plaintext))
	if _, got := e.open(); !bytes.Equal(got, plaintext) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTextWhereRecordsAreDue(t *testing.T) {
	s := start(t, nil)
	for _, at := range stages {
		if at.text {
			continue
		}
		for name, bytes := range map[string][]byte{
			"whole": frame(ws.OpText, true, "{}"), "header": header(0x81, 0xff)[:2], "fragment": header(0x01, 0x80),
		} {
			t.Run(at.name+"/"+name, func(t *testing.T) {
				p := at.enter(t, s)
				p.send(bytes)
				p.expectClose(wire.CloseUnsupported, at.sealed)
			})
		}
	}
	expectBase(t, s)
}

// TestTextFailsAtItsFirstBadByte: the rest of the message is never sent, the
// close has to come without it.
func TestTextFailsAtItsFirstBadByte(t *testing.T) {
	s := start(t, nil)
	begun := func(first byte, text string) []byte { return append(header(first, 0x80|100), text...) }
	for _, test := range []struct {
		name  string
		bytes []byte
	}{
		{"no such byte", begun(0x81, "ab\xff")},
		{"continuation byte alone", begun(0x81, "\x80")},
		{"overlong", begun(0x81, "\xc0")},
		{"overlong slash of three bytes", begun(0x81, "\xe0\x80")},
		{"surrogate", begun(0x81, "abc\xed\xa0")},
		{"beyond Unicode", begun(0x81, "\xf4\x90")},
		{"character cut short", begun(0x81, "\xe2\x82x")},
		{"in a later fragment", append(frame(ws.OpText, false, "ok"), begun(0x00, "ok\xfe")...)},
		{"character over two fragments", append(frame(ws.OpText, false, "\xe2\x82"), frame(ws.OpContinuation, false, "\x28")...)},
		{"fragment ends the message within a character", append(frame(ws.OpText, false, "\xe2"), frame(ws.OpContinuation, true, "\x82")...)},
		{"message ends within a character", frame(ws.OpText, true, "abc\xf0\x9f\x98")},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := upgraded(t, s, "/echo")
			p.send(test.bytes)
			p.expectClose(wire.CloseInvalidUTF8, false)
		})
	}
	p := upgraded(t, s, "/echo")
	p.expectEcho(ws.OpText, "€ \U0001F600 \x00 \U0010FFFF")
	p.expectEcho(ws.OpBinary, "\xff\xfe\x80")
	p.send(append(frame(ws.OpText, false, "\xe2\x82"), frame(ws.OpContinuation, true, "\xac")...))
	if header, got := p.read(); header.OpCode != ws.OpText || string(got) != "€" {
		t.Errorf("%+v %q", header, got)
	}
}

// TestPeersCloseIsAnsweredInKind: with its own code, an empty one with an empty
// one, also in the midst of a message, and nothing behind it counts.
func TestPeersCloseIsAnsweredInKind(t *testing.T) {
	s := start(t, nil)
	codes := []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999}
	for _, at := range stages {
		t.Run(at.name, func(t *testing.T) {
			for _, code := range codes {
				p := at.enter(t, s)
				p.send(append(closeFrame(code, "bye"), binaryParts("behind")...))
				p.expectClose(wire.CloseCode(code), false)
			}
			p := at.enter(t, s)
			p.send(frame(ws.OpClose, true, ""))
			p.expectClose(wire.CloseNoStatus, false)
			p = at.enter(t, s)
			p.send(append(frame(ws.OpBinary, false, "half"), closeFrame(1001, strings.Repeat("r", 123))...))
			p.expectClose(wire.CloseGoingAway, false)
		})
	}
	expectBase(t, s)
}

// TestPongBeforeFurtherData: a ping is answered with its own payload, ahead of
// whatever follows it, also between the fragments of a message.
func TestPongBeforeFurtherData(t *testing.T) {
	s := start(t, nil)
	for _, at := range stages {
		t.Run(at.name, func(t *testing.T) {
			p := at.enter(t, s)
			for _, n := range []int{0, 1, 125} {
				payload := strings.Repeat("p", n)
				p.send(append(frame(ws.OpPong, true, "nobody asked"), frame(ws.OpPing, true, payload)...))
				p.expectPong(payload)
			}
		})
	}
	p := upgraded(t, s, "/echo")
	p.send(bytes.Join([][]byte{frame(ws.OpPing, true, "1"), frame(ws.OpText, true, "a"), frame(ws.OpPing, true, "2"), frame(ws.OpText, true, "b")}, nil))
	for i, want := range []string{"1", "a", "2", "b"} {
		op := []ws.OpCode{ws.OpPong, ws.OpText}[i%2]
		if header, got := p.read(); header.OpCode != op || string(got) != want {
			t.Fatalf("answer %d: %+v %q", i, header, got)
		}
	}
	p.send(append(frame(ws.OpText, false, "he"), frame(ws.OpPing, true, "between")...))
	p.expectPong("between") // before the message goes on
	p.send(frame(ws.OpContinuation, true, "llo"))
	if header, got := p.read(); header.OpCode != ws.OpText || string(got) != "hello" {
		t.Fatalf("%+v %q", header, got)
	}
}

func (p *peer) expectPong(payload string) {
	p.t.Helper()
	if header, got := p.read(); header.OpCode != ws.OpPong || string(got) != payload {
		p.t.Fatalf("%+v %q, want a pong with %q", header, got, payload)
	}
}

// TestCloseArrivesBehindABacklog: a client that has not read for a while still
// gets everything that was on its way, and then the code.
func TestCloseArrivesBehindABacklog(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Slow.Queue = 64 << 20 })
	for name, test := range map[string]struct {
		last []byte
		code wire.CloseCode
	}{"violation": {header(0x83, 0x80), 1002}, "peer's close": {closeFrame(4321, ""), 4321}} {
		t.Run(name, func(t *testing.T) {
			p := upgraded(t, s, "/echo")
			const messages = 24
			for i := range messages {
				p.send(frame(ws.OpBinary, true, bytes.Repeat([]byte{byte(i)}, 1<<20)))
			}
			p.send(test.last)
			for i := range messages {
				if header, got := p.read(); header.OpCode != ws.OpBinary || len(got) != 1<<20 || got[len(got)-1] != byte(i) {
					t.Fatalf("message %d: %+v", i, header)
				}
			}
			p.expectClose(test.code, false)
		})
	}
	expectBase(t, s)
}
