package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of sealcast.proto that the hand-written encoder below knows.
const (
	fieldServerBatch = 15

	fieldBatchBase     = 1
	fieldBatchTopics   = 2
	fieldBatchFirsts   = 3
	fieldBatchOrder    = 4
	fieldBatchSizes    = 5
	fieldBatchDeltas   = 6
	fieldBatchSkipped  = 7
	fieldBatchSteps    = 8
	fieldBatchResets   = 9
	fieldBatchPayloads = 10
	fieldBatchCursor   = 11

	fieldResetEpoch   = 1
	fieldResetNextSeq = 2
	fieldResetCause   = 3
	fieldResetTopic   = 4
	fieldResetAt      = 5
)

// BatchItem is one entry of a batch: a tick or a reset. The bytes it refers to
// are read only, and may be shared by any number of batches.
type BatchItem struct {
	Topic      uint32
	Seq        uint64
	Skipped    uint64 // earlier ticks merged into this one
	ReceivedUS int64  // microseconds since the Unix epoch; 0 counts as the time of the tick before
	Payload    []byte
	Reset      *BatchReset // not nil: this is no tick, and only Topic counts beside it
}

// BatchReset says that a topic goes on with NextSeq under Epoch.
type BatchReset struct {
	Epoch, NextSeq uint64
	Cause          Cause
}

// Joiner makes batches of items. It keeps its room from one batch to the next,
// and nothing of the items. It belongs to one goroutine.
type Joiner struct {
	Clock int64 // what times count from: that of Connected, microseconds since the Unix epoch

	table  topicTable
	groups []topicGroup
	places []uint32 // of each tick's topic in groups

	base, last int64 // times of receipt: of the first tick that has one, from Clock on, and of the latest
	size       int   // of the latest tick's payload
	payloads   int   // bytes
	lead       int   // so many ticks are the first of their topic and stand before all others
	unordered  bool  // order has to be told

	columns
	resets []byte // encoded fields
}

// columns are those of a batch, named as in sealcast.proto.
type columns struct {
	topics, firsts, order, sizes, deltas, skipped, steps column
}

// each calls f for every column in the order of the fields.
func (c *columns) each(f func(protowire.Number, *column)) {
	f(fieldBatchTopics, &c.topics)
	f(fieldBatchFirsts, &c.firsts)
	f(fieldBatchOrder, &c.order)
	f(fieldBatchSizes, &c.sizes)
	f(fieldBatchDeltas, &c.deltas)
	f(fieldBatchSkipped, &c.skipped)
	f(fieldBatchSteps, &c.steps)
}

// topicGroup is the ticks of one topic in a batch.
type topicGroup struct {
	topic       uint32
	first, next uint64 // sequence number that the first tick begins with; that the next one is expected to
	bytes       int    // of payloads
	at          int    // where the next payload goes
}

// AppendFrame appends the plaintext of a record that carries the items in their
// order: the header, then ServerFrame{batch}. head is how many bytes of it stand
// before the payloads. It does not allocate when dst has room, and the Joiner had
// room for as many items before.
func (j *Joiner) AppendFrame(dst []byte, items []BatchItem) (frame []byte, head int) {
	j.begin(len(items))
	for i := range items {
		if it := &items[i]; it.Reset != nil {
			j.addReset(it)
		} else {
			j.addTick(it)
		}
	}
	body := j.finish()
	start := len(dst)
	dst = AppendPlainHeader(slices.Grow(dst, PlainHeaderSize+sizeBytesField(fieldServerBatch, body)), CodecNone, 0)
	dst = protowire.AppendTag(dst, fieldServerBatch, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(body))
	dst = j.appendHead(dst)
	head = len(dst) - start
	return j.appendPayloads(dst, items), head
}

// AppendBatchFrame is Joiner.AppendFrame for who makes few batches.
func AppendBatchFrame(dst []byte, items []BatchItem) []byte {
	frame, _ := new(Joiner).AppendFrame(dst, items)
	return frame
}

