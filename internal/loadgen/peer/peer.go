// Package peer is one client of a gateway as a load generator plays it: bytes
// in, bytes out, at the cost of a few nanoseconds beside the cryptography. It
// opens no socket, starts no goroutine and reads no clock. Unlike package
// client it never waits, so that thousands of peers share an event loop.
//
// Everything that arrives is verified: frames, records, the order of records by
// their tags, and in the push role the sequence of every topic.
package peer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Config is what the peers of one kind share. It must not change while one uses it.
type Config struct {
	Host string // for the upgrade request
	Path string
	// Role and Suite make a Sealcast session; without a role the peer is an
	// ordinary WebSocket client.
	Role    session.Role
	Suite   suite.ID
	Realm   string
	Session *session.ClientConfig
	Header  string // further lines of the upgrade request, each ending with CRLF
	Token   string
	Codecs  []wire.Codec // for batches, best first
}

// Shared is what the peers of one event loop share. It belongs to the loop.
type Shared struct {
	Ciphers *record.Pool
	Unix    int64 // coarse time in seconds, kept by the loop
	room    []byte
	reader  reader
}

// NewShared makes a loop's share for so many peers, each with keys for both
// directions and one for the group that it may be in: a pool that is too small
// expands a key for each record.
func NewShared(peers int) *Shared {
	return &Shared{Ciphers: record.NewPool(3*peers+2, 0)}
}

// Advance tells the time, in seconds on any steady clock.
func (s *Shared) Advance(unix int64) {
	if unix != s.Unix {
		s.Unix = unix
		s.Ciphers.Advance(unix)
	}
}

// Handler hears what a peer has received. Its methods may append to the
// connection's output, which they know of.
type Handler interface {
	// Ready says that messages may be sent.
	Ready() error
	// Message hands over one message, opened, valid during the call, and the kind
	// of record that it came in (0: none). An error ends the peer.
	Message(kind wire.Kind, plaintext []byte) error
}

// phase is how far a peer has come; it only moves forwards.
type phase uint8

const (
	upgrading phase = iota
	agreeing
	ready
	over
)

// Peer is one client. It belongs to one loop.
type Peer struct {
	cfg    *Config
	shared *Shared
	ticket *session.ClientTicket // to begin with; nil: a full handshake
	sess   *session.Session      // nil: an ordinary WebSocket client, or before the upgrade
	mask   [4]byte
	phase  phase
}

// New makes a peer that has sent nothing yet. mask is the key of all its
// frames: it hides nothing here, and one for each frame would be measured too.
func New(cfg *Config, shared *Shared, mask [4]byte) *Peer {
	return &Peer{cfg: cfg, shared: shared, mask: mask}
}

// Resume makes the peer begin its session with a ticket. It is called before Begin.
func (p *Peer) Resume(t *session.ClientTicket) { p.ticket = t }

// Session is the peer's session once the upgrade is done; nil for an ordinary WebSocket client.
func (p *Peer) Session() *session.Session { return p.sess }

// IsReady tells whether messages can be sent.
func (p *Peer) IsReady() bool { return p.phase == ready }

// Close forgets the session's keys.
func (p *Peer) Close() {
	p.phase = over
	if p.sess != nil {
		p.sess.Close()
	}
}

