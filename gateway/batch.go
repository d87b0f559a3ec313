package gateway

import (
	"encoding/binary"
	"math"
	"slices"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// topicsPerMessage bounds a Topics message: 255-byte names stay well inside a record.
const topicsPerMessage = 2000

// itemOverhead is what a batch holds of an entry beside its payload, in most cases at most.
const itemOverhead = 24

// plainFrame is one plaintext in the loop's arena, and the entries it covers.
type plainFrame struct {
	start, end int
	from, to   int // entries[from:to]
	ticks      int
	mark       bool   // a cursor behind the entries
	merged     uint64 // earlier ticks that these stand for
	batch      bool   // it is a Batch, which may be sealed for a group
}

// build is out 5 — it turns entries, in their order, into the plaintexts of a few
// frames in the loop's arena, once for all sessions that get the same.
// With a compressor it first puts ticks that may be compressed together side by
// side, in entries itself.
func (l *loop) build(entries []entry, with *compressor) {
	s := &l.scratch
	if with = l.inForce(with); with != nil {
		l.groupClasses(entries)
	}
	l.unshare()
	clear(s.frames)
	s.arena, s.frames = trim(s.arena), s.frames[:0]
	for from := 0; from < len(entries); {
		switch x := entries[from].what.(type) {
		case *fanout.Opened:
			from = l.buildTopics(entries, from)
		case *lastValue:
			from = l.buildValues(entries, from)
		case *control:
			l.addFrame(append(s.arena, x.plaintext...), plainFrame{from: from, to: from + 1})
			from++
		case *gap:
			l.addMessage(&wire.ServerFrame{Message: &wire.ServerFrame_Gap{Gap: &wire.Gap{
				Topic: x.topic, Epoch: x.epoch, From: x.from, To: x.to, Cause: wire.Cause_CAUSE_TOO_SLOW}}}, from, from+1)
			from++
		default:
			from = l.buildBatch(entries, from, with)
		}
	}
}

// buildBatch makes one frame of the ticks and resets from entries[from] on, up to
// the limits of a batch, and returns where it stopped. A frame that is to be
// compressed ends with its class.
func (l *loop) buildBatch(entries []entry, from int, with *compressor) int {
	s, f := &l.scratch, plainFrame{from: from, to: from, batch: true}
	items, size := s.items[:0], 0
	maxTicks, maxBytes := math.MaxInt, wire.MaxTick
	for ; f.to < len(entries); f.to++ {
		e := &entries[f.to]
		item, ok := l.item(e)
		if !ok || with != nil && l.class(e) != l.class(&entries[from]) {
			break
		}
		limits := l.batchLimits(e)
		maxTicks, maxBytes = min(maxTicks, limits.MaxTicks), min(maxBytes, limits.MaxBytes)
		next := itemBytes(e)
		if len(items) > 0 && (len(items) >= maxTicks || size+next > maxBytes) {
			break
		}
		if _, isTick := e.what.(*fanout.Tick); isTick {
			f.ticks++
			f.merged += e.skipped
		}
		size += next
		items = append(items, item)
	}
	arena, head := s.joiner.AppendFrame(s.arena, items)
	if f.ticks > 0 && !s.late {
		l.stats.batch(f.ticks, len(arena)-len(s.arena), items[0].ReceivedUS)
	}
	l.addFrame(l.compress(arena, head, &entries[from], with), f)
	clear(items)
	s.items = items
	return f.to
}

// item is an event's entry in a batch; false for an event that does not stand in one.
func (l *loop) item(e *entry) (wire.BatchItem, bool) {
	switch x := e.what.(type) {
	case *fanout.Tick:
		return wire.BatchItem{Topic: x.Topic, Seq: x.Seq, Skipped: e.skipped, ReceivedUS: x.ReceivedUS, Payload: x.Payload}, true
	case *fanout.Reset:
		return wire.BatchItem{Topic: x.Topic, Reset: &wire.BatchReset{Epoch: x.Epoch, NextSeq: x.NextSeq, Cause: x.Cause}}, true
	}
	return wire.BatchItem{}, false
}

// itemBytes is about what an event takes in a batch.
func itemBytes(e *entry) int {
	if x, ok := e.what.(*fanout.Tick); ok {
		return len(x.Payload) + itemOverhead
	}
	return itemOverhead
}

// batchLimits are those of a topic.
func (l *loop) batchLimits(e *entry) *BatchOptions {
	if e.topic == nil {
		return &l.settings().Batch
	}
	return &e.topic.policy(l.settings().rules).batch
}

// buildTopics announces a run of new topics.
func (l *loop) buildTopics(entries []entry, from int) int {
	topics := &wire.Topics{}
	to := from
	for ; to < len(entries) && len(topics.Topics) < topicsPerMessage; to++ {
		e, ok := entries[to].what.(*fanout.Opened)
		if !ok {
			break
		}
		topics.Topics = append(topics.Topics, protoState(e.TopicState))
	}
	l.addMessage(&wire.ServerFrame{Message: &wire.ServerFrame_Topics{Topics: topics}}, from, to)
	return to
}

// addMessage makes a frame of a message that stands for entries[from:to].
func (l *loop) addMessage(f *wire.ServerFrame, from, to int) {
	arena, err := wire.AppendServerFrame(l.scratch.arena, f)
	if err != nil {
		l.gateway.log.Error("message not encoded", zap.Error(err))
		return
	}
	l.addFrame(arena, plainFrame{from: from, to: to})
}

// addFrame takes the end of arena, behind what was there, for a frame.
func (l *loop) addFrame(arena []byte, f plainFrame) {
	f.start = len(l.scratch.arena)
	arena = l.pad(arena, f.start)
	f.end = len(arena)
	l.scratch.arena = arena
	l.scratch.frames = append(l.scratch.frames, f)
}

// pad fills a plaintext, buf[start:], up to a multiple of the setting, as far as a
// record may be long.
func (l *loop) pad(buf []byte, start int) []byte {
	unit, n := l.settings().Padding, len(buf)-start
	if unit == 0 {
		return buf
	}
	padding := min((n+unit-1)/unit*unit, wire.MaxServerPlaintext) - n
	if padding <= 0 {
		return buf
	}
	binary.BigEndian.PutUint16(buf[start+1:], uint16(padding))
	end := len(buf)
	buf = slices.Grow(buf, padding)[:end+padding]
	clear(buf[end:])
	return buf
}
