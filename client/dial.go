package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Paths of a gateway's endpoints.
const (
	pushPath = "/ws"
	echoPath = "/echo"
)

// connectSize is what the plaintext of Connect is padded to, so that the length
// of a token does not show.
const connectSize = 1 << 10

// Info is what became known of the gateway while connecting.
type Info struct {
	Suite      suite.ID          // protects the records
	Key        session.PublicKey // the gateway's; only worth something if Pinned
	Pinned     bool              // Key is one of the pins
	Hybrid     bool              // the key agreement included ML-KEM-768
	GatewayAES bool              // the gateway has AES in hardware, it says
	Resumed    bool              // Options.Ticket was taken

	// Of a Conn only, from the gateway's Connected.
	Session           string     // names the connection in the gateway's logs
	User              string     // authenticated subject; empty without authentication
	Version           string     // of the gateway
	Codec             wire.Codec // batches may be compressed with it
	HeartbeatInterval time.Duration
	HeartbeatTimeout  time.Duration
	MaxMessage        int       // bytes of one message to the gateway; 0: not told
	MaxSubscriptions  int       // 0: not told
	ExpiresAt         time.Time // of the token: the session ends then unless Refresh comes before; zero: never
	Groups            bool      // batches may be sealed once for this session and others, see Options.NoGroups
}

// Dial connects to a gateway's endpoint for ticks, verifies its key and
// introduces itself. The URL is ws://host:port/ws or wss://…; an empty path
// means /ws. It fails with one of the errors of this package, within ctx and
// Options.DialTimeout, and leaves nothing behind then.
func Dial(ctx context.Context, url string, opts Options) (*Conn, error) {
	d, err := newDialer(url, pushPath, opts)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(d.url.Path, echoPath) {
		return nil, fmt.Errorf("%w: %s is an echo endpoint; ticks come from %s", ErrOptions, d.url.Path, pushPath)
	}
	ctx, cancel := d.timeLimit(ctx)
	defer cancel()
	if d.opts.Token, err = d.opts.token(ctx); err != nil {
		return nil, err
	}
	l, err := d.dial(ctx, session.RolePush)
	if err != nil {
		return nil, err
	}
	if err := l.connect(ctx, &d.opts); err != nil {
		return nil, d.inTime(ctx, l, err)
	}
	return newConn(l), nil
}

// DialEcho connects to a gateway's echo endpoint, as Dial does to that for
// ticks. An empty path means /echo.
func DialEcho(ctx context.Context, url string, opts Options) (*Echo, error) {
	d, err := newDialer(url, echoPath, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := d.timeLimit(ctx)
	defer cancel()
	l, err := d.dial(ctx, session.RoleEcho)
	if err != nil {
		return nil, err
	}
	return &Echo{link: l}, nil
}

// token is what Connect carries.
func (o *Options) token(ctx context.Context) (string, error) {
	if o.TokenSource == nil {
		return o.Token, nil
	}
	token, err := o.TokenSource(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	return token, nil
}

func newDialer(url, defaultPath string, opts Options) (*dialer, error) {
	e, err := parseEndpoint(url, defaultPath)
	if err != nil {
		return nil, err
	}
	opts, err = opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &dialer{endpoint: e, opts: opts}
	for _, id := range opts.Suites {
		d.offers = append(d.offers, id.Protocol())
	}
	return d, nil
}

func (d *dialer) timeLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d.opts.DialTimeout)
}

// dial opens a connection and agrees on keys.
func (d *dialer) dial(ctx context.Context, role session.Role) (*link, error) {
	s, err := d.open(ctx) // dial 1–3
	if err != nil {
		return nil, err
	}
	binding := session.Binding{Role: role, Realm: d.opts.Realm, Offered: d.offers, Selected: s.protocol}
	sess, err := session.NewClient(&session.ClientConfig{
		Pins:        d.opts.Pins,
		Insecure:    d.opts.Insecure && len(d.opts.Pins) == 0,
		PostQuantum: d.opts.PostQuantum,
		Limits:      d.opts.Rekey,
		Rand:        d.opts.Rand,
	}, record.NewPool(2, 0), binding)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	l, err := newLink(s, sess, &d.opts)
	if err != nil {
		s.Close()
		return nil, err
	}
	if err := l.handshake(ctx, d.opts.Ticket); err != nil { // dial 4
		return nil, d.inTime(ctx, l, err)
	}
	return l, nil
}

// inTime ends a connection that did not get ready. A time limit is told as such.
func (d *dialer) inTime(ctx context.Context, l *link, err error) error {
	l.finish(ErrClosed, 0, "")
	if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
		return fmt.Errorf("%w: no answer in time: %w", ErrUnreachable, cause)
	}
	var closed *ClosedError
	var failure *session.Error
	if errors.As(err, &closed) && errors.As(closed.Err, &failure) {
		return failure // nothing was cut: the two sides do not fit together
	}
	return err
}

