package gateway

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

const (
	// sealSample is one in how many records is timed, because reading the clock
	// twice costs about as much as sealing, and opening.
	sealSample = 256
	// delaySample is one in how many batches has its delay measured.
	delaySample = 16
)

// loopStats are the counters of one loop: the loop writes, any goroutine reads.
// Each loop has its own, so that none waits for another's cache lines.
type loopStats struct {
	trafficCounts

	deliveryCounts
	ticketsRefused atomic.Uint64
	panics, stalls atomic.Uint64
	slowSessions   atomic.Int64
	slowBytes      atomic.Int64
	handshakes     handshakeCounts
	closes         [2][len(closeCodes) + 1]atomic.Uint64 // by whom, then in closeCodes' order, then unknown codes
	times          loopTimes
	ciphers        cipherCounts
	logins         loginCounts
}

// trafficCounts are a loop's part of Traffic.
type trafficCounts struct {
	recordsIn, recordsOut atomic.Uint64
	bytesIn, bytesOut     atomic.Uint64

	compressedFrom, compressedTo atomic.Uint64

	groups groupCounts
}

// deliveryCounts are a loop's Deliveries.
type deliveryCounts struct {
	delivered, merged, gaps, dropped, overTotal atomic.Uint64
}

func (c *deliveryCounts) addTo(to *Deliveries) {
	to.Delivered += c.delivered.Load()
	to.Merged += c.merged.Load()
	to.Gaps += c.gaps.Load()
	to.Dropped += c.dropped.Load()
	to.OverTotal += c.overTotal.Load()
}

// loopTimes are a loop's distributions. seals, opens and batches choose the samples.
type loopTimes struct {
	batchTicks, batchBytes, batchDelay, seal, open, lag histogram
	seals, opens, batches                               uint32 // owned by the loop
}

// addTo adds the loop's numbers to the gateway's.
func (s *loopStats) addTo(to *Stats) {
	to.RecordsOpened += s.recordsIn.Load()
	to.RecordsSealed += s.recordsOut.Load()
	to.BytesIn += s.bytesIn.Load()
	to.BytesOut += s.bytesOut.Load()
	to.CompressedFrom += s.compressedFrom.Load()
	to.CompressedTo += s.compressedTo.Load()
	s.deliveryCounts.addTo(&to.Deliveries)
	to.TicketsRefused += s.ticketsRefused.Load()
	to.Panics += s.panics.Load()
	to.Stalls += s.stalls.Load()
	to.Queues.SlowSessions += s.slowSessions.Load()
	to.Queues.SlowBytes += s.slowBytes.Load()
	s.handshakes.addTo(to.Handshakes)
	for i := range to.Closes {
		to.Closes[i].ByGateway += s.closes[byGateway][i].Load()
		to.Closes[i].ByClient += s.closes[byClient][i].Load()
	}
	s.times.batchTicks.addTo(&to.Times.BatchTicks)
	s.times.batchBytes.addTo(&to.Times.BatchBytes)
	s.times.batchDelay.addTo(&to.Times.BatchDelay)
	s.times.seal.addTo(&to.Times.Seal)
	s.times.open.addTo(&to.Times.Open)
	s.times.lag.addTo(&to.Times.Lag)
	s.ciphers.addTo(&to.Ciphers)
	s.logins.addTo(&to.Logins)
	s.groups.addTo(&to.Groups)
}

// batch counts one batch. received is when its first tick came, in microseconds
// since the Unix epoch; 0 if it holds none.
func (s *loopStats) batch(ticks, bytes int, received int64) {
	t := &s.times
	t.batchTicks.observe(int64(ticks))
	t.batchBytes.observe(int64(bytes))
	if t.batches++; t.batches%delaySample == 0 && received > 0 {
		t.batchDelay.observe(1000 * (time.Now().UnixMicro() - received))
	}
}

// sealSampled tells whether to time the record that is about to be sealed.
func (s *loopStats) sealSampled() bool {
	s.times.seals++
	return s.times.seals%sealSample == 0
}

// openSampled tells whether to time the record that is about to be opened.
func (s *loopStats) openSampled() bool {
	s.times.opens++
	return s.times.opens%sealSample == 0
}

// closer is who ended a connection.
type closer int

const (
	byGateway closer = iota
	byClient
)

// closeLost is counted when a connection breaks without a close (RFC 6455
// section 7.1.5); it is never sent.
const closeLost wire.CloseCode = 1006

// closeCodes are those that are counted under their own number.
var closeCodes = [...]wire.CloseCode{
	wire.CloseNormal, wire.CloseGoingAway, wire.CloseProtocolError, wire.CloseUnsupported, wire.CloseNoStatus, closeLost,
	wire.CloseInvalidUTF8, wire.ClosePolicy, wire.CloseTooBig, wire.CloseInternal, wire.CloseRestart, wire.CloseTryLater,
	wire.CloseBadRecord, wire.CloseUnauthenticated, wire.CloseForbidden, wire.CloseTooLate, wire.CloseReplaced,
	wire.CloseHeartbeatLost, wire.CloseTooSlow, wire.CloseTooMany,
}

