package upgrade

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const sampleKey = "dGhlIHNhbXBsZSBub25jZQ==" // RFC 6455 section 1.3

// lines joins lines to a request and ends it.
func lines(s ...string) string { return strings.Join(s, "\r\n") + "\r\n\r\n" }

var sampleFields = []string{
	"Host: example.com:8080",
	"Upgrade: websocket",
	"Connection: Upgrade",
	"Sec-WebSocket-Key: " + sampleKey,
	"Sec-WebSocket-Version: 13",
}

// sample is a request for the target with the usual fields and more.
func sample(target string, more ...string) string {
	return lines(append(append([]string{"GET " + target + " HTTP/1.1"}, sampleFields...), more...)...)
}

// with is a request with one line of the usual fields replaced; "" drops it.
func with(name, line string) string {
	request := []string{"GET /ws HTTP/1.1"}
	for _, field := range sampleFields {
		if strings.HasPrefix(field, name+":") {
			field = line
		}
		if field != "" {
			request = append(request, field)
		}
	}
	return lines(request...)
}

// parse reads input at once and bytewise, and wants the same both ways. It
// returns the number of bytes that were needed to say so.
func parse(t *testing.T, input string) (req *Request, n, needed int, fault *Rejection) {
	t.Helper()
	req, n, err := Parse([]byte(input))
	if err != nil && !errors.As(err, &fault) {
		t.Fatalf("%q: %T is no *Rejection", input, err)
	}
	if (req != nil) != (n > 0) || req != nil && fault != nil {
		t.Fatalf("%q: request %v, n %d, fault %v", input, req, n, fault)
	}
	for needed = range len(input) + 1 {
		part := []byte(input[:needed])
		partReq, partN, partErr := Parse(part)
		if string(part) != input[:needed] {
			t.Fatalf("%q: Parse changed the buffer", input)
		}
		if partReq == nil && partErr == nil {
			continue
		}
		if !reflect.DeepEqual(partReq, req) || partN != n || fmt.Sprint(partErr) != fmt.Sprint(err) {
			t.Fatalf("%q: with %d bytes %v, %d, %v\nat once %v, %d, %v", input, needed, partReq, partN, partErr, req, n, err)
		}
		return req, n, needed, fault
	}
	if req != nil || fault != nil {
		t.Fatalf("%q: at once %v, %v, but never bytewise", input, req, fault)
	}
	return nil, 0, 0, nil
}

func accepted(t *testing.T, input string) *Request {
	t.Helper()
	req, n, needed, fault := parse(t, input)
	if req == nil {
		t.Fatalf("%q: refused or incomplete: %v", input, fault)
	}
	if end := bytes.Index([]byte(input), []byte("\r\n\r\n")) + 4; n != end || needed != end {
		t.Fatalf("%q: consumed %d bytes, known after %d, want %d", input, n, needed, end)
	}
	return req
}

// refused wants a status and words of the reason, and returns the number of
// bytes after which it was known.
func refused(t *testing.T, input string, status int, words string) (needed int) {
	t.Helper()
	req, _, needed, fault := parse(t, input)
	if fault == nil {
		t.Errorf("%q: not refused: %+v", input, req)
		return 0
	}
	if fault.Status != status || !strings.Contains(fault.Reason, words) {
		t.Errorf("%q:\ngot  %v\nwant %d with %q", input, fault, status, words)
	}
	return needed
}
