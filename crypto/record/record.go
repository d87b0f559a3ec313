// Package record protects one direction of one session, or one key of a group
// of sessions: it seals and opens records with a counter for a nonce and changes
// keys. It knows nothing of sockets, messages or what a record means, and reads
// no clock. Nothing here is safe for concurrent use: directions, groups and
// their Pool belong to one loop.
package record

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"math"

	"github.com/sealcast/sealcast/crypto/suite"
)

// Why a record did not open. They are for the log; the peer learns none of them.
var (
	ErrTag   = errors.New("record does not authenticate")
	ErrSpent = errors.New("more records under one key than a receiver takes")
)

// spent is the counter of a direction that was cleared: it is past every limit.
const spent = math.MaxUint64

// half is what both directions have: the secret, the current key and the
// counter of the next record. The fields that every record touches stand first.
// A gateway has two of them for each session: bytes count here.
type half struct {
	// counter is the nonce of the next record. It is stored, advanced by one,
	// before the cipher is called: whatever happens there, no nonce comes twice.
	counter uint64
	iv      [suite.NonceSize]byte
	used    uint32      // the pool's time of the last use
	aead    cipher.AEAD // while the pool keeps it, else nil
	slot    int32       // place in the pool, when aead is not nil
	id      suite.ID

	key    [suite.MaxKeySize]byte
	secret Secret // S of docs/protocol.md section 4
}

// init starts the direction under secret, which it takes over.
func (d *half) init(id suite.ID, secret Secret) {
	d.id, d.secret = id, secret
	d.derive(labelKey, labelIV)
}

// derive makes key and IV of the current secret and starts counting anew.
func (d *half) derive(labelKey, labelIV string) {
	key, iv := d.secret.keys(d.id, labelKey, labelIV)
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
	d.derive(labelKey, labelIV)
}

// clear forgets everything secret. The half is unusable afterwards.
func (d *half) clear(p *Pool) {
	p.drop(d)
	*d = half{counter: spent}
}

// next counts a record and returns its nonce, good until the pool's next record:
// the IV, its last eight bytes XOR the counter.
func (d *half) next(p *Pool) []byte {
	n := d.counter
	d.counter = n + 1
	binary.LittleEndian.PutUint32(p.nonce[:4], binary.LittleEndian.Uint32(d.iv[:4])) // a copy by one register
	binary.BigEndian.PutUint64(p.nonce[4:], binary.BigEndian.Uint64(d.iv[4:])^n)
	return p.nonce[:]
}

// Sealer is the sending direction of a session.
type Sealer struct {
	half
	use
}

// Init starts the direction under secret, with limits that Check has passed.
func (s *Sealer) Init(id suite.ID, secret Secret, limits Limits) {
	s.init(id, secret)
	s.limits = limits.resolve()
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
	if s.counter >= MaxReceiverCount {
		panic("record: Seal on a direction that was cleared, or without the key update that was due")
	}
	aead := p.get(&s.half)
	s.bytes += uint64(len(plaintext))
	at := len(dst)
	dst = append(dst, kind)
	return aead.Seal(dst, s.next(p), plaintext, dst[at:at+1])
}

// RekeyDue reports whether a key update must go out before the next record.
// now is a coarse time in seconds, the same clock at every call. Call it
// before each record, so that the key's age counts from its first one.
func (s *Sealer) RekeyDue(now int64) bool { return s.due(s.counter, now) }

// Rekey changes to the next key, whose age counts from now (seconds). The peer
// must have been told by a record under the old one.
func (s *Sealer) Rekey(p *Pool, now int64) {
	s.rekey(p)
	s.bytes, s.until = 0, now+int64(s.limits.seconds)
}

// Clear forgets the keys and gives the cipher back to the pool.
func (s *Sealer) Clear(p *Pool) { s.clear(p) }

// Opener is the receiving direction of a session.
type Opener struct{ half }

// Init starts the direction under secret.
func (o *Opener) Init(id suite.ID, secret Secret) { o.init(id, secret) }

// Open opens a record as Seal made it, in place: the plaintext it returns is a
// part of msg. It allocates nothing. On failure it returns one of the errors
// above, msg holds nothing of the plaintext, and the caller must end the
// session. Open panics when the direction has not been started.
func (o *Opener) Open(p *Pool, msg []byte) ([]byte, error) {
	if o.counter >= MaxReceiverCount {
		return nil, ErrSpent
	}
	if len(msg) == 0 {
		return nil, ErrTag
	}
	aead := p.get(&o.half)
	plaintext, err := aead.Open(msg[1:1], o.next(p), msg[1:], msg[:1])
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
