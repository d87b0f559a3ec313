package gateway_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire"
)

// The cases of the Autobahn test suite against a server that echoes, by their
// numbers, through real sockets. Where the suite knows a lenient answer
// ("non-strict"), only the strict one is taken here.

// answer is one frame of the gateway's, a pong or an echo.
type answer struct {
	op      ws.OpCode
	payload string
}

// autobahnCase is what a client sends and what it has to get back.
type autobahnCase struct {
	id   string
	send []byte
	chop int            // bytes of one write; 0: all in one
	want []answer       // in this order
	end  wire.CloseCode // how the gateway closes; 0: it does not, and answers the client's close
	code int            // of the client's close in send; 0: send has none
}

// TestAutobahn runs the cases with numbers, section 9 with its largest messages
// only where the time for them is.
func TestAutobahn(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Echo.MaxMessage, o.Limits.Fragments = 16<<20, 70_000
	})
	largest := 256 << 10
	if testenv.Long() {
		largest = 16 << 20
	}
	sections := map[string][]autobahnCase{
		"1 framing": framingCases(), "2 pings and pongs": pingCases(), "3 and 4 reserved": reservedCases(), "5 fragmentation": fragmentCases(),
		"6 UTF-8": textCases(), "7 closing": closingCases(), "9 limits": limitCases(largest), "10 fragmentation by a library": {
			{id: "10.1.1", send: parts(ws.OpText, strings.Repeat("*", 65536), 1300), want: []answer{{ws.OpText, strings.Repeat("*", 65536)}}},
		},
	}
	for name, cases := range sections {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases {
				c.run(t, s)
			}
		})
	}
	expectBase(t, s)
}

func (c *autobahnCase) run(t *testing.T, s *server) {
	t.Helper()
	p := upgraded(t, s, "/echo")
	defer p.conn.Close()
	sent := make(chan error, 1)
	go func() {
		var err error
		size := c.chop
		if size == 0 {
			size = len(c.send)
		}
		for chunk := range slices.Chunk(c.send, size) {
			if _, err = p.conn.Write(chunk); err != nil {
				break
			}
		}
		sent <- err
	}()
	for i, want := range c.want {
		frame, err := readFrame(p.br)
		if err != nil {
			t.Fatalf("%s: answer %d of %d: %v", c.id, i, len(c.want), err)
		}
		if frame.Header.OpCode != want.op || string(frame.Payload) != want.payload {
			t.Fatalf("%s: answer %d is opcode %x with %d bytes %.40q, want %x with %d bytes", c.id, i, frame.Header.OpCode, len(frame.Payload), frame.Payload, want.op, len(want.payload))
		}
	}
	if err := <-sent; err != nil && c.end == 0 && c.code == 0 {
		t.Fatalf("%s: %v", c.id, err)
	}
	switch {
	case c.end != 0:
		p.expectClose(c.end, false)
	case c.code != 0:
		p.expectClose(wire.CloseCode(c.code), false)
	default:
		p.send(closeFrame(1000, ""))
		p.expectClose(1000, false)
	}
}

// parts is a message in frames of at most size bytes.
func parts(op ws.OpCode, payload string, size int) (stream []byte) {
	for len(payload) > size {
		stream = append(stream, frame(op, false, payload[:size])...)
		payload, op = payload[size:], ws.OpContinuation
	}
	return append(stream, frame(op, true, payload)...)
}

