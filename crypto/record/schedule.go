package record

// This file is the whole key schedule, HKDF with SHA-256 (RFC 5869):
//
//	PRK     = Extract(salt = h, ikm = k || ss)               per direction
//	key     = Expand(S, "sealcast v1 key " || suite, L)
//	iv      = Expand(S, "sealcast v1 iv " || suite, 12)
//	next S  = Expand(S, "sealcast v1 next", 32)              at each KeyUpdate
//	resume  = Expand(first S of s2c, "sealcast v1 resume", 32)
//	psk     = Expand(resume, "sealcast v1 psk" || nonce16, 32)   one per ticket
//
// A group's secret is random, not agreed on, and serves one key:
//
//	key     = Expand(G, "sealcast v1 group key " || suite, L)
//	iv      = Expand(G, "sealcast v1 group iv " || suite, 12)
//
// S is the pseudorandom key of a direction. Labels are ASCII without
// terminator; suite is the name after "sealcast.v1.", and the space before it
// belongs to the label.

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/sealcast/sealcast/crypto/suite"
)

// SecretSize is the length of every secret of the schedule, in bytes.
const SecretSize = sha256.Size

// PSKNonceSize is the length of a ticket's nonce, in bytes.
const PSKNonceSize = 16

const (
	labelKey    = "sealcast v1 key "
	labelIV     = "sealcast v1 iv "
	labelNext   = "sealcast v1 next"
	labelResume = "sealcast v1 resume"
	labelPSK    = "sealcast v1 psk"

	labelGroupKey = "sealcast v1 group key "
	labelGroupIV  = "sealcast v1 group iv "
)

// Secret is a secret of the key schedule. It prints as "redacted" and cannot
// be compared with ==. A copy is another place in memory to clear.
type Secret struct {
	_     [0]func() // not comparable
	bytes [SecretSize]byte
}

// Extract makes a direction's first secret S (RFC 5869 section 2.2): the salt
// is the handshake hash, the keying material the direction's key from Noise's
// Split and the ML-KEM secret behind it, which is empty without hybrid
// agreement. It keeps no reference to its arguments.
func Extract(handshakeHash, splitKey, kemSecret []byte) Secret {
	ikm := make([]byte, 0, 2*SecretSize)
	ikm = append(append(ikm, splitKey...), kemSecret...)
	prk, err := hkdf.Extract(sha256.New, ikm, handshakeHash)
	clear(ikm)
	if err != nil {
		// Only a salt or key that FIPS 140-only mode refuses comes here.
		panic("record: HKDF extract: " + err.Error())
	}
	return moveSecret(prk)
}

// NewSecret makes the secret of a group from random, which must be
// cryptographically secure.
func NewSecret(random io.Reader) (s Secret, err error) {
	if _, err := io.ReadFull(random, s.bytes[:]); err != nil {
		return Secret{}, fmt.Errorf("group secret: %w", err)
	}
	return s, nil
}

// ParseSecret reads the secret of a group as AppendTo wrote it. It keeps no
// reference to b, which the caller clears.
func ParseSecret(b []byte) (s Secret, ok bool) {
	return s, copy(s.bytes[:], b) == SecretSize && len(b) == SecretSize
}

// AppendTo gives the secret away: only a group's, and only into a sealed record
// to a member. The caller clears what it has appended to.
func (s *Secret) AppendTo(dst []byte) []byte { return append(dst, s.bytes[:]...) }

// Next is the secret after a KeyUpdate (RFC 5869 section 2.3).
func (s *Secret) Next() Secret { return moveSecret(s.expand(labelNext, SecretSize)) }

// Resume is the resumption master secret; s must be the first secret of the
// direction from the gateway to the client.
func (s *Secret) Resume() Secret { return moveSecret(s.expand(labelResume, SecretSize)) }

// PSK is the pre-shared key of one ticket, from its nonce; s must be what
// Resume returned. The caller clears it.
func (s *Secret) PSK(nonce [PSKNonceSize]byte) (psk [SecretSize]byte) {
	out := s.expand(labelPSK+string(nonce[:]), SecretSize)
	copy(psk[:], out)
	clear(out)
	return psk
}

// Clear overwrites the secret. Go may have copied it before; what is reachable
// from here is gone.
func (s *Secret) Clear() { clear(s.bytes[:]) }

// Format prints "redacted" whatever the verb, so that no log line and no test
// failure shows a secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redacted") }

// keys derives the record key and IV of one key's life, by labels to which the
// suite's name is added.
func (s *Secret) keys(id suite.ID, labelKey, labelIV string) (key, iv []byte) {
	if size := id.KeySize(); size > 0 {
		key = s.expand(labelKey+id.String(), size)
	}
	return key, s.expand(labelIV+id.String(), suite.NonceSize)
}

// expand is HKDF-Expand (RFC 5869 section 2.3) with this secret as the
// pseudorandom key.
func (s *Secret) expand(label string, size int) []byte {
	out, err := hkdf.Expand(sha256.New, s.bytes[:], label, size)
	if err != nil {
		panic("record: HKDF expand: " + err.Error())
	}
	return out
}

// moveSecret makes a Secret of b and clears b.
func moveSecret(b []byte) (s Secret) {
	copy(s.bytes[:], b)
	clear(b)
	return s
}
