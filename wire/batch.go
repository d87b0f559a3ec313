package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of sealcast.proto that the hand-written encoder below knows.
const (
	fieldServerBatch = 21

	fieldBatchBase     = 1
	fieldBatchHeads    = 2
	fieldBatchPayloads = 3
	fieldBatchCursor   = 4

	fieldHeadTopic   = 1
	fieldHeadSeq     = 2
	fieldHeadSize    = 3
	fieldHeadDT      = 4
	fieldHeadSkipped = 5
	fieldHeadReset   = 6

	fieldResetEpoch   = 1
	fieldResetNextSeq = 2
	fieldResetCause   = 3
)

// ErrBatch reports a Batch whose heads contradict its payloads or themselves.
var ErrBatch = errors.New("malformed batch")

// BatchItem is one entry of a batch: a tick or a reset. The bytes it refers to
// are read only, and may be shared by any number of batches.
type BatchItem struct {
	Head       []byte // from AppendHead for a tick, from AppendReset for a reset
	Payload    []byte // of a tick; its length is the size that Head names
	ReceivedUS int64  // microseconds since the Unix epoch; 0 (a reset) counts as the batch's base
	Skipped    uint64 // earlier ticks merged into this one
}

// AppendHead appends the part of a tick's head that is the same in every batch.
// It is encoded once per tick; AppendBatchFrame adds what depends on the batch.
func AppendHead(dst []byte, topic uint32, seq uint64, size int) []byte {
	dst = appendVarintField(dst, fieldHeadTopic, uint64(topic))
	dst = appendVarintField(dst, fieldHeadSeq, seq)
	return appendVarintField(dst, fieldHeadSize, uint64(size))
}

// AppendReset appends the head of a reset: the topic goes on with nextSeq under epoch.
func AppendReset(dst []byte, topic uint32, epoch, nextSeq uint64, cause Cause) []byte {
	dst = appendVarintField(dst, fieldHeadTopic, uint64(topic))
	size := sizeVarintField(fieldResetEpoch, epoch) +
		sizeVarintField(fieldResetNextSeq, nextSeq) +
		sizeVarintField(fieldResetCause, uint64(cause))
	dst = protowire.AppendTag(dst, fieldHeadReset, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendVarintField(dst, fieldResetEpoch, epoch)
	dst = appendVarintField(dst, fieldResetNextSeq, nextSeq)
	return appendVarintField(dst, fieldResetCause, uint64(cause))
}

// AppendBatchFrame appends the plaintext of a record that carries the items in
// their order: the header, then ServerFrame{batch}. It keeps nothing of items
// and does not allocate when dst has room for BatchFrameSize(items) bytes.
func AppendBatchFrame(dst []byte, items []BatchItem) []byte {
	base := baseUS(items)
	body, payloads := batchSize(items, base)
	dst = AppendPlainHeader(dst, CodecNone, 0)
	dst = protowire.AppendTag(dst, fieldServerBatch, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(body))
	if base != 0 {
		dst = protowire.AppendTag(dst, fieldBatchBase, protowire.Fixed64Type)
		dst = protowire.AppendFixed64(dst, uint64(base))
	}
	for i := range items {
		dst = items[i].appendHead(dst, base)
	}
	if payloads == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, fieldBatchPayloads, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(payloads))
	for i := range items {
		dst = append(dst, items[i].Payload...)
	}
	return dst
}

// AppendCursorFrame appends the plaintext of a record with a Batch that holds a
// cursor and no ticks.
func AppendCursorFrame(dst, cursor []byte) []byte {
	dst = AppendPlainHeader(dst, CodecNone, 0)
	dst = protowire.AppendTag(dst, fieldServerBatch, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeBytesField(fieldBatchCursor, len(cursor))))
	dst = protowire.AppendTag(dst, fieldBatchCursor, protowire.BytesType)
	return protowire.AppendBytes(dst, cursor)
}

