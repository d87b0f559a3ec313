package e2e

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// refusal is a tail that must not connect: what it says, and its status.
type refusal struct {
	name   string
	url    string
	args   []string
	says   []string // in the error
	hint   string   // in the line after it
	status int
}

// verify runs the tail and looks at its last two lines.
func (r refusal) verify(t *testing.T) {
	t.Helper()
	began := time.Now()
	p := sealctl(t, append([]string{"tail", r.url, "--count", "1"}, r.args...)...)
	p.expect(r.status, append([]string{"sealctl: error: "}, r.says...)...)
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "hint: ") || !strings.Contains(last, r.hint) {
		t.Errorf("the hint is %q, want %q", last, r.hint)
	}
	if p.stdout.String() != "" {
		t.Errorf("output %q", p.stdout.String())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A gateway that does not fit: sealctl says which, and what to do.
func TestGatewayRefused(t *testing.T) {
	g := serve(t, nil)
	stranger := serve(t, nil).pin().String()
	pin := g.pin().String()
	for _, r := range []refusal{
		{"wrong pin", g.url(), []string{"--key", stranger}, []string{g.listen, pin, "not the one with --key"}, "somebody may be in between", 3},
		{"no pin", g.url(), nil, []string{g.listen, "unknown", pin}, "--key", 3},
		{"no common suite", g.url(), []string{"--key", pin, "--suite", "sm4-gcm"}, []string{"no cipher suite in common", "offered sm4-gcm", "aes-256-gcm"}, "--suite aes-128-gcm", 3},
		{"plain refused", g.url(), []string{"--insecure", "--suite", "plain"}, []string{"no cipher suite in common"}, "--suite", 3},
		{"other realm", g.url(), []string{"--key", pin, "--realm", "other"}, []string{"handshake failed"}, "--realm", 3},
		{"wrong path", "ws://" + g.listen + "/nope", []string{"--key", pin}, []string{"404"}, "/ws", 3},
		{"TLS where there is none", "wss://" + g.listen + "/ws", []string{"--key", pin}, []string{"TLS"}, "ws://", 3},
		{"admin address", "ws://" + g.admin + "/ws", []string{"--key", pin}, []string{"not a Sealcast gateway"}, "", 3},
		{"unreachable", "ws://" + freeAddress(t) + "/ws", []string{"--key", pin}, []string{"cannot be reached", "connection refused"}, "is the gateway running", 3},
		{"no such host", "ws://host.invalid/ws", []string{"--key", pin}, []string{"cannot be reached", "host.invalid"}, "address", 3},
	} {
		t.Run(r.name, func(t *testing.T) { r.verify(t) })
	}
}

// Servers that are no gateway.
func TestNotAGateway(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>hello</html>")
	}))
	t.Cleanup(page.Close)
	overTLS := httptest.NewUnstartedServer(page.Config.Handler)
	overTLS.Config.ErrorLog = log.New(io.Discard, "", 0)
	overTLS.StartTLS()
	t.Cleanup(overTLS.Close)
	address := func(s *httptest.Server) string { return "ws://" + s.Listener.Addr().String() + "/ws" }
	const noGateway = "not a Sealcast gateway"
	for _, r := range []refusal{
		{name: "web server", url: address(page), says: []string{noGateway, "HTTP 200"}},
		{name: "web server with TLS", url: address(overTLS), says: []string{noGateway}, hint: "wss://"},
		{name: "certificate of a stranger", url: "wss" + address(overTLS)[2:], says: []string{"TLS", "certificate"}, hint: "--ca"},
		{name: "garbage at once", url: talker(t, "SSH-2.0-OpenSSH_9.9\r\n", false), says: []string{noGateway}},
		{name: "endless garbage", url: talker(t, strings.Repeat("x", 1<<20), true), says: []string{noGateway}},
		{name: "garbage as an answer", url: talker(t, "\x00\xff\x1b[31m garbage\r\n\r\n", true), says: []string{noGateway}},
		{name: "closes at once", url: talker(t, "", false), says: []string{"connection lost before an answer"}},
		{name: "silent", url: silent(t), args: []string{"--timeout", "1s"}, says: []string{"no answer"}, hint: "--timeout"},
		{name: "ordinary WebSocket", url: webSocket(t, ws.HTTPUpgrader{}), says: []string{noGateway, "subprotocol"}},
		{name: "WebSocket with a foreign subprotocol", url: webSocket(t, ws.HTTPUpgrader{Header: http.Header{"Sec-Websocket-Protocol": {"graphql-ws"}}}), says: []string{noGateway}},
	} {
		t.Run(r.name, func(t *testing.T) {
			r.args, r.status = append(r.args, "--insecure"), 3
			r.verify(t)
		})
	}
}

