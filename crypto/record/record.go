// Package record protects one direction of one session: it seals and opens
// records with a counter for a nonce and changes keys. It knows nothing of
// sockets, messages or what a record means, and reads no clock. Nothing here
// is safe for concurrent use: directions and their Pool belong to one loop.
package record

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"

	"github.com/sealcast/sealcast/crypto/suite"
)

// Why a record did not open. They are for the log; the peer learns none of them.
var (
	ErrShort = errors.New("record shorter than its kind and tag")
	ErrTag   = errors.New("record does not authenticate")
	ErrSpent = errors.New("more records under one key than a receiver takes")
)

// half is what both directions have: the secret, the current key and the
// counter of the next record. The order of its fields keeps it small.
type half struct {
	secret Secret // S of docs/protocol.md section 4
	key    [suite.MaxKeySize]byte
	iv     [suite.NonceSize]byte
	id     suite.ID

	// counter is the nonce of the next record. It is stored, advanced by one,
	// before the cipher is called: whatever happens there, no nonce comes twice.
	counter uint64

	aead cipher.AEAD // while the pool keeps it, else nil
	used uint32      // the pool's time of the last use
	slot int32       // place in the pool, when aead is not nil
}

// init starts the direction under secret, which it takes over.
func (d *half) init(id suite.ID, secret Secret) {
	d.id, d.secret = id, secret
	d.derive()
}

// derive makes key and IV of the current secret and starts counting anew.
func (d *half) derive() {
	key, iv := d.secret.keys(d.id)
	copy(d.key[:], key)
	copy(d.iv[:], iv)
	clear(key)
	clear(iv)
	d.counter = 0
}

// rekey replaces the secret by the next one; the old one is overwritten.
func (d *half) rekey(p *Pool) {
	p.drop(d)
	d.secret = d.secret.Next()
	d.derive()
}

// clear forgets everything secret. The half is unusable afterwards.
func (d *half) clear(p *Pool) {
	p.drop(d)
	d.secret.Clear()
	clear(d.key[:])
	clear(d.iv[:])
	d.id = 0
}

// next returns the cipher and the nonce of the next record, and counts it. The
// nonce lies in the pool's scratch and is good until the next call on that pool.
func (d *half) next(p *Pool) (cipher.AEAD, []byte) {
	n := d.counter
	d.counter = n + 1
	// iv XOR (four zero bytes, counter u64)
	copy(p.nonce[:4], d.iv[:4])
	binary.BigEndian.PutUint64(p.nonce[4:], binary.BigEndian.Uint64(d.iv[4:])^n)
	return p.get(d), p.nonce[:]
}

// Sealer is the sending direction of a session.
type Sealer struct {
	half
	limits *Limits
	bytes  uint64 // plaintext under the current key
	since  int64  // seconds: when the current key's first record was about to go out
}

// Init starts the direction under secret. limits is kept and may be shared by
// all sessions.
func (s *Sealer) Init(id suite.ID, secret Secret, limits *Limits) {
	s.init(id, secret)
	s.limits = limits
}

// Overhead is how many bytes Seal adds to a plaintext: the kind and the tag.
func (s *Sealer) Overhead() int { return 1 + s.id.Overhead() }

// Seal appends a record to dst: the kind byte, which is the additional data,
// then ciphertext and tag. It works in place when plaintext is exactly
// dst[len(dst)+1:][:n] of dst's capacity, and allocates nothing when dst has
// room for the record. It keeps neither dst nor plaintext.
//
// Seal panics when the direction has not been started or was cleared, and
// after MaxReceiverCount records without Rekey: a record must never leave
// without protection.
func (s *Sealer) Seal(p *Pool, dst []byte, kind byte, plaintext []byte) []byte {
	if !s.id.Valid() || s.counter >= MaxReceiverCount {
		panic("record: Seal on a direction that is not open, or without the key update that was due")
	}
	aead, nonce := s.next(p)
	s.bytes += uint64(len(plaintext))
	at := len(dst)
	dst = append(dst, kind)
	return aead.Seal(dst, nonce, plaintext, dst[at:at+1])
}

// RekeyDue reports whether a key update must go out before the next record.
// now is a coarse time in seconds, the same clock at every call. Call it
// before each record, so that the key's age counts from its first one.
func (s *Sealer) RekeyDue(now int64) bool {
	if s.counter == 0 {
		s.since = now
		return false
	}
	return s.limits.reached(s.counter, s.bytes, now-s.since)
}

// Rekey changes to the next key, whose age counts from now (seconds). The peer
// must have been told by a record under the old one.
func (s *Sealer) Rekey(p *Pool, now int64) {
	s.rekey(p)
	s.bytes, s.since = 0, now
}

// Clear forgets the keys and gives the cipher back to the pool.
func (s *Sealer) Clear(p *Pool) { s.clear(p) }

// Opener is the receiving direction of a session.
type Opener struct{ half }

// Init starts the direction under secret.
func (o *Opener) Init(id suite.ID, secret Secret) { o.init(id, secret) }

// Open opens a record as Seal made it, in place: the plaintext it returns is a
// part of msg. It allocates nothing. On failure it returns one of the errors
// above, msg holds nothing of the plaintext, and the caller must end the session.
func (o *Opener) Open(p *Pool, msg []byte) ([]byte, error) {
	if !o.id.Valid() || len(msg) < 1+o.id.Overhead() {
		return nil, ErrShort
	}
	if o.counter >= MaxReceiverCount {
		return nil, ErrSpent
	}
	aead, nonce := o.next(p)
	plaintext, err := aead.Open(msg[1:1], nonce, msg[1:], msg[:1])
	if err != nil {
		return nil, ErrTag
	}
	return plaintext, nil
}

// Fresh reports whether no record has been opened under the current key.
func (o *Opener) Fresh() bool { return o.counter == 0 }

// Rekey changes to the next key, as the peer's key update demands.
func (o *Opener) Rekey(p *Pool) { o.rekey(p) }

// Clear forgets the keys and gives the cipher back to the pool.
func (o *Opener) Clear(p *Pool) { o.clear(p) }
