package gateway

import (
	"sync/atomic"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// counters are what no loop counts: the acceptor's.
type counters struct {
	accepted     atomic.Uint64
	refused      atomic.Uint64
	denied       atomic.Uint64
	enrollFailed atomic.Uint64
	badProxy     atomic.Uint64
}

// Stats are counters since the start, and levels as of now.
type Stats struct {
	Connections    int64  // open now
	TicketsRefused uint64 // the client went on with a full handshake
	TooSlow        uint64 // sessions ended with 4413
	Panics         uint64 // on loops and in workers
	Stalls         uint64 // turns of a loop that lasted longer than 100 ms

	Newcomers
	Deliveries
	Traffic
	Handshakes Handshakes
	Closes     []Closes
	Times      Times
	Queues     Queues
	Ciphers    record.PoolStats
	Logins     LoginStats
}

// Deliveries count what became of ticks, for each session.
type Deliveries struct {
	Delivered uint64 // sealed for a session
	Merged    uint64 // not sealed, because a newer one stands for them
	Gaps      uint64 // told to slow sessions
	Dropped   uint64 // ticks that these were
	OverTotal uint64 // times that the session that most waits for had to pay for slow.total
}

// Newcomers counts connections by what became of them before the upgrade.
type Newcomers struct {
	Accepted     uint64 // handed to a loop
	Refused      uint64 // told 503 or closed because of a limit
	Denied       uint64 // turned away because of the deny list
	EnrollFailed uint64 // accepted, but not taken by a loop
	BadProxy     uint64 // closed because a trusted proxy sent no valid PROXY protocol header
}

// Traffic is what went over the connections. Bytes are those of the sockets,
// upgrades and frame headers included.
type Traffic struct {
	RecordsOpened, RecordsSealed uint64
	BytesIn, BytesOut            uint64
	// What batches were before and after compression, once per cohort; those
	// that went out as they were are left out.
	CompressedFrom, CompressedTo uint64
	Groups                       GroupStats
}

// Handshakes counts how handshakes ended, by suite.
type Handshakes map[suite.ID]HandshakeResults

// HandshakeResults counts handshakes; each stands in one field.
type HandshakeResults struct {
	OK      uint64 // complete, without a ticket
	Resumed uint64 // complete, with one
	Failed  uint64 // something in it was wrong
	Busy    uint64 // refused with 1013: all workers busy, or more of them a second than is allowed
	Late    uint64 // not complete within its time
	Gone    uint64 // the client left, or the gateway restarts
}

// Sum adds the results of all suites.
func (h Handshakes) Sum() (sum HandshakeResults) {
	for _, r := range h {
		sum.OK += r.OK
		sum.Resumed += r.Resumed
		sum.Failed += r.Failed
		sum.Busy += r.Busy
		sum.Late += r.Late
		sum.Gone += r.Gone
	}
	return sum
}

// Closes counts connections that ended with one close code. Those that ended
// before the upgrade count nowhere here.
type Closes struct {
	Code      wire.CloseCode // 0: a code that Sealcast does not know
	ByGateway uint64
	ByClient  uint64 // 1006: without a close
}

// Times says how large things were and how long they took. Sizes are in ticks
// and bytes, times in seconds.
type Times struct {
	BatchTicks Distribution // of each batch, built once per cohort
	BatchBytes Distribution // its plaintext
	BatchDelay Distribution // from a batch's first tick at the source until it is built; one batch in 16
	Seal       Distribution // one record in 256
	Open       Distribution // one record in 256
	Lag        Distribution // from the wish to wake a loop until it does; five times a second or more
}

// Queues are levels as of now.
type Queues struct {
	Letters      int   // that wait in the loops' mailboxes
	LetterBytes  int   // their ticks
	Handshakes   int   // that wait for a worker
	SlowSessions int64 // as of the loops' last look, as the next one
	SlowBytes    int64 // that wait for them
}

// Stats is safe for concurrent use.
func (g *Gateway) Stats() Stats {
	s := Stats{
		Connections: g.conns.Load(),
		Newcomers: Newcomers{
			Accepted: g.stats.accepted.Load(), Refused: g.stats.refused.Load(), Denied: g.stats.denied.Load(),
			EnrollFailed: g.stats.enrollFailed.Load(), BadProxy: g.stats.badProxy.Load(),
		},
		Panics:     g.workers.panics.Load(),
		Handshakes: make(Handshakes),
		Closes:     newCloses(),
		Times:      newTimes(),
	}
	s.Queues.Handshakes = len(g.workers.queue)
	g.addAccess(&s.Logins)
	for _, l := range *g.loops.Load() {
		l.stats.addTo(&s)
		letters, bytes := l.mail.depth()
		s.Queues.Letters += letters
		s.Queues.LetterBytes += bytes
	}
	for i := range s.Closes {
		if c := &s.Closes[i]; c.Code == wire.CloseTooSlow {
			s.TooSlow = c.ByGateway
		}
	}
	return s
}
