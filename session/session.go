// Package session is one connection's protocol state, of a gateway or of a
// client: the handshake, the key schedule, then messages to records and back.
// It never touches a socket, starts no goroutine and reads no clock.
//
// A Session belongs to one goroutine or event loop, and so does its
// record.Pool. The handshake's arithmetic comes out as a Job, which any
// goroutine may run.
package session

import (
	"errors"
	"fmt"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// Session is one connection's protocol state. See the package comment for who
// may call it. A gateway has one for each client, most of them idle: what is not
// needed for records stands behind pointers that are nil then.
type Session struct {
	pool  *record.Pool
	suite suite.ID
	phase phase
	flags peerFlags
	hs    *handshake // until established
	past  *past      // from then on; a gateway's until it has made a ticket
	send  record.Sealer
	recv  record.Opener
}

// past is what is kept of the handshake, and of the session's end.
type past struct {
	gateway *GatewayConfig // of a gateway's session, else nil
	realm   string
	resume  record.Secret
	full    int64               // gateway: Unix seconds of the full handshake behind the tickets
	grant   *Grant              // gateway: of the ticket that the session began with
	static  PublicKey           // client: the gateway's
	group   *record.GroupOpener // client: the group that it is in, else nil
	err     *Error              // the first cause of the end
}

// peerFlags are PeerInfo's flags.
type peerFlags struct{ pinned, hardwareAES, hybrid, resumed bool }

// PeerInfo is what the handshake told about the other side.
type PeerInfo struct {
	Static      PublicKey // client only: the gateway's key
	Pinned      bool      // client only: the key matches a pin
	HardwareAES bool      // client only: the gateway has AES in hardware
	Hybrid      bool      // the agreement includes ML-KEM-768
	Resumed     bool      // by a ticket
}

// Job is one step of handshake arithmetic. Run may be called once, by any
// goroutine; then the session's owner passes the job to Complete.
type Job struct {
	step  func(*handshake, []byte) ([]byte, *agreed, error)
	hs    *handshake
	msg   []byte
	reply []byte
	out   *agreed
	err   error
}

// Run does the arithmetic. It touches nothing of the session.
func (j *Job) Run() { j.reply, j.out, j.err = j.step(j.hs, j.msg) }

// Refusal is why the gateway refused to resume, for its log; nil otherwise. It
// may be asked once Run is done.
func (j *Job) Refusal() error {
	var r *refusal
	if errors.As(j.err, &r) {
		return r.cause
	}
	return nil
}

// NewGateway makes the gateway's side of a session, which waits for
// HandshakeInit. It keeps cfg and pool. It fails with ErrBinding, or when cfg
// has no key or impossible limits.
func NewGateway(cfg *GatewayConfig, pool *record.Pool, b Binding) (*Session, error) {
	if cfg.Key == nil {
		return nil, fmt.Errorf("gateway session: no static key")
	}
	s, err := newSession(pool, b, cfg.Limits)
	if err != nil {
		return nil, err
	}
	s.phase, s.hs.gateway = phaseAwaitInit, cfg
	return s, nil
}

// NewClient makes the client's side of a session; Start begins it. It keeps
// cfg and pool. It fails with ErrBinding, which a wrong selection by the
// gateway is too, or when cfg has impossible limits.
func NewClient(cfg *ClientConfig, pool *record.Pool, b Binding) (*Session, error) {
	s, err := newSession(pool, b, cfg.Limits)
	if err != nil {
		return nil, err
	}
	s.phase, s.hs.client = phaseNew, cfg
	return s, nil
}

func newSession(pool *record.Pool, b Binding, limits record.Limits) (*Session, error) {
	id, err := b.check()
	if err != nil {
		return nil, err
	}
	if err := limits.Check(); err != nil {
		return nil, err
	}
	return &Session{
		pool:  pool,
		suite: id,
		hs:    &handshake{suite: id, realm: b.Realm, prologue: b.prologue(), limits: limits},
	}, nil
}

// Start begins a client's handshake: Complete on its job returns HandshakeInit.
func (s *Session) Start() (*Job, error) {
	if err := s.move(eventStart); err != nil {
		return nil, err
	}
	return s.newJob((*handshake).writeInit, nil), nil
}

// Receive takes a message while the session is not established. It keeps no
// reference to msg. The message's kind and exact length are checked here,
// before any arithmetic; while a job is out every further message is refused.
func (s *Session) Receive(msg []byte) (*Job, error) {
	e := eventOf(msg)
	if e < eventInit || e > eventResumeRefused {
		return nil, s.unexpected(msg)
	}
	if err := s.move(e); err != nil {
		return nil, err
	}
	hybrid, ok := checkSize(msg)
	if !ok {
		return nil, s.fail(failed(fmt.Errorf("%w: handshake message of %d bytes", ErrMalformed, len(msg))))
	}
	switch e {
	case eventInit:
		if !hybrid && s.hs.gateway.PostQuantum == PostQuantumRequired {
			return nil, s.fail(refused(ErrPostQuantumRequired, "post-quantum key agreement required"))
		}
		return s.newJob((*handshake).answer, msg), nil
	case eventResumeInit:
		return s.newJob((*handshake).answerResume, msg), nil
	case eventResumeRefused:
		s.hs.ticket = nil
		return s.newJob((*handshake).writeInit, nil), nil
	}
	if hybrid && s.hs.kem == nil {
		return nil, s.fail(failed(fmt.Errorf("%w: hybrid reply to a classical offer", ErrMalformed)))
	}
	if e == eventResumeReply {
		return s.newJob((*handshake).readResumeReply, msg), nil
	}
	return s.newJob((*handshake).readReply, msg), nil
}

// newJob hands the handshake over to a job, with a copy of the message.
func (s *Session) newJob(step func(*handshake, []byte) ([]byte, *agreed, error), msg []byte) *Job {
	s.hs.job = &Job{step: step, hs: s.hs, msg: append([]byte(nil), msg...)}
	return s.hs.job
}

// Complete takes back the session's job after its Run. reply, if not nil, is
// the message to send. Afterwards Established may be true. On a session that
// was closed meanwhile it fails with ErrClosed.
func (s *Session) Complete(j *Job) (reply []byte, err error) {
	if s.hs == nil || s.hs.job != j {
		if j.out != nil {
			j.out.clear(s.pool)
		}
		return nil, errClosed
	}
	s.hs.job = nil
	done := eventJobDone
	if j.Refusal() != nil {
		done = eventJobRefused
	} else if j.err != nil {
		return nil, s.fail(handshakeError(j.err))
	}
	if err := s.move(done); err != nil {
		return nil, err
	}
	if j.out != nil {
		s.send, s.recv, s.past, s.flags = j.out.send, j.out.recv, j.out.past, j.out.flags
		j.out.send.Clear(s.pool)
		j.out.recv.Clear(s.pool)
		s.hs = nil
	}
	return j.reply, nil
}

// handshakeError keeps a refusal as it is and makes the rest one failure.
func handshakeError(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return failed(fmt.Errorf("%w: %w", ErrHandshake, err))
}

// Established reports whether records can be sealed: the handshake is done
// and the session neither failed nor was closed.
func (s *Session) Established() bool { return s.phase >= phaseUnproven && s.phase <= phaseEnded }

// Peer tells what the handshake said of the other side, once established.
func (s *Session) Peer() PeerInfo {
	info := PeerInfo{Pinned: s.flags.pinned, HardwareAES: s.flags.hardwareAES, Hybrid: s.flags.hybrid, Resumed: s.flags.resumed}
	if s.past != nil {
		info.Static = s.past.static
	}
	return info
}

// Suite is the session's record protection.
func (s *Session) Suite() suite.ID { return s.suite }

// Err is the first cause of the session's end, for the log; nil while it lives
// and after a Close without failure.
func (s *Session) Err() error {
	if s.past == nil || s.past.err == nil {
		return nil
	}
	return s.past.err
}

// SealedSize is the size of the message that Seal makes of n bytes.
func (s *Session) SealedSize(n int) int { return s.suite.Overhead() + 1 + n }

// Seal appends one message to dst: kind (KindRecord or KindGoodbye),
// ciphertext, tag. plaintext may be dst's own room, exactly from
// dst[len(dst)+1:]; then Seal works in place. It allocates nothing when dst
// has room for SealedSize(len(plaintext)) bytes, and keeps no reference.
//
// Call RekeyDue before it. Seal panics when the session is not Established:
// plaintext must never leave unprotected.
func (s *Session) Seal(dst []byte, kind wire.Kind, plaintext []byte) []byte {
	if kind != wire.KindRecord && kind != wire.KindGoodbye {
		panic(fmt.Sprintf("session: Seal of kind %#x", byte(kind)))
	}
	return s.send.Seal(s.pool, dst, byte(kind), plaintext)
}

// RekeyDue reports whether AppendKeyUpdate is due before the next record. now
// is a coarse time in seconds.
func (s *Session) RekeyDue(now int64) bool { return s.send.RekeyDue(now) }

// AppendKeyUpdate appends a KeyUpdate, which is a message of its own, and
// changes this direction's key. It panics as Seal does.
func (s *Session) AppendKeyUpdate(dst []byte, now int64) []byte {
	dst = s.send.Seal(s.pool, dst, byte(wire.KindKeyUpdate), nil)
	s.send.Rekey(s.pool, now)
	return dst
}

// Open opens a message of an established session, in place: the plaintext is
// a part of msg. KeyUpdate is dealt with inside and returned as its kind
// without plaintext. A client passes what it makes of a record's plaintext to
// Admit before anything else. After Goodbye nothing more is taken. Every failure
// ends the session, and a peer cannot tell one from another.
func (s *Session) Open(msg []byte) (wire.Kind, []byte, error) {
	e := eventOf(msg)
	if e < eventRecord {
		return 0, nil, s.unexpected(msg)
	}
	if err := s.move(e); err != nil {
		return 0, nil, err
	}
	if e == eventGroupRecord {
		plaintext, err := s.openGroup(msg)
		if err != nil {
			return 0, nil, s.fail(failed(fmt.Errorf("%w: %w", ErrRecord, err)))
		}
		return wire.KindGroupRecord, plaintext, nil
	}
	// A KeyUpdate under an unused key would make the receiver derive keys for nothing.
	idle := e == eventKeyUpdate && s.recv.Fresh()
	plaintext, err := s.recv.Open(s.pool, msg)
	switch {
	case err != nil:
		return 0, nil, s.fail(failed(fmt.Errorf("%w: %w", ErrRecord, err)))
	case idle:
		return 0, nil, s.fail(failed(fmt.Errorf("%w: key update under an unused key", ErrRecord)))
	case e == eventRecord:
		return wire.KindRecord, plaintext, nil
	case e == eventGoodbye:
		if err := s.settled(); err != nil {
			return 0, nil, err
		}
		return wire.KindGoodbye, plaintext, nil
	case len(plaintext) != 0:
		return 0, nil, s.fail(failed(fmt.Errorf("%w: key update with content", ErrRecord)))
	}
	s.recv.Rekey(s.pool)
	return wire.KindKeyUpdate, nil, nil
}

// Settle lets go of what only resumption needs, as a gateway does once the client
// is let in: NewTicket and Resumed have nothing more to say afterwards.
func (s *Session) Settle() {
	if s.past != nil && s.past.gateway != nil {
		s.past.resume.Clear()
		s.past = nil
	}
}

// Close ends the session and overwrites its secrets, as far as Go lets them be
// found. It may be called at any time and more than once.
func (s *Session) Close() {
	s.phase = phaseClosed
	s.hs = nil
	s.send.Clear(s.pool)
	s.recv.Clear(s.pool)
	if s.past != nil {
		s.forgetGroup()
		s.past.resume.Clear()
		s.past.grant = nil
	}
}

// move goes on to the event's next phase, or ends the session.
func (s *Session) move(e event) error {
	next := moves[s.phase][e]
	if next == phaseNone {
		if s.phase == phaseClosed {
			return errClosed
		}
		return s.fail(failed(ErrUnexpected))
	}
	s.phase = next
	return nil
}

// unexpected ends the session because of a message of the wrong sort.
func (s *Session) unexpected(msg []byte) error {
	if s.phase == phaseClosed {
		return errClosed
	}
	if len(msg) == 0 {
		return s.fail(failed(fmt.Errorf("%w: empty message", ErrMalformed)))
	}
	return s.fail(failed(fmt.Errorf("%w: kind %#02x", ErrUnexpected, msg[0])))
}

// fail is the one way in which a session ends by failure: the first cause is
// kept and the secrets are overwritten.
func (s *Session) fail(e *Error) error {
	s.Close()
	if s.past == nil {
		s.past = new(past)
	}
	s.past.err = e
	return e
}
