// Package upgrade reads a client's WebSocket upgrade request and writes the
// answer to it (RFC 6455 section 4.2, HTTP/1.1 as in RFC 9110 and RFC 9112). It
// takes nothing that a proxy on the way might read differently. It touches no
// socket and no clock, and does not judge paths, origins or subprotocols.
//
// net/http's reader takes line feeds alone, folded fields and two hosts;
// gobwas/ws takes a part of a request for its end and looks at each Connection
// line alone. Hence a reader of its own.
package upgrade

import (
	"bytes"
	"net/http"

	"github.com/gobwas/httphead"
)

// Bounds of a request, up to and with its blank line.
const (
	MaxBytes     = 8 << 10
	MaxFields    = 64
	MaxProtocols = 64
)

// Request is a valid upgrade request. Its strings own their memory.
type Request struct {
	Path         string   // as sent, not decoded
	Query        string   // what follows the first '?', as sent
	Host         string   // host and port the client means
	Origin       string   // "" when there is none
	UserAgent    string   // "" when there is none
	ForwardedFor []string // values of the X-Forwarded-For lines in order; anyone can send them
	Protocols    []string // subprotocols offered, in order over all header lines, each once
	Key          string   // for AppendAccept
}

// Parse reads the request at the front of buf, of which n bytes are its own.
// When neither a request nor an error is returned, it is not there as a whole:
// Parse is called again with all bytes once more have come. The error is a
// *Rejection. What is wrong with a line, and a request that is too large, is
// found before the request is complete. Parse keeps and changes nothing of buf.
//
//	in 2 — the upgrade, only once it is complete; exactly the request's bytes are consumed
func Parse(buf []byte) (req *Request, n int, err error) {
	var h head
	n, fault := h.scan(buf[:min(len(buf), MaxBytes)])
	if fault == nil && n == 0 {
		if len(buf) < MaxBytes {
			return nil, 0, nil
		}
		fault = tooLarge("the request is larger than 8 KiB")
	}
	if fault == nil {
		req, fault = h.request()
	}
	if fault != nil {
		return nil, 0, fault
	}
	return req, n, nil
}

// head is what has been read of a request. All slices are parts of the buffer.
type head struct {
	target                                []byte
	host, origin, key, version, userAgent single
	forwardedFor, protocols               [][]byte // values, one for each line
	websocket, upgrades                   bool     // Upgrade names websocket, Connection names upgrade
	fields                                int
}

// scan reads line by line. The size is that of the whole request, or 0 while
// its end has not come.
func (h *head) scan(buf []byte) (size int, fault *Rejection) {
	for first := true; ; first = false {
		line, n := nextLine(buf[size:])
		whole := n > 0
		size += n
		switch {
		case first:
			fault = h.requestLine(line, whole)
		case whole && len(line) == 0:
			return size, nil
		default:
			fault = h.fieldLine(line, whole)
		}
		if fault != nil || !whole {
			return 0, fault
		}
	}
}

// nextLine cuts a line off buf, without its CR LF; n is 0 when the end of it
// has not come. A line feed without CR stays in the line, where no character
// check lets it pass.
func nextLine(buf []byte) (line []byte, n int) {
	i := bytes.IndexByte(buf, '\n')
	if i < 0 {
		return bytes.TrimSuffix(buf, []byte("\r")), 0
	}
	if i > 0 && buf[i-1] == '\r' {
		return buf[:i-1], i + 1
	}
	return buf[:i+1], i + 1
}

// requestLine reads METHOD SP TARGET SP VERSION (RFC 9112 section 3). Of an
// incomplete line the characters are checked.
func (h *head) requestLine(line []byte, whole bool) *Rejection {
	for _, c := range line {
		if c < ' ' || c > '~' {
			return badRequest("the request line holds a character that is not allowed")
		}
	}
	if !whole {
		return nil
	}
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(rest, []byte(" "))
	major, minor, ok := http.ParseHTTPVersion(string(version))
	switch {
	case !ok || !isToken(method) || len(target) == 0:
		return badRequest("the request line is not a method, a target and an HTTP version with one space between")
	case major != 1 || minor < 1:
		return Reject(http.StatusHTTPVersionNotSupported, "HTTP/1.1 is needed for a WebSocket; a proxy on the way may have to be told so")
	case string(method) != http.MethodGet:
		return notGet(string(method))
	}
	h.target = target
	return nil
}

// fieldLine reads NAME ":" VALUE (RFC 9112 section 5). Of an incomplete line
// the characters are checked.
func (h *head) fieldLine(line []byte, whole bool) *Rejection {
	name, value, colon := bytes.Cut(line, []byte(":"))
	if fault := checkName(name, colon); fault != nil {
		return fault
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return badRequest("the value of a header field holds a control character, or a line does not end with CR LF")
		}
	}
	if !whole {
		return nil
	}
	if !colon {
		return badRequest("a header field has no colon")
	}
	if h.fields++; h.fields > MaxFields {
		return tooLarge("the request has more than 64 header fields")
	}
	return h.field(name, bytes.Trim(value, " \t"))
}

// checkName checks the name of a field as far as it has come.
func checkName(name []byte, whole bool) *Rejection {
	if len(name) == 0 && whole {
		return badRequest("a header field has no name")
	}
	for i, c := range name {
		switch {
		case (c == ' ' || c == '\t') && i == 0:
			return badRequest("a header field is folded over several lines")
		case c == ' ' || c == '\t':
			return badRequest("there is white space within or behind the name of a header field")
		case !httphead.OctetTypes[c].IsToken():
			return badRequest("the name of a header field holds a character that is not allowed")
		}
	}
	return nil
}
