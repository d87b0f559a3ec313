package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// explainDial turns the error of a connection that did not come about into one
// with advice and an exit status.
func explainDial(err error, c *connection, address string) error {
	var done *advice.Error
	var ended *client.ClosedError
	switch {
	case err == nil, errors.As(err, &done):
		return err
	case errors.Is(err, client.ErrOptions):
		return advice.Misuse(err.Error(), "\"sealctl help\" and -h behind a command show what can be asked for")
	case errors.Is(err, session.ErrNoPin), errors.Is(err, session.ErrWrongPin):
		return explainKey(err, c, address)
	case errors.Is(err, context.Canceled):
		return advice.Failed(errInterrupted, "")
	case brokenProtocol(err):
		return refused(fmt.Errorf("%w: the handshake was answered by something else: %w", client.ErrNotGateway, err),
			"is it the gateway's address? A proxy that changes bytes on the way looks the same")
	case errors.As(err, &ended):
		return refused(err, hintForCode(ended.Code))
	}
	return refused(err, hintForDial(err))
}

// brokenProtocol tells that whoever answered, as a gateway would at first, then
// said what no gateway says.
func brokenProtocol(err error) bool {
	var ended *client.ClosedError
	return errors.As(err, &ended) && ended.Err != nil && ended.Code != 0 ||
		errors.Is(err, session.ErrUnexpected) || errors.Is(err, session.ErrMalformed) || errors.Is(err, session.ErrRecord)
}

// explainEnd does the same for a connection that was there. What the gateway
// has said, in a Goodbye, a close frame or an answer, is a refusal; a
// connection that broke is a failure.
func explainEnd(err error) error {
	var done *advice.Error
	var ended *client.ClosedError
	switch {
	case err == nil, errors.As(err, &done):
		return err
	case errors.Is(err, context.Canceled):
		return advice.Failed(errInterrupted, "")
	case errors.As(err, &ended) && ended.Err == nil && ended.Code != 0:
		return refused(err, hintForCode(ended.Code))
	case errors.Is(err, client.ErrRequest):
		return refused(err, "")
	case errors.Is(err, client.ErrCut):
		return advice.Failed(err, "run the command again")
	}
	return advice.Failed(err, "")
}

// errInterrupted is the user's own wish.
var errInterrupted = errors.New("interrupted")

// explainKey says what to do about a key that is unknown or wrong.
func explainKey(err error, c *connection, address string) error {
	var pin *session.PinError
	errors.As(err, &pin)
	if errors.Is(err, session.ErrNoPin) {
		return refused(fmt.Errorf("the gateway at %s is unknown; its key is %v", address, pin.Seen),
			"compare the key with the operator's, then pass it with --key; --insecure goes on without verification")
	}
	source := "with --key"
	if len(c.keys) == 0 {
		source = "in " + c.known.Path
	}
	return refused(fmt.Errorf("the gateway at %s shows the key %v, which is not the one %s", address, pin.Seen, source),
		"somebody may be in between; if the operator has changed the key on purpose, take the new one from them")
}

func hintForCode(code wire.CloseCode) string {
	switch code {
	case wire.CloseUnauthenticated:
		return "pass a valid token with --token or SEALCTL_TOKEN"
	case wire.CloseForbidden:
		return "ask the gateway's operator what is allowed"
	case wire.CloseTooSlow:
		return "ask for fewer topics, or write to something faster than this output"
	}
	if again, delay := code.Reconnect(); again && delay > 0 {
		return fmt.Sprintf("try again in %v", delay)
	} else if again {
		return "run the command again"
	}
	return ""
}

// hintForDial is advice on a connection that did not come about.
func hintForDial(err error) string {
	var answer *client.HTTPError
	var authority x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	var suites *client.NoCommonSuiteError
	switch {
	case errors.As(err, &suites):
		return "offer one that it accepts: --suite " + strings.Join(suites.Accepted, ",")
	case errors.As(err, &answer):
		return hintForStatus(answer.Status)
	case errors.As(err, &authority):
		return "name the certificate of its authority with --ca FILE"
	case errors.As(err, &notTLS):
		return "the server does not speak TLS there: use ws://"
	case errors.Is(err, client.ErrNotGateway):
		return "is it the gateway's address? If TLS is spoken there, use wss://"
	case errors.Is(err, context.DeadlineExceeded):
		return "is the address right, and no firewall in between? --timeout allows for more time"
	case errors.Is(err, client.ErrUnreachable):
		return "is the gateway running, and the address right?"
	case errors.Is(err, session.ErrPostQuantumRequired):
		return "--post-quantum preferred goes on without it"
	case errors.Is(err, session.ErrHandshake):
		return "is --realm the gateway's? A proxy that changes the path or the offered suites looks the same"
	}
	return ""
}

func hintForStatus(status int) string {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return "try again later"
	case http.StatusForbidden:
		return "the gateway, or a proxy before it, does not let this client in; some want --header 'Origin: …'"
	case http.StatusNotFound:
		return "ticks are at the path /ws"
	}
	return "is it the gateway's address and path, such as ws://127.0.0.1:8080/ws?"
}
