package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// cannedServer answers each connection with the same bytes and closes it. It
// takes part in the upgrade only by echoing the accept key when asked to.
func cannedServer(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, answer)
		conn.Close()
	}))
	server.Start()
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

func insecureOptions() Options { return Options{Insecure: true, DialTimeout: 5 * time.Second} }

func TestDialWhatIsNotAGateway(t *testing.T) {
	const ok = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
	tests := []struct {
		name, answer string
		want         error
		text         string
	}{
		{"web page", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>hello", ErrNotGateway, "HTTP 200 OK"},
		{"no such page", "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nno\x1b such\n", ErrNotGateway, "404 Not Found: no such"},
		{"old HTTP", "HTTP/1.0 101 Switching Protocols\r\n\r\n", ErrNotGateway, ""},
		{"not HTTP", "SSH-2.0-OpenSSH_9.7\r\n", ErrNotGateway, ""},
		{"wrong accept key", ok + "AAAA\r\n\r\n", ErrNotGateway, ""},
		{"headers without end", "HTTP/1.1 101 Switching Protocols\r\n" + strings.Repeat("X: y\r\n", maxResponse/6), ErrNotGateway, ""},
		{"nothing", "", ErrUnreachable, "before an answer"},
		{"half a line", "HTTP/1.1 10", ErrUnreachable, "before an answer"},
		{"restarting", "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nrestarting", ErrRefused, "restarting"},
		{"wrong origin", "HTTP/1.1 403 Forbidden\r\n\r\n", ErrRefused, "403"},
		{"other bad request", "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nno", ErrNotGateway, "400 Bad Request: no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Dial(t.Context(), cannedServer(t, tt.answer), insecureOptions())
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestDialNoCommonSuite(t *testing.T) {
	url := cannedServer(t, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n"+
		"no offered subprotocol is accepted here; accepted: sealcast.v1.aes-256-gcm, sealcast.v1.chacha20-poly1305\n")
	opts := insecureOptions()
	opts.Suites = []suite.ID{suite.SM4GCM, suite.AES128GCM}
	_, err := Dial(t.Context(), url, opts)
	var none *NoCommonSuiteError
	if !errors.Is(err, ErrNoCommonSuite) || !errors.As(err, &none) ||
		!slices.Equal(none.Offered, []string{"sm4-gcm", "aes-128-gcm"}) || !slices.Equal(none.Accepted, []string{"aes-256-gcm", "chacha20-poly1305"}) {
		t.Errorf("%v", err)
	}
}

// upgradeServer answers upgrades correctly but for the headers it adds.
func upgradeServer(t *testing.T, extra string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			acceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n"+extra+"\r\n")
		_, _ = io.Copy(io.Discard, conn)
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

func TestDialRefusesTheSelection(t *testing.T) {
	tests := map[string]string{
		"no subprotocol":    "",
		"one not offered":   "Sec-WebSocket-Protocol: sealcast.v1.sm4-gcm\r\n",
		"one of another":    "Sec-WebSocket-Protocol: chat\r\n",
		"other case":        "Sec-WebSocket-Protocol: SEALCAST.V1.AES-128-GCM\r\n",
		"with an extension": "Sec-WebSocket-Protocol: sealcast.v1.aes-128-gcm\r\nSec-WebSocket-Extensions: permessage-deflate\r\n",
	}
	for name, extra := range tests {
		if _, err := Dial(t.Context(), upgradeServer(t, extra), insecureOptions()); !errors.Is(err, ErrNotGateway) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What comes in one segment with the upgrade's answer is not lost.
func TestDialKeepsEarlyBytes(t *testing.T) {
	url := upgradeServer(t, "Sec-WebSocket-Protocol: sealcast.v1.aes-128-gcm\r\n\r\n\x88\x08\x03\xf5full n")
	_, err := Dial(t.Context(), url, insecureOptions())
	var closed *ClosedError
	if !errors.As(err, &closed) || closed.Code != wire.CloseTryLater || closed.Text != "full n" {
		t.Errorf("%v", err)
	}
}

func TestDialUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Dial(t.Context(), "ws://"+l.Addr().String(), insecureOptions()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestDialTimeLimits(t *testing.T) {
	silent := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		return theirs, nil
	}
	synctest.Test(t, func(t *testing.T) {
		for _, url := range []string{"ws://a/ws", "wss://a/ws"} {
			start := time.Now()
			_, err := Dial(t.Context(), url, Options{Insecure: true, NetDial: silent})
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != defaultDialTimeout {
				t.Errorf("%s: %v after %v", url, err, took)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := Dial(ctx, url, Options{Insecure: true, NetDial: silent}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, cancelled: %v", url, err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // after the handshake
		release := make(chan struct{})
		g := newFakeGateway(t, func(p *peer) { p.request(); <-release })
		g.pair = inMemory
		if _, err := Dial(t.Context(), testURL, g.options()); !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no Connected: %v", err)
		}
		close(release)
	})
}

func TestDialPins(t *testing.T) {
	var connects int
	g := newFakeGateway(t, func(p *peer) {
		if p.request() != nil {
			connects++
			p.send(connectedFrame(0))
			p.wait()
		}
	})
	other := session.PublicKey{1, 2, 3}
	dial := func(pins []session.PublicKey, insecure bool) (*Conn, error) {
		opts := g.options()
		opts.Pins, opts.Insecure, opts.Token = pins, insecure, "secret"
		return Dial(t.Context(), testURL, opts)
	}
	for name, tt := range map[string]struct {
		pins     []session.PublicKey
		insecure bool
		want     error
	}{
		"wrong pin":           {[]session.PublicKey{other}, false, session.ErrWrongPin},
		"wrong pin, insecure": {[]session.PublicKey{other}, true, session.ErrWrongPin},
		"no pin":              {nil, false, session.ErrNoPin},
	} {
		_, err := dial(tt.pins, tt.insecure)
		var seen *session.PinError
		if !errors.Is(err, tt.want) || !errors.As(err, &seen) || seen.Seen != g.key.Public() {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.served.Wait()
	if connects != 0 {
		t.Errorf("%d clients sent their token to a gateway that they could not verify", connects)
	}
	for name, tt := range map[string]struct {
		pins   []session.PublicKey
		pinned bool
	}{
		"right pin":          {[]session.PublicKey{g.key.Public()}, true},
		"second of two":      {[]session.PublicKey{other, g.key.Public()}, true},
		"none, but insecure": {nil, false},
	} {
		conn, err := dial(tt.pins, true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if info := conn.Info(); info.Pinned != tt.pinned || info.Key != g.key.Public() {
			t.Errorf("%s: %+v", name, info)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestDialRealmAndHybrid(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) { p.connected(); p.wait() })
	opts := g.options()
	opts.Realm = "other"
	if _, err := Dial(t.Context(), testURL, opts); !errors.Is(err, session.ErrHandshake) {
		t.Errorf("other realm: %v", err)
	}
	opts = g.options()
	opts.PostQuantum = session.PostQuantumOff
	if conn := mustDial(t, opts); conn.Info().Hybrid {
		t.Error("hybrid, although switched off")
	}
	opts.Realm = strings.Repeat("x", 300)
	if _, err := Dial(t.Context(), testURL, opts); !errors.Is(err, ErrOptions) {
		t.Errorf("long realm: %v", err)
	}
}

func TestDialEndedBeforeConnected(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) { p.request(); p.goodbye(wire.CloseUnauthenticated, "token has expired") })
	_, err := Dial(t.Context(), testURL, g.options())
	var closed *ClosedError
	if !errors.As(err, &closed) || !closed.Final || closed.Code != wire.CloseUnauthenticated || !strings.Contains(err.Error(), "token has expired") {
		t.Errorf("%v", err)
	}
	g = newFakeGateway(t, func(p *peer) { p.request(); p.batch(); p.wait() })
	if _, err = Dial(t.Context(), testURL, g.options()); !errors.Is(err, wire.ErrFrame) {
		t.Errorf("Batch instead of Connected: %v", err)
	}
}

func TestDialTLS(t *testing.T) {
	var header http.Header
	var host, negotiated string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header, host, negotiated = r.Header, r.Host, r.TLS.NegotiatedProtocol
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is what is tested
	server.StartTLS()
	defer server.Close()
	url := "wss" + strings.TrimPrefix(server.URL, "https")
	if _, err := Dial(t.Context(), url, insecureOptions()); !errors.Is(err, ErrTLS) {
		t.Errorf("unknown authority: %v", err)
	}
	opts := insecureOptions()
	opts.TLSConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	opts.TLSConfig.RootCAs.AddCert(server.Certificate())
	opts.Header = http.Header{"X-Trace": {"a", "b"}, "Host": {"other.example"}}
	if _, err := Dial(t.Context(), url, opts); !errors.Is(err, ErrRefused) {
		t.Errorf("known authority: %v", err)
	}
	if !slices.Equal(header["X-Trace"], []string{"a", "b"}) || host != "other.example" || negotiated != "http/1.1" {
		t.Errorf("header %v, host %q, negotiated %q", header, host, negotiated)
	}
	if opts.Header.Get("Host") == "" || opts.TLSConfig.ServerName != "" {
		t.Error("the options were changed")
	}
	if _, err := Dial(t.Context(), "wss"+strings.TrimPrefix(cannedServer(t, "x"), "ws"), insecureOptions()); !errors.Is(err, ErrTLS) {
		t.Errorf("no TLS there: %v", err)
	}
}

func TestDialBadOptions(t *testing.T) {
	tests := []struct {
		url    string
		change func(*Options)
		text   string
	}{
		{"http://a/ws", nil, "ws:// or wss://"},
		{"127.0.0.1:8080", nil, "address"},
		{"ws:///ws", nil, "no host"},
		{"ws://user:secret@a/ws", nil, "user name"},
		{"ws://a/ws#x", nil, "fragment"},
		{"ws://a/echo", nil, "echo endpoint"},
		{"ws://a", func(o *Options) { o.Suites = []suite.ID{} }, "no suite"},
		{"ws://a", func(o *Options) { o.Suites = []suite.ID{99} }, "not a suite"},
		{"ws://a", func(o *Options) { o.Suites = []suite.ID{suite.AES128GCM, suite.AES128GCM} }, "twice"},
		{"ws://a", func(o *Options) { o.Suites = []suite.ID{suite.AES128GCM, suite.Plain} }, "plain"},
		{"ws://a", func(o *Options) { o.Codecs = []wire.Codec{4} }, "codec 4 is not known"},
		{"ws://a", func(o *Options) { o.Codecs = []wire.Codec{2, 1, 2} }, "codec zstd is offered twice"},
		{"ws://a", func(o *Options) { o.Header = http.Header{"sec-websocket-key": {"x"}} }, "header"},
	}
	for _, tt := range tests {
		opts := insecureOptions()
		opts.NetDial = func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe }
		if tt.change != nil {
			tt.change(&opts)
		}
		_, err := Dial(t.Context(), tt.url, opts)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.text)
		}
	}
}

func TestAddress(t *testing.T) {
	for url, want := range map[string]string{
		"ws://Gateway.Example":         "gateway.example:80",
		"wss://gateway.example/ws?a=b": "gateway.example:443",
		"wss://[2001:DB8::1]:8443/ws":  "[2001:db8::1]:8443",
		"ws://127.0.0.1:8080":          "127.0.0.1:8080",
	} {
		if got, err := Address(url); got != want || err != nil {
			t.Errorf("%s: %s, %v", url, got, err)
		}
	}
}

func TestInspect(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) { p.connected(); p.wait() })
	opts := g.options()
	opts.Pins, opts.Insecure = nil, true
	got, err := Inspect(t.Context(), testURL, opts)
	if err != nil || got.Info.Version != "v1.2.3" || got.Info.Key != g.key.Public() || got.Refusal != nil {
		t.Errorf("%+v, %v", got, err)
	}
	g = newFakeGateway(t, func(p *peer) { p.request(); p.goodbye(wire.CloseUnauthenticated, "token please") })
	got, err = Inspect(t.Context(), testURL, g.options())
	var closed *ClosedError
	if err != nil || !errors.As(got.Refusal, &closed) || got.Info.Version != "" || !got.Info.Pinned {
		t.Errorf("%+v, %v", got, err)
	}
	g = newFakeGateway(t, func(p *peer) { p.wait() })
	if got, err = Inspect(t.Context(), "ws://gateway.test/echo", g.options()); err != nil || got.Info.Suite != DefaultSuites()[0] {
		t.Errorf("echo: %+v, %v", got, err)
	}
}

func TestInspectSuites(t *testing.T) {
	var offered []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offered = append(offered, r.Header.Get("Sec-WebSocket-Protocol"))
		http.Error(w, "no; accepted: sealcast.v1.aes-128-gcm, sealcast.v1.plain", http.StatusBadRequest)
	}))
	defer server.Close()
	got, err := AcceptedSuites(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), insecureOptions())
	if err != nil || !slices.Equal(got, []string{"aes-128-gcm", "plain"}) || len(offered) != 1 {
		t.Errorf("%v, %v after offering %q", got, err, offered)
	}
	if _, ok := suite.ByProtocol(offered[0]); ok {
		t.Errorf("offered %q, which a gateway may accept", offered[0])
	}
	if _, err := AcceptedSuites(t.Context(), cannedServer(t, "HTTP/1.1 200 OK\r\n\r\n"), insecureOptions()); !errors.Is(err, ErrNotGateway) {
		t.Errorf("web page: %v", err)
	}
	if _, err := AcceptedSuites(t.Context(), upgradeServer(t, ""), insecureOptions()); !errors.Is(err, ErrNotGateway) {
		t.Errorf("ordinary WebSocket server: %v", err)
	}
}

// A server may leave the end of its answer to the closing of the connection,
// and not close it.
func TestAnswerWithoutEnd(t *testing.T) {
	for name, answer := range map[string]string{
		"200 without a length": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
		"chunks without end":   "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := Options{Insecure: true, NetDial: func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						defer ours.Close()
						if _, err := http.ReadRequest(bufio.NewReader(ours)); err != nil {
							t.Error(err)
						}
						_, _ = io.WriteString(ours, answer)
						_, _ = io.Copy(io.Discard, ours)
					}()
					return theirs, nil
				}}
				start := time.Now()
				_, err := Dial(t.Context(), testURL, opts)
				var refused *HTTPError
				if !errors.As(err, &refused) || !errors.Is(err, ErrNotGateway) || refused.Text != "hello" {
					t.Errorf("%v", err)
				}
				if took := time.Since(start); took > bodyTimeout {
					t.Errorf("Dial took %v", took)
				}
			})
		})
	}
}
