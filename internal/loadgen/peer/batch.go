package peer

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of sealcast.proto that the walk below knows. Decoding batches
// into messages would cost more than everything else that a subscriber does.
const (
	fieldBatch = 21 // of ServerFrame

	fieldHeads    = 2 // of Batch
	fieldPayloads = 3

	fieldTopic   = 1 // of Head
	fieldSeq     = 2
	fieldSize    = 3
	fieldSkipped = 5
	fieldReset   = 6

	fieldEpoch   = 1 // of Reset
	fieldNextSeq = 2
)

// head is one entry of a batch.
type head struct {
	topic   uint32
	seq     uint64
	size    int
	skipped uint64
	reset   []byte // not nil: this is no tick
}

// batchOf is the Batch in a frame's body, if the body is exactly one.
func batchOf(body []byte) ([]byte, bool) {
	field, kind, n := protowire.ConsumeTag(body)
	if n < 0 || field != fieldBatch || kind != protowire.BytesType {
		return nil, false
	}
	batch, m := protowire.ConsumeBytes(body[n:])
	return batch, m >= 0 && n+m == len(body)
}

// batch walks over a Batch: first to find the payloads, then head by head.
func (s *Stream) batch(b []byte, l Listener) error {
	payloads, err := payloadsOf(b)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		field, value, rest, err := consume(b)
		if err != nil {
			return err
		}
		if b = rest; field != fieldHeads {
			continue
		}
		h, err := parseHead(value)
		if err != nil {
			return err
		}
		if h.reset != nil {
			err = s.reset(&h)
		} else if h.size > len(payloads) {
			err = failf(KindRecord, "a batch whose heads name more than its payloads hold")
		} else {
			err = s.entry(&h, payloads[:h.size:h.size], l)
			payloads = payloads[h.size:]
		}
		if err != nil {
			return err
		}
	}
	if len(payloads) > 0 {
		return failf(KindRecord, "a batch with %d bytes that no head names", len(payloads))
	}
	return nil
}

func payloadsOf(b []byte) ([]byte, error) {
	for len(b) > 0 {
		field, value, rest, err := consume(b)
		if err != nil {
			return nil, err
		}
		if field == fieldPayloads {
			return value, nil
		}
		b = rest
	}
	return nil, nil
}

// tag takes the tag of a field, which is one byte of all that the walk knows.
func tag(b []byte) (protowire.Number, protowire.Type, int) {
	if b[0] < 0x80 && b[0]>>3 != 0 {
		return protowire.Number(b[0] >> 3), protowire.Type(b[0] & 7), 1
	}
	return protowire.ConsumeTag(b)
}

// consume takes one field. value is set for fields of bytes.
func consume(b []byte) (field protowire.Number, value, rest []byte, err error) {
	field, kind, n := tag(b)
	if n < 0 {
		return 0, nil, nil, failf(KindRecord, "a batch: %w", protowire.ParseError(n))
	}
	b = b[n:]
	if kind == protowire.BytesType {
		if value, n = protowire.ConsumeBytes(b); n < 0 {
			return 0, nil, nil, failf(KindRecord, "a batch: %w", protowire.ParseError(n))
		}
		return field, value, b[n:], nil
	}
	if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
		return 0, nil, nil, failf(KindRecord, "a batch: %w", protowire.ParseError(n))
	}
	return field, nil, b[n:], nil
}

func parseHead(b []byte) (h head, err error) {
	for len(b) > 0 {
		field, kind, n := tag(b)
		if n < 0 {
			return h, failf(KindRecord, "a head: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if kind == protowire.VarintType {
			v, m := binary.Uvarint(b)
			if m <= 0 {
				return h, failf(KindRecord, "a head that is cut off")
			}
			h.set(field, v)
			b = b[m:]
			continue
		}
		if field == fieldReset && kind == protowire.BytesType {
			if h.reset, n = protowire.ConsumeBytes(b); h.reset == nil {
				h.reset = []byte{}
			}
		} else {
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return h, failf(KindRecord, "a head: %w", protowire.ParseError(n))
		}
		b = b[n:]
	}
	return h, nil
}

func (h *head) set(field protowire.Number, v uint64) {
	switch field {
	case fieldTopic:
		h.topic = uint32(v)
	case fieldSeq:
		h.seq = v
	case fieldSize:
		h.size = int(min(v, MaxMessage))
	case fieldSkipped:
		h.skipped = v
	}
}

// entry hands a new tick over.
func (s *Stream) entry(h *head, payload []byte, l Listener) error {
	fresh, err := s.tick(h)
	if fresh {
		s.Seen.Ticks++
		if err := l.Tick(h.topic, payload); err != nil {
			return err
		}
	}
	return err
}

// reset begins a topic anew.
func (s *Stream) reset(h *head) error {
	p := s.topics[h.topic]
	if p == nil {
		return failf(KindOrder, "a reset of topic %d, which was never announced", h.topic)
	}
	var epoch, next uint64
	for b := h.reset; len(b) > 0; {
		field, kind, n := tag(b)
		if n < 0 {
			return failf(KindRecord, "a reset: %w", protowire.ParseError(n))
		}
		m := protowire.ConsumeFieldValue(field, kind, b[n:])
		if m < 0 {
			return failf(KindRecord, "a reset: %w", protowire.ParseError(m))
		}
		if v, _ := binary.Uvarint(b[n : n+m]); field == fieldEpoch {
			epoch = v
		} else if field == fieldNextSeq {
			next = v
		}
		b = b[n+m:]
	}
	if p.epoch != epoch {
		s.Seen.Resets++
		p.epoch, p.next = epoch, next
	}
	return nil
}
