package session

import (
	"crypto/mlkem"
	"crypto/rand"
	"fmt"
	"io"
	"slices"

	"github.com/flynn/noise"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// The handshake is Noise_NX_25519_ChaChaPoly_SHA256 (Noise revision 34), the
// client being the initiator:
//
//	-> e                 payload ClientHello, in clear
//	<- e, ee, s, es      payload ServerHello, encrypted
//
// step 1  client   writeInit      Start's job
// step 2  gateway  answer         Receive's job: reads message 1, writes message 2
// step 3  client   readReply      Receive's job
// step 4  both     agree          key schedule, in the same job

// noiseSuite is fixed by the protocol's version.
var noiseSuite = noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashSHA256)

// handshake is what a session needs until it is established. A job owns it
// while the job is out; the session only keeps the pointer.
type handshake struct {
	suite    suite.ID
	realm    string
	prologue []byte
	limits   record.Limits
	gateway  *GatewayConfig // of a gateway's session, else nil
	client   *ClientConfig  // of a client's session, else nil
	job      *Job           // the session's own: the one that is out

	// Client, between its two steps.
	noise  *noise.HandshakeState
	kem    *mlkem.DecapsulationKey768 // nil: not hybrid
	ticket *ClientTicket              // nil: a full handshake
}

// agreed is a completed handshake: both directions, ready for records.
type agreed struct {
	send  record.Sealer
	recv  record.Opener
	past  *past
	flags peerFlags
}

// clear forgets the keys of an agreement that nobody will use.
func (a *agreed) clear(p *record.Pool) {
	a.send.Clear(p)
	a.recv.Clear(p)
	a.past.resume.Clear()
}

// start begins the Noise state of either role.
func (h *handshake) start(random io.Reader, static *StaticKey) (*noise.HandshakeState, error) {
	config := noise.Config{
		CipherSuite: noiseSuite,
		Random:      random,
		Pattern:     noise.HandshakeNX,
		Initiator:   static == nil,
		Prologue:    h.prologue,
	}
	if static != nil {
		config.StaticKeypair = noise.DHKey{Private: static.private[:], Public: static.public[:]}
	}
	return noise.NewHandshakeState(config)
}

// writeInit makes HandshakeInit.
func (h *handshake) writeInit([]byte) (reply []byte, _ *agreed, err error) {
	random := orSystem(h.client.Rand)
	payload, err := h.clientHello(random)
	if err != nil {
		return nil, nil, err
	}
	if h.noise, err = h.start(random, nil); err != nil {
		return nil, nil, err
	}
	// -> e
	reply, _, _, err = h.noise.WriteMessage([]byte{byte(wire.KindHandshakeInit)}, payload)
	return reply, nil, err
}

// clientHello makes the payload of HandshakeInit and the ML-KEM key in it.
func (h *handshake) clientHello(random io.Reader) (payload []byte, err error) {
	if h.client.PostQuantum == PostQuantumOff {
		return []byte{0}, nil
	}
	if h.kem, err = generateKEM(random); err != nil {
		return nil, err
	}
	return append([]byte{flagHybrid}, h.kem.EncapsulationKey().Bytes()...), nil
}

// answer reads HandshakeInit and makes HandshakeReply.
func (h *handshake) answer(msg []byte) ([]byte, *agreed, error) {
	state, err := h.start(orSystem(h.gateway.Rand), h.gateway.Key)
	if err != nil {
		return nil, nil, err
	}
	// -> e
	payload, _, _, err := state.ReadMessage(nil, msg[1:])
	if err != nil {
		return nil, nil, err
	}
	shared, payload, err := h.serverHello(payload)
	if err != nil {
		return nil, nil, err
	}
	// <- e, ee, s, es
	reply, c2s, s2c, err := state.WriteMessage([]byte{byte(wire.KindHandshakeReply)}, payload)
	if err != nil {
		return nil, nil, err // a low-order point is found here
	}
	hybrid := len(shared) > 0
	out := h.agree(state, c2s, s2c, shared)
	out.flags.hybrid = hybrid
	if h.gateway.Tickets != nil {
		out.past.full = h.gateway.Tickets.Now().Unix()
	}
	return reply, out, nil
}

