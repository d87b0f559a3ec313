package cryptobench

import (
	"bytes"
	"errors"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// What verify reports of an operation that does not do what it claims.
var (
	errRoundTrip = errors.New("what came back is not what went in")
	errShown     = errors.New("the record shows its plaintext")
)

// recordKind is the kind byte of every record here, and the additional data.
const recordKind = byte(wire.KindRecord)

// channel is a way to protect records in one direction, with both ends of it.
// A record begins with the kind byte, and the plaintext that goes into it or
// comes out of it stands at head bytes from its beginning.
type channel interface {
	// head is how many bytes stand before the ciphertext; overhead is how much
	// longer a record is than its plaintext.
	head() int
	overhead() int
	// seal appends a record to dst, in place when plaintext stands where the
	// ciphertext goes.
	seal(dst, plaintext []byte) []byte
	// open opens the record that follows the last one, in place.
	open(msg []byte) ([]byte, error)
	// update changes the keys of both ends if the sender's has served its
	// time. It is called when no record is on its way.
	update()
}

// product is a direction as the product protects it: crypto/record with the
// expanded cipher in a pool.
type product struct {
	pool   *record.Pool
	sealer record.Sealer
	opener record.Opener
}

func (l *lab) product(id suite.ID) channel {
	p := &product{pool: l.pool}
	hash, key := l.bytes(record.SecretSize), l.bytes(record.SecretSize)
	p.sealer.Init(id, record.Extract(hash, key, nil), record.Limits{})
	p.opener.Init(id, record.Extract(hash, key, nil))
	return p
}

func (p *product) head() int     { return 1 }
func (p *product) overhead() int { return p.sealer.Overhead() }

// seal asks before each record whether a key update is due, as a session does.
func (p *product) seal(dst, plaintext []byte) []byte {
	if p.sealer.RekeyDue(0) {
		p.sealer.Rekey(p.pool, 0)
	}
	return p.sealer.Seal(p.pool, dst, recordKind, plaintext)
}

func (p *product) open(msg []byte) ([]byte, error) { return p.opener.Open(p.pool, msg) }

func (p *product) update() {
	if p.sealer.RekeyDue(0) {
		p.sealer.Rekey(p.pool, 0)
		p.opener.Rekey(p.pool)
	}
}

// roundTrip seals text in place in buffer, opens it there and compares.
func roundTrip(c channel, buffer, text []byte) error {
	plaintext := buffer[c.head():][:len(text)]
	copy(plaintext, text)
	c.update()
	sealed := c.seal(buffer[:0], plaintext)
	if len(sealed) != len(text)+c.overhead() {
		return errRoundTrip
	}
	// A short text may turn up by chance; a channel without a tag hides nothing.
	if len(text) >= suite.TagSize && c.overhead() > suite.TagSize && bytes.Contains(sealed, text) {
		return errShown
	}
	opened, err := c.open(sealed)
	return equal(opened, text, err)
}

// equal reports err, or that the two differ.
func equal(got, want []byte, err error) error {
	if err == nil && !bytes.Equal(got, want) {
		err = errRoundTrip
	}
	return err
}

// queue is records in the arena that wait to be opened.
type queue struct {
	channel
	arena []byte
	size  int // of a plaintext
	next  int // the record to open
}

func (l *lab) queue(c channel, size int) *queue {
	return &queue{channel: c, arena: l.arena, size: size}
}

// atOnce is how many records the arena holds.
func (q *queue) atOnce() int { return min(len(q.arena)/(q.size+q.overhead()), maxBlock) }

// slot is the room of the record number i.
func (q *queue) slot(i int) []byte {
	pitch := q.size + q.overhead()
	return q.arena[i*pitch : (i+1)*pitch : (i+1)*pitch]
}

// fill seals n records. Their plaintexts are whatever stands in the arena.
func (q *queue) fill(n int) error {
	q.update()
	for i := range n {
		slot := q.slot(i)
		q.seal(slot[:0], slot[q.head():][:q.size])
	}
	q.next = 0
	return nil
}

// openNext opens the next of them in place.
func (q *queue) openNext() ([]byte, error) {
	plaintext, err := q.open(q.slot(q.next))
	q.next++
	return plaintext, err
}

// named is what stands beside an operation's figures.
type named struct {
	operation, suite string
	size             int
}

func (n named) task() *task { return &task{operation: n.operation, suite: n.suite, size: n.size} }

// sealTask seals records of a channel that open makes, always from the same
// buffer. It is verified on a second channel, since nobody opens its records.
func (l *lab) sealTask(n named, open func() channel) *task {
	c, text := open(), l.bytes(n.size)
	head := c.head()
	t := n.task()
	t.run = func() error {
		c.seal(l.buffer[:0], l.buffer[head:head+n.size])
		return nil
	}
	t.verify = func() error { return roundTrip(open(), l.buffer, text) }
	return t
}

// openTask opens records that its channel has sealed before.
func (l *lab) openTask(n named, c channel) *task {
	q, text := l.queue(c, n.size), l.bytes(n.size)
	t := n.task()
	t.ready, t.atOnce = q.fill, q.atOnce()
	t.run = func() error {
		_, err := q.openNext()
		return err
	}
	t.verify = func() error { return roundTrip(c, l.arena, text) }
	return t
}