func whole(op ws.OpCode, payload string) []byte { return frame(op, true, payload) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func framingCases() (all []autobahnCase) {
	for section, op := range []ws.OpCode{ws.OpText, ws.OpBinary} {
		for i, size := range []int{0, 125, 126, 127, 128, 65535, 65536, 65536} {
			payload := strings.Repeat("*", size)
			c := autobahnCase{id: fmt.Sprintf("1.%d.%d", section+1, i+1), send: whole(op, payload), want: []answer{{op, payload}}}
			if i == 7 {
				c.chop = 997
			}
			all = append(all, c)
		}
	}
	return all
}

func pingCases() []autobahnCase {
	longest := strings.Repeat("\xfe", 125)
	ping, pong := func(s string) []byte { return whole(ws.OpPing, s) }, func(s string) []byte { return whole(ws.OpPong, s) }
	var ten []byte
	var pongs []answer
	for i := range 10 {
		ten, pongs = append(ten, ping(fmt.Sprintf("payload-%d", i))...), append(pongs, answer{ws.OpPong, fmt.Sprintf("payload-%d", i)})
	}
	return []autobahnCase{
		{id: "2.1", send: ping(""), want: []answer{{ws.OpPong, ""}}},
		{id: "2.2", send: ping("Hello, world!"), want: []answer{{ws.OpPong, "Hello, world!"}}},
		{id: "2.3", send: ping("\x00\xff\xfe\xfd\xfc\xfb\x00\xff"), want: []answer{{ws.OpPong, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff"}}},
		{id: "2.4", send: ping(longest), want: []answer{{ws.OpPong, longest}}},
		{id: "2.5", send: ping(longest + "\xfe"), end: wire.CloseProtocolError},
		{id: "2.6", send: ping(longest), chop: 1, want: []answer{{ws.OpPong, longest}}},
		{id: "2.7", send: pong("")},
		{id: "2.8", send: pong("unsolicited pong payload")},
		{id: "2.9", send: join(pong("unsolicited pong payload"), ping("ping payload")), want: []answer{{ws.OpPong, "ping payload"}}},
		{id: "2.10", send: ten, want: pongs},
		{id: "2.11", send: ten, chop: 1, want: pongs},
	}
}

// reservedCases have valid messages before what is refused, in one write and
// byte by byte: these are answered first.
func reservedCases() (all []autobahnCase) {
	before, answers := whole(ws.OpText, "Hello, world!"), []answer{{ws.OpText, "Hello, world!"}}
	for rsv := byte(1); rsv <= 7; rsv++ {
		for _, op := range []ws.OpCode{ws.OpText, ws.OpBinary, ws.OpPing, ws.OpClose} {
			bad := whole(op, "\x03\xe8")
			bad[0] |= rsv << 4
			for _, chop := range []int{0, 1} {
				all = append(all, autobahnCase{id: fmt.Sprintf("3.%d with opcode %d, chops of %d", rsv, op, chop),
					send: join(before, bad, whole(ws.OpPing, "")), chop: chop, want: answers, end: wire.CloseProtocolError})
			}
		}
	}
	for section, ops := range [][]ws.OpCode{{3, 4, 5, 6, 7}, {11, 12, 13, 14, 15}} {
		for i, op := range ops {
			for _, chop := range []int{0, 1} {
				for _, payload := range []string{"", "reserved opcode payload"} {
					all = append(all, autobahnCase{id: fmt.Sprintf("4.%d.%d, chops of %d", section+1, i+1, chop),
						send: join(before, whole(op, payload), whole(ws.OpPing, "")), chop: chop, want: answers, end: wire.CloseProtocolError})
				}
			}
		}
	}
	return all
}

func fragmentCases() (all []autobahnCase) {
	one, two, last := frame(ws.OpText, false, "fragment1"), frame(ws.OpContinuation, false, "fragment2"), whole(ws.OpContinuation, "fragment3")
	end := whole(ws.OpContinuation, "fragment2")
	ping, both := whole(ws.OpPing, "ping"), answer{ws.OpText, "fragment1fragment2"}
	pong := answer{ws.OpPong, "ping"}
	first := answer{ws.OpText, "fragment1fragment2fragment3"}
	violation := wire.CloseProtocolError
	numbered := func(id string, send []byte, end wire.CloseCode, want ...answer) {
		for i, chop := range []int{0, 1} { // Autobahn: one after the other, in one write, byte by byte
			all = append(all, autobahnCase{id: fmt.Sprintf("%s, way %d", id, i), send: send, chop: chop, end: end, want: want})
		}
	}
	numbered("5.1", join(frame(ws.OpPing, false, "fragment1"), end), violation)
	numbered("5.2", join(frame(ws.OpPong, false, "fragment1"), end), violation)
	numbered("5.3–5.5", join(one, end), 0, both)
	numbered("5.6–5.8", join(one, ping, end), 0, pong, both)
	numbered("5.9–5.11", join(whole(ws.OpContinuation, "non-continuation payload"), whole(ws.OpText, "Hello")), violation)
	numbered("5.12–5.14", join(frame(ws.OpContinuation, false, "non-continuation payload"), whole(ws.OpText, "Hello")), violation)
	numbered("5.15", join(one, end, two, whole(ws.OpText, "fragment4")), violation, both)
	numbered("5.16, 5.17", join(frame(ws.OpContinuation, false, "fragment1"), frame(ws.OpText, false, "fragment2"), last), violation)
	numbered("5.17", join(whole(ws.OpContinuation, "fragment1"), frame(ws.OpText, false, "fragment2"), last), violation)
	numbered("5.18", join(one, whole(ws.OpText, "fragment2")), violation)
	five := join(one, two, ping, frame(ws.OpContinuation, false, "fragment3"), frame(ws.OpContinuation, false, "fragment4"), ping, whole(ws.OpContinuation, "fragment5"))
	numbered("5.19, 5.20", five, 0, pong, pong, answer{ws.OpText, "fragment1fragment2fragment3fragment4fragment5"})
	numbered("three fragments", join(one, two, last), 0, first)
	return all
}

func textCases() (all []autobahnCase) {
	valid := map[string][]string{
		"6.1": {""}, "6.2": {"Hello-µ@ßöäüàá-UTF-8!!"}, "6.5": {"κόσμε"},
		"6.7": {"\x00", "\u0080", "\u0800", "\U00010000"}, "6.9": {"\x7f", "\u07ff", "\uffff", "\U0010ffff"},
		"6.11": {"\ud7ff", "\ue000", "\ufffd", "\U0010ffff"}, "6.23": {"\ufffd", "\ufeff"},
	}
	for plane := rune(0); plane <= 16; plane++ {
		valid["6.22"] = append(valid["6.22"], string(plane<<16+0xfffe), string(plane<<16+0xffff))
	}
	for id, texts := range valid {
		for i, s := range texts {
			echo := []answer{{ws.OpText, s}}
			all = append(all, autobahnCase{id: fmt.Sprintf("%s.%d", id, i+1), send: whole(ws.OpText, s), want: echo},
				autobahnCase{id: fmt.Sprintf("%s.%d in fragments", id, i+1), send: parts(ws.OpText, s, 1), want: echo},
				autobahnCase{id: fmt.Sprintf("%s.%d in chops", id, i+1), send: whole(ws.OpText, s), chop: 1, want: echo})
		}
	}
	all = append(all, autobahnCase{id: "6.1.2", send: join(frame(ws.OpText, false, ""), frame(ws.OpContinuation, false, ""), whole(ws.OpContinuation, "")), want: []answer{{ws.OpText, ""}}},
		autobahnCase{id: "6.1.3", send: join(frame(ws.OpText, false, ""), frame(ws.OpContinuation, false, "middle frame payload"), whole(ws.OpContinuation, "")), want: []answer{{ws.OpText, "middle frame payload"}}})
	for id, texts := range map[string][]string{
		"6.3": {"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited"}, "6.4": {"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited"},
		"6.6": {"\xce\xba\xe1", "\xce\xba\xe1\xbd\xb9\xcf"}, "6.8": {"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80"}, "6.10": {"\xf7\xbf\xbf\xbf", "\xfb\xbf\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf\xbf"},
		"6.12": {"\x80", "\xbf", "\x80\xbf", "\x80\xbf\x80"}, "6.13": {"\xc0 \xc1 ", "\xe0 \xe1 ", "\xf0 \xf1 ", "\xf8 ", "\xfc "}, "6.14": {"\xc0", "\xe0\x80", "\xf0\x80\x80", "\xdf", "\xef\xbf"},
		"6.15": {"\xc0\xe0\x80\xf0\x80\x80"}, "6.16": {"\xfe", "\xff", "\xfe\xfe\xff\xff"}, "6.17": {"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf"}, "6.18": {"\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf"},
		"6.19": {"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80"}, "6.20": {"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xbf\xbf"}, "6.21": {"\xed\xa0\x80\xed\xb0\x80", "\xed\xaf\xbf\xed\xbf\xbf"},
	} {
		for i, s := range texts {
			for _, chop := range []int{0, 1} {
				id := fmt.Sprintf("%s.%d, chops of %d", id, i+1, chop)
				all = append(all, autobahnCase{id: id, send: whole(ws.OpText, s), chop: chop, end: wire.CloseInvalidUTF8},
					autobahnCase{id: id + " in fragments", send: parts(ws.OpText, s, 1), chop: chop, end: wire.CloseInvalidUTF8})
			}
		}
	}
	return all
}

func closingCases() []autobahnCase {
	normal := closeFrame(1000, "")
	all := []autobahnCase{
		{id: "7.1.1", send: join(whole(ws.OpText, "Hello World!"), normal), want: []answer{{ws.OpText, "Hello World!"}}, code: 1000},
		{id: "7.1.2", send: join(normal, normal), code: 1000},
		{id: "7.1.3", send: join(normal, whole(ws.OpPing, "")), code: 1000},
		{id: "7.1.4", send: join(normal, whole(ws.OpText, "Hello World!")), code: 1000},
		{id: "7.1.5", send: join(frame(ws.OpText, false, "fragment1"), normal, whole(ws.OpContinuation, "fragment2")), code: 1000},
		{id: "7.1.6", send: join(whole(ws.OpText, strings.Repeat("*", 256<<10)), whole(ws.OpText, "Hello World!"), normal, whole(ws.OpPing, "")),
			want: []answer{{ws.OpText, strings.Repeat("*", 256<<10)}, {ws.OpText, "Hello World!"}}, code: 1000},
		{id: "7.3.1", send: whole(ws.OpClose, ""), code: int(wire.CloseNoStatus)},
		{id: "7.3.2", send: whole(ws.OpClose, "a"), end: wire.CloseProtocolError},
		{id: "7.3.3", send: normal, code: 1000},
		{id: "7.3.4", send: closeFrame(1000, "Hello World!"), code: 1000},
		{id: "7.3.5", send: closeFrame(1000, strings.Repeat("*", 123)), code: 1000},
		{id: "7.3.6", send: closeFrame(1000, strings.Repeat("*", 124)), end: wire.CloseProtocolError},
		{id: "7.5.1", send: closeFrame(1000, "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited"), end: wire.CloseInvalidUTF8},
	}
	for i, code := range []uint16{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999} {
		all = append(all, autobahnCase{id: fmt.Sprintf("7.7.%d", i+1), send: closeFrame(code, ""), code: int(code)})
	}
	for i, code := range []uint16{0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999} {
		all = append(all, autobahnCase{id: fmt.Sprintf("7.9.%d", i+1), send: closeFrame(code, ""), end: wire.CloseProtocolError},
			autobahnCase{id: fmt.Sprintf("7.9.%d with a reason", i+1), send: closeFrame(code, "reason"), end: wire.CloseProtocolError})
	}
	for i, code := range []uint16{5000, 65535} {
		all = append(all, autobahnCase{id: fmt.Sprintf("7.13.%d", i+1), send: closeFrame(code, ""), end: wire.CloseProtocolError})
	}
	return all
}

// limitCases are those of section 9 whose messages have at most largest bytes.
func limitCases(largest int) (all []autobahnCase) {
	add := func(op ws.OpCode, id string, size, fragment, chop int) {
		if size > largest {
			return
		}
		payload := strings.Repeat("*", size)
		all = append(all, autobahnCase{id: id, send: parts(op, payload, fragment), chop: chop, want: []answer{{op, payload}}})
	}
	for i, op := range []ws.OpCode{ws.OpText, ws.OpBinary} {
		for j, size := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20} {
			add(op, fmt.Sprintf("9.%d.%d", 1+i, j+1), size, size, 0)
		}
		size := min(4<<20, largest)
		for j, fragment := range []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20} {
			add(op, fmt.Sprintf("9.%d.%d", 3+i, j+1), size, fragment, 0)
		}
		for j, chop := range []int{64, 128, 256, 512, 1024, 2048} {
			add(op, fmt.Sprintf("9.%d.%d", 5+i, j+1), min(1<<20, largest), 1<<20, chop)
		}
		for j, size := range []int{0, 16, 64, 256, 1024, 4096} {
			c := autobahnCase{id: fmt.Sprintf("9.%d.%d", 7+i, j+1)}
			payload := strings.Repeat("*", size)
			for range 1000 {
				c.send, c.want = append(c.send, whole(op, payload)...), append(c.want, answer{op, payload})
			}
			all = append(all, c)
		}
	}
	return all
}
