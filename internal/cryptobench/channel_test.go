package cryptobench

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
)

func testLab() *lab { return newLab(Options{Sizes: []int{1024}}) }

// channels are all ways to protect a record that are measured.
func (l *lab) channels() map[string]func() channel {
	all := map[string]func() channel{
		"fresh buffer": func() channel { return freshBuffer{l.bare(lessonSuite)} },
		"random nonce": func() channel { return randomNonce{l.bare(lessonSuite)} },
		"CTR and HMAC": func() channel { return l.ctrHMAC() },
	}
	for _, id := range suite.All() {
		all["product "+id.String()] = func() channel { return l.product(id) }
		all["bare "+id.String()] = func() channel { return l.bare(id) }
		all["per message "+id.String()] = func() channel { return perMessage{l.bare(id)} }
	}
	return all
}

func TestChannelsRoundTrip(t *testing.T) {
	l := testLab()
	for name, open := range l.channels() {
		c := open()
		for _, size := range []int{0, 1, 15, 16, 100, 1024} {
			if err := roundTrip(c, l.buffer, l.bytes(size)); err != nil {
				t.Errorf("%s, %d bytes: %v", name, size, err)
			}
		}
	}
}

// TestChannelsRefuseAlteredRecords: what is compared protects as well.
func TestChannelsRefuseAlteredRecords(t *testing.T) {
	l := testLab()
	for name, open := range l.channels() {
		if open().overhead() == 1 {
			continue // plain protects nothing
		}
		length := 40 + open().overhead()
		for at := range length {
			c := open()
			sealed := c.seal(l.buffer[:0], l.buffer[c.head():][:40])
			sealed[at] ^= 1
			if _, err := c.open(sealed); err == nil {
				t.Fatalf("%s: byte %d altered, and nobody minds", name, at)
			}
		}
		for n := range length {
			c := open()
			sealed := c.seal(l.buffer[:0], l.buffer[c.head():][:40])
			if _, err := c.open(sealed[:n]); err == nil {
				t.Fatalf("%s: cut to %d bytes, and nobody minds", name, n)
			}
		}
	}
}

func TestChannelsUseEachNonceOnce(t *testing.T) {
	l := testLab()
	for name, open := range l.channels() {
		if open().overhead() == 1 {
			continue
		}
		c, seen := open(), map[string]bool{}
		for range 100 {
			clear(l.buffer)
			sealed := string(c.seal(l.buffer[:0], l.buffer[c.head():][:32]))
			if seen[sealed] {
				t.Fatalf("%s: the same record for the same text", name)
			}
			seen[sealed] = true
		}
	}
}

// leaky shows what it should hide, or gives back something else.
type leaky struct {
	*bare
	shows bool
}

func (k leaky) seal(dst, plaintext []byte) []byte {
	text := bytes.Clone(plaintext)
	sealed := k.bare.seal(dst, plaintext)
	if k.shows {
		copy(sealed[1:], text)
	}
	return sealed
}

func (k leaky) open(msg []byte) ([]byte, error) {
	plaintext, err := k.bare.open(msg)
	return append(plaintext, 'x'), err
}

func TestRoundTripFindsFaults(t *testing.T) {
	l := testLab()
	text := l.bytes(64)
	if err := roundTrip(leaky{l.bare(lessonSuite), true}, l.buffer, text); !errors.Is(err, errShown) {
		t.Errorf("a record that shows its text: %v", err)
	}
	if err := roundTrip(leaky{l.bare(lessonSuite), false}, l.buffer, text); !errors.Is(err, errRoundTrip) {
		t.Errorf("a text that changes: %v", err)
	}
}

// TestLongMeasurementChangesKeys: neither end of a channel reaches the limit
// of its key. Each change of keys makes the pool miss once.
func TestLongMeasurementChangesKeys(t *testing.T) {
	l := testLab()
	fewRecords := func() channel {
		p := &product{pool: l.pool}
		p.sealer.Init(suite.AES128GCM, record.Extract(nil, nil, nil), record.Limits{Records: 10})
		p.opener.Init(suite.AES128GCM, record.Extract(nil, nil, nil))
		return p
	}
	run := func(task *task, n int) {
		t.Helper()
		if err := task.ready(n); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := task.run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	seal, open := l.sealTask(named{size: 64}, fewRecords), l.openTask(named{size: 64}, fewRecords())
	seal.ready = func(int) error { return nil }
	run(seal, 100)
	if got := l.pool.Stats().Misses; got != 10 {
		t.Errorf("%d keys for 100 records of which each serves 10", got)
	}
	for range 5 {
		run(open, 10)
	}
	if got := l.pool.Stats().Misses; got != 20 {
		t.Errorf("%d keys after 50 more at both ends", got)
	}
}

func TestQueueStaysInTheArena(t *testing.T) {
	l := newLab(Options{Sizes: []int{maxSize}})
	q := l.queue(l.product(suite.AES128GCM), maxSize)
	if n := q.atOnce(); n != 1 {
		t.Errorf("%d records of the largest size at once", n)
	}
	q = l.queue(l.product(suite.AES128GCM), 16<<10)
	last := q.slot(q.atOnce() - 1)
	if len(last) != 16<<10+q.overhead() || cap(last) != len(last) {
		t.Errorf("a slot of %d bytes, capacity %d", len(last), cap(last))
	}
}

func TestMixedOrder(t *testing.T) {
	order := testLab().mixedOrder()
	opens := 0
	for _, open := range order {
		if open {
			opens++
		}
	}
	if opens != mixedOpens || len(order) != mixedTurns {
		t.Errorf("%d of %d open", opens, len(order))
	}
	if !slices.Equal(order, testLab().mixedOrder()) {
		t.Error("another order from the same seed")
	}
	if slices.Equal(order[:mixedOpens], slices.Repeat([]bool{true}, mixedOpens)) {
		t.Error("not shuffled")
	}
}

// TestSeedDecidesInputs: messages and symmetric keys follow from the seed alone.
func TestSeedDecidesInputs(t *testing.T) {
	sealed := func(seed uint64) []byte {
		l := newLab(Options{Sizes: []int{64}, Seed: seed})
		return l.product(suite.AES128GCM).seal(nil, l.bytes(64))
	}
	if !bytes.Equal(sealed(1), sealed(1)) || bytes.Equal(sealed(1), sealed(2)) {
		t.Error("the records do not follow from the seed")
	}
}
