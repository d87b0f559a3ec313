package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/flynn/noise"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/wire"
)

// Resumption is Noise_NNpsk0_25519_ChaChaPoly_SHA256, the client being the
// initiator and the psk coming from the ticket:
//
//	-> psk, e            payload ClientHello, encrypted
//	<- e, ee             payload ServerHello, encrypted
//
// step 1  client   writeResume      Resume's job
// step 2  gateway  answerResume     Receive's job; every failure is ResumeRefused
// step 3  client   readResumeReply  Receive's job; or writeInit after ResumeRefused
//
// A recorded ResumeInit can be replayed, and the gateway then believes to have
// resumed. So the grant takes no effect before a record has opened, which the
// one who replays cannot make.

// ClientTicket is a ticket in a client's hands, good for one Resume. It prints
// as "redacted".
type ClientTicket struct {
	_      [0]func() // not comparable
	ticket []byte
	psk    [record.SecretSize]byte
	static PublicKey
	hybrid bool
	used   bool
}

// Format prints "redacted" whatever the verb.
func (t ClientTicket) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redacted") }

// Clear overwrites the ticket's secret and makes it unusable.
func (t *ClientTicket) Clear() {
	clear(t.psk[:])
	t.used = true
}

// NewTicket makes a ticket for this session's client, and the nonce that goes
// with it; both travel in a record. It fails with errTicket when the gateway
// does not resume, the session is not established or settled already, or the
// grant is too large.
// expiry is when the ticket ends.
func (s *Session) NewTicket(grant Grant) (ticket []byte, nonce [record.PSKNonceSize]byte, expiry time.Time, err error) {
	p := s.past
	if !s.Established() || p == nil || p.gateway == nil || p.gateway.Tickets == nil || len(grant.Identity) > maxTicket {
		return nil, nonce, expiry, fmt.Errorf("%w: no ticket for this session", errTicket)
	}
	tickets, random := p.gateway.Tickets, orSystem(p.gateway.Rand)
	if _, err = io.ReadFull(random, nonce[:]); err != nil {
		return nil, nonce, expiry, fmt.Errorf("ticket nonce: %w", err)
	}
	lifetime := tickets.Lifetime
	if lifetime == 0 {
		lifetime = defaultTicketLifetime
	}
	expiry = tickets.Now().Add(lifetime)
	content := ticketContent{
		hybrid: s.flags.hybrid, static: staticID(p.gateway.Key.Public()), psk: p.resume.PSK(nonce),
		full: p.full, expiry: expiry.Unix(), realm: p.realm, grant: grant,
	}
	ticket, err = tickets.Keys.seal(random, content.encode())
	clear(content.psk[:])
	return ticket, nonce, expiry, err
}

// Keep makes of a ticket and its nonce, as the gateway sent them, what a later
// session can Resume with. It keeps no reference to ticket. It fails with
// errTicket when the ticket is too long or the session not a client's.
func (s *Session) Keep(ticket []byte, nonce [record.PSKNonceSize]byte) (*ClientTicket, error) {
	if !s.Established() || s.past == nil || s.past.gateway != nil || len(ticket) == 0 || len(ticket) > maxTicket {
		return nil, fmt.Errorf("%w: %d bytes", errTicket, len(ticket))
	}
	return &ClientTicket{
		ticket: append([]byte(nil), ticket...),
		psk:    s.past.resume.PSK(nonce),
		static: s.past.static,
		hybrid: s.flags.hybrid,
	}, nil
}

// Resume begins a client's handshake with a ticket, in place of Start. A ticket
// that is nil, used already, of a gateway whose pin is gone, or not hybrid where
// that is required means a full handshake; so does the gateway's refusal, on the
// same connection.
func (s *Session) Resume(t *ClientTicket) (*Job, error) {
	if t == nil || t.used || s.hs == nil || !s.hs.takes(t) {
		return s.Start()
	}
	if err := s.move(eventTicket); err != nil {
		return nil, err
	}
	t.used = true
	s.hs.ticket = t
	return s.newJob((*handshake).writeResume, nil), nil
}

// takes reports whether the client's settings allow the ticket.
func (h *handshake) takes(t *ClientTicket) bool {
	if h.client == nil {
		return false
	}
	_, err := h.client.checkPin(t.static)
	return err == nil && (t.hybrid || h.client.PostQuantum != PostQuantumRequired)
}

// Resumed is the grant of the ticket that a gateway's session began with, nil
// if it began with a full handshake. It is nil too until the client's first
// record has opened, since a replayed ResumeInit must have no effect.
func (s *Session) Resumed() *Grant {
	if s.past == nil || s.phase != phaseOpen && s.phase != phaseEnded {
		return nil
	}
	return s.past.grant
}

