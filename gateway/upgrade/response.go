package upgrade

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
)

// Rejection is an answer other than 101. The connection is closed after it.
type Rejection struct {
	Status int
	Reason string   // a sentence for the client and the log; nothing of the request is in it
	Fields []string // more header lines, such as "Retry-After: 1"

	headOnly bool
}

// Reject makes a Rejection, for reasons that lie outside of the request too: a
// path that is not there, an origin that is not allowed, too many connections.
func Reject(status int, reason string, fields ...string) *Rejection {
	return &Rejection{Status: status, Reason: reason, Fields: fields}
}

func (r *Rejection) Error() string {
	return fmt.Sprintf("upgrade: %d %s: %s", r.Status, http.StatusText(r.Status), r.Reason)
}

// AppendResponse appends the whole HTTP response.
func (r *Rejection) AppendResponse(dst []byte) []byte {
	connection := "close"
	if r.Status == http.StatusUpgradeRequired {
		connection = "Upgrade, close" // required beside an Upgrade field (RFC 9110 section 7.8)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = appendLine(dst, " ", http.StatusText(r.Status))
	dst = appendLine(dst, "Connection: ", connection)
	for _, field := range r.Fields {
		dst = appendLine(dst, field, "")
	}
	dst = appendLine(dst, "Content-Type: ", "text/plain; charset=utf-8")
	dst = appendLine(dst, "Content-Length: ", strconv.Itoa(len(r.Reason)+1))
	dst = append(dst, "\r\n"...)
	if r.headOnly {
		return dst
	}
	return append(append(dst, r.Reason...), '\n')
}

// acceptGUID is the constant of RFC 6455 section 1.3.
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// AppendAccept appends the 101 response to a request with this key. The
// protocol is one of those offered, or "" for none.
func AppendAccept(dst []byte, key, protocol string) []byte {
	dst = append(dst, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"...)
	sum := sha1.Sum([]byte(key + acceptGUID))
	dst = append(dst, "Sec-WebSocket-Accept: "...)
	dst = base64.StdEncoding.AppendEncode(dst, sum[:])
	dst = append(dst, "\r\n"...)
	if protocol != "" {
		dst = appendLine(dst, "Sec-WebSocket-Protocol: ", protocol)
	}
	return append(dst, "\r\n"...)
}

func appendLine(dst []byte, name, value string) []byte {
	return append(append(append(dst, name...), value...), "\r\n"...)
}
