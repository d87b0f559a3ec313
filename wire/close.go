package wire

import "strconv"

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
