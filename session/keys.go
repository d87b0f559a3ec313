package session

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/curve25519"
)

// keySize is the length of X25519 keys, private and public, in bytes.
const keySize = curve25519.ScalarSize

// PublicKey is a gateway's static X25519 public key (RFC 7748). Its text form
// is a pin: base64url without padding (RFC 4648 section 5), 43 characters.
type PublicKey [keySize]byte

// String is the pin.
func (k PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(k[:]) }

// ParsePin reads what PublicKey.String wrote.
func ParsePin(pin string) (k PublicKey, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(pin)
	if err != nil || len(raw) != keySize {
		return k, fmt.Errorf("%q is not a pin: want the 43 base64url characters that 'sealcast keygen' prints", pin)
	}
	return PublicKey(raw), nil
}

// keyFileTag starts the one line of a key file that holds the key.
const keyFileTag = "sealcast-x25519-v1 "

// StaticKey is a gateway's static key pair. It prints as "redacted"; only
// EncodeFile gives the private key away. It may be shared by all sessions.
type StaticKey struct {
	_       [0]func() // not comparable
	private [keySize]byte
	public  PublicKey
}

// GenerateStaticKey makes a key pair from random, which must be
// cryptographically secure.
func GenerateStaticKey(random io.Reader) (*StaticKey, error) {
	k := new(StaticKey)
	if _, err := io.ReadFull(random, k.private[:]); err != nil {
		return nil, fmt.Errorf("static key: %w", err)
	}
	if err := k.setPublic(); err != nil {
		return nil, err
	}
	return k, nil
}

// ParseStaticKey reads the content of a key file: lines that are empty or
// begin with '#', and exactly one with the key, as EncodeFile writes it.
func ParseStaticKey(file []byte) (*StaticKey, error) {
	var found *StaticKey
	for line := range bytes.Lines(file) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		k, err := parseKeyLine(line)
		if err != nil {
			return nil, err
		}
		if found != nil {
			return nil, errors.New("key file holds more than one key")
		}
		found = k
	}
	if found == nil {
		return nil, errors.New("key file holds no key: make one with 'sealcast keygen'")
	}
	return found, nil
}

// parseKeyLine reads one key. Its errors never quote the line.
func parseKeyLine(line []byte) (*StaticKey, error) {
	text, ok := bytes.CutPrefix(line, []byte(keyFileTag))
	if !ok {
		return nil, fmt.Errorf("key file: a line does not begin with %q", keyFileTag)
	}
	raw := make([]byte, base64.RawURLEncoding.DecodedLen(len(text)))
	defer clear(raw)
	n, err := base64.RawURLEncoding.Strict().Decode(raw, text)
	if err != nil || n != keySize {
		return nil, fmt.Errorf("key file: the key is not %d bytes in base64url", keySize)
	}
	k := new(StaticKey)
	copy(k.private[:], raw)
	return k, k.setPublic()
}

// setPublic computes the public key.
func (k *StaticKey) setPublic() error {
	public, err := curve25519.X25519(k.private[:], curve25519.Basepoint)
	if err != nil {
		return fmt.Errorf("static key: %w", err)
	}
	k.public = PublicKey(public)
	return nil
}

// Public is the key that clients pin.
func (k *StaticKey) Public() PublicKey { return k.public }

// EncodeFile is the content of a key file, private key included. The caller
// writes it with mode 0600 and clears it.
func (k *StaticKey) EncodeFile() []byte {
	out := []byte("# Sealcast static key: keep it secret. Pin of its public key:\n# " + k.public.String() + "\n" + keyFileTag)
	return append(base64.RawURLEncoding.AppendEncode(out, k.private[:]), '\n')
}

// Clear overwrites the private key. No session may use it afterwards.
func (k *StaticKey) Clear() { clear(k.private[:]) }

// Format prints "redacted" whatever the verb.
func (k StaticKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redacted") }

// MarshalText gives "redacted" to JSON and to structured logs.
func (k StaticKey) MarshalText() ([]byte, error) { return []byte("redacted"), nil }
