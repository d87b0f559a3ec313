package integration

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// segmentGap lets the gateway read one segment before the next is there. Should
// it be late, it reads both at once, which must give the same result.
const segmentGap = 2 * time.Millisecond

// conversation is everything that a client says: at once, and after the
// gateway's reply if it is sealed.
type conversation struct {
	name, path string
	suite      suite.ID // 0: unencrypted
	hybrid     session.PostQuantum
	step       int    // between the positions at which it is cut
	first      []byte // of an unencrypted one, behind the request
	then       func(h *hand) [][]byte
	answers    []string // that must be among what comes back
}

var conversations = []conversation{
	{name: "unencrypted echo", path: "/echo", first: bytes.Join([][]byte{
		masked(ws.OpText, true, "h\u00e9llo \U0001F512"), masked(ws.OpPing, true, "p"), masked(ws.OpBinary, true, strings.Repeat("b", 130)),
		inFragments(ws.OpText, []byte("\u20ac in fragments \u20ac\u20ac")), masked(ws.OpBinary, true, ""), masked(ws.OpPong, true, "x"), closing(3210)}, nil),
		step: 1, answers: []string{`1 "héllo 🔒"`, `10 "p"`, `10 "ping"`, `1 "€ in fragments €€"`, `2 ""`, `8 "\f\x8a"`}},
	{name: "sealed echo", path: "/echo", suite: suite.AES256GCM, hybrid: session.PostQuantumOff, then: func(h *hand) [][]byte {
		return [][]byte{masked(ws.OpBinary, true, h.seal(wire.KindRecord, []byte("one"))),
			masked(ws.OpBinary, true, h.sess.AppendKeyUpdate(nil, 0)), masked(ws.OpPing, true, "p"),
			inFragments(ws.OpBinary, h.seal(wire.KindRecord, []byte(strings.Repeat("two", 50)))),
			masked(ws.OpBinary, true, h.seal(wire.KindRecord, nil)), closing(1000)}
	}, step: 1, answers: []string{`kind 0x10 "one"`, `10 "ping"`, `kind 0x10 ""`, `8 "\x03\xe8"`}},
	{name: "push", path: "/ws", suite: suite.ChaCha20Poly1305, hybrid: session.PostQuantumOff, then: func(h *hand) [][]byte {
		connect := &wire.ClientFrame{Message: &wire.ClientFrame_Connect{Connect: &wire.Connect{ClientName: "hand"}}}
		ping := &wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: 7}}}
		goodbye, err := wire.AppendGoodbye(nil, &wire.Goodbye{Code: 1000})
		if err != nil {
			panic(err)
		}
		return [][]byte{masked(ws.OpBinary, true, h.say(connect, 200)), inFragments(ws.OpBinary, h.say(ping, 0)),
			masked(ws.OpBinary, true, h.say(ping, 130)), masked(ws.OpBinary, true, h.seal(wire.KindGoodbye, goodbye)), closing(1000)}
	}, step: 1, answers: []string{"Connected test", `kind 0x10 "\x00\x00\x00\xea\x01\x02\b\a"`, `8 "\x03\xe8goodbye"`}},
	{name: "hybrid", path: "/echo", suite: suite.AES128GCM, hybrid: session.PostQuantumRequired, then: func(h *hand) [][]byte {
		return [][]byte{masked(ws.OpBinary, true, h.seal(wire.KindRecord, []byte("one"))), closing(1000)}
	}, step: 7, answers: []string{`kind 0x10 "one"`}}, // its long message is like others: every seventh position
}

// delivery writes b, which begins at an offset of the client's stream.
type delivery func(h *hand, b []byte, offset int) error

func atOnce(h *hand, b []byte, _ int) error {
	_, err := h.conn.Write(b)
	return err
}

// cutAt makes two segments of the stream, or of that part of it which can be
// sent at the time.
func cutAt(position int) delivery {
	return func(h *hand, b []byte, offset int) error {
		at := min(max(position-offset, 0), len(b))
		if _, err := h.conn.Write(b[:at]); err != nil {
			return err
		}
		if at > 0 && at < len(b) {
			time.Sleep(segmentGap)
		}
		_, err := h.conn.Write(b[at:])
		return err
	}
}

func byteByByte(h *hand, b []byte, _ int) error {
	for _, c := range b {
		if _, err := h.conn.Write([]byte{c}); err != nil {
			return err
		}
		time.Sleep(segmentGap / 4)
	}
	return nil
}

// hold has a conversation and returns what came back and how long the client's
// stream was. The request and the first frames go out together if early.
func (s *system) hold(c *conversation, early bool, deliver delivery) (told string, size int, err error) {
	h, err := s.byHand(c.path, c.suite, c.hybrid)
	if err != nil {
		return "", 0, err
	}
	defer h.conn.Close()
	request, first := upgradeRequest(c.path, c.suite), c.first
	if h.sess != nil {
		if first, err = h.init(); err != nil {
			return "", 0, err
		}
	}
	if early {
		request, first = append(request, first...), nil
	}
	if err := deliver(h, request, 0); err != nil {
		return "", 0, err
	}
	head, err := h.readHead()
	if err != nil {
		return "", 0, err
	}
	if err := deliver(h, first, len(request)); err != nil {
		return "", 0, err
	}
	size = len(request) + len(first)
	if h.sess != nil {
		if err := h.readReply(); err != nil {
			return head, size, fmt.Errorf("reply: %w", err)
		}
		rest := bytes.Join(c.then(h), nil)
		if err := deliver(h, rest, size); err != nil {
			return head, size, err
		}
		size += len(rest)
	}
	answers, err := h.readRest()
	return line(append([]string{head}, answers...)...), size, err
}

// TestStreamCutAnywhere: however the client's stream is cut into segments, and
// however early they come, the same comes back.
func TestStreamCutAnywhere(t *testing.T) {
	s := start(t)
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			want, size, err := s.hold(&c, false, atOnce)
			if err != nil {
				t.Fatalf("%q, %v", want, err)
			}
			for _, answer := range c.answers {
				if !strings.Contains(want+"\n", "\n"+answer+"\n") {
					t.Errorf("no %s in\n%s", answer, want)
				}
			}
			check := func(how string, early bool, deliver delivery) {
				if got, n, err := s.hold(&c, early, deliver); got != want || n != size || err != nil {
					t.Errorf("%s, early %v: %d bytes, %v\n%s\nwant\n%s", how, early, n, err, got, want)
				}
			}
			checks := []func(){
				func() { check("byte by byte", true, byteByByte) }, func() { check("byte by byte", false, byteByByte) },
				func() { check("in one segment", true, atOnce) }, func() { check("in one segment", false, atOnce) },
			}
			for at := 1; at < size; at += c.step * stride(5) {
				checks = append(checks, func() { check(fmt.Sprint("cut at ", at), true, cutAt(at)) })
			}
			concurrently(len(checks), 8, func(i int) { checks[i]() })
		})
	}
	s.expectBase(t)
}