// serverHello reads a ClientHello and makes the payload of the reply and, if
// the client offered a key and the settings allow it, the ML-KEM secret.
func (h *handshake) serverHello(clientHello []byte) (shared, payload []byte, err error) {
	offer, err := parseHello(clientHello)
	if err != nil {
		return nil, nil, err
	}
	payload = []byte{0}
	if h.gateway.HardwareAES {
		payload[0] |= flagHardwareAES
	}
	if !offer.hybrid() || h.gateway.PostQuantum == PostQuantumOff {
		return nil, payload, nil
	}
	key, err := mlkem.NewEncapsulationKey768(offer.kem)
	if err != nil {
		return nil, nil, err
	}
	encapsulate := (*mlkem.EncapsulationKey768).Encapsulate
	if h.gateway.encapsulate != nil {
		encapsulate = h.gateway.encapsulate
	}
	shared, ciphertext := encapsulate(key)
	payload[0] |= flagHybrid
	return shared, append(payload, ciphertext...), nil
}

// readReply reads HandshakeReply and checks the gateway's key against the pins.
func (h *handshake) readReply(msg []byte) ([]byte, *agreed, error) {
	// <- e, ee, s, es
	payload, c2s, s2c, err := h.noise.ReadMessage(nil, msg[1:])
	if err != nil {
		return nil, nil, err
	}
	out, err := h.finish(payload, c2s, s2c, PublicKey(h.noise.PeerStatic()))
	return nil, out, err
}

// finish checks the gateway's key against the pins, reads its ServerHello and
// agrees on the keys.
func (h *handshake) finish(payload []byte, c2s, s2c *noise.CipherState, static PublicKey) (*agreed, error) {
	pinned, err := h.client.checkPin(static)
	if err != nil {
		return nil, err
	}
	answer, err := parseHello(payload)
	if err != nil {
		return nil, err
	}
	var shared []byte
	if answer.hybrid() {
		if shared, err = h.kem.Decapsulate(answer.kem); err != nil {
			return nil, err
		}
	} else if h.client.PostQuantum == PostQuantumRequired {
		return nil, refused(ErrPostQuantumRequired, "post-quantum key agreement required")
	}
	out := h.agree(h.noise, c2s, s2c, shared)
	out.past.static = static
	out.flags = peerFlags{pinned: pinned, hybrid: answer.hybrid(), hardwareAES: answer.flags&flagHardwareAES != 0}
	return out, nil
}

// checkPin compares the gateway's key with the pins. Public keys need no
// constant time.
func (c *ClientConfig) checkPin(seen PublicKey) (pinned bool, err error) {
	switch {
	case slices.Contains(c.Pins, seen):
		return true, nil
	case c.Insecure:
		return false, nil
	case len(c.Pins) == 0:
		return false, refused(&PinError{seen, ErrNoPin}, "")
	default:
		return false, refused(&PinError{seen, ErrWrongPin}, "")
	}
}

// agree runs the key schedule (docs/protocol.md section 4) and makes both
// directions. It clears shared. The keys inside c2s and s2c are out of reach
// and left to the garbage collector.
func (h *handshake) agree(state *noise.HandshakeState, c2s, s2c *noise.CipherState, shared []byte) *agreed {
	toGateway, toClient := c2s.UnsafeKey(), s2c.UnsafeKey()
	hash := state.ChannelBinding()
	secretC2S := record.Extract(hash, toGateway[:], shared)
	secretS2C := record.Extract(hash, toClient[:], shared)
	clear(toGateway[:])
	clear(toClient[:])
	clear(shared)

	out := &agreed{past: &past{gateway: h.gateway, realm: h.realm, resume: secretS2C.Resume()}}
	sending, receiving := &secretC2S, &secretS2C
	if h.gateway != nil {
		sending, receiving = receiving, sending
	}
	out.send.Init(h.suite, *sending, h.limits)
	out.recv.Init(h.suite, *receiving)
	secretC2S.Clear()
	secretS2C.Clear()
	return out
}

// generateKEM makes the client's one-time ML-KEM key from random.
func generateKEM(random io.Reader) (*mlkem.DecapsulationKey768, error) {
	var seed [mlkem.SeedSize]byte
	defer clear(seed[:])
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("ML-KEM key: %w", err)
	}
	return mlkem.NewDecapsulationKey768(seed[:])
}

func orSystem(random io.Reader) io.Reader {
	if random == nil {
		return rand.Reader
	}
	return random
}
