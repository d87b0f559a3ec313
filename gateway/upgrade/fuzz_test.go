package upgrade

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// FuzzParse checks for any input that it does not matter how it is cut, that
// nothing is accepted which net/http would refuse, and that both read the same.
func FuzzParse(f *testing.F) {
	for _, input := range []string{
		"", "\r\n\r\n", sample("/ws"), sample("http://other/ws?q#f"), sample("/ws", "Connection: keep-alive", "Sec-WebSocket-Protocol: a, b"),
		sample("/ws", "X : y"), sample("/ws", " folded"), sample("/ws", "X: y\nZ: z"), sample("/ws", "Content-Length: 3") + "abc",
		sample("/ws", "Transfer-Encoding: chunked"), sample("/ws", "Host: twice"), sample("/ws", "X-Forwarded-For: 1.2.3.4", "Origin: o"),
		with("Upgrade", "Upgrade: h2c, WebSocket"), with("Sec-WebSocket-Key", "Sec-WebSocket-Key: x"), "PRI * HTTP/2.0\r\n\r\n",
	} {
		f.Add([]byte(input), 10)
	}
	f.Fuzz(func(t *testing.T, input []byte, cut int) {
		req, n, err := Parse(input)
		var fault *Rejection
		if err != nil && (!errors.As(err, &fault) || fault.Status < 400 || fault.Reason == "") {
			t.Fatalf("an error that is no answer: %v", err)
		}
		// A part gives the same, or nothing yet.
		part := input[:max(0, min(cut, len(input)))]
		if partReq, partN, partErr := Parse(part); partReq != nil || partErr != nil {
			if !reflect.DeepEqual(partReq, req) || partN != n || !reflect.DeepEqual(partErr, err) {
				t.Fatalf("with %d bytes %v, %d, %v; with all %v, %d, %v", len(part), partReq, partN, partErr, req, n, err)
			}
		}
		if req == nil {
			return
		}
		if end := bytes.Index(input, []byte("\r\n\r\n")) + 4; n != end || n > MaxBytes {
			t.Fatalf("consumed %d bytes, the blank line ends at %d", n, end)
		}
		compareWithStandard(t, input[:n], req)
	})
}

func compareWithStandard(t *testing.T, input []byte, req *Request) {
	std, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(input)))
	if err != nil {
		if strings.Contains(err.Error(), "invalid URL escape") || strings.Contains(err.Error(), "parse ") {
			return // a target that net/http decodes; the gateway compares it as it is
		}
		t.Fatalf("net/http refuses it: %v", err)
	}
	if std.Method != http.MethodGet || std.ContentLength != 0 || std.Host != req.Host && !std.URL.IsAbs() {
		t.Fatalf("net/http reads %s for %q with %d bytes of body", std.Method, std.Host, std.ContentLength)
	}
	if std.Header.Get("Sec-WebSocket-Key") != req.Key || std.Header.Get("Origin") != req.Origin || std.Header.Get("User-Agent") != req.UserAgent {
		t.Fatalf("net/http reads other fields: %v", std.Header)
	}
	if !slices.Equal(std.Header.Values("X-Forwarded-For"), req.ForwardedFor) {
		t.Fatalf("net/http reads X-Forwarded-For as %q", std.Header.Values("X-Forwarded-For"))
	}
	var offered []string
	for _, name := range strings.Split(strings.Join(std.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
		if name = strings.TrimSpace(name); name != "" {
			offered = append(offered, name)
		}
	}
	if !slices.Equal(offered, req.Protocols) {
		t.Fatalf("net/http reads the subprotocols as %q, we as %q", offered, req.Protocols)
	}
	if target := strings.Fields(string(input))[1]; target[0] == '/' && std.RequestURI != target {
		t.Fatalf("net/http reads the target as %q", std.RequestURI)
	}
}

func BenchmarkParse(b *testing.B) {
	input := []byte(sample("/ws", "Origin: https://a.example", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)", "Pragma: no-cache", "Cache-Control: no-cache",
		"Accept-Encoding: gzip, deflate", "Accept-Language: en", "Sec-WebSocket-Extensions: permessage-deflate", "Sec-WebSocket-Protocol: sealcast.v1.aes-128-gcm, sealcast.v1.chacha20-poly1305"))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse(input); err != nil {
			b.Fatal(err)
		}
	}
}
