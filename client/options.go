package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// Defaults of Options.
const (
	defaultRealm        = "default"
	defaultDialTimeout  = 10 * time.Second
	defaultWriteTimeout = 10 * time.Second
)

// Options say how to connect. The zero value plus Pins is what most want.
// Nothing in it is changed by this package, so that one value serves many dials.
type Options struct {
	// Suites to offer, in order of preference; nil means DefaultSuites. Plain
	// can only stand alone.
	Suites []suite.ID
	// Pins are the public keys of which the gateway must have one.
	Pins []session.PublicKey
	// Insecure accepts any key when there are no Pins: whoever answers can
	// read and write everything, a token included.
	Insecure bool
	// PostQuantum says whether ML-KEM-768 joins the key agreement.
	PostQuantum session.PostQuantum
	// Rekey says when to change the sending key; zero fields mean the protocol's maximum.
	Rekey record.Limits
	// Ticket of an earlier connection (Conn.Ticket) saves the gateway's static
	// key operation and the token's verification. It works once; used, expired
	// or refused, it costs a round trip, and a full handshake follows on the
	// same connection. nil means a full handshake.
	Ticket *session.ClientTicket
	// Codecs that the gateway may compress batches with, in order of preference;
	// nil means DefaultCodecs. CodecNone alone asks for no compression.
	// CodecZstdDict works with a gateway that has a dictionary.
	Codecs []wire.Codec
	// MaxBatch bounds what a compressed batch may become, in bytes; 0 means 16 MiB.
	MaxBatch int
	// NoGroups asks that every record be sealed for this connection alone, also
	// where the gateway seals batches once for a group of clients with the same
	// subscriptions. In a group, another member that can also change bytes on the
	// way could put ticks of its own in the place of others, until the gateway's
	// next message to this client uncovers it, at the latest its heartbeat.
	NoGroups bool
	// Realm is the gateway's configured name; "" means "default".
	Realm string
	// Token authenticates the client, if the gateway asks for that.
	Token string
	// TokenSource is asked for a token instead, for each connection, and by a
	// Client also before a token expires. Its context ends with the dial, or with
	// the Client. Calls may overlap.
	TokenSource func(ctx context.Context) (string, error)
	// Name and Version of the application, for the gateway's operators.
	Name, Version string

	// TLSConfig is for wss URLs; nil means the system's roots.
	TLSConfig *tls.Config
	// Header is added to the upgrade request. Host replaces the URL's.
	Header http.Header
	// NetDial opens the TCP connection; nil means a net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)

	// DialTimeout bounds everything until the connection is ready; 0 means 10 s.
	DialTimeout time.Duration
	// WriteTimeout bounds each message to the gateway; 0 means 10 s.
	WriteTimeout time.Duration
	// Backoff is how a Client reconnects.
	Backoff Backoff
	// Rand is the source of randomness; nil means crypto/rand. Dials that run at
	// the same time read it at the same time.
	Rand io.Reader
}

// DefaultSuites is what is offered unless told otherwise: AES first where this
// processor has instructions for it, ChaCha20-Poly1305 first elsewhere.
func DefaultSuites() []suite.ID {
	if suite.Detect().AES {
		return []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305}
	}
	return []suite.ID{suite.ChaCha20Poly1305, suite.AES128GCM, suite.AES256GCM}
}

// DefaultCodecs is what is offered unless told otherwise.
func DefaultCodecs() []wire.Codec {
	return []wire.Codec{wire.CodecZstd, wire.CodecSnappy, wire.CodecNone}
}

// withDefaults returns the options with every default filled in, or ErrOptions.
func (o Options) withDefaults() (Options, error) {
	if o.Suites == nil {
		o.Suites = DefaultSuites()
	}
	if err := checkSuites(o.Suites); err != nil {
		return o, err
	}
	if o.Codecs == nil {
		o.Codecs = DefaultCodecs()
	}
	if err := checkCodecs(o.Codecs); err != nil {
		return o, err
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = codec.DefaultLimit
	}
	for key := range o.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(key), "Sec-Websocket-") {
			return o, fmt.Errorf("%w: header %s belongs to the protocol", ErrOptions, key)
		}
	}
	if o.Realm == "" {
		o.Realm = defaultRealm
	}
	o.DialTimeout = o.dialTimeout()
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return o, nil
}

func (o *Options) dialTimeout() time.Duration {
	if o.DialTimeout <= 0 {
		return defaultDialTimeout
	}
	return o.DialTimeout
}

func checkSuites(suites []suite.ID) error {
	if len(suites) == 0 {
		return fmt.Errorf("%w: no suite to offer", ErrOptions)
	}
	for i, id := range suites {
		switch {
		case !id.Valid():
			return fmt.Errorf("%w: %v is not a suite", ErrOptions, id)
		case slices.Contains(suites[:i], id):
			return fmt.Errorf("%w: suite %v is offered twice", ErrOptions, id)
		case id == suite.Plain && len(suites) > 1:
			return fmt.Errorf("%w: plain cannot be offered beside another suite", ErrOptions)
		}
	}
	return nil
}

func checkCodecs(codecs []wire.Codec) error {
	for i, id := range codecs {
		switch {
		case id > wire.CodecZstdDict:
			return fmt.Errorf("%w: %v is not known", ErrOptions, id)
		case slices.Contains(codecs[:i], id):
			return fmt.Errorf("%w: codec %v is offered twice", ErrOptions, id)
		}
	}
	return nil
}

// endpoint is a parsed gateway URL.
type endpoint struct {
	url      *url.URL
	secure   bool
	hostname string // for the certificate
	address  string // host:port
}

// parseEndpoint reads a ws or wss URL. An empty path becomes defaultPath.
func parseEndpoint(raw, defaultPath string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return endpoint{}, fmt.Errorf("%w: address: %v", ErrOptions, err)
	}
	port := "80"
	switch u.Scheme {
	case "ws":
	case "wss":
		port = "443"
	default:
		return endpoint{}, fmt.Errorf("%w: address %q does not begin with ws:// or wss://", ErrOptions, u.Redacted())
	}
	switch {
	case u.Hostname() == "":
		return endpoint{}, fmt.Errorf("%w: address %q names no host", ErrOptions, u.Redacted())
	case u.User != nil:
		return endpoint{}, fmt.Errorf("%w: address %q holds a user name; use a token or a header", ErrOptions, u.Redacted())
	case u.Fragment != "":
		return endpoint{}, fmt.Errorf("%w: address %q has a fragment, which WebSocket does not know", ErrOptions, u.Redacted())
	}
	if u.Port() != "" {
		port = u.Port()
	}
	if u.Path == "" || u.Path == "/" {
		u.Path, u.RawPath = defaultPath, ""
	}
	return endpoint{
		url:      u,
		secure:   u.Scheme == "wss",
		hostname: u.Hostname(),
		address:  net.JoinHostPort(strings.ToLower(u.Hostname()), port),
	}, nil
}

// Address is the host and port that a gateway's URL names, in the form in which
// known keys are filed: lower case, the port always there.
func Address(url string) (string, error) {
	e, err := parseEndpoint(url, pushPath)
	return e.address, err
}
