package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// dialThrough opens a connection to an endpoint through a middle. The caller
// closes it.
func (s *system) dialThrough(ctx context.Context, m *middle, path string, opts client.Options) (interface{ Close(context.Context) error }, error) {
	opts.NetDial = m.dial
	if path == "/echo" {
		return client.DialEcho(ctx, "ws://"+s.addr+path, opts)
	}
	return client.Dial(ctx, "ws://"+s.addr+path, opts)
}

// flip changes one bit of one message.
func flip(number, at, bit int) edit {
	return func(n int, msg []byte) [][]byte {
		if n == number && len(msg) > 0 {
			msg[min(at, len(msg)-1)] ^= 1 << bit // random epochs make some messages a byte shorter
		}
		return [][]byte{msg}
	}
}

// concurrently runs f for 0 to n-1, so many at a time. Where the processor is
// what they wait for, more than a few only makes each of them late.
func concurrently(n, atATime int, f func(int)) {
	room := make(chan struct{}, atATime)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() { f(i); <-room })
	}
	all.Wait()
}

// TestEveryHandshakeByteOnTheWire flips each byte of both messages on their way.
// No connection comes about, and the client never sends a record.
func TestEveryHandshakeByteOnTheWire(t *testing.T) {
	s := start(t)
	for _, mode := range []session.PostQuantum{session.PostQuantumOff, session.PostQuantumPreferred} {
		opts := s.options(suite.AES128GCM, suite.ChaCha20Poly1305)
		opts.PostQuantum = mode
		untouched := &middle{}
		c, err := s.dialThrough(limited(t), untouched, "/ws", opts)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close(t.Context())
		opened := s.Stats().RecordsOpened
		for direction, name := range []string{"HandshakeInit", "HandshakeReply"} {
			size := len(untouched.messages(direction)[0])
			t.Run(fmt.Sprintf("%v/%s of %d bytes", mode, name, size), func(t *testing.T) {
				step := 1
				if mode != session.PostQuantumOff {
					step = stride(7)
				}
				concurrently((size+step-1)/step, 4, func(i int) { s.expectNoHandshake(t, opts, direction, i*step) })
			})
		}
		if n := s.Stats().RecordsOpened - opened; n != 0 {
			t.Errorf("%v: the gateway has opened %d records", mode, n)
		}
	}
	s.expectBase(t)
}

func (s *system) expectNoHandshake(t *testing.T, opts client.Options, direction, at int) {
	m := &middle{}
	edits := [2]*edit{&m.toGateway, &m.toClient}
	*edits[direction] = flip(0, at, at%8)
	c, err := s.dialThrough(limited(t), m, []string{"/ws", "/echo"}[at%2], opts)
	if err == nil {
		_ = c.Close(t.Context())
		t.Errorf("byte %d: connected", at)
		return
	}
	if codeOf(err) != wire.CloseBadRecord {
		t.Errorf("byte %d: %v", at, err)
	}
	// Who found the fault has told the other side, and without a reason.
	told, reason := m.end(up)
	if told == 0 {
		told, reason = m.end(down)
	}
	if told != wire.CloseBadRecord || reason != "" || m.sentRecords() {
		t.Errorf("byte %d: close %v %q, records sent: %v", at, told, reason, m.sentRecords())
	}
}

// replaced is an edit of a head that must take effect.
func replaced(t testing.TB, old, new string) func(string) string {
	return func(head string) string {
		if !strings.Contains(head, old) {
			t.Errorf("no %q in %q", old, head)
		}
		return strings.Replace(head, old, new, 1)
	}
}