// BatchFrameSize is the number of bytes that AppendBatchFrame appends.
func BatchFrameSize(items []BatchItem) int {
	body, _ := batchSize(items, baseUS(items))
	return PlainHeaderSize + sizeBytesField(fieldServerBatch, body)
}

// baseUS is the time that the items' dt count from: that of the first tick.
func baseUS(items []BatchItem) int64 {
	for i := range items {
		if items[i].ReceivedUS != 0 {
			return items[i].ReceivedUS
		}
	}
	return 0
}

// batchSize returns the sizes of the encoded Batch and of all payloads together.
func batchSize(items []BatchItem, base int64) (body, payloads int) {
	if base != 0 {
		body = protowire.SizeTag(fieldBatchBase) + protowire.SizeFixed64()
	}
	for i := range items {
		body += sizeBytesField(fieldBatchHeads, items[i].headSize(base))
		payloads += len(items[i].Payload)
	}
	if payloads > 0 {
		body += sizeBytesField(fieldBatchPayloads, payloads)
	}
	return body, payloads
}

func (it *BatchItem) headSize(base int64) int {
	return len(it.Head) + sizeVarintField(fieldHeadDT, it.dt(base)) + sizeVarintField(fieldHeadSkipped, it.Skipped)
}

func (it *BatchItem) appendHead(dst []byte, base int64) []byte {
	dst = protowire.AppendTag(dst, fieldBatchHeads, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(it.headSize(base)))
	dst = append(dst, it.Head...)
	dst = appendVarintField(dst, fieldHeadDT, it.dt(base))
	return appendVarintField(dst, fieldHeadSkipped, it.Skipped)
}

// dt is the item's time of receipt counted from base, in the encoding of sint64.
func (it *BatchItem) dt(base int64) uint64 {
	if it.ReceivedUS == 0 {
		return 0
	}
	return protowire.EncodeZigZag(it.ReceivedUS - base)
}

// appendVarintField appends a field as proto3 does: not at all when it is zero.
func appendVarintField(dst []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func sizeVarintField(field protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeVarint(v)
}

func sizeBytesField(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// Each calls f for every head in order, with the payload of a tick, or nil for a
// reset (h.GetReset_() is set). Payloads alias b.Payloads and cannot be grown
// into one another. A batch that contradicts itself is ErrBatch before the
// first call; otherwise Each returns the first error of f.
func (b *Batch) Each(f func(h *Head, payload []byte) error) error {
	if err := b.check(); err != nil {
		return err
	}
	rest := b.GetPayloads()
	for _, h := range b.GetHeads() {
		var payload []byte
		if h.GetReset_() == nil {
			n := int(h.GetSize())
			payload, rest = rest[:n:n], rest[n:]
		}
		if err := f(h, payload); err != nil {
			return err
		}
	}
	return nil
}

// check makes sure that the sizes add up to the payloads. The sum cannot
// overflow: it would take 2^32 heads.
func (b *Batch) check() error {
	var sum uint64
	for i, h := range b.GetHeads() {
		switch {
		case h.GetReset_() != nil && h.GetSize() != 0:
			return fmt.Errorf("%w: head %d is a reset with a payload of %d bytes", ErrBatch, i, h.GetSize())
		case h.GetSkipped() > h.GetSeq():
			return fmt.Errorf("%w: head %d skips %d ticks before sequence number %d", ErrBatch, i, h.GetSkipped(), h.GetSeq())
		}
		sum += uint64(h.GetSize())
	}
	if got := uint64(len(b.GetPayloads())); sum != got {
		return fmt.Errorf("%w: heads name %d bytes of payloads, %d came", ErrBatch, sum, got)
	}
	return nil
}

// ReceivedUS is when the gateway received the tick of a head of this batch, in
// microseconds since the Unix epoch.
func (b *Batch) ReceivedUS(h *Head) int64 {
	return int64(b.GetBaseUs()) + h.GetDt()
}
