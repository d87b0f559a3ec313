package upgrade

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gobwas/httphead"
)

// field takes a header field. Names are the same in any case; those that mean
// nothing here, Sec-WebSocket-Extensions among them, are skipped: no extension
// is accepted.
func (h *head) field(name, value []byte) *Rejection {
	var lower [len("sec-websocket-protocol")]byte // the longest name that is known
	if len(name) > len(lower) {
		return nil
	}
	for i, c := range name {
		if lower[i] = c; c >= 'A' && c <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	switch string(lower[:len(name)]) {
	case "host":
		return h.host.set(value, "Host")
	case "origin":
		return h.origin.set(value, "Origin")
	case "sec-websocket-key":
		return h.key.set(value, "Sec-WebSocket-Key")
	case "sec-websocket-version":
		return h.version.set(value, "Sec-WebSocket-Version")
	case "sec-websocket-protocol":
		h.protocols = append(h.protocols, value)
	case "upgrade":
		return h.upgrade(value)
	case "connection":
		return h.connection(value)
	case "content-length":
		if string(value) != "0" {
			return badRequest("an upgrade request must not have a body (Content-Length)")
		}
	case "transfer-encoding":
		return badRequest("an upgrade request must not have a body (Transfer-Encoding)")
	case "user-agent":
		return h.userAgent.set(value, "User-Agent")
	case "x-forwarded-for":
		h.forwardedFor = append(h.forwardedFor, value)
	}
	return nil
}

// single is the value of a field that may stand there once.
type single struct {
	value []byte
	there bool
}

func (s *single) set(value []byte, name string) *Rejection {
	if s.there {
		return badRequest("there is more than one " + name + " header field")
	}
	s.value, s.there = value, true
	return nil
}

// upgrade looks for websocket in a list of protocols (RFC 9110 section 7.8).
func (h *head) upgrade(value []byte) *Rejection {
	for element := range bytes.SplitSeq(value, []byte(",")) {
		protocol, version, versioned := bytes.Cut(bytes.Trim(element, " \t"), []byte("/"))
		switch {
		case len(protocol) == 0 && !versioned: // empty elements are skipped (RFC 9110 section 5.6.1)
		case !isToken(protocol) || versioned && !isToken(version):
			return badRequest("the Upgrade header field is not a list of protocols")
		case strings.EqualFold(string(protocol), "websocket") && !versioned:
			h.websocket = true
		}
	}
	return nil
}

// connection looks for upgrade in a list of options (RFC 9110 section 7.6.1).
func (h *head) connection(value []byte) *Rejection {
	for element := range bytes.SplitSeq(value, []byte(",")) {
		option := bytes.Trim(element, " \t")
		switch {
		case len(option) == 0:
		case !isToken(option):
			return badRequest("the Connection header field is not a list of options")
		case strings.EqualFold(string(option), "upgrade"):
			h.upgrades = true
		}
	}
	return nil
}

// request checks what only a complete request can tell (RFC 6455 section 4.2.1).
func (h *head) request() (*Request, *Rejection) {
	req := &Request{
		Host:      string(h.host.value),
		Origin:    string(h.origin.value),
		UserAgent: string(h.userAgent.value),
		Key:       string(h.key.value),
	}
	if fault := req.setTarget(string(h.target)); fault != nil {
		return nil, fault
	}
	switch {
	case !h.websocket || !h.upgrades:
		return nil, upgradeRequired("this address speaks WebSocket: the request needs Upgrade: websocket and Connection: Upgrade")
	case string(h.version.value) != "13":
		return nil, upgradeRequired("the WebSocket version must be 13")
	case !isKey(h.key.value):
		return nil, badRequest("Sec-WebSocket-Key is not 16 bytes in base64")
	}
	for _, value := range h.forwardedFor {
		req.ForwardedFor = append(req.ForwardedFor, string(value))
	}
	for _, value := range h.protocols {
		if fault := req.addProtocols(string(value)); fault != nil {
			return nil, fault
		}
	}
	return req, nil
}

// setTarget takes a path, or a URL whose host then replaces the Host field's
// (RFC 9112 section 3.2).
func (req *Request) setTarget(target string) *Rejection {
	if !isHost(req.Host) {
		return badRequest("the Host header field is missing, or is no host")
	}
	if target[0] != '/' {
		scheme, rest, found := strings.Cut(target, "://")
		if !found || !slices.Contains([]string{"http", "https", "ws", "wss"}, strings.ToLower(scheme)) {
			return badRequest("the target of the request is neither a path nor a URL")
		}
		end := strings.IndexAny(rest+"/", "/?#")
		if req.Host = rest[:end]; !isHost(req.Host) {
			return badRequest("the host in the target of the request is none")
		}
		if target = rest[end:]; target == "" || target[0] == '?' {
			target = "/" + target
		}
	}
	if strings.Contains(target, "#") {
		return badRequest("the target of the request has a fragment")
	}
	req.Path, req.Query, _ = strings.Cut(target, "?")
	return nil
}

// addProtocols takes the subprotocols of one header line. RFC 6455 section 4.1
// wants each of them to be a token and to stand there once.
func (req *Request) addProtocols(value string) *Rejection {
	for element := range strings.SplitSeq(value, ",") {
		protocol := strings.Trim(element, " \t")
		switch {
		case !isToken(protocol):
			return badRequest("Sec-WebSocket-Protocol is not a list of names")
		case slices.Contains(req.Protocols, protocol):
			return badRequest("Sec-WebSocket-Protocol names a subprotocol twice")
		case len(req.Protocols) == MaxProtocols:
			return badRequest("Sec-WebSocket-Protocol names more than 64 subprotocols")
		}
		req.Protocols = append(req.Protocols, strings.Clone(protocol))
	}
	return nil
}

// isToken is the token of RFC 9110 section 5.6.2.
func isToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !httphead.OctetTypes[s[i]].IsToken() {
			return false
		}
	}
	return len(s) > 0
}

// isHost reports whether s is a host with or without a port, and not empty.
func isHost(s string) bool {
	u, err := url.Parse("http://" + s)
	return err == nil && s != "" && u.Host == s && u.Hostname() != ""
}

// isKey reports whether key is the base64 form of 16 bytes (RFC 6455 section
// 4.2.1), and the only one: unused bits are 0.
func isKey(key []byte) bool {
	var nonce [18]byte
	if len(key) != base64.StdEncoding.EncodedLen(16) {
		return false
	}
	n, err := base64.StdEncoding.Strict().Decode(nonce[:], key)
	return err == nil && n == 16
}

func badRequest(reason string) *Rejection { return Reject(http.StatusBadRequest, reason) }

func tooLarge(reason string) *Rejection {
	return Reject(http.StatusRequestHeaderFieldsTooLarge, reason)
}

// notGet is the answer to another method; one to HEAD has no content (RFC 9110
// section 9.3.2).
func notGet(method string) *Rejection {
	r := Reject(http.StatusMethodNotAllowed, "a WebSocket is opened with GET", "Allow: GET")
	r.headOnly = method == http.MethodHead
	return r
}

// upgradeRequired says what would be taken (RFC 9110 section 15.5.22, RFC 6455
// section 4.4).
func upgradeRequired(reason string) *Rejection {
	return Reject(http.StatusUpgradeRequired, reason, "Upgrade: websocket", "Sec-WebSocket-Version: 13")
}