// begin forgets the batch before.
func (j *Joiner) begin(items int) {
	j.table.begin(items)
	j.groups, j.places, j.resets = j.groups[:0], j.places[:0], j.resets[:0]
	j.base, j.last, j.size, j.payloads, j.lead, j.unordered = 0, 0, 0, 0, 0, false
	j.each(func(_ protowire.Number, c *column) { c.begin() })
}

func (j *Joiner) addTick(it *BatchItem) {
	at, first := len(j.places), it.Seq-it.Skipped
	place, known := j.table.place(it.Topic, uint32(len(j.groups)))
	if !known {
		j.groups = append(j.groups, topicGroup{topic: it.Topic, first: first, next: first})
	}
	g := &j.groups[place]
	if at > 0 {
		j.sizes.add(uint64(j.size))
		j.deltas.add(protowire.EncodeZigZag(j.sinceLast(it)))
	} else {
		j.sinceLast(it)
	}
	j.order.add(uint64(place))
	j.skipped.add(it.Skipped)
	j.steps.add(protowire.EncodeZigZag(int64(first - g.next)))
	if int(place) == at { // so is every tick before: the first of its topic
		j.lead++
	} else {
		j.unordered = j.unordered || int(place) != j.lead-1
	}
	g.next = it.Seq + 1
	g.bytes += len(it.Payload)
	j.size = len(it.Payload)
	j.payloads += len(it.Payload)
	j.places = append(j.places, place)
}

// sinceLast is the time from the receipt of the tick before to that of it.
func (j *Joiner) sinceLast(it *BatchItem) (us int64) {
	if it.ReceivedUS == 0 {
		return 0
	}
	if j.last == 0 {
		j.base, j.last = it.ReceivedUS-j.Clock, it.ReceivedUS
	}
	us, j.last = it.ReceivedUS-j.last, it.ReceivedUS
	return us
}

func (j *Joiner) addReset(it *BatchItem) {
	r, at := it.Reset, uint64(len(j.places))
	size := sizeVarintField(fieldResetEpoch, r.Epoch) + sizeVarintField(fieldResetNextSeq, r.NextSeq) +
		sizeVarintField(fieldResetCause, uint64(r.Cause)) + sizeVarintField(fieldResetTopic, uint64(it.Topic)) +
		sizeVarintField(fieldResetAt, at)
	out := protowire.AppendTag(j.resets, fieldBatchResets, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(size))
	out = appendVarintField(out, fieldResetEpoch, r.Epoch)
	out = appendVarintField(out, fieldResetNextSeq, r.NextSeq)
	out = appendVarintField(out, fieldResetCause, uint64(r.Cause))
	out = appendVarintField(out, fieldResetTopic, uint64(it.Topic))
	j.resets = appendVarintField(out, fieldResetAt, at)
}

// finish completes the columns and returns the size of the encoded Batch.
func (j *Joiner) finish() (body int) {
	for i := range j.groups {
		j.topics.append(uint64(j.groups[i].topic))
		j.firsts.append(j.groups[i].first)
	}
	if !j.unordered {
		j.order.begin()
	}
	for _, c := range []*column{&j.deltas, &j.skipped, &j.steps} {
		if c.zero {
			c.begin()
		}
	}
	body = sizeVarintField(fieldBatchBase, protowire.EncodeZigZag(j.base))
	j.each(func(_ protowire.Number, c *column) { body += c.size() })
	body += len(j.resets)
	if j.payloads > 0 {
		body += sizeBytesField(fieldBatchPayloads, j.payloads)
	}
	return body
}

// appendHead appends everything before the payloads, their tag and length included.
func (j *Joiner) appendHead(dst []byte) []byte {
	dst = appendVarintField(dst, fieldBatchBase, protowire.EncodeZigZag(j.base))
	j.each(func(field protowire.Number, c *column) { dst = c.appendTo(dst, field) })
	dst = append(dst, j.resets...)
	if j.payloads > 0 {
		dst = protowire.AppendTag(dst, fieldBatchPayloads, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(j.payloads))
	}
	return dst
}