// Begin appends the upgrade request.
func (p *Peer) Begin(dst []byte) []byte {
	dst = fmt.Appendf(dst, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", p.cfg.Path, p.cfg.Host, p.key())
	if p.cfg.Role != 0 {
		dst = fmt.Appendf(dst, "Sec-WebSocket-Protocol: %s\r\n", p.cfg.Suite.Protocol())
	}
	return append(append(dst, p.cfg.Header...), "\r\n"...)
}

// Receive takes what has arrived, unmasked as servers send, and changes it in
// place. It appends answers to *out and returns how much of b is dealt with; the
// rest belongs to a message that is not complete. An error, always an *Error,
// ends the peer.
func (p *Peer) Receive(out *[]byte, b []byte, h Handler) (n int, err error) {
	for n < len(b) && p.phase != over {
		var took int
		if p.phase == upgrading {
			took, err = p.upgraded(out, b[n:], h)
		} else {
			took, err = p.frame(out, b[n:], h)
		}
		n += took
		if err != nil || took == 0 {
			break
		}
	}
	if err != nil {
		p.Close()
	}
	return n, err
}

// MaxMessage is the longest message that a server may send.
const MaxMessage = wire.MaxServerPlaintext + 4<<10

// frame takes one frame from the front of b, if it is complete.
func (p *Peer) frame(out *[]byte, b []byte, h Handler) (int, error) {
	if len(b) < 2 {
		return 0, nil
	}
	head, size := 2, int(b[1])
	switch {
	case b[1]&0x80 != 0 || b[0]&0xf0 != 0x80:
		return 0, failf(KindFrame, "a frame that is masked, in parts or extended: % x", b[:2])
	case size == 126 && len(b) >= 4:
		head, size = 4, int(binary.BigEndian.Uint16(b[2:]))
	case size == 127 && len(b) >= 10:
		head, size = 10, int(min(binary.BigEndian.Uint64(b[2:]), MaxMessage+1))
	case size >= 126:
		return 0, nil
	}
	if size > MaxMessage {
		return 0, failf(KindFrame, "a frame of more than %d bytes", MaxMessage)
	}
	if len(b) < head+size {
		return 0, nil
	}
	payload := b[head : head+size : head+size]
	return head + size, p.event(out, ws.OpCode(b[0]&0x0f), payload, h)
}

func (p *Peer) event(out *[]byte, op ws.OpCode, payload []byte, h Handler) error {
	switch op {
	case ws.OpPing:
		*out = p.appendFrame(*out, ws.OpPong, payload)
		return nil
	case ws.OpPong:
		return nil
	case ws.OpClose:
		return closedBy(payload)
	case ws.OpBinary, ws.OpText:
	default:
		return failf(KindFrame, "a frame with opcode %d", op)
	}
	switch {
	case p.sess == nil:
		return h.Message(0, payload)
	case p.phase == agreeing:
		return p.agree(out, payload, h)
	}
	kind, plaintext, err := p.sess.Open(payload)
	switch {
	case err != nil:
		return &Error{KindRecord, err}
	case kind == wire.KindGoodbye:
		return goodbye(plaintext)
	case kind == wire.KindKeyUpdate:
		return nil
	}
	return h.Message(kind, plaintext)
}

// agree takes a message of the handshake. Its arithmetic runs right here: who
// measures something else connects before that.
func (p *Peer) agree(out *[]byte, msg []byte, h Handler) error {
	job, err := p.sess.Receive(msg)
	if err != nil {
		return handshakeFailed(err)
	}
	if err := p.step(out, job); err != nil || !p.sess.Established() {
		return err
	}
	p.phase = ready
	return h.Ready()
}

// step runs a job of the handshake and sends what comes of it.
func (p *Peer) step(out *[]byte, job *session.Job) error {
	job.Run()
	reply, err := p.sess.Complete(job)
	if err != nil {
		return handshakeFailed(err)
	}
	if reply != nil {
		*out = p.appendFrame(*out, ws.OpBinary, reply)
	}
	return nil
}

func handshakeFailed(err error) error {
	if errors.As(err, new(*session.PinError)) {
		return &Error{KindKey, err}
	}
	return &Error{KindHandshake, err}
}

// AppendMessage appends one message, sealed and masked. The peer must be
// ready. It keeps neither dst nor plaintext, and allocates nothing if dst has room.
func (p *Peer) AppendMessage(dst, plaintext []byte) []byte {
	if p.sess == nil {
		return p.appendFrame(dst, ws.OpBinary, plaintext)
	}
	if p.sess.RekeyDue(p.shared.Unix) {
		dst = p.appendHeader(dst, ws.OpBinary, p.sess.SealedSize(0))
		start := len(dst)
		dst = p.sess.AppendKeyUpdate(dst, p.shared.Unix)
		ws.Cipher(dst[start:], p.mask, 0)
	}
	return p.appendRecord(dst, wire.KindRecord, plaintext)
}

func (p *Peer) appendRecord(dst []byte, kind wire.Kind, plaintext []byte) []byte {
	dst = p.appendHeader(dst, ws.OpBinary, p.sess.SealedSize(len(plaintext)))
	start := len(dst)
	dst = p.sess.Seal(dst, kind, plaintext)
	ws.Cipher(dst[start:], p.mask, 0)
	return dst
}

// AppendLeave appends an orderly end: a sealed goodbye, then the close frame.
func (p *Peer) AppendLeave(dst []byte) []byte {
	if p.sess != nil && p.phase == ready {
		if text, err := wire.AppendGoodbye(nil, &wire.Goodbye{Code: uint32(wire.CloseNormal)}); err == nil {
			dst = p.appendRecord(dst, wire.KindGoodbye, text)
		}
	}
	return p.appendFrame(dst, ws.OpClose, binary.BigEndian.AppendUint16(nil, uint16(wire.CloseNormal)))
}

// AppendRaw appends a frame with a payload as it is, sealed by nobody: what a
// client that breaks the rules sends.
func (p *Peer) AppendRaw(dst []byte, op ws.OpCode, payload []byte) []byte {
	return p.appendFrame(dst, op, payload)
}

func (p *Peer) appendFrame(dst []byte, op ws.OpCode, payload []byte) []byte {
	dst = p.appendHeader(dst, op, len(payload))
	start := len(dst)
	dst = append(dst, payload...)
	ws.Cipher(dst[start:], p.mask, 0)
	return dst
}

// appendHeader appends the header of a masked frame of n bytes (RFC 6455 section 5.2).
func (p *Peer) appendHeader(dst []byte, op ws.OpCode, n int) []byte {
	dst = append(dst, 0x80|byte(op))
	switch {
	case n < 126:
		dst = append(dst, 0x80|byte(n))
	case n <= 0xffff:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	return append(dst, p.mask[:]...)
}
