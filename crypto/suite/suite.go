// Package suite is the list of record protections by name, what this
// machine's processor can do for them, and the choice of one of them from a
// client's offers. It keeps no keys and knows nothing of connections.
package suite

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"strings"

	"github.com/emmansun/gmsm/sm4"
	"golang.org/x/crypto/chacha20poly1305"
)

// ID names a suite. The zero value is none.
type ID uint8

// The suites of protocol version 1 (docs/protocol.md section 1).
const (
	AES128GCM        ID = iota + 1 // NIST SP 800-38D with AES-128
	AES256GCM                      // NIST SP 800-38D with AES-256
	ChaCha20Poly1305               // RFC 8439
	SM4GCM                         // RFC 8998 section 2
	Plain                          // no protection: the baseline of measurements
)

// SubprotocolPrefix stands before a suite's name in a WebSocket subprotocol token.
const SubprotocolPrefix = "sealcast.v1."

// NonceSize is the nonce length of every suite, in bytes.
const NonceSize = 12

// TagSize is the length of the authentication tag of every suite but Plain, in bytes.
const TagSize = 16

// MaxKeySize is the longest key of any suite, in bytes.
const MaxKeySize = 32

// property is what is fixed about a suite.
type property struct {
	name     string
	keySize  int
	overhead int
	expand   func(key []byte) (cipher.AEAD, error)
}

var properties = [...]property{
	AES128GCM:        {"aes-128-gcm", 16, TagSize, newAESGCM},
	AES256GCM:        {"aes-256-gcm", 32, TagSize, newAESGCM},
	ChaCha20Poly1305: {"chacha20-poly1305", chacha20poly1305.KeySize, TagSize, chacha20poly1305.New},
	SM4GCM:           {"sm4-gcm", 16, TagSize, newSM4GCM},
	Plain:            {"plain", 0, 0, newPlain},
}

// All is every suite, in the order of the specification.
func All() []ID {
	return []ID{AES128GCM, AES256GCM, ChaCha20Poly1305, SM4GCM, Plain}
}

// ByName finds a suite by its name in settings, such as "aes-128-gcm".
func ByName(name string) (ID, bool) {
	for _, id := range All() {
		if properties[id].name == name {
			return id, true
		}
	}
	return 0, false
}

// ByProtocol finds a suite by its subprotocol token, such as
// "sealcast.v1.aes-128-gcm". Tokens are case-sensitive.
func ByProtocol(token string) (ID, bool) {
	name, ok := strings.CutPrefix(token, SubprotocolPrefix)
	if !ok {
		return 0, false
	}
	return ByName(name)
}

// Valid reports whether id is one of the suites.
func (id ID) Valid() bool { return id >= AES128GCM && id <= Plain }

// String is the suite's name in settings and in the labels of the key schedule.
func (id ID) String() string {
	if !id.Valid() {
		return fmt.Sprintf("suite(%d)", uint8(id))
	}
	return properties[id].name
}

// Protocol is the suite's subprotocol token.
func (id ID) Protocol() string { return SubprotocolPrefix + id.String() }

// KeySize is the key length in bytes; 0 for Plain.
func (id ID) KeySize() int { return properties[id].keySize }

// Overhead is how many bytes a sealed record is longer than its plaintext.
func (id ID) Overhead() int { return properties[id].overhead }

// New expands key into a cipher that is ready for use. It keeps no reference
// to key. The cipher may be used from several goroutines at once; AES and
// ChaCha20 ciphers seal and open in place without allocating. It fails when
// the key has the wrong length.
func (id ID) New(key []byte) (cipher.AEAD, error) {
	if !id.Valid() {
		return nil, fmt.Errorf("%v is not a suite", id)
	}
	p := &properties[id]
	if len(key) != p.keySize {
		return nil, fmt.Errorf("%s: key of %d bytes, want %d", p.name, len(key), p.keySize)
	}
	return p.expand(key)
}

func newAESGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func newSM4GCM(key []byte) (cipher.AEAD, error) {
	block, err := sm4.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// plain is a cipher without protection, so that a baseline differs from a
// suite in nothing but the cipher.
type plain struct{}

func newPlain([]byte) (cipher.AEAD, error) { return plain{}, nil }

func (plain) NonceSize() int { return NonceSize }
func (plain) Overhead() int  { return 0 }

// Seal appends plaintext as it is. Plaintext may be dst's own room, as with
// the other suites.
func (plain) Seal(dst, _, plaintext, _ []byte) []byte { return append(dst, plaintext...) }

// Open appends ciphertext as it is and never fails.
func (plain) Open(dst, _, ciphertext, _ []byte) ([]byte, error) {
	return append(dst, ciphertext...), nil
}
