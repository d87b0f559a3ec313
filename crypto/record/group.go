package record

// A group is sessions that are sent the same records, sealed once for all of
// them. A group key has one sealer and any number of openers; it protects a
// record against everybody who does not have it, and not against a member, so
// that chain, which goes to each member in records of its own session, tells
// what the sealer has really sent (docs/protocol.md section 4.5):
//
//	message   = kind u8 || id u32 || counter u64 || AEAD-seal(...)
//	aad       = the 13 bytes before the ciphertext
//	chain'    = SHA-256(chain || message)

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"

	"github.com/sealcast/sealcast/crypto/suite"
)

// Why a group record did not open, or a mark does not hold. They are for the
// log; the peer learns none of them.
var (
	ErrGroup = errors.New("record of an unknown group, or out of order")
	ErrMark  = errors.New("records of the group were lost, delayed, or made by another member")
)

// GroupHeaderSize is the length of what stands before a group record's ciphertext.
const GroupHeaderSize = 1 + 4 + 8

// ChainSize is the length of a group's chain, in bytes.
const ChainSize = sha256.Size

// GroupPoint is a point in the order of a group's records: before the one with
// the counter Next.
type GroupPoint struct {
	ID    uint32
	Next  uint64
	Chain [ChainSize]byte // over the records before it
}

// group is what sealer and openers of a group key have. The point's counter is
// the one on the wire, half's the one in the nonce: they are always equal.
type group struct {
	half
	point GroupPoint
	hash  hash.Hash
}

// init starts the group's key under secret, which it takes over.
func (g *group) init(id suite.ID, secret Secret, at GroupPoint) {
	g.id, g.secret, g.point, g.hash = id, secret, at, sha256.New()
	g.derive(labelGroupKey, labelGroupIV)
	g.counter = at.Next
}

// link makes the chain behind msg, into next.
func (g *group) link(next *[ChainSize]byte, msg []byte) {
	g.hash.Reset()
	g.hash.Write(g.point.Chain[:])
	g.hash.Write(msg)
	g.hash.Sum(next[:0])
}

// clear forgets everything secret. The group is unusable afterwards.
func (g *group) clear(p *Pool) {
	g.half.clear(p)
	g.hash = nil
}

// GroupSealer is the one sealer of a group key.
type GroupSealer struct {
	group
	use
}

// Init starts a group under a secret from NewSecret that serves nobody else,
// with limits that Check has passed. number is the group's id, which the process
// must not have used before.
func (g *GroupSealer) Init(id suite.ID, number uint32, secret Secret, limits Limits) {
	g.group.init(id, secret, GroupPoint{ID: number})
	g.limits = limits.resolve()
}

// Overhead is how many bytes Seal adds to a plaintext: the header and the tag.
func (g *GroupSealer) Overhead() int { return GroupHeaderSize + g.id.Overhead() }

// Seal appends a group record to dst. It works in place when plaintext is
// exactly dst[len(dst)+GroupHeaderSize:][:n] of dst's capacity, and allocates
// nothing when dst has room for the record. It keeps neither dst nor plaintext.
//
// Seal panics when the group has not been started or was cleared, and after
// MaxReceiverCount records: a record must never leave without protection.
func (g *GroupSealer) Seal(p *Pool, dst []byte, kind byte, plaintext []byte) []byte {
	if g.counter >= MaxReceiverCount || g.hash == nil {
		panic("record: Seal for a group that was cleared, or without the new key that was due")
	}
	aead := p.get(&g.half)
	g.bytes += uint64(len(plaintext))
	at := len(dst)
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint32(dst, g.point.ID)
	dst = binary.BigEndian.AppendUint64(dst, g.point.Next)
	g.point.Next++ // as the counter of the nonce, before the cipher is called
	dst = aead.Seal(dst, g.next(p), plaintext, dst[at:at+GroupHeaderSize])
	g.link(&g.point.Chain, dst[at:])
	return dst
}

// RekeyDue reports whether another group must take this one's place before the
// next record; see Sealer.RekeyDue.
func (g *GroupSealer) RekeyDue(now int64) bool { return g.due(g.counter, now) }

// Point is where the group stands.
func (g *GroupSealer) Point() GroupPoint { return g.point }

// Secret is the group's secret, for members alone.
func (g *GroupSealer) Secret() *Secret { return &g.secret }

// Clear forgets the key and gives the cipher back to the pool.
func (g *GroupSealer) Clear(p *Pool) { g.clear(p) }

// GroupOpener is one member's side of a group key.
type GroupOpener struct {
	group
	marked uint64          // the counter up to which the chain is known to be right
	after  [ChainSize]byte // the chain if the record being opened is genuine
}

// Init starts a member's side under the group's secret. The first record that
// opens is that with the counter at.Next.
func (g *GroupOpener) Init(id suite.ID, secret Secret, at GroupPoint) {
	g.group.init(id, secret, at)
	g.marked = at.Next
}

// Open opens a group record as Seal made it, in place: the plaintext it returns
// is a part of msg. It allocates nothing. On failure, or when the record is not
// exactly the next one, it returns an error, msg holds nothing of the plaintext,
// and the caller must end the session.
func (g *GroupOpener) Open(p *Pool, msg []byte) ([]byte, error) {
	switch {
	case g.counter >= MaxReceiverCount:
		return nil, ErrSpent
	case len(msg) < GroupHeaderSize,
		binary.BigEndian.Uint32(msg[1:]) != g.point.ID,
		binary.BigEndian.Uint64(msg[5:]) != g.point.Next:
		return nil, ErrGroup
	}
	g.link(&g.after, msg) // now, because it is opened in place
	aead := p.get(&g.half)
	body := msg[GroupHeaderSize:]
	plaintext, err := aead.Open(body[:0], g.next(p), body, msg[:GroupHeaderSize])
	if err != nil {
		return nil, ErrTag
	}
	g.point.Next, g.point.Chain = g.counter, g.after
	return plaintext, nil
}

// Check takes a mark of the sealer: the records so far are those that it has
// sent, and no others, or else ErrMark.
func (g *GroupOpener) Check(mark GroupPoint) error {
	if mark != g.point {
		return ErrMark
	}
	g.marked = g.point.Next
	return nil
}

// Settled reports whether every record that has opened stands before a mark.
func (g *GroupOpener) Settled() bool { return g.marked == g.point.Next }

// ID is the group's.
func (g *GroupOpener) ID() uint32 { return g.point.ID }

// Clear forgets the key and gives the cipher back to the pool.
func (g *GroupOpener) Clear(p *Pool) { g.clear(p) }
