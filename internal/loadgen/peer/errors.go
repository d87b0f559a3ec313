package peer

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/sealcast/sealcast/wire"
)

// Kind sorts errors for a report.
type Kind string

// The kinds. Closes have one for each code: see ClosedKind.
const (
	KindConnect   Kind = "connect"   // no TCP connection
	KindUpgrade   Kind = "upgrade"   // no answer, or a refusal, to the upgrade
	KindHandshake Kind = "handshake" // no agreement on keys
	KindKey       Kind = "key"       // the gateway's key is none of the pins
	KindFrame     Kind = "frame"     // bytes that are no frames of a server
	KindRecord    Kind = "record"    // a record that does not open: content, order or tag are wrong
	KindContent   Kind = "content"   // a message is not what was sent
	KindOrder     Kind = "order"     // a message came twice, or not in its turn
	KindGap       Kind = "gap"       // a tick is missing and nobody has said so
	KindRefused   Kind = "refused"   // a request was answered by an error
	KindLost      Kind = "lost"      // the connection ended without a goodbye
	KindTimeout   Kind = "timeout"   // an answer did not come in time
)

// ClosedKind is that of a close with this code.
func ClosedKind(code wire.CloseCode) Kind { return Kind("closed " + strconv.Itoa(int(code))) }

// Error is why a peer has ended.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return string(e.Kind) + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

func failf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

// ClosedError is an end that the gateway has ordered.
type ClosedError struct {
	Code wire.CloseCode
	Text string
}

func (e *ClosedError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the gateway has closed with code %d", e.Code)
	}
	return fmt.Sprintf("the gateway has closed with code %d (%s)", e.Code, e.Text)
}

// closedBy reads a close frame.
func closedBy(payload []byte) error {
	code, text := wire.CloseNoStatus, ""
	if len(payload) >= 2 {
		code, text = wire.CloseCode(binary.BigEndian.Uint16(payload)), string(payload[2:])
	}
	return &Error{ClosedKind(code), &ClosedError{code, text}}
}

// goodbye reads a sealed Goodbye.
func goodbye(plaintext []byte) error {
	g, err := wire.ParseGoodbye(plaintext)
	if err != nil {
		return &Error{KindRecord, err}
	}
	code := wire.CloseCode(g.GetCode())
	return &Error{ClosedKind(code), &ClosedError{code, g.GetText()}}
}