// Servers that claim to speak a suite, as a gateway does, and then do not.
func TestImpostor(t *testing.T) {
	for name, says := range map[string]func(c net.Conn, hello []byte) error{
		"echoes":             func(c net.Conn, hello []byte) error { return wsutil.WriteServerBinary(c, hello) },
		"talks text":         func(c net.Conn, _ []byte) error { return wsutil.WriteServerText(c, []byte("hello")) },
		"says too little":    func(c net.Conn, _ []byte) error { return wsutil.WriteServerBinary(c, []byte{1}) },
		"says nothing":       func(c net.Conn, _ []byte) error { return wsutil.WriteServerBinary(c, nil) },
		"says random things": func(c net.Conn, _ []byte) error { return wsutil.WriteServerBinary(c, []byte(largest[:1000])) },
		"forges an answer":   func(c net.Conn, _ []byte) error { return wsutil.WriteServerBinary(c, []byte("\x02"+largest[:96])) },
		"says too much": func(c net.Conn, _ []byte) error {
			return wsutil.WriteServerBinary(c, []byte(strings.Repeat(largest, 20)))
		},
		"closes":    func(c net.Conn, _ []byte) error { return wsutil.WriteServerMessage(c, ws.OpClose, nil) },
		"goes away": func(c net.Conn, _ []byte) error { return c.Close() },
		"resets":    func(c net.Conn, _ []byte) error { return c.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			upgrader := ws.HTTPUpgrader{Protocol: func(string) bool { return true }}
			url := webSocketThat(t, upgrader, func(c net.Conn) {
				if hello, _, err := wsutil.ReadClientData(c); err == nil && says(c, hello) == nil && name != "resets" {
					_, _ = io.Copy(io.Discard, c)
				}
			})
			refusal{name: name, url: url, args: []string{"--insecure"}, status: 3}.verify(t)
		})
	}
}

// talker is a TCP server that says the same to everybody, perhaps after it was
// spoken to, and closes.
func talker(t *testing.T, text string, listens bool) string {
	return tcpServer(t, func(c net.Conn) {
		if listens {
			_, _ = bufio.NewReader(c).ReadString('\n')
		}
		_, _ = io.WriteString(c, text)
	})
}

// silent is a TCP server that takes connections and says nothing.
func silent(t *testing.T) string {
	return tcpServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

func tcpServer(t *testing.T, serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return "ws://" + l.Addr().String() + "/ws"
}

// webSocket is a WebSocket server that sends every message back.
func webSocket(t *testing.T, upgrader ws.HTTPUpgrader) string {
	return webSocketThat(t, upgrader, func(c net.Conn) {
		for {
			msg, op, err := wsutil.ReadClientData(c)
			if err != nil || wsutil.WriteServerMessage(c, op, msg) != nil {
				return
			}
		}
	})
}

func webSocketThat(t *testing.T, upgrader ws.HTTPUpgrader, serve func(net.Conn)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, _, err := upgrader.Upgrade(r, w)
		if err != nil {
			return
		}
		defer c.Close()
		serve(c)
	}))
	t.Cleanup(s.Close)
	return "ws://" + s.Listener.Addr().String() + "/ws"
}
