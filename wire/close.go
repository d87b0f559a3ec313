package wire

import (
	"strconv"
	"time"
)

// CloseCode is a WebSocket close code (RFC 6455 section 7.4) with the meaning
// that docs/protocol.md section 7 gives it.
type CloseCode uint16

// Codes of RFC 6455 and its registry where one fits, else 44xx.
const (
	CloseNormal          CloseCode = 1000
	CloseGoingAway       CloseCode = 1001
	CloseProtocolError   CloseCode = 1002 // WebSocket framing
	CloseUnsupported     CloseCode = 1003 // text where only binary is spoken
	CloseNoStatus        CloseCode = 1005 // never sent: a close without a code
	CloseInvalidUTF8     CloseCode = 1007
	ClosePolicy          CloseCode = 1008 // too many fragments
	CloseTooBig          CloseCode = 1009
	CloseInternal        CloseCode = 1011
	CloseRestart         CloseCode = 1012
	CloseTryLater        CloseCode = 1013
	CloseBadRecord       CloseCode = 4400 // protocol or record failure
	CloseUnauthenticated CloseCode = 4401
	CloseForbidden       CloseCode = 4403
	CloseTooLate         CloseCode = 4408 // handshake or Connect did not come in time
	CloseReplaced        CloseCode = 4409
	CloseHeartbeatLost   CloseCode = 4410
	CloseTooSlow         CloseCode = 4413
	CloseTooMany         CloseCode = 4429
)

var closeText = map[CloseCode]string{
	CloseNormal:          "normal closure",
	CloseGoingAway:       "going away",
	CloseProtocolError:   "WebSocket protocol error",
	CloseUnsupported:     "unsupported data",
	CloseNoStatus:        "no status",
	CloseInvalidUTF8:     "invalid UTF-8",
	ClosePolicy:          "policy violation",
	CloseTooBig:          "message too big",
	CloseInternal:        "internal error",
	CloseRestart:         "gateway restarts",
	CloseTryLater:        "try again later",
	CloseBadRecord:       "protocol or record failure",
	CloseUnauthenticated: "not authenticated",
	CloseForbidden:       "not allowed",
	CloseTooLate:         "handshake or authentication too late",
	CloseReplaced:        "replaced by another session",
	CloseHeartbeatLost:   "heartbeat lost",
	CloseTooSlow:         "client too slow",
	CloseTooMany:         "too many requests",
}

// String is the code with its meaning, for logs and people.
func (c CloseCode) String() string {
	if text, ok := closeText[c]; ok {
		return strconv.Itoa(int(c)) + " " + text
	}
	return strconv.Itoa(int(c))
}

// OnWire tells whether the code may stand in a close frame, sent or received:
// those of RFC 6455 section 7.4 and its registry (1012 to 1014), and the ranges
// for libraries and applications. 1005, 1006 and 1015 are never in a frame.
func (c CloseCode) OnWire() bool {
	switch {
	case c >= 1000 && c <= 1003, c >= 1007 && c <= 1014, c >= 3000 && c <= 4999:
		return true
	}
	return false
}

// Delays of Reconnect before the first attempt.
const (
	reconnectDelay = 500 * time.Millisecond // an ordinary cut; back-off takes over from here
	overloadDelay  = 10 * time.Second       // the gateway said that it has too much to do
)

// Reconnect tells what a client does by itself after a session that ended with
// this code: whether to reconnect, and how long to wait at least before the
// first attempt. Later attempts back off from there, each with jitter. When the
// answer is no, the same attempt would end the same way; after
// CloseUnauthenticated a new token changes that.
func (c CloseCode) Reconnect() (again bool, delay time.Duration) {
	switch c {
	case CloseNormal, CloseUnsupported, CloseInvalidUTF8, CloseTooBig,
		CloseUnauthenticated, CloseForbidden, CloseReplaced:
		return false, 0
	case CloseRestart:
		return true, 0 // another gateway is there already, or this one is at once
	case CloseTryLater, CloseTooMany:
		return true, overloadDelay
	}
	return true, reconnectDelay
}
