package cryptobench

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"hash"

	"github.com/sealcast/sealcast/crypto/record"
)

// otherTasks are constructions that are no suites and never will be, beside
// AES-256-GCM: AES-256-CTR with HMAC-SHA256, and a bare SHA-256.
func (l *lab) otherTasks(o Options) ([]*task, error) {
	var tasks []*task
	for _, size := range lessonSizes(o.Sizes) {
		gcm, ctr := func() channel { return l.bare(lessonSuite) }, func() channel { return l.ctrHMAC() }
		gcmSeal := l.sealTask(named{"AES-256-GCM seal", "", size}, gcm)
		gcmOpen := l.openTask(named{"AES-256-GCM open", "", size}, gcm())
		ctrSeal := l.sealTask(named{"AES-256-CTR + HMAC-SHA256 seal", "", size}, ctr)
		ctrOpen := l.openTask(named{"AES-256-CTR + HMAC-SHA256 open", "", size}, ctr())
		hashed := l.hashTask(size)
		ctrSeal.baseline, ctrOpen.baseline, hashed.baseline = gcmSeal, gcmOpen, gcmSeal
		tasks = append(tasks, gcmSeal, gcmOpen, ctrSeal, ctrOpen, hashed)
	}
	return tasks, nil
}

func (l *lab) hashTask(size int) *task {
	t := named{"SHA-256", "", size}.task()
	var sum [sha256.Size]byte
	t.run = func() error {
		sum = sha256.Sum256(l.buffer[:size])
		return nil
	}
	t.verify = func() error {
		h := sha256.New()
		h.Write(l.buffer[:size])
		_ = t.run()
		return equal(sum[:], h.Sum(nil), nil)
	}
	return t
}

// ctrHMAC encrypts by AES-256-CTR, then authenticates kind, counter and
// ciphertext by HMAC-SHA256: the usual pair where there is no AEAD.
type ctrHMAC struct {
	block cipher.Block
	mac   hash.Hash
	iv    [aes.BlockSize]byte
	sum   [sha256.Size]byte
	ends
}

func (l *lab) ctrHMAC() *ctrHMAC {
	block, err := aes.NewCipher(l.bytes(32))
	if err != nil {
		panic("cryptobench: " + err.Error())
	}
	return &ctrHMAC{block: block, mac: hmac.New(sha256.New, l.bytes(sha256.Size))}
}

func (c *ctrHMAC) head() int     { return 1 }
func (c *ctrHMAC) overhead() int { return 1 + sha256.Size }

// update changes no key: these records protect nothing, and none is sent.
func (c *ctrHMAC) update() {}

func (c *ctrHMAC) seal(dst, plaintext []byte) []byte {
	at := len(dst)
	dst = append(dst, recordKind)
	dst = dst[:at+1+len(plaintext)]
	c.xor(dst[at+1:], plaintext, c.sealed.next())
	return append(dst, c.tag(dst[at:])...)
}

func (c *ctrHMAC) open(msg []byte) ([]byte, error) {
	end := len(msg) - sha256.Size
	if end < 1 {
		return nil, record.ErrTag
	}
	nonce := c.opened.next()
	copy(c.iv[:], nonce)
	if !hmac.Equal(c.tag(msg[:end]), msg[end:]) {
		return nil, record.ErrTag
	}
	c.xor(msg[1:end], msg[1:end], nonce)
	return msg[1:end], nil
}

// xor applies the key stream of the nonce; a block counter follows it in the IV.
func (c *ctrHMAC) xor(dst, src, nonce []byte) {
	copy(c.iv[:], nonce)
	cipher.NewCTR(c.block, c.iv[:]).XORKeyStream(dst, src)
}

// tag authenticates the IV, then data; it is good until the next call.
func (c *ctrHMAC) tag(data []byte) []byte {
	c.mac.Reset()
	c.mac.Write(c.iv[:])
	c.mac.Write(data)
	return c.mac.Sum(c.sum[:0])
}
