package record

import (
	"testing"

	"github.com/sealcast/sealcast/crypto/suite"
)

// senders makes n directions that share one pool.
func senders(n int, id suite.ID) []*Sealer {
	all := make([]*Sealer, n)
	for i := range all {
		all[i] = new(Sealer)
		all[i].Init(id, Extract([]byte("salt"), []byte{byte(i), byte(i >> 8), byte(i >> 16)}, nil), Limits{})
	}
	return all
}

// broadcast seals one record in every direction.
func broadcast(p *Pool, all []*Sealer, buf []byte) {
	for _, s := range all {
		s.Seal(p, buf[:0], kind, buf[1:65])
	}
}

// checkPool verifies that pool and directions agree about who is in.
func checkPool(t *testing.T, p *Pool, all []*Sealer) {
	t.Helper()
	in := 0
	for _, s := range all {
		if s.aead == nil {
			continue
		}
		in++
		if p.slots[s.slot] != &s.half {
			t.Fatal("a direction's place holds another one")
		}
	}
	if in != p.Stats().Kept || in > p.size {
		t.Fatalf("%d directions hold a cipher, the pool says %d of %d", in, p.Stats().Kept, p.size)
	}
}

func TestPoolHitsWhileThereIsRoom(t *testing.T) {
	p, all, buf := NewPool(100, 10), senders(100, suite.ChaCha20Poly1305), make([]byte, 128)
	for range 5 {
		broadcast(p, all, buf)
	}
	want := PoolStats{Hits: 400, Misses: 100, Kept: 100}
	if got := p.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	checkPool(t, p, all)
}

// TestPoolSmallerThanBroadcast: what does not fit is expanded for one record,
// and those that are in keep hitting; an LRU would never hit here.
func TestPoolSmallerThanBroadcast(t *testing.T) {
	p, all, buf := NewPool(100, 10), senders(250, suite.ChaCha20Poly1305), make([]byte, 128)
	for i := range 5 {
		p.Advance(int64(i))
		broadcast(p, all, buf)
	}
	want := PoolStats{Hits: 400, Misses: 100, Bypassed: 5 * 150, Kept: 100}
	if got := p.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	checkPool(t, p, all)
}

func TestPoolEvictsIdle(t *testing.T) {
	p, all, buf := NewPool(0, 10), senders(300, suite.ChaCha20Poly1305), make([]byte, 128)
	broadcast(p, all, buf)
	busy := all[:20]
	for now := range int64(40) {
		p.Advance(now)
		broadcast(p, busy, buf)
		checkPool(t, p, all)
	}
	got := p.Stats()
	if got.Kept != len(busy) || got.Evicted != 280 || got.Misses != 300 {
		t.Errorf("%+v: the 20 busy ones are to stay, the 280 idle ones to go", got)
	}
	// An evicted direction goes on where it was, and keeps its cipher again if it
	// is used once more soon.
	p.Advance(41)
	broadcast(p, all, buf)
	if got := p.Stats(); got.Kept != 20 || got.Bypassed != 280 || all[299].counter != 2 {
		t.Errorf("%+v, counter %d", got, all[299].counter)
	}
	p.Advance(50)
	broadcast(p, all, buf)
	if got := p.Stats(); got.Kept != 300 || got.Bypassed != 280 || all[299].counter != 3 {
		t.Errorf("%+v, counter %d", got, all[299].counter)
	}
	checkPool(t, p, all)
}

// TestRareUseKeepsNothing: a heartbeat now and then leaves no expanded key behind.
func TestRareUseKeepsNothing(t *testing.T) {
	p, all, buf := NewPool(0, 5), senders(10, suite.AES128GCM), make([]byte, 128)
	for now := int64(1_700_000_000); now < 1_700_000_100; now += 5 {
		p.Advance(now)
		broadcast(p, all, buf)
	}
	if got, want := p.Stats(), (PoolStats{Bypassed: 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestFullPoolMakesRoomFromIdle: a miss in a full pool looks for idle ciphers.
func TestFullPoolMakesRoomFromIdle(t *testing.T) {
	p, all, buf := NewPool(50, 10), senders(100, suite.ChaCha20Poly1305), make([]byte, 128)
	broadcast(p, all[:50], buf)
	p.now = 20 // time passes without a sweep
	broadcast(p, all[50:], buf)
	broadcast(p, all[50:], buf) // they are in use
	if got := p.Stats(); got.Bypassed != 50 || got.Kept != 50 || got.Evicted < 50 {
		t.Errorf("%+v", got)
	}
	checkPool(t, p, all)
}

func TestPoolAfterLongPause(t *testing.T) {
	p, all, buf := NewPool(0, 10), senders(300, suite.ChaCha20Poly1305), make([]byte, 128)
	broadcast(p, all, buf)
	p.Advance(1_700_000_000)
	if got := p.Stats(); got.Kept != 0 {
		t.Errorf("%+v after a pause of years", got)
	}
	p.Advance(1_699_999_999) // a clock that steps back must not hang or panic
	broadcast(p, all, buf)
	checkPool(t, p, all)
}

func TestClearAndRekeyLeaveThePoolWhole(t *testing.T) {
	p, all, buf := NewPool(0, 0), senders(64, suite.AES128GCM), make([]byte, 128)
	broadcast(p, all, buf)
	for i, s := range all {
		if i%3 == 0 {
			s.Rekey(p, 0)
		}
		if i%5 == 0 {
			s.Clear(p)
		}
		checkPool(t, p, all)
	}
	for i, s := range all {
		if i%5 != 0 {
			s.Clear(p)
		}
	}
	if got := p.Stats().Kept; got != 0 {
		t.Errorf("%d ciphers left", got)
	}
}
