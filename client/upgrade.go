package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
)

// Bounds of the answer to the upgrade request, in bytes.
const (
	maxResponse = 64 << 10
	maxBody     = 4 << 10
	maxText     = 300 // of the body, in an error
)

// bodyTimeout bounds the wait for the body of an answer that is no upgrade: not
// every server says where it ends.
const bodyTimeout = time.Second

// socket is an upgraded connection.
type socket struct {
	net.Conn
	early    []byte // read behind the gateway's answer
	protocol string // selected
}

// dialer opens one connection.
type dialer struct {
	endpoint
	opts   Options
	offers []string // subprotocol tokens, in order of preference
}

// open connects and upgrades, within ctx.
func (d *dialer) open(ctx context.Context) (*socket, error) {
	conn, err := d.connect(ctx) // dial 1
	if err != nil {
		return nil, err
	}
	release := interruptible(ctx, conn, net.Conn.SetDeadline)
	s, err := d.secureAndUpgrade(ctx, conn)
	release()
	if err != nil {
		conn.Close()
		return nil, err
	}
	if err := s.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return s, nil
}

// dial 1 — the TCP connection.
func (d *dialer) connect(ctx context.Context) (net.Conn, error) {
	dial := d.opts.NetDial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", d.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return conn, nil
}

func (d *dialer) secureAndUpgrade(ctx context.Context, conn net.Conn) (*socket, error) {
	if d.secure {
		secured, err := d.startTLS(ctx, conn) // dial 2
		if err != nil {
			return nil, err
		}
		conn = secured
	}
	return d.upgrade(ctx, conn) // dial 3
}

// dial 2 — TLS for wss. HTTP/1.1 is asked for because a WebSocket starts there.
func (d *dialer) startTLS(ctx context.Context, conn net.Conn) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.opts.TLSConfig != nil {
		config = d.opts.TLSConfig.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = d.hostname
	}
	if config.NextProtos == nil {
		config.NextProtos = []string{"http/1.1"}
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTLS, orContext(ctx, err))
	}
	return secured, nil
}

// dial 3 — the WebSocket upgrade. The selected subprotocol must be there, one of
// the offers (which ws.Dialer checks, as it refuses extensions), and nothing
// is offered anew after a failure.
func (d *dialer) upgrade(ctx context.Context, conn net.Conn) (*socket, error) {
	var refused error
	header := d.opts.Header.Clone()
	upgrader := ws.Dialer{
		Protocols: d.offers,
		Host:      header.Get("Host"),
		OnStatusError: func(status int, _ []byte, resp io.Reader) {
			_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // the connection is given up anyway
			refused = d.refusal(status, resp)
		},
	}
	header.Del("Host")
	if len(header) > 0 {
		upgrader.Header = ws.HandshakeHeaderHTTP(header)
	}
	// A dialer on its own would read headers without end.
	response := &io.LimitedReader{R: conn, N: maxResponse}
	bounded := struct {
		io.Reader
		io.Writer
	}{response, conn}
	ahead, result, err := upgrader.Upgrade(bounded, d.url)
	switch {
	case refused != nil:
		return nil, refused
	case err != nil && response.N <= 0:
		return nil, fmt.Errorf("%w: an answer without end to the upgrade request", ErrNotGateway)
	case err != nil:
		return nil, upgradeError(ctx, err)
	case result.Protocol == "":
		putBack(ahead)
		return nil, fmt.Errorf("%w: the server selected no subprotocol", ErrNotGateway)
	}
	return &socket{Conn: conn, early: putBack(ahead), protocol: result.Protocol}, nil
}

// putBack takes what a pooled reader has read ahead and returns the reader.
func putBack(ahead *bufio.Reader) []byte {
	if ahead == nil {
		return nil
	}
	early, _ := ahead.Peek(ahead.Buffered())
	early = slices.Clone(early)
	ws.PutReader(ahead)
	return early
}

// upgradeError tells a server that speaks something else from one that says nothing.
func upgradeError(ctx context.Context, err error) error {
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no answer to the upgrade request: %w", ErrUnreachable, ctx.Err())
	case errors.Is(err, io.EOF), errors.As(err, &network):
		return fmt.Errorf("%w: connection lost before an answer to the upgrade request: %w", ErrUnreachable, err)
	default:
		return fmt.Errorf("%w: %w", ErrNotGateway, err)
	}
}

// refusal makes an error of an answer other than 101.
func (d *dialer) refusal(status int, resp io.Reader) error {
	e := &HTTPError{Status: status}
	answer, err := http.ReadResponse(bufio.NewReader(resp), nil)
	if err != nil {
		return e
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxBody)) // what came is enough for an error
	if accepted := acceptedSuites(string(body)); status == http.StatusBadRequest && len(accepted) > 0 {
		return &NoCommonSuiteError{Offered: suiteNames(d.offers), Accepted: accepted}
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind == "text/plain" {
		e.Text = printable(string(body))
	}
	return e
}

var subprotocol = regexp.MustCompile(regexp.QuoteMeta(suite.SubprotocolPrefix) + `[a-z0-9-]+`)

// acceptedSuites finds the subprotocols that a refusal names.
func acceptedSuites(body string) []string {
	return suiteNames(subprotocol.FindAllString(body, suite.MaxOffers))
}

// suiteNames strips the prefix of subprotocol tokens and drops repetitions.
func suiteNames(tokens []string) []string {
	var names []string
	for _, token := range tokens {
		if name := strings.TrimPrefix(token, suite.SubprotocolPrefix); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// printable is text from a stranger, fit for one line of a terminal.
func printable(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > maxText {
		s = string(runes[:maxText]) + "…"
	}
	return s
}

// longAgo is a deadline that ends every read and write at once.
var longAgo = time.Unix(1, 0)

// interruptible makes the end of ctx set a deadline that has passed. The
// function it returns stops that; once it has returned, no deadline is set any
// more, and the caller sets its own before the next use.
func interruptible(ctx context.Context, conn net.Conn, setDeadline func(net.Conn, time.Time) error) (release func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = setDeadline(conn, longAgo) // fails only on a closed connection, which ends the call too
		close(done)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// orContext is the reason why ctx ended, if it did, else err.
func orContext(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