// TestUpgradeIsBound: whatever somebody changes of endpoint, offers or choice
// breaks the handshake, or is refused before it.
func TestUpgradeIsBound(t *testing.T) {
	s := start(t)
	opts := s.options(suite.AES256GCM, suite.AES128GCM, suite.ChaCha20Poly1305)
	first, second, third := suite.AES256GCM.Protocol(), suite.AES128GCM.Protocol(), suite.ChaCha20Poly1305.Protocol()
	all := strings.Join([]string{first, second, third}, ", ")
	offers := func(t testing.TB, tokens ...string) func(string) string {
		return replaced(t, all, strings.Join(tokens, ", "))
	}
	broken := func(err error) bool {
		return errors.Is(err, session.ErrHandshake) && codeOf(err) == wire.CloseBadRecord
	}
	foreign := func(err error) bool { return errors.Is(err, client.ErrNotGateway) }
	for _, test := range []struct {
		name, path string
		change     func(testing.TB, *middle)
		fails      func(error) bool
	}{
		{"/ws to /echo", "/ws", func(t testing.TB, m *middle) { m.request = replaced(t, "GET /ws ", "GET /echo ") }, broken},
		{"/echo to /ws", "/echo", func(t testing.TB, m *middle) { m.request = replaced(t, "GET /echo ", "GET /ws ") }, broken},
		{"first offer removed", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, second, third) }, broken},
		{"second offer removed", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, first, third) }, broken},
		{"last offer removed", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, first, second) }, broken},
		{"only the last left", "/echo", func(t testing.TB, m *middle) { m.request = offers(t, third) }, broken},
		{"first two swapped", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, second, first, third) }, broken},
		{"last two swapped", "/echo", func(t testing.TB, m *middle) { m.request = offers(t, first, third, second) }, broken},
		{"suite added", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, first, second, third, suite.SM4GCM.Protocol()) }, broken},
		{"unknown offer added", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, first, second, third, "chat") }, broken},
		{"unknown offer added in front", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, "chat", first, second, third) }, broken},
		{"offer in another case", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, first, second, strings.ToUpper(third)) }, broken},
		{"offer replaced by plain", "/ws", func(t testing.TB, m *middle) { m.request = offers(t, suite.Plain.Protocol()) }, foreign},
		{"all offers removed", "/ws", func(t testing.TB, m *middle) { m.request = replaced(t, "Sec-WebSocket-Protocol: "+all+"\r\n", "") },
			func(err error) bool { return errors.Is(err, client.ErrNoCommonSuite) }},
		{"ordinary echo instead", "/echo", func(t testing.TB, m *middle) { m.request = replaced(t, "Sec-WebSocket-Protocol: "+all+"\r\n", "") }, foreign},
		{"another choice", "/ws", func(t testing.TB, m *middle) { m.response = replaced(t, first, second) }, broken},
		{"another choice on echo", "/echo", func(t testing.TB, m *middle) { m.response = replaced(t, first, third) }, broken},
		{"choice that was not offered", "/ws", func(t testing.TB, m *middle) { m.response = replaced(t, first, suite.SM4GCM.Protocol()) }, foreign},
		{"plain chosen", "/ws", func(t testing.TB, m *middle) { m.response = replaced(t, first, suite.Plain.Protocol()) }, foreign},
		{"choice removed", "/ws", func(t testing.TB, m *middle) {
			m.response = replaced(t, "Sec-WebSocket-Protocol: "+first+"\r\n", "")
		}, foreign},
		{"extension added", "/ws", func(t testing.TB, m *middle) {
			m.response = replaced(t, "\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
		}, foreign},
		{"accept changed", "/ws", func(t testing.TB, m *middle) {
			m.response = replaced(t, "Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: A")
		}, foreign},
		{"refused", "/ws", func(t testing.TB, m *middle) {
			m.response = replaced(t, "101 Switching Protocols\r\n", "200 OK\r\nContent-Length: 0\r\n")
		}, foreign},
		{"key changed", "/ws", func(t testing.TB, m *middle) {
			m.request = replaced(t, "Sec-WebSocket-Key: ", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-Key: ")
		}, foreign},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &middle{}
			test.change(t, m)
			c, err := s.dialThrough(limited(t), m, test.path, opts)
			if err == nil {
				_ = c.Close(t.Context())
				t.Fatal("connected")
			}
			m.running.Wait()
			if !test.fails(err) || m.sentRecords() {
				t.Errorf("%v (records sent: %v)", err, m.sentRecords())
			}
		})
	}
	s.expectBase(t)
	if n := s.Stats().RecordsOpened; n != 0 {
		t.Errorf("the gateway has opened %d records", n)
	}
}

// TestHarmlessChangesOfTheUpgrade: what intermediaries may do with a header
// changes nothing.
func TestHarmlessChangesOfTheUpgrade(t *testing.T) {
	s := start(t)
	opts := s.options(suite.AES256GCM, suite.AES128GCM)
	opts.Header = http.Header{"X-Test": {"1"}}
	for name, change := range map[string]func(string) string{
		"nothing":           nil,
		"offers over lines": replaced(t, ", "+suite.AES128GCM.Protocol(), "\r\nsec-websocket-protocol:"+suite.AES128GCM.Protocol()),
		"white space":       replaced(t, ", "+suite.AES128GCM.Protocol(), "\t ,   "+suite.AES128GCM.Protocol()),
		"names in any case": replaced(t, "Sec-WebSocket-Protocol", "sEC-wEBSOCKET-pROTOCOL"),
		"field removed":     replaced(t, "X-Test: 1\r\n", ""),
		"fields added":      replaced(t, "X-Test: 1\r\n", "X-Forwarded-For: 192.0.2.1\r\nVia: 1.1 proxy\r\n"),
		"query":             replaced(t, "GET /ws ", "GET /ws?a=b "),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := s.dialThrough(limited(t), &middle{request: change}, "/ws", opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	s.expectBase(t)
}
