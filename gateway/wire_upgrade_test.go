package gateway_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// without is the usual request without the field, and with the lines instead.
func without(field string, instead ...string) string {
	kept := slices.DeleteFunc(strings.Split(strings.TrimSuffix(request("/echo"), "\r\n\r\n"), "\r\n"),
		func(line string) bool { return strings.HasPrefix(line, field+":") })
	return lines(append(kept, instead...)...)
}

// refusals are requests that a gateway answers with an HTTP error.
var refusals = []struct {
	name, request string
	status        int
	field         string // "Name: value" that the answer has
	words         string // that stand in its body
}{
	{"unknown path", request("/nowhere"), 404, "", "/ws"},
	{"root", request("/"), 404, "", ""},
	{"path below", request("/ws/"), 404, "", ""},
	{"path with a prefix", request("/a/echo"), 404, "", ""},
	{"path in another case", request("/WS", offer(suite.AES128GCM)), 404, "", ""},
	{"path with an escape", request("/%77s", offer(suite.AES128GCM)), 404, "", ""},
	{"POST", strings.Replace(request("/ws"), "GET", "POST", 1), 405, "Allow: GET", ""},
	{"CONNECT", strings.Replace(request("/ws"), "GET", "CONNECT", 1), 405, "Allow: GET", ""},
	{"HTTP/1.0", strings.Replace(request("/ws"), "HTTP/1.1", "HTTP/1.0", 1), 505, "", ""},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "", ""},
	{"no HTTP", "hello gateway\r\n", 400, "", ""},
	{"TLS", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400, "", ""},
	{"a plain GET", lines("GET /ws HTTP/1.1", "Host: gateway.test"), 426, "Upgrade: websocket", "WebSocket"},
	{"no Upgrade", without("Upgrade"), 426, "Sec-Websocket-Version: 13", ""},
	{"no Connection", without("Connection"), 426, "Sec-Websocket-Version: 13", ""},
	{"old version", without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8"), 426, "Sec-Websocket-Version: 13", "13"},
	{"no version", without("Sec-WebSocket-Version"), 426, "Sec-Websocket-Version: 13", ""},
	{"no Host", without("Host"), 400, "", "Host"},
	{"two Hosts", request("/echo", "Host: other"), 400, "", "Host"},
	{"no key", without("Sec-WebSocket-Key"), 400, "", "Sec-WebSocket-Key"},
	{"two keys", request("/echo", "Sec-WebSocket-Key: "+sampleKey), 400, "", "Sec-WebSocket-Key"},
	{"short key", without("Sec-WebSocket-Key", "Sec-WebSocket-Key: AAAA"), 400, "", "16 bytes"},
	{"key that is no base64", without("Sec-WebSocket-Key", "Sec-WebSocket-Key: "+strings.Repeat("!", 24)), 400, "", "16 bytes"},
	{"NUL", request("/echo", "X: a\x00b"), 400, "", ""},
	{"folded field", request("/echo", "X: a", " folded"), 400, "", "folded"},
	{"space before the colon", request("/echo", "X : a"), 400, "", "white space"},
	{"bare line feed", strings.ReplaceAll(request("/echo"), "\r\n", "\n"), 400, "", ""},
	{"a body", request("/echo", "Content-Length: 5") + "hello", 400, "", "body"},
	{"a chunked body", request("/echo", "Transfer-Encoding: chunked"), 400, "", "body"},
	{"65 fields", request("/echo", slices.Repeat([]string{"X: y"}, 60)...), 431, "", "64"},
	{"8 KiB and more", request("/echo", "X: "+strings.Repeat("y", 8<<10)), 431, "", "8 KiB"},
	{"8 KiB without an end", "GET /echo HTTP/1.1\r\nX: " + strings.Repeat("y", 8<<10), 431, "", "8 KiB"},
	{"nothing in common", request("/ws", "Sec-WebSocket-Protocol: chat, sealcast.v1.rot13"), 400, "", suite.ChaCha20Poly1305.Protocol()},
	{"nothing offered", request("/ws"), 400, "", suite.AES128GCM.Protocol()},
	{"nothing in common on echo", request("/echo", "Sec-WebSocket-Protocol: sealcast.v2.x"), 400, "", suite.AES128GCM.Protocol()},
	{"plain beside a suite", request("/ws", offer(suite.Plain, suite.AES128GCM)), 400, "", "plain"},
	{"an offer twice", request("/ws", offer(suite.AES128GCM), offer(suite.AES128GCM)), 400, "", "twice"},
	{"an empty offer", request("/ws", "Sec-WebSocket-Protocol: a,,b"), 400, "", "Sec-WebSocket-Protocol"},
}

