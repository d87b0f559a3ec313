package peer

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sealcast/sealcast/wire"
)

// Field numbers of sealcast.proto that the walk below knows. Decoding batches
// with the generated code would cost more than everything else that a subscriber does.
const (
	fieldBatch = 15 // of ServerFrame

	fieldTopics   = 2 // of Batch
	fieldFirsts   = 3
	fieldOrder    = 4
	fieldSizes    = 5
	fieldSkipped  = 7
	fieldSteps    = 8
	fieldResets   = 9
	fieldPayloads = 10
)

// batchOf is the Batch in a frame's body, if the body is exactly one.
func batchOf(body []byte) ([]byte, bool) {
	field, kind, n := protowire.ConsumeTag(body)
	if n < 0 || field != fieldBatch || kind != protowire.BytesType {
		return nil, false
	}
	batch, m := protowire.ConsumeBytes(body[n:])
	return batch, m >= 0 && n+m == len(body)
}

// reader reads batches without times of receipt. It keeps its room.
type reader struct {
	batch wire.Batch
	split wire.Splitter
}

// read takes an encoded Batch.
func (r *reader) read(b []byte) error {
	x := &r.batch
	x.Topics, x.Firsts, x.Order, x.Sizes = x.Topics[:0], x.Firsts[:0], x.Order[:0], x.Sizes[:0]
	x.Skipped, x.Steps, x.Resets, x.Payloads = x.Skipped[:0], x.Steps[:0], x.Resets[:0], nil
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return failf(KindRecord, "a batch: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return failf(KindRecord, "a batch: %w", protowire.ParseError(n))
		}
		value := b[:n] // a varint, which is the same as a packed field of one
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		b = b[n:]
		if err := r.set(field, value); err != nil {
			return err
		}
	}
	return nil
}

// set takes a field.
func (r *reader) set(field protowire.Number, value []byte) (err error) {
	x := &r.batch
	switch field {
	case fieldTopics:
		x.Topics, err = unpackInto(x.Topics, value, func(v uint64) uint32 { return uint32(v) })
	case fieldFirsts:
		x.Firsts, err = unpackInto(x.Firsts, value, func(v uint64) uint64 { return v })
	case fieldOrder:
		x.Order, err = unpackInto(x.Order, value, func(v uint64) uint32 { return uint32(v) })
	case fieldSizes:
		x.Sizes, err = unpackInto(x.Sizes, value, func(v uint64) uint32 { return uint32(v) })
	case fieldSkipped:
		x.Skipped, err = unpackInto(x.Skipped, value, func(v uint64) uint64 { return v })
	case fieldSteps:
		x.Steps, err = unpackInto(x.Steps, value, protowire.DecodeZigZag)
	case fieldResets:
		reset := new(wire.Reset)
		if err := proto.Unmarshal(value, reset); err != nil {
			return &Error{KindRecord, err}
		}
		x.Resets = append(x.Resets, reset)
	case fieldPayloads:
		x.Payloads = value
	}
	return err
}

// unpackInto appends the numbers of a packed field.
func unpackInto[T any](dst []T, b []byte, convert func(uint64) T) ([]T, error) {
	for len(b) > 0 {
		v, n := uint64(b[0]), 1
		if v >= 1<<7 {
			if v, n = protowire.ConsumeVarint(b); n < 0 {
				return dst, failf(KindRecord, "a batch: %w", protowire.ParseError(n))
			}
		}
		dst, b = append(dst, convert(v)), b[n:]
	}
	return dst, nil
}

// batch applies the entries of a Batch one by one.
func (s *Stream) batch(id wire.Codec, b []byte, l Listener) error {
	r := &s.shared.reader
	err := r.read(b)
	if err == nil && id != wire.CodecNone {
		r.batch.Payloads, err = s.unpack(id, r.batch.Payloads)
	}
	if err != nil {
		return err
	}
	entries, err := r.split.Split(&r.batch)
	if err != nil {
		return &Error{KindRecord, err}
	}
	if err := s.announced(&r.batch); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if e.Reset != nil {
			s.reset(e)
		} else if err := s.entry(e, l); err != nil {
			return err
		}
	}
	return nil
}

// announced tells whether all topics of a batch have been, before anything of it is used.
func (s *Stream) announced(b *wire.Batch) error {
	for _, number := range b.Topics {
		if s.topics[number] == nil {
			return failf(KindOrder, "a tick of topic %d, which was never announced", number)
		}
	}
	for _, r := range b.Resets {
		if s.topics[r.GetTopic()] == nil {
			return failf(KindOrder, "a reset of topic %d, which was never announced", r.GetTopic())
		}
	}
	return nil
}

// entry hands a new tick over.
func (s *Stream) entry(e *wire.Entry, l Listener) error {
	fresh, err := s.tick(e)
	if fresh {
		s.Seen.Ticks++
		if err := l.Tick(e.Topic, e.Payload); err != nil {
			return err
		}
	}
	return err
}

// reset begins a topic anew.
func (s *Stream) reset(e *wire.Entry) {
	if p := s.topics[e.Topic]; p.epoch != e.Reset.GetEpoch() {
		s.Seen.Resets++
		p.epoch, p.next = e.Reset.GetEpoch(), e.Reset.GetNextSeq()
	}
}