// appendPayloads appends the payloads topic by topic. There is room for them.
func (j *Joiner) appendPayloads(dst []byte, items []BatchItem) []byte {
	end := len(dst)
	for i := range j.groups {
		g := &j.groups[i]
		g.at = end
		end += g.bytes
	}
	dst = dst[:end]
	tick := 0
	for i := range items {
		if items[i].Reset != nil {
			continue
		}
		g := &j.groups[j.places[tick]]
		g.at += copy(dst[g.at:], items[i].Payload)
		tick++
	}
	return dst
}

// column is a repeated field of varints. A single one is not packed, which saves a byte.
type column struct {
	bytes  []byte
	values int
	zero   bool // all values are
}

func (c *column) begin() { c.bytes, c.values, c.zero = c.bytes[:0], 0, true }

func (c *column) add(v uint64) {
	c.zero = c.zero && v == 0
	c.append(v)
}

func (c *column) append(v uint64) {
	c.values++
	if v < 1<<7 {
		c.bytes = append(c.bytes, byte(v))
		return
	}
	c.bytes = protowire.AppendVarint(c.bytes, v)
}

func (c *column) appendTo(dst []byte, field protowire.Number) []byte {
	switch c.values {
	case 0:
		return dst
	case 1:
		return append(protowire.AppendTag(dst, field, protowire.VarintType), c.bytes...)
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), c.bytes)
}

// size is what appendTo appends. All tags have one byte.
func (c *column) size() int {
	switch c.values {
	case 0:
		return 0
	case 1:
		return 1 + len(c.bytes)
	}
	return 1 + protowire.SizeBytes(len(c.bytes))
}

// topicTable finds a topic's place among those of a batch.
type topicTable struct {
	slots []topicSlot // a power of two, at least twice as many as topics
	turn  uint32      // slots of another turn are free
	shift uint        // of a hash, so that it fits
}

type topicSlot struct{ topic, place, turn uint32 }

// minSlots is so few that clearing them is nothing.
const minSlots = 64

// begin empties the table and makes room for so many topics.
func (t *topicTable) begin(topics int) {
	if len(t.slots) < 2*topics || t.slots == nil {
		n, shift := minSlots, uint(32-6)
		for ; n < 2*topics; n *= 2 {
			shift--
		}
		t.slots, t.shift, t.turn = make([]topicSlot, n), shift, 0
	}
	if t.turn++; t.turn == 0 {
		clear(t.slots)
		t.turn = 1
	}
}

// place is the topic's, or next, which it is given if it has none.
func (t *topicTable) place(topic, next uint32) (place uint32, known bool) {
	for i := topic * 0x9e3779b1 >> t.shift; ; i++ {
		s := &t.slots[int(i)&(len(t.slots)-1)]
		if s.turn != t.turn {
			*s = topicSlot{topic, next, t.turn}
			return next, false
		}
		if s.topic == topic {
			return s.place, true
		}
	}
}

// Repack puts packed in the place of a batch's payloads, of which it is the shorter
// form under a codec, and returns the frame up to its new end. frame is what
// Joiner.AppendFrame has made, with its head; packed does not overlap it.
func Repack(frame []byte, head int, id Codec, packed []byte) []byte {
	from := PlainHeaderSize + protowire.SizeTag(fieldServerBatch)
	_, n := protowire.ConsumeVarint(frame[from:])
	columns := frame[from+n : head-sizeBytesField(fieldBatchPayloads, len(frame)-head)+len(frame)-head]
	frame[0] = byte(id)
	size := len(columns) + sizeBytesField(fieldBatchPayloads, len(packed))
	out := protowire.AppendVarint(frame[:from], uint64(size))
	out = append(out, columns...) // moves them, if at all, to the front
	out = protowire.AppendTag(out, fieldBatchPayloads, protowire.BytesType)
	return protowire.AppendBytes(out, packed)
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