func TestUpgradesAreRefusedWithAnAnswer(t *testing.T) {
	s := start(t, nil)
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			p := knock(t, s)
			p.send([]byte(test.request))
			p.expectRefusal(test.status, test.field, test.words)
		})
	}
	eventually(t, "no connection left", func() bool { return s.Stats().Connections == 0 })
	if n := s.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

// expectRefusal wants an answer, and the end of the stream behind it.
func (p *peer) expectRefusal(status int, field, words string) {
	p.t.Helper()
	resp, body := p.response()
	if resp.StatusCode != status || !strings.Contains(body, words) {
		p.t.Errorf("%s: %q, want %d with %q", resp.Status, body, status, words)
	}
	if name, value, _ := strings.Cut(field, ": "); value != resp.Header.Get(name) {
		p.t.Errorf("fields %v, want %s", resp.Header, field)
	}
	if !resp.Close || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		p.t.Errorf("close %v, fields %v", resp.Close, resp.Header)
	}
	if rest, err := io.ReadAll(p.br); err != nil || len(rest) > 0 {
		p.t.Errorf("behind the answer: %q, %v", rest, err)
	}
}

func TestAnswerToHeadIsAHead(t *testing.T) {
	p := knock(t, start(t, nil))
	p.send([]byte(strings.Replace(request("/ws"), "GET", "HEAD", 1)))
	answer, err := io.ReadAll(p.br)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 405 ") || !strings.HasSuffix(string(answer), "\r\n\r\n") {
		t.Errorf("%q, %v", answer, err)
	}
}

// TestBytesAfterARefusal: what a client sends on after it was refused is never
// looked at, whatever it looks like.
func TestBytesAfterARefusal(t *testing.T) {
	s := start(t, nil)
	for _, more := range [][]byte{
		frame(ws.OpBinary, true, "binary"), frame(ws.OpText, true, "text"), frame(ws.OpPing, true, ""), closeFrame(1000, ""),
		frame(ws.OpBinary, false, ""), []byte(request("/echo")), []byte("body"), {0x81}, {0x82, 0xff, 0xff},
	} {
		for _, together := range []bool{true, false} {
			p := knock(t, s)
			if together {
				p.send(append([]byte(request("/nowhere")), more...))
			} else {
				p.send([]byte(request("/nowhere")))
			}
			if resp, _ := p.response(); resp.StatusCode != http.StatusNotFound {
				t.Fatal(resp.Status)
			}
			if !together {
				p.send(more)
			}
			if rest, err := io.ReadAll(p.br); len(rest) > 0 || err != nil && !isReset(err) {
				t.Errorf("%q behind a refused request: %q, %v", more, rest, err)
			}
			_ = p.conn.Close()
		}
	}
	eventually(t, "no connection left", func() bool { return s.Stats().Connections == 0 })
	if n := s.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestUpgradesAreTaken(t *testing.T) {
	s := start(t, nil)
	aes, chacha := suite.AES128GCM.Protocol(), suite.ChaCha20Poly1305.Protocol()
	for _, test := range []struct{ name, request, protocol string }{
		{"ordinary client", request("/echo"), ""},
		{"ordinary client with a subprotocol", request("/echo", "Sec-WebSocket-Protocol: chat"), ""},
		{"query", request("/echo?a=b"), ""},
		{"absolute target", request("http://gateway.test/echo"), ""},
		{"names in any case", strings.NewReplacer("Upgrade:", "uPGRADE:", "Sec-WebSocket-Key", "sec-websocket-key", "websocket", "WebSocket").Replace(request("/echo")), ""},
		{"Connection over lines", without("Connection", "Connection: keep-alive", "Connection: foo, UPGRADE"), ""},
		{"extensions are declined", request("/echo", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"), ""},
		{"a suite", request("/ws", offer(suite.AES128GCM)), aes},
		{"the client's first", request("/ws", offer(suite.ChaCha20Poly1305, suite.AES128GCM)), chacha},
		{"offers over lines", request("/ws", "Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol:\t"+chacha+" ,"+aes), chacha},
		{"sealed echo", request("/echo", "Sec-WebSocket-Protocol: chat, "+chacha), chacha},
		{"plain", request("/ws", offer(suite.Plain)), suite.Plain.Protocol()},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := knock(t, s)
			p.send([]byte(test.request))
			resp, _ := p.response()
			switch h := resp.Header; {
			case resp.StatusCode != http.StatusSwitchingProtocols || h.Get("Sec-WebSocket-Accept") != sampleAccept:
				t.Errorf("%s, fields %v", resp.Status, h)
			case !strings.EqualFold(h.Get("Upgrade"), "websocket") || !strings.EqualFold(h.Get("Connection"), "Upgrade"):
				t.Errorf("fields %v", h)
			case h.Get("Sec-WebSocket-Protocol") != test.protocol || h["Sec-Websocket-Extensions"] != nil:
				t.Errorf("fields %v, want protocol %q", h, test.protocol)
			}
			p.send(closeFrame(1000, ""))
			p.expectClose(wire.CloseNormal, false)
		})
	}
}

func TestEndpointsFollowTheSettings(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*gateway.Options)
		offers []string
		status int
		words  string
	}{
		{"no echo at all", func(o *gateway.Options) { o.Echo.Enabled = false }, nil, 404, ""},
		{"no echo, sealed", func(o *gateway.Options) { o.Echo.Enabled = false }, []string{offer(suite.AES128GCM)}, 404, ""},
		{"sealed echo only", func(o *gateway.Options) { o.Echo.Unencrypted = false }, nil, 400, suite.AES128GCM.Protocol()},
		{"plain not allowed", func(o *gateway.Options) { o.Suites.AllowPlain = false }, []string{offer(suite.Plain)}, 400, "plain"},
		{"suite not enabled", func(o *gateway.Options) { o.Suites.Enabled = []suite.ID{suite.AES128GCM} }, []string{offer(suite.SM4GCM)}, 400, suite.AES128GCM.Protocol()},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := knock(t, start(t, test.change))
			p.send([]byte(request("/echo", test.offers...)))
			p.expectRefusal(test.status, "", test.words)
		})
	}
}

