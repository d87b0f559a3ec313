package wire

import (
	"errors"
	"fmt"
)

// ErrBatch reports a Batch that contradicts itself.
var ErrBatch = errors.New("malformed batch")

// MaxNumber is the greatest sequence number and epoch (docs/protocol.md section 6.4):
// what JavaScript holds exactly. No gateway comes to it.
const MaxNumber = 1<<53 - 1

// Entry is a tick or a reset of a Batch.
type Entry struct {
	Topic      uint32
	Seq        uint64
	Skipped    uint64 // earlier ticks merged into this one: it covers [Seq - Skipped, Seq]
	ReceivedUS int64  // when the gateway received the tick, microseconds since Connected.clock_us
	Payload    []byte // of a tick
	Reset      *Reset // not nil: this is no tick, and only Topic counts beside it
}

// Splitter takes batches apart. It keeps its room from one batch to the next. It
// belongs to one goroutine.
type Splitter struct {
	entries  []Entry
	sections []section
}

// section is what is left of the ticks of one topic.
type section struct {
	next uint64 // sequence number that the next tick is expected to begin with
	at   int    // where its payload begins
}

// Split returns the entries of a batch in their order, which are valid until the
// next call. Payloads alias b.Payloads and cannot be grown into one another. The
// error is ErrBatch if the batch contradicts itself or has a number above MaxNumber.
func (s *Splitter) Split(b *Batch) ([]Entry, error) {
	clear(s.entries)
	s.entries = s.entries[:0]
	n, err := b.ticks()
	if err != nil {
		return nil, err
	}
	if err := s.section(b, n); err != nil {
		return nil, err
	}
	resets, received, left := b.GetResets(), b.GetBaseUs(), len(b.GetPayloads())
	for i := range n {
		resets = s.resets(resets, i)
		if i > 0 && len(b.Deltas) > 0 {
			received += b.Deltas[i-1]
		}
		size := left
		if i < n-1 {
			size = int(b.Sizes[i])
		}
		left -= size
		e := s.tick(b, i, size)
		if e.Skipped > e.Seq || e.Seq > MaxNumber {
			return nil, fmt.Errorf("%w: tick %d skips %d before sequence number %d", ErrBatch, i, e.Skipped, e.Seq)
		}
		e.ReceivedUS = received
		s.entries = append(s.entries, e)
	}
	if resets = s.resets(resets, n); len(resets) > 0 {
		return nil, fmt.Errorf("%w: a reset that does not stand in its place, before tick %d of %d", ErrBatch, resets[0].GetAt(), n)
	}
	return s.entries, nil
}

// ticks is how many there are, if the columns agree on it and no reset goes too far.
func (b *Batch) ticks() (n int, err error) {
	topics := len(b.GetTopics())
	if topics > 0 {
		n = len(b.GetSizes()) + 1
	}
	fits := func(column, want int) bool { return column == 0 || column == want }
	switch {
	case len(b.GetFirsts()) != topics:
		err = fmt.Errorf("%w: %d topics and %d first sequence numbers", ErrBatch, topics, len(b.GetFirsts()))
	case topics > n || n == 0 && len(b.GetSizes()) > 0:
		err = fmt.Errorf("%w: %d topics and %d sizes", ErrBatch, topics, len(b.GetSizes()))
	case !fits(len(b.GetOrder()), n) || !fits(len(b.GetSkipped()), n) || !fits(len(b.GetSteps()), n) || !fits(len(b.GetDeltas()), n-1):
		err = fmt.Errorf("%w: %d ticks, and order, deltas, skipped and steps of %d, %d, %d and %d",
			ErrBatch, n, len(b.GetOrder()), len(b.GetDeltas()), len(b.GetSkipped()), len(b.GetSteps()))
	}
	for _, r := range b.GetResets() {
		if r.GetEpoch() > MaxNumber || r.GetNextSeq() > MaxNumber {
			err = fmt.Errorf("%w: a reset to epoch %d and sequence number %d", ErrBatch, r.GetEpoch(), r.GetNextSeq())
		}
	}
	return n, err
}

// section finds the payloads of each topic.
func (s *Splitter) section(b *Batch, n int) error {
	s.sections = s.sections[:0]
	for _, first := range b.GetFirsts() {
		s.sections = append(s.sections, section{next: first})
	}
	left := uint64(len(b.GetPayloads()))
	for i := range n {
		place, size := b.place(i), left
		if i < n-1 {
			size = uint64(b.Sizes[i])
		}
		if uint64(place) >= uint64(len(s.sections)) || size > left {
			return fmt.Errorf("%w: tick %d is of topic %d of %d, and of %d bytes of %d", ErrBatch, i, place, len(s.sections), size, left)
		}
		s.sections[place].at += int(size)
		left -= size
	}
	if left > 0 {
		return fmt.Errorf("%w: %d bytes of payloads and no tick", ErrBatch, left)
	}
	at := 0
	for i := range s.sections {
		x := &s.sections[i]
		x.at, at = at, at+x.at
	}
	return nil
}

// place is a tick's topic among the batch's. What order says may be more than an int holds.
func (b *Batch) place(tick int) uint32 {
	if len(b.Order) > 0 {
		return b.Order[tick]
	}
	return uint32(min(tick, len(b.Topics)-1))
}

// tick is the next one of its topic, without its time.
func (s *Splitter) tick(b *Batch, i, size int) Entry {
	place := b.place(i)
	x := &s.sections[place]
	e := Entry{Topic: b.Topics[place], Seq: x.next, Payload: b.Payloads[x.at : x.at+size : x.at+size]}
	if len(b.Skipped) > 0 {
		e.Skipped = b.Skipped[i]
		e.Seq += e.Skipped
	}
	if len(b.Steps) > 0 {
		e.Seq += uint64(b.Steps[i])
	}
	x.next, x.at = e.Seq+1, x.at+size
	return e
}

// resets adds the resets that stand before a tick, and returns those behind it.
func (s *Splitter) resets(resets []*Reset, tick int) []*Reset {
	for len(resets) > 0 && uint64(resets[0].GetAt()) == uint64(tick) {
		s.entries = append(s.entries, Entry{Topic: resets[0].GetTopic(), Reset: resets[0]})
		resets = resets[1:]
	}
	return resets
}
