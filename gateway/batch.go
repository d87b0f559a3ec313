package gateway

import (
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// topicsPerMessage bounds a Topics message: 255-byte names stay well inside a record.
const topicsPerMessage = 2000

// itemOverhead is what a batch adds to an entry at most: a tag, a length and dt.
const itemOverhead = 16

// plainFrame is one plaintext in the loop's arena, and the entries it covers.
type plainFrame struct {
	start, end int
	from, to   int // entries[from:to]
	ticks      int
}

// build is out 5 — it turns entries, in their order, into the plaintexts of a few
// frames in the loop's arena. Ticks were encoded once per gateway and are copied.
// With a compressor it first puts ticks that may be compressed together side by
// side, in entries itself.
func (l *loop) build(entries []entry, with *compressor) {
	s := &l.scratch
	if with = l.inForce(with); with != nil {
		l.groupClasses(entries)
	}
	clear(s.frames)
	s.arena, s.frames, s.heads = trim(s.arena), s.frames[:0], trim(s.heads)
	for from := 0; from < len(entries); {
		if _, ok := entries[from].(*fanout.Opened); ok {
			from = l.buildTopics(entries, from)
			continue
		}
		if _, ok := entries[from].(*lastValue); ok {
			from = l.buildValues(entries, from)
			continue
		}
		if x, ok := entries[from].(*control); ok {
			l.addFrame(append(s.arena, x.plaintext...), from, from+1, 0)
			from++
			continue
		}
		from = l.buildBatch(entries, from, with)
	}
}

// buildBatch makes one frame of the ticks and resets from entries[from] on, up to
// the limits of a batch, and returns where it stopped. A frame that is to be
// compressed ends with its class.
func (l *loop) buildBatch(entries []entry, from int, with *compressor) int {
	s, max := &l.scratch, &l.settings().Batch
	items, size, ticks, to := s.items[:0], 0, 0, from
	for ; to < len(entries) && len(items) < max.MaxTicks; to++ {
		item, ok := l.item(entries[to])
		if !ok || with != nil && l.class(entries[to]) != l.class(entries[from]) {
			break
		}
		next := len(item.Head) + len(item.Payload) + itemOverhead
		if len(items) > 0 && size+next > min(max.MaxBytes, wire.MaxTick) {
			break
		}
		if _, isTick := entries[to].(*fanout.Tick); isTick {
			ticks++
		}
		size += next
		items = append(items, item)
	}
	arena := wire.AppendBatchFrame(s.arena, items)
	if ticks > 0 && !s.late {
		l.stats.batch(ticks, len(arena)-len(s.arena), items[0].ReceivedUS)
	}
	l.addFrame(l.compress(arena, entries[from], with), from, to, ticks)
	clear(items)
	s.items = items
	return to
}

// item is an event's entry in a batch; false for an event that does not stand in one.
func (l *loop) item(e entry) (wire.BatchItem, bool) {
	switch e := e.(type) {
	case *fanout.Tick:
		return wire.BatchItem{Head: e.Head, Payload: e.Payload, ReceivedUS: e.ReceivedUS}, true
	case *fanout.Reset:
		start := len(l.scratch.heads)
		l.scratch.heads = wire.AppendReset(l.scratch.heads, e.Topic, e.Epoch, e.NextSeq, e.Cause)
		return wire.BatchItem{Head: l.scratch.heads[start:]}, true
	}
	return wire.BatchItem{}, false
}

// buildTopics announces a run of new topics.
func (l *loop) buildTopics(entries []entry, from int) int {
	topics := &wire.Topics{}
	to := from
	for ; to < len(entries) && len(topics.Topics) < topicsPerMessage; to++ {
		e, ok := entries[to].(*fanout.Opened)
		if !ok {
			break
		}
		topics.Topics = append(topics.Topics, protoState(e.TopicState))
	}
	arena, err := wire.AppendServerFrame(l.scratch.arena,
		&wire.ServerFrame{Message: &wire.ServerFrame_Topics{Topics: topics}})
	if err != nil {
		l.gateway.log.Error("topics not encoded", zap.Error(err))
		return to
	}
	l.addFrame(arena, from, to, 0)
	return to
}

func (l *loop) addFrame(arena []byte, from, to, ticks int) {
	start := len(l.scratch.arena)
	l.scratch.arena = arena
	l.scratch.frames = append(l.scratch.frames, plainFrame{start: start, end: len(arena), from: from, to: to, ticks: ticks})
}
