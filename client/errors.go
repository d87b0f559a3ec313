package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sealcast/sealcast/wire"
)

// What Dial can fail with; errors.Is tells which. A gateway whose key matches no
// pin is session.ErrWrongPin or, without any pin, session.ErrNoPin; the
// *session.PinError carries the key. A handshake that breaks is
// session.ErrHandshake: the realms differ, or somebody changed bytes on the
// way. A gateway that ends the connection before it is ready is a
// *ClosedError, as later.
var (
	// ErrOptions reports options or a URL that cannot work.
	ErrOptions = errors.New("invalid option")
	// ErrUnreachable reports that no connection came about, or no answer in time.
	ErrUnreachable = errors.New("gateway cannot be reached")
	// ErrToken reports that Options.TokenSource had no token.
	ErrToken = errors.New("no token")
	// ErrTLS reports that the TLS handshake failed, mostly over the certificate.
	ErrTLS = errors.New("TLS handshake failed")
	// ErrNotGateway reports a server that answers, but not as a Sealcast gateway. Often an *HTTPError.
	ErrNotGateway = errors.New("not a Sealcast gateway")
	// ErrRefused reports a gateway that takes no connection from here now; an *HTTPError.
	ErrRefused = errors.New("gateway refuses the connection")
	// ErrNoCommonSuite reports that the gateway accepts none of the offered suites; a *NoCommonSuiteError.
	ErrNoCommonSuite = errors.New("no cipher suite in common")
)

// What an established connection can fail with.
var (
	// ErrCut matches every end but the gateway's own Goodbye: the connection
	// broke, or an intermediary closed it. Reconnecting is the right answer.
	ErrCut = errors.New("connection cut")
	// ErrSilent is a cut because no record came for the gateway's heartbeat timeout.
	ErrSilent = errors.New("nothing heard for the heartbeat timeout")
	// ErrClosed reports the use of a connection that this side has closed.
	ErrClosed = errors.New("connection is closed")
	// ErrBacklog reports that too many events are waiting for Next while another
	// call waits for its answer.
	ErrBacklog = errors.New("too many events are waiting for Next")
	// ErrRequest matches a *RequestError.
	ErrRequest = errors.New("request refused")
)

// HTTPError is an answer to the upgrade request other than success. It is
// ErrRefused when a gateway answers so (403, 429, 503), else ErrNotGateway.
type HTTPError struct {
	Status int
	Text   string // the answer's body, if it was text; at most a few lines
}

func (e *HTTPError) Error() string {
	s := fmt.Sprintf("%v: HTTP %d %s", e.Unwrap(), e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Unwrap is ErrRefused or ErrNotGateway.
func (e *HTTPError) Unwrap() error {
	switch e.Status {
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return ErrRefused
	}
	return ErrNotGateway
}

// NoCommonSuiteError says what was offered and what the gateway would accept.
type NoCommonSuiteError struct {
	Offered  []string // names of suites
	Accepted []string // names of suites, as the gateway lists them
}

func (e *NoCommonSuiteError) Error() string {
	return fmt.Sprintf("%v: offered %s; the gateway accepts %s",
		ErrNoCommonSuite, strings.Join(e.Offered, ", "), strings.Join(e.Accepted, ", "))
}

// Unwrap is ErrNoCommonSuite.
func (e *NoCommonSuiteError) Unwrap() error { return ErrNoCommonSuite }

// ClosedError is the end of a connection whose WebSocket was open. Unless it is
// final it is ErrCut: anyone on the way can forge a close.
type ClosedError struct {
	// Code is that of the Goodbye or, when there was none, of the close frame
	// received (CloseNoStatus: it had none) or sent (when this side found a
	// fault); 0 when the connection broke without a close.
	Code wire.CloseCode
	Text string
	// Final tells that the gateway said so itself, in a sealed Goodbye.
	Final bool
	// ReconnectAfter is the gateway's wish; 0: as Code.Reconnect says.
	ReconnectAfter time.Duration
	// Err is the cause when there was no close: of the network, or what this
	// side found wrong.
	Err error
}

func (e *ClosedError) Error() string {
	var s string
	switch {
	case e.Final:
		s = fmt.Sprintf("gateway ended the session: %v", e.Code)
	case e.Code != 0 && e.Err == nil:
		s = fmt.Sprintf("%v: closed with %v", ErrCut, e.Code)
	default:
		return fmt.Sprintf("%v: %v", ErrCut, e.Err)
	}
	if e.Text != "" && !strings.HasSuffix(s, e.Text) { // some texts only repeat the code's meaning
		s += " (" + e.Text + ")"
	}
	return s
}

// Is matches ErrCut unless the end is final.
func (e *ClosedError) Is(target error) bool { return target == ErrCut && !e.Final }

// Unwrap is the cause.
func (e *ClosedError) Unwrap() error { return e.Err }

// RequestError is the gateway's refusal of a whole request; the connection goes on.
type RequestError struct {
	Code wire.CloseCode
	Text string
}

func (e *RequestError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%v: %v", ErrRequest, e.Code)
	}
	return fmt.Sprintf("%v: %v (%s)", ErrRequest, e.Code, e.Text)
}

// Unwrap is ErrRequest.
func (e *RequestError) Unwrap() error { return ErrRequest }