func TestConnectionCap(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Limits.Connections = 2 })
	first, second := upgraded(t, s, "/echo"), upgraded(t, s, "/echo")
	late := knock(t, s)
	late.send([]byte(request("/echo")))
	late.expectRefusal(http.StatusServiceUnavailable, "", "too many")
	if st := s.Stats(); st.Refused != 1 || st.Connections != 2 {
		t.Errorf("%+v", st)
	}
	first.send(closeFrame(1000, ""))
	first.expectClose(wire.CloseNormal, false)
	eventually(t, "room", func() bool { return s.Stats().Connections == 1 })
	third := upgraded(t, s, "/echo")
	for _, p := range []*peer{second, third} {
		p.expectEcho(ws.OpText, "still there")
	}
}

func (p *peer) expectEcho(op ws.OpCode, text string) {
	p.t.Helper()
	p.send(frame(op, true, text))
	if header, got := p.read(); header.OpCode != op || string(got) != text {
		p.t.Errorf("%+v %.80q, want the echo of %.80q", header, got, text)
	}
}

// TestShutdownTellsEveryPhase: whoever is connected is told, in the words of
// the phase it is in.
func TestShutdownTellsEveryPhase(t *testing.T) {
	s := start(t, nil)
	begun := knock(t, s)
	begun.send([]byte("GET /ws HTTP/1.1\r\n"))
	plain := upgraded(t, s, "/echo")
	early := upgraded(t, s, "/ws", suite.AES128GCM)
	sealed := established(t, s, "/echo", suite.AES256GCM)
	push := connected(t, s, suite.ChaCha20Poly1305)
	eventually(t, "all are there", func() bool { return s.Stats().Connections == 5 })

	down := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		down <- s.Shutdown(ctx)
	}()
	begun.expectRefusal(http.StatusServiceUnavailable, "", "restart")
	_ = begun.conn.Close()
	plain.expectClose(wire.CloseRestart, false)
	early.expectClose(wire.CloseRestart, false)
	sealed.expectClose(wire.CloseRestart, true)
	push.expectClose(wire.CloseRestart, true)
	select {
	case err := <-down:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("Shutdown waits for clients that are gone")
	}
}
