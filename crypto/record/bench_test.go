package record

import (
	"crypto/cipher"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
)

var benchSizes = []int{64, 256, 1 << 10, 4 << 10, 16 << 10}

// BenchmarkSeal compares Seal with the bare call of the cipher it wraps.
func BenchmarkSeal(b *testing.B) {
	perSuite(b, func(b *testing.B, id suite.ID, size int) {
		aead, nonce := bare(b, id)
		e := newEnds(id, Limits{})
		own, its := make([]byte, 1+size+suite.TagSize), make([]byte, 1+size+suite.TagSize)
		paired(b, size, func() {
			aead.Seal(own[1:1], nonce, own[1:1+size], own[:1])
		}, func() {
			if e.seal.RekeyDue(1) {
				e.seal.Rekey(e.from, 1)
			}
			e.seal.Seal(e.from, its[:0], kind, its[1:1+size])
		})
	})
}

// BenchmarkOpen compares Open with the bare call of the cipher it wraps. Both
// copy the record first, since opening in place destroys it.
func BenchmarkOpen(b *testing.B) {
	perSuite(b, func(b *testing.B, id suite.ID, size int) {
		aead, nonce := bare(b, id)
		e := newEnds(id, Limits{})
		ownSealed := aead.Seal([]byte{kind}, nonce, make([]byte, size), []byte{kind})
		itsSealed := e.seal.Seal(e.from, nil, kind, make([]byte, size))
		own, its := make([]byte, len(ownSealed)), make([]byte, len(itsSealed))
		paired(b, size, func() {
			copy(own, ownSealed)
			if _, err := aead.Open(own[1:1], nonce, own[1:], own[:1]); err != nil {
				b.Fatal(err)
			}
		}, func() {
			copy(its, itsSealed)
			e.open.counter = 0
			if _, err := e.open.Open(e.to, its); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// paired runs bare and record in short alternating blocks, so that both see
// the same machine, and reports the medians over the blocks: bare ns, record
// ns, and the median of the pairs' differences in ns and in percent.
func paired(b *testing.B, size int, bare, record func()) {
	block := max(20, 20_000/(size+100))
	var bareTimes, recordTimes, differences []float64
	for b.Loop() {
		t0 := time.Now()
		for range block {
			bare()
		}
		t1 := time.Now()
		for range block {
			record()
		}
		t2 := time.Now()
		bareTime, recordTime := float64(t1.Sub(t0))/float64(block), float64(t2.Sub(t1))/float64(block)
		bareTimes, recordTimes = append(bareTimes, bareTime), append(recordTimes, recordTime)
		differences = append(differences, recordTime-bareTime)
	}
	b.ReportMetric(0, "ns/op") // a block is no unit that anybody wants
	b.ReportMetric(median(bareTimes), "bare-ns")
	b.ReportMetric(median(recordTimes), "record-ns")
	b.ReportMetric(median(differences), "extra-ns")
	b.ReportMetric(100*median(differences)/median(bareTimes), "extra-%")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func perSuite(b *testing.B, f func(b *testing.B, id suite.ID, size int)) {
	for _, id := range suite.All() {
		for _, size := range benchSizes {
			b.Run(fmt.Sprintf("%v/%d", id, size), func(b *testing.B) { f(b, id, size) })
		}
	}
}

// BenchmarkPool seals one record of 256 bytes in each session in turn, as a
// broadcast does, with pools of several sizes; one operation is one record.
// The size "none" is a pool of one place: every other record expands its key.
func BenchmarkPool(b *testing.B) {
	for _, id := range []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305} {
		for _, sessions := range []int{1, 1_000, 10_000, 100_000} {
			all := senders(sessions, id)
			for _, pool := range []struct {
				name string
				size int
			}{{"none", 1}, {"4k", 4 << 10}, {"32k", 32 << 10}, {"all", sessions}} {
				b.Run(fmt.Sprintf("%v/sessions=%d/pool=%s", id, sessions, pool.name), func(b *testing.B) {
					benchmarkBroadcast(b, NewPool(pool.size, 0), all)
				})
			}
		}
	}
}

func benchmarkBroadcast(b *testing.B, p *Pool, all []*Sealer) {
	buf := make([]byte, 512)
	warm := make([]byte, 128)
	broadcast(p, all, warm)
	before := p.Stats()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		all[i].Seal(p, buf[:0], kind, buf[1:257])
		if i++; i == len(all) {
			i = 0
		}
	}
	after := p.Stats()
	hits, misses := after.Hits-before.Hits, after.Misses-before.Misses+after.Bypassed-before.Bypassed
	b.ReportMetric(100*float64(hits)/float64(hits+misses), "%hit")
	for _, s := range all { // the next pool begins empty
		p.drop(&s.half)
		s.counter = 0
	}
}

// bare is a cipher of the suite and a nonce for it.
func bare(b *testing.B, id suite.ID) (cipher.AEAD, []byte) {
	b.Helper()
	aead, err := id.New(make([]byte, id.KeySize()))
	if err != nil {
		b.Fatal(err)
	}
	return aead, make([]byte, suite.NonceSize)
}
