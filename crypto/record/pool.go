package record

import (
	"crypto/cipher"

	"github.com/sealcast/sealcast/crypto/suite"
)

// DefaultPoolSize is how many expanded ciphers a loop keeps unless told
// otherwise. An expanded AES-GCM key takes 1,280 bytes, so this is 42 MB at
// most. BenchmarkPool decided: a broadcast of 256-byte records under
// AES-128-GCM costs 0.15 µs a record for 1,000 sessions and 0.2 µs for 10,000,
// all hits; for 100,000 it costs 0.7 µs with this size, 0.3 µs if every session
// kept its cipher (128 MB), 1.0 to 1.4 µs and 1,280 bytes of garbage if none did.
const DefaultPoolSize = 32 << 10

// DefaultPoolIdle is after how many seconds without use a cipher may be evicted.
// Expanding a key again takes 0.4 µs, a tenth of the write that follows, and an
// expanded AES key is 1,280 bytes: one that is used less often is not worth
// keeping. It is well below the heartbeats' interval, so that sessions which do
// nothing but live keep none: a cipher is kept from the second use within that
// time on.
const DefaultPoolIdle = 5

// missLook is how many places a miss in a full pool looks at for an idle cipher.
const missLook = 8

// Pool keeps the expanded ciphers of one loop's directions, so that busy
// sessions need no key expansion per record and idle ones cost no memory. It
// is bounded and evicts by idle time, not by recency: one broadcast touches
// every session in turn, and a least-recently-used order smaller than that
// would never hit. When it is full of ciphers in use, a further direction
// expands its key for the one record, and so does one that was idle until now. A Pool belongs to one loop.
type Pool struct {
	size  int
	idle  uint32
	now   uint32 // seconds
	hand  int    // where the sweep goes on
	slots []*half
	nonce [suite.NonceSize]byte // of the record that is being sealed or opened
	stats PoolStats
}

// PoolStats counts what a pool has done since it was made.
type PoolStats struct {
	Hits     uint64 // records whose cipher was there
	Misses   uint64 // records that had to expand their key and left it in the pool
	Bypassed uint64 // records that had to expand their key, of an idle direction or in a full pool
	Evicted  uint64 // ciphers dropped because they were idle
	Kept     int    // ciphers in the pool now
}

// NewPool makes a pool of at most size ciphers (0: DefaultPoolSize) that drops
// those unused for idle seconds (0: DefaultPoolIdle).
func NewPool(size, idle int) *Pool {
	if size <= 0 {
		size = DefaultPoolSize
	}
	if idle <= 0 {
		idle = DefaultPoolIdle
	}
	return &Pool{size: size, idle: uint32(idle)}
}

// Advance tells the pool the time, in seconds on any steady clock, and evicts
// what has been idle. The loop calls it about once a second; one call looks
// at a share of the pool, so that a full pass takes half the idle time.
func (p *Pool) Advance(now int64) {
	elapsed := uint32(now) - p.now
	p.now = uint32(now)
	if elapsed > p.idle {
		elapsed = p.idle
	}
	share := (2*len(p.slots)/int(p.idle) + 1) * int(elapsed)
	p.sweep(min(share, len(p.slots)))
}

// Stats returns the counters. Only the owning loop may call it.
func (p *Pool) Stats() PoolStats {
	s := p.stats
	s.Kept = len(p.slots)
	return s
}

// get returns the direction's cipher, expanding the key if need be.
func (p *Pool) get(d *half) cipher.AEAD {
	if d.aead != nil {
		d.used = p.now
		p.stats.Hits++
		return d.aead
	}
	return p.miss(d)
}

// miss expands the key. It keeps the cipher if there is room for it and the
// direction is in use.
func (p *Pool) miss(d *half) cipher.AEAD {
	aead, err := d.id.New(d.key[:d.id.KeySize()])
	if err != nil {
		panic("record: " + err.Error()) // the key's length comes from the suite itself
	}
	idle := p.now-d.used >= p.idle
	d.used = p.now
	if !idle && len(p.slots) >= p.size {
		p.sweep(missLook)
	}
	if idle || len(p.slots) >= p.size {
		p.stats.Bypassed++
		return aead
	}
	p.stats.Misses++
	d.aead, d.slot = aead, int32(len(p.slots))
	p.slots = append(p.slots, d)
	return aead
}

// sweep looks at n places and evicts what has been idle for too long.
func (p *Pool) sweep(n int) {
	for range n {
		if len(p.slots) == 0 {
			return
		}
		if p.hand >= len(p.slots) {
			p.hand = 0
		}
		d := p.slots[p.hand]
		if p.now-d.used < p.idle {
			p.hand++
			continue
		}
		p.stats.Evicted++
		p.drop(d) // moves another cipher to this place: look at it next
	}
}

// drop takes the direction's cipher out of the pool, if it is there. The last
// place's owner moves into the gap.
func (p *Pool) drop(d *half) {
	if d.aead == nil {
		return
	}
	last := len(p.slots) - 1
	moved := p.slots[last]
	p.slots[d.slot], moved.slot = moved, d.slot
	p.slots[last] = nil
	p.slots = p.slots[:last]
	d.aead = nil
}
