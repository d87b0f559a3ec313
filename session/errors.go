package session

import (
	"errors"
	"fmt"

	"github.com/sealcast/sealcast/wire"
)

// What ends a session, to branch on with errors.Is.
var (
	ErrClosed              = errors.New("session is closed")
	ErrUnexpected          = errors.New("message not allowed now")
	ErrMalformed           = errors.New("malformed message")
	ErrHandshake           = errors.New("handshake failed")
	ErrRecord              = errors.New("record failed")
	ErrPostQuantumRequired = errors.New("post-quantum key agreement is required and the other side does not take part")
	ErrNoPin               = errors.New("no pin for this gateway's key")
	ErrWrongPin            = errors.New("the gateway's key matches no pin")
	ErrBinding             = errors.New("endpoint, realm and subprotocols do not fit together")
)

// Error is why a session ended. The peer gets Code and Reason in a WebSocket
// close and nothing else: the cause, which errors.Is and errors.As see, is for
// the log of this side.
type Error struct {
	Code   wire.CloseCode
	Reason string // for the peer; empty for every record failure
	cause  error
}

// Error is the cause, for the log.
func (e *Error) Error() string { return e.cause.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.cause }

// PinError carries the key of a gateway that no pin matched. It is ErrNoPin
// when there was no pin at all, else ErrWrongPin.
type PinError struct {
	Seen PublicKey
	kind error
}

func (e *PinError) Error() string { return fmt.Sprintf("%v: it is %v", e.kind, e.Seen) }

// Unwrap is ErrNoPin or ErrWrongPin.
func (e *PinError) Unwrap() error { return e.kind }

// errClosed is what every call on an ended session gets.
var errClosed = &Error{Code: wire.CloseBadRecord, cause: ErrClosed}

// failed makes the error of a protocol or record failure: one code, no reason.
func failed(cause error) *Error { return &Error{Code: wire.CloseBadRecord, cause: cause} }

// refused makes the error of a handshake that this side's settings forbid.
func refused(cause error, reason string) *Error {
	return &Error{Code: wire.CloseForbidden, Reason: reason, cause: cause}
}
