package gateway_test

import (
	"bytes"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// TestDeadlines waits for the real ones, all at the same time: a client that
// does not get on is told so, not before its time and not long after.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	hasty := start(t, func(o *gateway.Options) {
		o.Heartbeat = gateway.HeartbeatOptions{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second}
	})
	proxied := start(t, func(o *gateway.Options) {
		o.Proxy = gateway.ProxyOptions{Protocol: true, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	})
	waiting := func(t testing.TB) *peer { return knock(t, s) }
	behindProxy := func(t testing.TB) *peer { return knock(t, proxied) }
	upgraded := func(t testing.TB) *peer { return upgraded(t, s, "/ws", suite.AES128GCM) }
	refusal := func(p *peer) { p.expectRefusal(http.StatusRequestTimeout, "", "in time") }
	closed := func(code wire.CloseCode, word bool) func(*peer) { return func(p *peer) { p.expectClose(code, word) } }
	pongs := bytes.Repeat(frame(ws.OpPong, true, ""), 1000)

	var ends []func()
	for _, test := range []struct {
		name    string
		after   time.Duration
		enter   func(testing.TB) *peer
		dribble []byte
		end     func(*peer)
	}{
		{"no PROXY header", 10 * time.Second, behindProxy, nil, refusal},
		{"PROXY header dribbles", 10 * time.Second, behindProxy, []byte("PROXY TCP6 2001:db8:1111:2222:3333:4444:5555:6666 2001:db8:1111:2222:3333:4444:5555:7777 12345 54321\r\n" + request("/echo")), refusal},
		{"PROXY header of version 2 dribbles", 10 * time.Second, behindProxy, []byte(proxyV2(1, netip.MustParseAddrPort("192.0.2.1:1")) + request("/echo")), refusal},
		{"no request behind a PROXY header", 10 * time.Second, func(t testing.TB) *peer {
			p := knock(t, proxied)
			p.send([]byte("PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n"))
			return p
		}, nil, refusal},
		{"no request", 10 * time.Second, waiting, nil, refusal},
		{"request dribbles", 10 * time.Second, waiting, []byte(request("/echo")), refusal},
		{"no HandshakeInit", 5 * time.Second, upgraded, nil, closed(wire.CloseTooLate, false)},
		{"HandshakeInit dribbles", 5 * time.Second, upgraded, frame(ws.OpBinary, true, make([]byte, 1000)), closed(wire.CloseTooLate, false)},
		{"no Connect", 10 * time.Second, func(t testing.TB) *peer { return established(t, s, "/ws", suite.AES128GCM) }, nil, closed(wire.CloseTooLate, true)},
		{"begun message rests behind pongs", 10 * time.Second, begun(s, frame(ws.OpBinary, false, "a")), pongs, closed(wire.ClosePolicy, false)},
		{"begun header rests", 10 * time.Second, begun(s, []byte{0x82}), nil, closed(wire.ClosePolicy, false)},
		{"begun ping rests", 10 * time.Second, begun(s, frame(ws.OpPing, true, "abc")[:7]), nil, closed(wire.ClosePolicy, false)},
		{"begun payload rests", 10 * time.Second, begun(s, frame(ws.OpBinary, true, "abc")[:7]), nil, closed(wire.ClosePolicy, false)},
		{"no sign of life", 2 * time.Second, begun(hasty, nil), nil, closed(wire.CloseHeartbeatLost, false)},
	} {
		p := test.enter(t)
		began, ended := time.Now(), make(chan time.Duration, 1)
		go p.dribble(test.dribble)
		go func() { p.skipPings(); ended <- time.Since(began) }()
		ends = append(ends, func() {
			t.Run(test.name, func(t *testing.T) {
				if took := <-ended; took < test.after-200*time.Millisecond || took > test.after+5*time.Second {
					t.Errorf("ended after %v, want %v", took, test.after)
				}
				p.t = t
				test.end(p)
			})
		})
	}
	for _, end := range ends {
		end()
	}
}

// begun has sent the beginning of something on the unencrypted echo.
func begun(s *server, b []byte) func(testing.TB) *peer {
	return func(t testing.TB) *peer {
		p := upgraded(t, s, "/echo")
		p.send(b)
		return p
	}
}

// dribble sends b byte by byte, so slowly that it does not get done, until
// the connection has ended.
func (p *peer) dribble(b []byte) {
	for piece := range slices.Chunk(b, 1) {
		if _, err := p.conn.Write(piece); err != nil {
			return
		}
		time.Sleep(120 * time.Millisecond) // no header is complete within its time
	}
}

// skipPings reads the gateway's pings until something else comes.
func (p *peer) skipPings() {
	for {
		head, err := p.br.Peek(2)
		if err != nil || head[0] != 0x89 {
			return
		}
		_, _ = p.br.Discard(2 + int(head[1])) // what is missing, the next Peek tells
	}
}

// TestIdleClientBeginsSlowly: the time for a message counts from its beginning,
// not from the message before.
func TestIdleClientBeginsSlowly(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := upgraded(t, s, "/echo")
	p.expectEcho(ws.OpText, "before")
	time.Sleep(10*time.Second + 500*time.Millisecond)
	for _, op := range []ws.OpCode{ws.OpText, ws.OpPing} {
		for _, c := range frame(op, true, "") {
			p.send([]byte{c})
			time.Sleep(150 * time.Millisecond)
		}
		if header, got := p.read(); header.OpCode != op && header.OpCode != ws.OpPong || len(got) != 0 {
			t.Fatalf("%+v %q", header, got)
		}
	}
}
