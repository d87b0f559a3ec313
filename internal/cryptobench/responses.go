package cryptobench

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"slices"

	"github.com/sealcast/sealcast/crypto/suite"
)

// maxResponse is the largest response that is protected whole, in bytes.
const maxResponse = 16 << 10

// responseSuite is the cipher behind the wrapped key and the session key.
const responseSuite = suite.AES256GCM

// responseTasks protect whole responses in three ways: by RSA-2048 alone, in
// chunks; by an AES key of the response's own that RSA wraps; by the key that
// a session has agreed on once.
func (l *lab) responseTasks(Options) ([]*task, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	var tasks []*task
	for _, size := range []int{1 << 10, 4 << 10, maxResponse} {
		name := responseSuite.String()
		sealed := l.sealTask(named{"session key, protect", name, size}, func() channel { return l.product(responseSuite) })
		opened := l.openTask(named{"session key, open", name, size}, l.product(responseSuite))
		chunked, err := l.responsePair("RSA-2048-OAEP in chunks", size, chunks{key}, sealed, opened)
		if err != nil {
			return nil, err
		}
		wrapped, err := l.responsePair("RSA-wrapped key", size, wrappedKey{key}, sealed, opened)
		if err != nil {
			return nil, err
		}
		wrapped[0].suite, wrapped[1].suite = name, name
		tasks = append(tasks, sealed, opened)
		tasks = append(tasks, wrapped...)
		tasks = append(tasks, chunked...)
	}
	return tasks, nil
}

// protection is a way to protect a response that knows no session.
type protection interface {
	protect(response []byte) ([]byte, error)
	open(protected []byte) ([]byte, error)
}

// responsePair makes the two tasks of a protection.
func (l *lab) responsePair(name string, size int, p protection, sealed, opened *task) ([]*task, error) {
	response := l.bytes(size)
	protected, err := p.protect(response)
	if err != nil {
		return nil, err
	}
	check := func() error {
		fresh, err := p.protect(response)
		if err != nil {
			return err
		}
		got, err := p.open(fresh)
		return equal(got, response, err)
	}
	return []*task{{
		operation: name + ", protect", size: size, baseline: sealed, verify: check,
		run: func() error {
			_, err := p.protect(response)
			return err
		},
	}, {
		operation: name + ", open", size: size, baseline: opened, verify: check,
		run: func() error {
			_, err := p.open(protected)
			return err
		},
	}}, nil
}

// chunks encrypts every piece of a response by RSA-OAEP. Pieces are as long as
// OAEP allows: two digests and two bytes less than the modulus (RFC 8017
// section 7.1.1).
type chunks struct{ key *rsa.PrivateKey }

func (c chunks) protect(response []byte) ([]byte, error) {
	size := c.key.Size() - 2*sha256.Size - 2
	var out []byte
	for chunk := range slices.Chunk(response, size) {
		encrypted, err := encryptOAEP(&c.key.PublicKey, chunk)
		if err != nil {
			return nil, err
		}
		out = append(out, encrypted...)
	}
	return out, nil
}

func (c chunks) open(protected []byte) ([]byte, error) {
	var out []byte
	for chunk := range slices.Chunk(protected, c.key.Size()) {
		decrypted, err := decryptOAEP(c.key, chunk)
		if err != nil {
			return nil, err
		}
		out = append(out, decrypted...)
	}
	return out, nil
}

// wrappedKey encrypts a response by a key of its own and puts that key, wrapped
// by RSA-OAEP, before it. The key serves once, so that the nonce may be zero.
type wrappedKey struct{ key *rsa.PrivateKey }

func (w wrappedKey) protect(response []byte) ([]byte, error) {
	key := make([]byte, responseSuite.KeySize())
	_, _ = rand.Read(key) // never fails
	out, err := encryptOAEP(&w.key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	aead, err := responseSuite.New(key)
	if err != nil {
		return nil, err
	}
	out = slices.Grow(out, len(response)+suite.TagSize)
	return aead.Seal(out, make([]byte, suite.NonceSize), response, nil), nil
}

func (w wrappedKey) open(protected []byte) ([]byte, error) {
	n := w.key.Size()
	key, err := decryptOAEP(w.key, protected[:n])
	if err != nil {
		return nil, err
	}
	aead, err := responseSuite.New(key)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, make([]byte, suite.NonceSize), protected[n:], nil)
}
