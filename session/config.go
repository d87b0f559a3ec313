package session

import (
	"crypto/mlkem"
	"fmt"
	"io"

	"github.com/sealcast/sealcast/crypto/record"
)

// PostQuantum says whether the key agreement adds ML-KEM-768 to X25519.
type PostQuantum uint8

// The zero value is preferred: safe against recorded traffic being broken
// later, but not against an attacker who has a quantum computer today and
// forges the gateway's classical part.
const (
	PostQuantumPreferred PostQuantum = iota // when both sides can
	PostQuantumRequired                     // or no session
	PostQuantumOff
)

var postQuantumNames = [...]string{"preferred", "required", "off"}

// String is the setting's value.
func (p PostQuantum) String() string {
	if int(p) < len(postQuantumNames) {
		return postQuantumNames[p]
	}
	return fmt.Sprintf("post-quantum(%d)", uint8(p))
}

// ParsePostQuantum reads the setting cipher.post_quantum.
func ParsePostQuantum(s string) (PostQuantum, error) {
	for i, name := range postQuantumNames {
		if s == name {
			return PostQuantum(i), nil
		}
	}
	return 0, fmt.Errorf("%q is none of off, preferred, required", s)
}

// GatewayConfig is what all sessions of a gateway share. It must not change
// once a session uses it; new settings are a new GatewayConfig.
type GatewayConfig struct {
	Key         *StaticKey
	PostQuantum PostQuantum
	HardwareAES bool          // announced to the client
	Limits      record.Limits // when to change keys
	Tickets     *Tickets      // nil: every session begins with a full handshake
	// Rand is the source of ephemeral keys; nil is the system's. Jobs read it
	// from several goroutines. ML-KEM always draws from the system's.
	Rand io.Reader

	// encapsulate replaces ML-KEM's randomness, for test vectors.
	encapsulate func(*mlkem.EncapsulationKey768) (shared, ciphertext []byte)
}

// ClientConfig is what all sessions of a client share. It must not change
// once a session uses it.
type ClientConfig struct {
	Pins        []PublicKey // keys that the gateway may have
	Insecure    bool        // go on without a matching pin; Peer().Pinned tells
	PostQuantum PostQuantum
	Limits      record.Limits
	Rand        io.Reader // as GatewayConfig.Rand, and for the ML-KEM key too
}
