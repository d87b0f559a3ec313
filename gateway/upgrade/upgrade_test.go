package upgrade

import (
	"reflect"
	"strings"
	"testing"
)

func TestRequestIsRead(t *testing.T) {
	got := accepted(t, sample("/ws?a=1&b=?",
		"Origin: https://a.example",
		"User-Agent: test/1.0 (x; y)",
		"X-Forwarded-For: 203.0.113.7, 10.0.0.1",
		"x-forwarded-for: 10.0.0.2",
		"Sec-WebSocket-Protocol: sealcast.v1.aes-128-gcm,  Other\t",
		"sec-websocket-protocol: third",
		"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
		"Expect: nothing",
		"Empty:",
		"Latin: caf\xe9 \"quoted\tstring\"",
	))
	want := &Request{
		Path:         "/ws",
		Query:        "a=1&b=?",
		Host:         "example.com:8080",
		Origin:       "https://a.example",
		UserAgent:    "test/1.0 (x; y)",
		ForwardedFor: []string{"203.0.113.7, 10.0.0.1", "10.0.0.2"},
		Protocols:    []string{"sealcast.v1.aes-128-gcm", "Other", "third"},
		Key:          sampleKey,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLeastRequestIsRead(t *testing.T) {
	got := accepted(t, sample("/ws"))
	want := &Request{Path: "/ws", Host: "example.com:8080", Key: sampleKey}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What follows the blank line belongs to the frames.
func TestExactlyTheRequestIsConsumed(t *testing.T) {
	request := sample("/ws")
	for _, rest := range []string{"", "\x82", "\r\n", "\r\n\r\n", "GET /ws HTTP/1.1\r\n\r\n", strings.Repeat("x", 10_000)} {
		req, n, err := Parse([]byte(request + rest))
		if err != nil || req == nil || n != len(request) {
			t.Errorf("with %d bytes behind: n = %d (%v), want %d", len(rest), n, err, len(request))
		}
	}
}

func TestRequestOwnsItsMemory(t *testing.T) {
	buf := []byte(sample("/ws?q", "Origin: o", "User-Agent: u", "X-Forwarded-For: f", "Sec-WebSocket-Protocol: a, b"))
	got, _, err := Parse(buf)
	if err != nil {
		t.Fatal(err)
	}
	for i := range buf {
		buf[i] = '#'
	}
	want := &Request{Path: "/ws", Query: "q", Host: "example.com:8080", Origin: "o", UserAgent: "u",
		ForwardedFor: []string{"f"}, Protocols: []string{"a", "b"}, Key: sampleKey}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("after the buffer was overwritten: %+v, want %+v", got, want)
	}
}

func TestNamesAndTokensInAnyCaseAndOrder(t *testing.T) {
	for _, input := range []string{
		lines("GET /ws HTTP/1.1", "sec-websocket-version:13", "SEC-WEBSOCKET-KEY:"+sampleKey, "CONNECTION:UPGRADE", "uPGRADE:WebSocket", "hOST:h"),
		lines("GET /ws HTTP/1.1", "Upgrade: \t websocket \t ", "Connection:upgrade", "Host:\th ", "Sec-WebSocket-Version: 13 ", "Sec-WebSocket-Key:  "+sampleKey+"\t"),
	} {
		if got := accepted(t, input); got.Host != "h" || got.Path != "/ws" || got.Key != sampleKey {
			t.Errorf("%q: got %+v", input, got)
		}
	}
}

func TestConnectionAndUpgradeAreLists(t *testing.T) {
	for _, line := range []string{
		"Connection: keep-alive, Upgrade",
		"Connection: Upgrade,keep-alive",
		"Connection: keep-alive\r\nConnection: Upgrade",
		"Connection: Upgrade\r\nX: y\r\nConnection: close",
		"Connection: , ,keep-alive,,UPGRADE ,",
		"Connection:\r\nConnection: upgrade",
	} {
		accepted(t, with("Connection", line))
	}
	for _, line := range []string{
		"Upgrade: h2c, websocket",
		"Upgrade: TLS/1.0, WEBSOCKET",
		"Upgrade: h2c\r\nUpgrade: websocket",
		"Upgrade: websocket,",
	} {
		accepted(t, with("Upgrade", line))
	}
	refused(t, with("Connection", "Connection: keep alive, Upgrade"), 400, "Connection")
	refused(t, with("Connection", "Connection: \"Upgrade\""), 400, "Connection")
	refused(t, with("Upgrade", "Upgrade: web socket"), 400, "Upgrade")
	refused(t, with("Upgrade", "Upgrade: websocket/"), 400, "Upgrade")
	refused(t, with("Upgrade", "Upgrade: /13"), 400, "Upgrade")
}

func TestNoUpgradeIsToldHow(t *testing.T) {
	for name, input := range map[string]string{
		"a browser":               lines("GET / HTTP/1.1", "Host: h", "Accept: text/html"),
		"no Upgrade":              with("Upgrade", ""),
		"another protocol":        with("Upgrade", "Upgrade: h2c"),
		"a name that contains it": with("Upgrade", "Upgrade: websockets"),
		"a version of it":         with("Upgrade", "Upgrade: websocket/13"),
		"no Connection":           with("Connection", ""),
		"another option":          with("Connection", "Connection: keep-alive"),
		"an option like it":       with("Connection", "Connection: upgrade-insecure"),
	} {
		t.Run(name, func(t *testing.T) { refused(t, input, 426, "Upgrade: websocket") })
	}
}

func TestVersionOfWebSocket(t *testing.T) {
	for _, line := range []string{"", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Version:", "Sec-WebSocket-Version: 013",
		"Sec-WebSocket-Version: 13, 8", "Sec-WebSocket-Version: 14", "Sec-WebSocket-Version: thirteen"} {
		refused(t, with("Sec-WebSocket-Version", line), 426, "13")
	}
	refused(t, with("Sec-WebSocket-Version", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13"), 400, "more than one")
}

func TestMethods(t *testing.T) {
	for _, method := range []string{"POST", "HEAD", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "get", "GETS", "G", "!#$%&'*+-.^_`|~"} {
		input := method + sample("/ws")[len("GET"):]
		if needed := refused(t, input, 405, "GET"); needed != strings.Index(input, "\n")+1 {
			t.Errorf("%s: refused after %d bytes, want the first line", method, needed)
		}
	}
}

func TestVersionsOfHTTP(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/1.2", "HTTP/1.9"} {
		accepted(t, strings.Replace(sample("/ws"), "HTTP/1.1", version, 1))
	}
	for _, version := range []string{"HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"} {
		refused(t, strings.Replace(sample("/ws"), "HTTP/1.1", version, 1), 505, "HTTP/1.1")
	}
	refused(t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1") // HTTP/2 without negotiation
	for _, version := range []string{"http/1.1", "HTTP/1", "HTTP/1.", "HTTP/1.11", "HTTP/11.1", "HTTP/+1.1", "HTTP/1.:", "HTTP 1.1", "HTTP/1.1 ", " HTTP/1.1", "", "FTP/1.1"} {
		refused(t, strings.Replace(sample("/ws"), "HTTP/1.1", version, 1), 400, "request line")
	}
}

func TestRequestLine(t *testing.T) {
	for _, line := range []string{"", " ", "GET", "GET /ws", "GET  /ws HTTP/1.1", "GET /ws  HTTP/1.1", " GET /ws HTTP/1.1", "GET /a b HTTP/1.1",
		"GET\t/ws HTTP/1.1", "GET  HTTP/1.1", "G(T /ws HTTP/1.1", "/ws GET HTTP/1.1 ", "GET /w\x00s HTTP/1.1", "GET /w\x7fs HTTP/1.1", "GET /w\xc3\xb6 HTTP/1.1"} {
		refused(t, lines(append([]string{line}, sampleFields...)...), 400, "request line")
	}
	refused(t, "\r\n"+sample("/ws"), 400, "request line")
}

func TestTargets(t *testing.T) {
	for target, want := range map[string][3]string{
		"/":                         {"/", "", "example.com:8080"},
		"/ws?":                      {"/ws", "", "example.com:8080"},
		"/ws?x?y":                   {"/ws", "x?y", "example.com:8080"},
		"/%77s":                     {"/%77s", "", "example.com:8080"}, // not decoded
		"//ws/../ws":                {"//ws/../ws", "", "example.com:8080"},
		"http://other:1/ws?q":       {"/ws", "q", "other:1"},
		"WSS://other/ws":            {"/ws", "", "other"},
		"ws://other":                {"/", "", "other"},
		"https://[2001:db8::1]:8?q": {"/", "q", "[2001:db8::1]:8"},
	} {
		got := accepted(t, sample(target))
		if parts := [3]string{got.Path, got.Query, got.Host}; parts != want {
			t.Errorf("%s: got %q, want %q", target, parts, want)
		}
	}
	for target, words := range map[string]string{
		"*":                      "neither a path nor a URL",
		"ws":                     "neither a path nor a URL",
		"?x":                     "neither a path nor a URL",
		"example.com:80":         "neither a path nor a URL", // as for CONNECT
		"ftp://example.com/ws":   "neither a path nor a URL",
		"javascript:alert(1)":    "neither a path nor a URL",
		"http:/ws":               "neither a path nor a URL",
		"http:///ws":             "host in the target",
		"http://user@example/ws": "host in the target",
		"http://a:b/ws":          "host in the target",
		"/ws#there":              "fragment",
		"http://example.com#a":   "fragment",
	} {
		refused(t, sample(target), 400, words)
	}
}

func TestHost(t *testing.T) {
	for _, host := range []string{"h", "example.com", "EXAMPLE.com:80", "127.0.0.1:8080", "[::1]:8080", "xn--bcher-kva.example"} {
		if got := accepted(t, with("Host", "Host: "+host)); got.Host != host {
			t.Errorf("got %q, want %q", got.Host, host)
		}
	}
	for _, host := range []string{"", ":80", "a b", "a/b", "a?b", "a#b", "user@h", "h:port", "[::1", "http://h", "a\\b", "h:80:80"} {
		refused(t, with("Host", "Host: "+host), 400, "Host")
	}
	refused(t, with("Host", ""), 400, "Host")
	refused(t, with("Host", "Host: a\r\nHost: a"), 400, "more than one Host")
	refused(t, with("Host", "Host: a\r\nX: y\r\nhost: b"), 400, "more than one Host")
	refused(t, with("Host", "Host:\r\nHost: b"), 400, "more than one Host")
	refused(t, strings.Replace(with("Host", ""), "/ws", "http://h/ws", 1), 400, "Host")
}

func TestKey(t *testing.T) {
	for _, key := range []string{"AAAAAAAAAAAAAAAAAAAAAA==", "/+/+/+/+/+/+/+/+/+/+/w=="} {
		if got := accepted(t, with("Sec-WebSocket-Key", "Sec-WebSocket-Key: "+key)); got.Key != key {
			t.Errorf("got %q, want %q", got.Key, key)
		}
	}
	for name, key := range map[string]string{
		"empty":            "",
		"15 bytes":         "AAAAAAAAAAAAAAAAAAAA",
		"17 bytes":         "AAAAAAAAAAAAAAAAAAAAAAA=",
		"18 bytes":         "AAAAAAAAAAAAAAAAAAAAAAAA",
		"not base64":       "AAAAAAAAAAAAAAAAAAAAA!==",
		"base64url":        "_-_-_-_-_-_-_-_-_-_-_w==",
		"no padding":       "AAAAAAAAAAAAAAAAAAAAAA",
		"unused bits":      "AAAAAAAAAAAAAAAAAAAAAB==",
		"padding within":   "AAAAAAAAAAA==AAAAAAAAA==",
		"more behind":      "AAAAAAAAAAAAAAAAAAAAAA== x",
		"two keys, listed": sampleKey + ", " + sampleKey,
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, with("Sec-WebSocket-Key", "Sec-WebSocket-Key: "+key), 400, "Sec-WebSocket-Key")
		})
	}
	refused(t, with("Sec-WebSocket-Key", ""), 400, "Sec-WebSocket-Key")
	twice := "Sec-WebSocket-Key: " + sampleKey
	refused(t, with("Sec-WebSocket-Key", twice+"\r\n"+twice), 400, "more than one Sec-WebSocket-Key")
}

func TestProtocols(t *testing.T) {
	for values, want := range map[string][]string{
		"a":                 {"a"},
		"b,a ,\tc":          {"b", "a", "c"},
		"z|y, x|w":          {"z", "y", "x", "w"},
		"a|A":               {"a", "A"},
		"sealcast.v1.plain": {"sealcast.v1.plain"},
	} {
		var fields []string
		for value := range strings.SplitSeq(values, "|") {
			fields = append(fields, "Sec-WebSocket-Protocol: "+value, "Between: them")
		}
		input := sample("/ws", fields...)
		if got := accepted(t, input); !reflect.DeepEqual(got.Protocols, want) {
			t.Errorf("%s: got %q, want %q", values, got.Protocols, want)
		}
	}
	for _, value := range []string{"", ",", "a,", ",a", "a,,b", "a b", "a;q=1", "\"a\"", "a/b", "caf\xe9"} {
		refused(t, sample("/ws", "Sec-WebSocket-Protocol: "+value), 400, "Sec-WebSocket-Protocol is not")
	}
	refused(t, sample("/ws", "Sec-WebSocket-Protocol: a, b, a"), 400, "twice")
	refused(t, sample("/ws", "Sec-WebSocket-Protocol: a", "Sec-WebSocket-Protocol: a"), 400, "twice")
}

func TestBodiesAreRefused(t *testing.T) {
	accepted(t, sample("/ws", "Content-Length: 0"))
	for _, line := range []string{"Content-Length: 1", "content-length: 00", "Content-Length:", "Content-Length: 0, 0", "Content-Length: -1", "Content-Length: 0\r\nContent-Length: 5",
		"Transfer-Encoding: chunked", "Transfer-Encoding: identity", "TRANSFER-ENCODING:", "Content-Length: 0\r\nTransfer-Encoding: chunked"} {
		refused(t, sample("/ws", line)+"x", 400, "body")
	}
}

func TestOneOriginAndUserAgent(t *testing.T) {
	refused(t, sample("/ws", "Origin: https://a.example", "Origin: https://b.example"), 400, "more than one Origin")
	refused(t, sample("/ws", "User-Agent: a", "User-Agent: a"), 400, "more than one User-Agent")
}