// startResume begins the Noise state of either role.
func (h *handshake) startResume(random io.Reader, ticket []byte, psk [record.SecretSize]byte) (*noise.HandshakeState, error) {
	sum := sha256.Sum256(ticket)
	return noise.NewHandshakeState(noise.Config{
		CipherSuite: noiseSuite,
		Random:      random,
		Pattern:     noise.HandshakeNN,
		Initiator:   h.client != nil,
		Prologue:    append(append(h.prologue[:len(h.prologue):len(h.prologue)], 0), sum[:]...),
		// flynn/noise takes an empty psk for none, silently; this one has 32
		// bytes by its type.
		PresharedKey:          psk[:],
		PresharedKeyPlacement: 0,
	})
}

// writeResume makes ResumeInit.
func (h *handshake) writeResume([]byte) (reply []byte, _ *agreed, err error) {
	random := orSystem(h.client.Rand)
	payload, err := h.clientHello(random)
	if err != nil {
		return nil, nil, err
	}
	h.noise, err = h.startResume(random, h.ticket.ticket, h.ticket.psk)
	clear(h.ticket.psk[:])
	if err != nil {
		return nil, nil, err
	}
	reply = append(reply, byte(wire.KindResumeInit))
	reply = binary.BigEndian.AppendUint16(reply, uint16(len(h.ticket.ticket)))
	reply = append(reply, h.ticket.ticket...)
	// -> psk, e
	reply, _, _, err = h.noise.WriteMessage(reply, payload)
	return reply, nil, err
}

// refusal is the outcome of a job that refused to resume: its reply is good.
type refusal struct{ cause error }

func (r *refusal) Error() string { return r.cause.Error() }

// answerResume reads ResumeInit and makes ResumeReply; whatever fails, it makes
// ResumeRefused.
func (h *handshake) answerResume(msg []byte) ([]byte, *agreed, error) {
	reply, out, err := h.tryResume(msg)
	if err != nil {
		return []byte{byte(wire.KindResumeRefused)}, nil, &refusal{err}
	}
	return reply, out, nil
}

func (h *handshake) tryResume(msg []byte) ([]byte, *agreed, error) {
	end := resumeHead + ticketLength(msg)
	ticket, message := msg[resumeHead:end], msg[end:]
	content, err := h.openTicket(ticket, len(message) > keySize+helloFlags+noiseTag)
	if err != nil {
		return nil, nil, err
	}
	state, err := h.startResume(orSystem(h.gateway.Rand), ticket, content.psk)
	clear(content.psk[:])
	if err != nil {
		return nil, nil, err
	}
	// -> psk, e
	payload, _, _, err := state.ReadMessage(nil, message)
	if err != nil {
		return nil, nil, err
	}
	shared, payload, err := h.serverHello(payload)
	if err != nil {
		return nil, nil, err
	}
	// <- e, ee
	reply, c2s, s2c, err := state.WriteMessage([]byte{byte(wire.KindResumeReply)}, payload)
	if err != nil {
		return nil, nil, err
	}
	hybrid := len(shared) > 0
	out := h.agree(state, c2s, s2c, shared)
	out.flags = peerFlags{hybrid: hybrid, resumed: true}
	out.past.grant, out.past.full = &content.grant, content.full
	return reply, out, nil
}

// openTicket opens a ticket and applies the rules for it.
func (h *handshake) openTicket(ticket []byte, offersHybrid bool) (*ticketContent, error) {
	if h.gateway.Tickets == nil {
		return nil, fmt.Errorf("%w: this gateway does not resume", errTicket)
	}
	plain, err := h.gateway.Tickets.Keys.open(ticket)
	if err != nil {
		return nil, err
	}
	content, err := decodeTicket(plain)
	clear(plain)
	if err != nil {
		return nil, err
	}
	return content, content.check(h.gateway, h.realm, offersHybrid)
}

// readResumeReply reads ResumeReply. The psk stands for the gateway's static key.
func (h *handshake) readResumeReply(msg []byte) ([]byte, *agreed, error) {
	// <- e, ee
	payload, c2s, s2c, err := h.noise.ReadMessage(nil, msg[1:])
	if err != nil {
		return nil, nil, err
	}
	out, err := h.finish(payload, c2s, s2c, h.ticket.static)
	if err != nil {
		return nil, nil, err
	}
	if h.ticket.hybrid && !out.flags.hybrid {
		return nil, nil, fmt.Errorf("%w: a hybrid session resumed without ML-KEM", ErrMalformed)
	}
	out.flags.resumed = true
	return nil, out, nil
}
