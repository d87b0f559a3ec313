package gateway_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// told is a push session in service, and what it was told about its limits.
func told(t *testing.T, s *server) (*peer, *wire.Limits) {
	t.Helper()
	p := established(t, s, "/ws", suite.AES128GCM)
	p.send(p.say(connectMessage()))
	return p, p.hear().GetConnected().GetLimits()
}

func (p *peer) sayPings(n int) (frames []byte) {
	for i := range n {
		frames = append(frames, p.say(&wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: uint64(i)}}})...)
	}
	return frames
}

// TestMessageRate: two seconds' worth at once are answered, one more ends the session.
func TestMessageRate(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.MessagesPerSecond = 5 })
	p, limits := told(t, s)
	if n := limits.MessagesPerSecond; n != 5 {
		t.Errorf("told %d", n)
	}
	neighbour := connected(t, s, suite.AES128GCM)
	p.send(p.sayPings(11)) // at once, so that the rate allows nothing meanwhile
	for i := range 10 {
		if m, ok := p.hear().Message.(*wire.ServerFrame_Pong); !ok || m.Pong.Id != uint64(i) {
			t.Fatalf("answer %d: %v", i, m)
		}
	}
	p.expectClose(wire.CloseTooMany, true)
	neighbour.send(neighbour.sayPings(1))
	if _, ok := neighbour.hear().Message.(*wire.ServerFrame_Pong); !ok {
		t.Error("the neighbour has no answer")
	}
}

// TestMessageRateStaysAsTold: a session keeps the rate that it was told.
func TestMessageRateStaysAsTold(t *testing.T) {
	settings := defaultOptions(t).Settings
	s := start(t, func(o *gateway.Options) { settings = o.Settings })
	p, limits := told(t, s)
	if n := limits.MessagesPerSecond; n != 0 {
		t.Errorf("told %d", n)
	}
	settings.Limits.MessagesPerSecond = 1
	s.Reload(settings)
	p.send(p.sayPings(100))
	for range 100 {
		p.hear()
	}
	if _, limits := told(t, s); limits.MessagesPerSecond != 1 {
		t.Errorf("a new session was told %d", limits.MessagesPerSecond)
	}
}

func TestPingRate(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.PingsPerSecond = 5 })
	p := connected(t, s, suite.AES128GCM)
	p.send(bytes.Repeat(frame(ws.OpPong, true, "unasked"), 1000)) // never counts
	p.send(bytes.Repeat(frame(ws.OpPing, true, "x"), 11))
	for range 10 {
		if header, payload := p.read(); header.OpCode != ws.OpPong || string(payload) != "x" {
			t.Fatalf("%+v %q", header, payload)
		}
	}
	p.expectClose(wire.CloseTooMany, true)
}

// TestSenderThatDoesNotRead: its answers pile up to a bound, then it is closed. So
// many answers that a client has not come to read yet are no harm.
func TestSenderThatDoesNotRead(t *testing.T) {
	const queue, message = 1 << 20, 1 << 20
	for name, c := range map[string]struct {
		send []byte
		dial func(*server) *peer
	}{
		"echo":             {frame(ws.OpBinary, true, string(make([]byte, message))), func(s *server) *peer { return upgraded(t, s, "/echo") }},
		"pings":            {bytes.Repeat(frame(ws.OpPing, true, string(make([]byte, 125))), 4000), func(s *server) *peer { return upgraded(t, s, "/echo") }},
		"before the hello": {bytes.Repeat(frame(ws.OpPing, true, string(make([]byte, 125))), 4000), func(s *server) *peer { return upgraded(t, s, "/ws", suite.AES128GCM) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(o *gateway.Options) { o.Slow.Queue = queue; o.Echo.MaxMessage = message })
			p := c.dial(s)
			if err := p.conn.(*net.TCPConn).SetReadBuffer(8 << 10); err != nil {
				t.Fatal(err)
			}
			sent := 0
			for s.Stats().TooSlow == 0 {
				n, err := p.conn.Write(c.send)
				if sent += n; err != nil {
					break // closed meanwhile
				}
				if sent > 256<<20 {
					t.Fatal("256 MiB are taken")
				}
			}
			if sent < queue+message {
				t.Errorf("closed after %d bytes", sent)
			}
			eventually(t, "closed with 4413", func() bool { return s.Stats().TooSlow == 1 })
			_ = p.conn.Close()
			eventually(t, "gone", func() bool { return s.Stats().Connections == 0 })
		})
	}
}

// TestOwnPageMayConnect, whatever other origins are allowed.
func TestOwnPageMayConnect(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		o.Origins, o.OwnPage = []string{"https://a.example"}, []string{"http://localhost:8081"}
	})
	for origin, want := range map[string]int{"http://localhost:8081": 101, "https://a.example": 101, "http://localhost:8080": 403, "https://localhost:8081": 403} {
		p := knock(t, s)
		p.send([]byte(request("/echo", "Origin: "+origin)))
		if resp, _ := p.response(); resp.StatusCode != want {
			t.Errorf("%s: %s", origin, resp.Status)
		}
	}
}

// TestArrivalRate: newcomers over the rate are told 503, and nobody else feels it.
func TestArrivalRate(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.ConnectionsPerSecond = 1 })
	first := connected(t, s, suite.AES128GCM)
	if resp, body := knock(t, s).response(); resp.StatusCode != 503 {
		t.Errorf("the second within a second: %s %s", resp.Status, body)
	}
	first.send(first.sayPings(1))
	first.hear()
}