// dial 4 — the handshake. The session's arithmetic runs right here.
func (l *link) handshake(ctx context.Context, ticket *session.ClientTicket) error {
	if err := l.reading.take(ctx); err != nil {
		return err
	}
	defer l.reading.give()
	job, err := l.sess.Resume(ticket)
	for {
		if err != nil {
			return l.violated(err)
		}
		job.Run()
		var reply []byte
		if reply, err = l.sess.Complete(job); err != nil {
			return l.violated(err)
		}
		if reply != nil {
			if err := l.writeHandshake(ctx, reply); err != nil {
				return err
			}
		}
		if l.sess.Established() {
			l.noteSession()
			return nil
		}
		msg, err2 := l.readMessage(ctx)
		if err2 != nil {
			return err2
		}
		job, err = l.sess.Receive(msg)
	}
}

// writeHandshake sends a message that is not a record.
func (l *link) writeHandshake(ctx context.Context, msg []byte) error {
	if err := l.writing.take(ctx); err != nil {
		return err
	}
	defer l.writing.give()
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.writeTimeout)) // fails only when closed, as the write then does
	defer interruptible(ctx, l.conn, net.Conn.SetWriteDeadline)()
	if err := l.writeFrame(ws.OpBinary, append(l.room(), msg...)); err != nil {
		return l.finish(&ClosedError{Err: orContext(ctx, err)}, 0, "")
	}
	return nil
}

func (l *link) noteSession() {
	peer := l.sess.Peer()
	l.info.Suite = l.sess.Suite()
	l.info.Key = peer.Static
	l.info.Pinned = peer.Pinned
	l.info.Hybrid = peer.Hybrid
	l.info.GatewayAES = peer.HardwareAES
	l.info.Resumed = peer.Resumed
}

// connect introduces this client: dial 5.
func (l *link) connect(ctx context.Context, opts *Options) error {
	f := &wire.ClientFrame{Message: &wire.ClientFrame_Connect{Connect: &wire.Connect{
		Token:         opts.Token,
		Codecs:        codecNumbers(opts.Codecs),
		ClientName:    opts.Name,
		ClientVersion: opts.Version,
		Groups:        !opts.NoGroups,
	}}}
	err := l.write(ctx, wire.KindRecord, func(dst []byte) ([]byte, error) {
		return wire.AppendClientFrame(dst, f, connectSize)
	})
	if err != nil {
		return err
	}
	if err := l.reading.take(ctx); err != nil {
		return err
	}
	defer l.reading.give()
	_, plaintext, err := l.readRecord(ctx)
	if err != nil {
		return err
	}
	answer, err := wire.ParseServerFrame(plaintext)
	if err != nil {
		return l.violated(err)
	}
	connected := answer.GetConnected()
	if connected == nil {
		return l.violated(fmt.Errorf("%w: the first message is not Connected", wire.ErrFrame))
	}
	if err := l.unpack.agree(connected, opts); err != nil {
		return l.violated(err)
	}
	l.noteConnected(connected)
	return l.keepTicket(connected)
}

// keepTicket makes the ticket of a later connection, if the gateway gives one.
func (l *link) keepTicket(c *wire.Connected) error {
	if len(c.GetTicket()) == 0 {
		return nil
	}
	if len(c.GetTicketNonce()) != record.PSKNonceSize {
		return l.violated(fmt.Errorf("%w: ticket nonce of %d bytes", wire.ErrFrame, len(c.GetTicketNonce())))
	}
	l.crypto.Lock()
	defer l.crypto.Unlock()
	ticket, err := l.sess.Keep(c.GetTicket(), [record.PSKNonceSize]byte(c.GetTicketNonce()))
	if err != nil {
		return l.violated(err)
	}
	l.ticket = ticket
	return nil
}

func (l *link) noteConnected(c *wire.Connected) {
	l.info.Session = printable(c.GetSession())
	l.info.User = printable(c.GetUser())
	l.info.Version = printable(c.GetVersion())
	l.info.Codec = wire.Codec(c.GetCodec())
	l.info.HeartbeatInterval = time.Duration(c.GetHeartbeatIntervalMs()) * time.Millisecond
	l.info.HeartbeatTimeout = time.Duration(c.GetHeartbeatTimeoutMs()) * time.Millisecond
	l.info.MaxMessage = atMost31(c.GetLimits().GetMessageBytes())
	l.info.ExpiresAt = unixTime(c.GetExpiresAtS())
	l.info.MaxSubscriptions = atMost31(c.GetLimits().GetSubscriptions())
	l.info.Groups = c.GetGroups()
	l.silence = l.info.HeartbeatTimeout
	l.maxPlaintext = l.info.MaxMessage
}

// atMost31 is a number that an int of 32 bits holds, too.
func atMost31(n uint32) int { return int(min(n, math.MaxInt32)) }
