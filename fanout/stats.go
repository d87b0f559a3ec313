package fanout

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are counters since the start, and levels as of now.
type Stats struct {
	Received      uint64 // ticks numbered and handed over
	ReceivedBytes uint64 // their payloads
	Copies        uint64 // further copies of ticks that came through overlapping subscriptions, not counted as ticks
	Unmatched     uint64 // messages that no wanted filter matches; Redis's patterns give more than ours
	Invalid       uint64 // messages on channels that are no valid topic names
	Oversized     uint64 // ticks dropped because they were larger than Options.MaxTick
	Dropped       uint64 // messages dropped because the queue was full
	Unnumbered    uint64 // topics not opened because topic numbers had run out
	Resets        uint64 // new epochs of topics
	Lost          uint64 // connections to the source that were lost
	Refused       uint64 // filters that the source did not allow, per loop

	TopicStats

	Filters       int // filters that loops have acquired, and those of rules
	Subscriptions int // subscriptions at the source, asked for, confirmed, or about to end
	QueueTicks    int // messages that wait for the hub
	QueueBytes    int // their bytes

	Kept KeptStats
}

// TopicStats are how many topics there are.
type TopicStats struct {
	Topics int // in which a loop has an interest, or of which something is kept
	Stale  int // those of them that no ticks come for at the moment: their part of the source is away
}

// KeptStats say what the hub holds for those who come later, and what it had to turn away.
type KeptStats struct {
	Ticks         int    // last values and history
	Bytes         int    // what they count for in Options.HistoryBytes
	Evicted       uint64 // kept ticks that had to go because of that
	Seeds         uint64 // first values that were read and kept
	SeedsFailed   uint64 // first values that could not be read, or were too long
	TopicsRefused uint64 // ticks dropped because they would have opened a topic beyond Options.MaxTopics
}

// counters are written by the hub and read by any goroutine.
type counters struct {
	received, receivedBytes, copies, unmatched, invalid atomic.Uint64
	oversized, unnumbered, resets, lost, refused        atomic.Uint64
	topics, stale, filters, subscriptions               atomic.Int64
	keptTicks, keptBytes                                atomic.Int64
	keptCounters
}

// keptCounters are those of KeptStats.
type keptCounters struct {
	evicted, topicsRefused, seeds, seedsFailed atomic.Uint64
}

// gauge publishes the levels that the hub owns.
func (c *counters) gauge(h *Hub) {
	c.topics.Store(int64(len(h.topics)))
	c.stale.Store(int64(h.stale()))
	c.filters.Store(int64(h.filters))
	c.subscriptions.Store(int64(h.cover.live))
	c.keptTicks.Store(int64(h.store.ticks))
	c.keptBytes.Store(int64(h.store.bytes))
}

// Stats returns the hub's counters.
func (h *Hub) Stats() Stats {
	c := &h.count
	s := Stats{
		Received:      c.received.Load(),
		ReceivedBytes: c.receivedBytes.Load(),
		Copies:        c.copies.Load(),
		Unmatched:     c.unmatched.Load(),
		Invalid:       c.invalid.Load(),
		Oversized:     c.oversized.Load(),
		Unnumbered:    c.unnumbered.Load(),
		Resets:        c.resets.Load(),
		Lost:          c.lost.Load(),
		Refused:       c.refused.Load(),
		TopicStats:    TopicStats{Topics: int(c.topics.Load()), Stale: int(c.stale.Load())},
		Filters:       int(c.filters.Load()),
		Subscriptions: int(c.subscriptions.Load()),
		Kept: KeptStats{
			Ticks:         int(c.keptTicks.Load()),
			Bytes:         int(c.keptBytes.Load()),
			Evicted:       c.evicted.Load(),
			Seeds:         c.seeds.Load(),
			SeedsFailed:   c.seedsFailed.Load(),
			TopicsRefused: c.topicsRefused.Load(),
		},
	}
	s.QueueTicks, s.QueueBytes, s.Dropped = h.queue.depth()
	return s
}

// NotReady says why no ticks come from the source, and since when.
type NotReady struct {
	Addr  string // of the source
	Since time.Time
	Err   error
}

// Error names the source, the reason and the time.
func (e *NotReady) Error() string {
	return fmt.Sprintf("redis %s: %v, since %s", e.Addr, e.Err, e.Since.UTC().Format(time.RFC3339))
}

func (e *NotReady) Unwrap() error { return e.Err }

var (
	errStarting    = errors.New("not connected yet")
	errSubscribing = errors.New("connected, subscriptions not confirmed yet")
)

// status is the state of the source. Safe for concurrent use.
type status struct {
	now func() time.Time

	mu    sync.Mutex
	why   *NotReady // nil: ready
	link  uint64    // number of the connection; 0: there is none
	since time.Time
}

func newStatus(now func() time.Time, addr string) *status {
	s := &status{now: now}
	s.down(addr, errStarting)
	return s
}

// down notes that there is no connection, and why.
func (s *status) down(addr string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.since = s.now()
	}
	s.link = 0
	s.why = &NotReady{Addr: addr, Since: s.since, Err: err}
}

// connected notes a connection whose subscriptions are yet to be confirmed.
func (s *status) connected(addr string, link uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = link
	s.why = &NotReady{Addr: addr, Since: s.since, Err: errSubscribing}
}

// missing notes that a part of what a connection gave is lost, and why.
func (s *status) missing(addr string, link uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.since = s.now()
	}
	s.link = link
	s.why = &NotReady{Addr: addr, Since: s.since, Err: err}
}

// because notes why subscriptions are not confirmed, if any are awaited.
func (s *status) because(addr string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		s.why = &NotReady{Addr: addr, Since: s.since, Err: err}
	}
}

// ready notes that the subscriptions of a connection are confirmed, unless that is lost again.
func (s *status) ready(link uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == link {
		s.why = nil
	}
}

func (s *status) get() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		return nil
	}
	return s.why
}