func newCloses() []Closes {
	all := make([]Closes, len(closeCodes)+1)
	for i, code := range closeCodes {
		all[i].Code = code
	}
	return all
}

// closed counts the end of a connection that was upgraded.
func (s *loopStats) closed(code wire.CloseCode, by closer) {
	i := slices.Index(closeCodes[:], code)
	if i < 0 {
		i = len(closeCodes)
	}
	s.closes[by][i].Add(1)
}

// handshakeCounts are HandshakeResults by suite; the first place is unused.
type handshakeCounts [suite.Plain + 1]struct {
	ok, resumed, failed, busy, late, gone atomic.Uint64
}

func (h *handshakeCounts) addTo(to Handshakes) {
	for _, id := range suite.All() {
		from, sum := &h[id], to[id]
		sum.OK += from.ok.Load()
		sum.Resumed += from.resumed.Load()
		sum.Failed += from.failed.Load()
		sum.Busy += from.busy.Load()
		sum.Late += from.late.Load()
		sum.Gone += from.gone.Load()
		to[id] = sum
	}
}

func (h *handshakeCounts) done(id suite.ID, resumed bool) {
	if resumed {
		h[id].resumed.Add(1)
		return
	}
	h[id].ok.Add(1)
}

// broken counts a handshake that came to nothing because of a close.
func (h *handshakeCounts) broken(id suite.ID, code wire.CloseCode, by closer) {
	n := &h[id]
	switch {
	case by == byClient, code == wire.CloseRestart:
		n.gone.Add(1)
	case code == wire.CloseTryLater:
		n.busy.Add(1)
	case code == wire.CloseTooLate:
		n.late.Add(1)
	default:
		n.failed.Add(1)
	}
}

// cipherCounts publish what the loop's pool counts.
type cipherCounts struct {
	hits, misses, bypassed, evicted atomic.Uint64
	kept                            atomic.Int64
}

func (c *cipherCounts) set(from record.PoolStats) {
	c.hits.Store(from.Hits)
	c.misses.Store(from.Misses)
	c.bypassed.Store(from.Bypassed)
	c.evicted.Store(from.Evicted)
	c.kept.Store(int64(from.Kept))
}

func (c *cipherCounts) addTo(to *record.PoolStats) {
	to.Hits += c.hits.Load()
	to.Misses += c.misses.Load()
	to.Bypassed += c.bypassed.Load()
	to.Evicted += c.evicted.Load()
	to.Kept += int(c.kept.Load())
}

// steps is how many bounds a distribution has, each twice the one before.
const steps = 15

// Distribution is a histogram. Counts[i] values were at most Bounds[i] and above
// the bound before; the last count, one more than there are bounds, is of those
// above all.
type Distribution struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
	per    float64 // of what histogram counts, in one unit of Bounds and Sum
}

func newDistribution(base int64, per float64) Distribution {
	d := Distribution{Counts: make([]uint64, steps+1), per: per}
	for i := range steps {
		d.Bounds = append(d.Bounds, float64(base<<i)/per)
	}
	return d
}

// First bounds, in ticks, bytes and nanoseconds: the last ones are then 16,384
// ticks, 1 MiB, 1.6 s, 1.6 ms and 1.6 s.
const (
	firstTicks = 1
	firstBytes = 64
	firstDelay = 100_000
	firstSeal  = 100
	firstLag   = 100_000
)

func newTimes() Times {
	return Times{
		BatchTicks: newDistribution(firstTicks, 1),
		BatchBytes: newDistribution(firstBytes, 1),
		BatchDelay: newDistribution(firstDelay, 1e9),
		Seal:       newDistribution(firstSeal, 1e9),
		Open:       newDistribution(firstSeal, 1e9),
		Lag:        newDistribution(firstLag, 1e9),
	}
}

// histogram is a Distribution that its loop fills without a lock.
type histogram struct {
	base   int64
	counts [steps + 1]atomic.Uint64
	sum    atomic.Int64
}

func (t *loopTimes) init() {
	t.batchTicks.base, t.batchBytes.base = firstTicks, firstBytes
	t.batchDelay.base, t.seal.base, t.open.base, t.lag.base = firstDelay, firstSeal, firstSeal, firstLag
}

// observe counts v; what is negative, because a clock was set back, counts as 0.
func (h *histogram) observe(v int64) {
	v = max(v, 0)
	h.counts[min(bits.Len64(uint64(max(v-1, 0)/h.base)), steps)].Add(1)
	h.sum.Add(v)
}

func (h *histogram) addTo(d *Distribution) {
	for i := range h.counts {
		d.Counts[i] += h.counts[i].Load()
	}
	d.Sum += float64(h.sum.Load()) / d.per
}
