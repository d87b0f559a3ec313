package cryptobench

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
)

// lessonSuite is the cipher of the lessons that are about something else.
const lessonSuite = suite.AES256GCM

// misuseTasks are the usual ways to make a fast cipher slow, beside the right
// ones: a cipher built for each message, a fresh buffer for each record, a
// random nonce for each record.
func (l *lab) misuseTasks(o Options) ([]*task, error) {
	var tasks []*task
	for _, id := range o.Suites {
		if id == suite.Plain {
			continue // builds no cipher
		}
		for _, size := range lessonSizes(o.Sizes) {
			tasks = append(tasks, l.cipherLesson(id, size)...)
		}
	}
	for _, size := range lessonSizes(o.Sizes) {
		tasks = append(tasks, l.lesson(size, "buffer reused", "buffer fresh for each record",
			func(b *bare) channel { return freshBuffer{b} })...)
	}
	for _, size := range lessonSizes(o.Sizes) {
		tasks = append(tasks, l.lesson(size, "nonce counted", "nonce random for each record",
			func(b *bare) channel { return randomNonce{b} })...)
	}
	return tasks, nil
}

// lessonSizes are the smallest, the middle and the largest of sizes, which are in order.
func lessonSizes(sizes []int) []int {
	if len(sizes) <= 3 {
		return sizes
	}
	return []int{sizes[0], sizes[len(sizes)/2], sizes[len(sizes)-1]}
}

// cipherLesson seals with a cipher from the pool, with one that each session
// keeps, and with one that is built for each message.
func (l *lab) cipherLesson(id suite.ID, size int) []*task {
	pooled := l.sealTask(named{"cipher pooled", id.String(), size}, func() channel { return l.product(id) })
	session := l.sealTask(named{"cipher per session", id.String(), size}, func() channel { return l.bare(id) })
	message := l.sealTask(named{"cipher per message", id.String(), size}, func() channel { return perMessage{l.bare(id)} })
	session.baseline, message.baseline = pooled, pooled
	return []*task{pooled, session, message}
}

// lesson seals with a cipher held ready: as it should be, and worse.
func (l *lab) lesson(size int, good, bad string, worse func(*bare) channel) []*task {
	name := lessonSuite.String()
	baseline := l.sealTask(named{good, name, size}, func() channel { return l.bare(lessonSuite) })
	lesson := l.sealTask(named{bad, name, size}, func() channel { return worse(l.bare(lessonSuite)) })
	lesson.baseline = baseline
	return []*task{baseline, lesson}
}

// ends are the counters of a channel that makes its nonces by hand.
type ends struct{ sealed, opened counter }

// counter is a nonce that counts, in its last eight bytes.
type counter struct {
	nonce [suite.NonceSize]byte
	n     uint64
}

// next returns the next nonce, good until the next call.
func (c *counter) next() []byte {
	binary.BigEndian.PutUint64(c.nonce[suite.NonceSize-8:], c.n)
	c.n++
	return c.nonce[:]
}

// bare is the standard library's cipher, held ready, with nothing around it:
// no pool, no key update.
type bare struct {
	aead cipher.AEAD
	id   suite.ID
	key  []byte
	ends
}

func (l *lab) bare(id suite.ID) *bare {
	key := l.bytes(id.KeySize())
	return &bare{aead: expand(id, key), id: id, key: key}
}

// expand makes a cipher of a key that has the suite's length.
func expand(id suite.ID, key []byte) cipher.AEAD {
	aead, err := id.New(key)
	if err != nil {
		panic("cryptobench: " + err.Error())
	}
	return aead
}

func (b *bare) head() int     { return 1 }
func (b *bare) overhead() int { return 1 + b.id.Overhead() }

// update changes no key: these records protect nothing, and none is sent.
func (b *bare) update() {}

func (b *bare) seal(dst, plaintext []byte) []byte {
	dst = append(dst, recordKind)
	return b.aead.Seal(dst, b.sealed.next(), plaintext, dst[len(dst)-1:])
}

func (b *bare) open(msg []byte) ([]byte, error) {
	if len(msg) == 0 {
		return nil, record.ErrTag
	}
	return b.aead.Open(msg[1:1], b.opened.next(), msg[1:], msg[:1])
}

// perMessage expands the key for each record.
type perMessage struct{ *bare }

func (p perMessage) seal(dst, plaintext []byte) []byte {
	p.aead = expand(p.id, p.key)
	return p.bare.seal(dst, plaintext)
}

// freshBuffer allocates each record.
type freshBuffer struct{ *bare }

func (f freshBuffer) seal(_, plaintext []byte) []byte {
	return f.bare.seal(make([]byte, 0, len(plaintext)+f.overhead()), plaintext)
}

// randomNonce draws the nonce of each record from the system and sends it
// along, behind the kind byte. Twelve random bytes also bound a key to some
// 2^32 records (NIST SP 800-38D section 8.3), where a counter has no such bound.
type randomNonce struct{ *bare }

func (r randomNonce) head() int     { return 1 + suite.NonceSize }
func (r randomNonce) overhead() int { return r.head() + suite.TagSize }

func (r randomNonce) seal(dst, plaintext []byte) []byte {
	at := len(dst)
	dst = append(dst, recordKind)
	dst = dst[:at+r.head()]
	nonce := dst[at+1:]
	_, _ = rand.Read(nonce) // never fails
	return r.aead.Seal(dst, nonce, plaintext, dst[at:at+1])
}

func (r randomNonce) open(msg []byte) ([]byte, error) {
	if len(msg) < r.head() {
		return nil, record.ErrTag
	}
	nonce, rest := msg[1:r.head()], msg[r.head():]
	return r.aead.Open(rest[:0], nonce, rest, msg[:1])
}
