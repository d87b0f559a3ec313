package upgrade

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/gobwas/ws"
)

// response reads what was appended with the standard library.
func response(t *testing.T, b []byte, method string) (*http.Response, string) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(b))
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	if r.Buffered() != 0 {
		t.Errorf("%q: bytes are left behind the response", b)
	}
	return resp, string(body)
}

func TestRejectionsAreCompleteResponses(t *testing.T) {
	for name, c := range map[string]struct {
		input  string
		status int
		field  string
		want   string
	}{
		"bad request": {"\r\n\r\n", 400, "", ""},
		"method":      {"POST / HTTP/1.1\r\n", 405, "Allow", "GET"},
		"version":     {with("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8"), 426, "Sec-WebSocket-Version", "13"},
		"no upgrade":  {lines("GET / HTTP/1.1", "Host: h"), 426, "Upgrade", "websocket"},
		"too large":   {"GET / HTTP/1.1\r\n" + string(bytes.Repeat([]byte("X:\r\n"), 65)), 431, "", ""},
		"HTTP/1.0":    {"GET / HTTP/1.0\r\n", 505, "", ""},
	} {
		_, _, err := Parse([]byte(c.input))
		fault := err.(*Rejection)
		resp, body := response(t, fault.AppendResponse(nil), http.MethodGet)
		if resp.StatusCode != c.status || !resp.Close || body != fault.Reason+"\n" {
			t.Errorf("%s: status %d, close %v, body %q", name, resp.StatusCode, resp.Close, body)
		}
		if got := resp.Header.Get(c.field); c.field != "" && got != c.want {
			t.Errorf("%s: %s is %q, want %q", name, c.field, got, c.want)
		}
	}
}

func TestUpgradeRequiredNamesTheConnectionOption(t *testing.T) {
	b := upgradeRequired("x").AppendResponse(nil)
	if !bytes.Contains(b, []byte("\r\nConnection: Upgrade, close\r\n")) {
		t.Errorf("got %q", b)
	}
}

func TestAnswerToHEADHasNoContent(t *testing.T) {
	_, _, err := Parse([]byte("HEAD / HTTP/1.1\r\n"))
	resp, body := response(t, err.(*Rejection).AppendResponse(nil), http.MethodHead)
	if resp.StatusCode != 405 || body != "" || resp.ContentLength <= 0 {
		t.Errorf("status %d, length %d, body %q", resp.StatusCode, resp.ContentLength, body)
	}
}

func TestReject(t *testing.T) {
	r := Reject(http.StatusServiceUnavailable, "too many connections", "Retry-After: 1")
	if got, want := r.Error(), "upgrade: 503 Service Unavailable: too many connections"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := "before" + "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
	if got := string(r.AppendResponse([]byte("before"))); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAppendAccept(t *testing.T) {
	const start = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" // the example of RFC 6455 section 1.3
	if got, want := string(AppendAccept(nil, sampleKey, "")), start+"\r\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := string(AppendAccept([]byte("x"), sampleKey, "chat")), "x"+start+"Sec-WebSocket-Protocol: chat\r\n\r\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// gateway answers what a client writes to it, once that is complete.
type gateway struct {
	t        *testing.T
	protocol string
	in, out  bytes.Buffer
	req      *Request
}

func (g *gateway) Write(p []byte) (int, error) { return g.in.Write(p) }

func (g *gateway) Read(p []byte) (int, error) {
	if g.req == nil {
		req, n, err := Parse(g.in.Bytes())
		if req == nil || n != g.in.Len() {
			g.t.Fatalf("a client's request: %v, %d of %d bytes, %v", req, n, g.in.Len(), err)
		}
		g.req = req
		g.out.Write(AppendAccept(nil, req.Key, g.protocol))
	}
	return g.out.Read(p)
}

// The client of gobwas/ws, which checks the answer, gets through.
func TestForeignClient(t *testing.T) {
	for _, protocol := range []string{"", "b"} {
		g := &gateway{t: t, protocol: protocol}
		dialer := ws.Dialer{Protocols: []string{"a", "b"}}
		u := &url.URL{Scheme: "ws", Host: "example.com:8080", Path: "/ws", RawQuery: "q=1"}
		_, handshake, err := dialer.Upgrade(g, u)
		if err != nil || handshake.Protocol != protocol {
			t.Fatalf("protocol %q: got %q, %v", protocol, handshake.Protocol, err)
		}
		if g.req.Host != u.Host || g.req.Path != u.Path || g.req.Query != u.RawQuery || !slices.Equal(g.req.Protocols, dialer.Protocols) {
			t.Errorf("the request was read as %+v", g.req)
		}
	}
}
