package cryptobench

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
)

// errSignature is what verify reports of a signature check that passes
// everything or nothing.
var errSignature = errors.New("the signature check is wrong")

// secretSize is the length of what is wrapped and agreed on: a 256-bit key.
const secretSize = 32

// publicKeyTasks are the public-key operations of handshakes and certificates.
// Their keys and the randomness in them are fresh in every run: the standard
// library takes them from the system alone.
func (l *lab) publicKeyTasks(Options) ([]*task, error) {
	rsa2048, err := l.rsaTasks(2048)
	if err != nil {
		return nil, err
	}
	rsa4096, err := l.rsaTasks(4096)
	if err != nil {
		return nil, err
	}
	for i, t := range rsa4096 {
		t.baseline = rsa2048[i]
	}
	tasks := append(rsa2048, rsa4096...)
	for _, more := range []func() ([]*task, error){l.ecdsaTasks, l.ed25519Tasks, l.x25519Tasks, l.mlkemTasks} {
		made, err := more()
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, made...)
	}
	return tasks, nil
}

// signatureTasks sign and verify a message's digest.
func signatureTasks(name string, message []byte, sign func(message []byte) ([]byte, error), verify func(message, signature []byte) error) ([]*task, error) {
	signature, err := sign(message)
	if err != nil {
		return nil, err
	}
	altered := append([]byte{^message[0]}, message[1:]...)
	check := func() error {
		fresh, err := sign(message)
		if err != nil {
			return err
		}
		if verify(message, fresh) != nil || verify(altered, fresh) == nil {
			return errSignature
		}
		return nil
	}
	return []*task{{
		operation: name + " sign", verify: check,
		run: func() error {
			_, err := sign(message)
			return err
		},
	}, {
		operation: name + " verify", verify: check,
		run: func() error { return verify(message, signature) },
	}}, nil
}

func (l *lab) rsaTasks(bits int) ([]*task, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	name := map[int]string{2048: "RSA-2048", 4096: "RSA-4096"}[bits]
	options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	tasks, err := signatureTasks(name, l.bytes(sha256.Size), func(digest []byte) ([]byte, error) {
		return key.Sign(rand.Reader, digest, options)
	}, func(digest, signature []byte) error {
		return rsa.VerifyPSS(&key.PublicKey, crypto.SHA256, digest, signature, options)
	})
	if err != nil {
		return nil, err
	}
	secret := l.bytes(secretSize)
	wrapped, err := encryptOAEP(&key.PublicKey, secret)
	if err != nil {
		return nil, err
	}
	check := func() error {
		fresh, err := encryptOAEP(&key.PublicKey, secret)
		if err != nil {
			return err
		}
		got, err := decryptOAEP(key, fresh)
		return equal(got, secret, err)
	}
	return append(tasks, &task{
		operation: name + " OAEP encrypt", verify: check,
		run: func() error {
			_, err := encryptOAEP(&key.PublicKey, secret)
			return err
		},
	}, &task{
		operation: name + " OAEP decrypt", verify: check,
		run: func() error {
			_, err := decryptOAEP(key, wrapped)
			return err
		},
	}), nil
}

// encryptOAEP is RSAES-OAEP with SHA-256 (RFC 8017 section 7.1).
func encryptOAEP(key *rsa.PublicKey, message []byte) ([]byte, error) {
	return rsa.EncryptOAEP(sha256.New(), rand.Reader, key, message, nil)
}

func decryptOAEP(key *rsa.PrivateKey, ciphertext []byte) ([]byte, error) {
	return rsa.DecryptOAEP(sha256.New(), nil, key, ciphertext, nil)
}

func (l *lab) ecdsaTasks() ([]*task, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return signatureTasks("ECDSA P-256", l.bytes(sha256.Size), func(digest []byte) ([]byte, error) {
		return ecdsa.SignASN1(rand.Reader, key, digest)
	}, func(digest, signature []byte) error {
		if !ecdsa.VerifyASN1(&key.PublicKey, digest, signature) {
			return errSignature
		}
		return nil
	})
}

func (l *lab) ed25519Tasks() ([]*task, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return signatureTasks("Ed25519", l.bytes(sha256.Size), func(message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}, func(message, signature []byte) error {
		if !ed25519.Verify(public, message, signature) {
			return errSignature
		}
		return nil
	})
}

// x25519Tasks make a key pair, and agree on a secret with the peer's public key.
func (l *lab) x25519Tasks() ([]*task, error) {
	ours, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	theirs, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	check := func() error {
		secret, err := ours.ECDH(theirs.PublicKey())
		if err != nil {
			return err
		}
		same, err := theirs.ECDH(ours.PublicKey())
		return equal(secret, same, err)
	}
	return []*task{{
		operation: "X25519 key pair", verify: check,
		run: func() error {
			key, err := ecdh.X25519().GenerateKey(rand.Reader)
			if err == nil {
				key.PublicKey() // computed here if not before
			}
			return err
		},
	}, {
		operation: "X25519 agree", verify: check,
		run: func() error {
			_, err := ours.ECDH(theirs.PublicKey())
			return err
		},
	}}, nil
}

func (l *lab) mlkemTasks() ([]*task, error) {
	key, err := mlkem.GenerateKey768()
	if err != nil {
		return nil, err
	}
	public := key.EncapsulationKey()
	_, ciphertext := public.Encapsulate()
	check := func() error {
		secret, ciphertext := public.Encapsulate()
		same, err := key.Decapsulate(ciphertext)
		return equal(secret, same, err)
	}
	return []*task{{
		operation: "ML-KEM-768 key pair", verify: check,
		run: func() error {
			_, err := mlkem.GenerateKey768()
			return err
		},
	}, {
		operation: "ML-KEM-768 encapsulate", verify: check,
		run: func() error {
			public.Encapsulate()
			return nil
		},
	}, {
		operation: "ML-KEM-768 decapsulate", verify: check,
		run: func() error {
			_, err := key.Decapsulate(ciphertext)
			return err
		},
	}}, nil
}
