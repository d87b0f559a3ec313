package gateway

import (
	"slices"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// compressor is a codec that sessions of a loop have agreed on, with its
// dictionary. They share one encoder, which keeps nothing between two frames.
type compressor struct {
	id         wire.Codec
	dictionary *codec.Dictionary // with CodecZstdDict
	encoder    *codec.Encoder
	serial     uint32 // stands for it in the keys of cohorts; never 0
	sessions   int    // that have agreed on it
}

// allows tells whether batches may be compressed with a codec.
func (o *CompressOptions) allows(id wire.Codec) bool {
	if id == wire.CodecZstdDict {
		return o.Dictionary != nil && slices.Contains(o.Codecs, wire.CodecZstd)
	}
	return slices.Contains(o.Codecs, id)
}

// agree chooses the first of a client's codecs that the settings allow. It
// returns nil for none. Who takes a compressor gives it back with part.
func (l *loop) agree(offered []uint32) *compressor {
	options := &l.settings().Compress
	for _, n := range offered {
		if id := wire.Codec(n); n <= uint32(wire.CodecZstdDict) && options.allows(id) {
			return l.compressor(id, options.Dictionary)
		}
	}
	return nil
}

// compressor counts one more session on a codec.
func (l *loop) compressor(id wire.Codec, dictionary *codec.Dictionary) *compressor {
	if id == wire.CodecNone {
		return nil
	}
	if id != wire.CodecZstdDict {
		dictionary = nil
	}
	x := &l.index
	i := slices.IndexFunc(x.compressors, func(c *compressor) bool { return c.id == id && c.dictionary == dictionary })
	if i < 0 {
		encoder, err := codec.NewEncoder(id, dictionary)
		if err != nil {
			l.gateway.log.Error("batches stay uncompressed", zap.Stringer("codec", id), zap.Error(err))
			return nil
		}
		x.lastSerial++
		i = len(x.compressors)
		x.compressors = append(x.compressors, &compressor{id: id, dictionary: dictionary, encoder: encoder, serial: x.lastSerial})
	}
	x.compressors[i].sessions++
	return x.compressors[i]
}

// part takes a session away from its compressor; after the last one the memory goes.
func (l *loop) part(c *compressor) {
	if c == nil {
		return
	}
	if c.sessions--; c.sessions == 0 {
		l.index.compressors = without(l.index.compressors, c)
	}
}

// announce tells the client what was agreed on.
func (c *compressor) announce(m *wire.Connected) {
	if c == nil {
		return
	}
	m.Codec = uint32(c.id)
	if c.dictionary != nil {
		m.Dictionary = c.dictionary.Bytes()
	}
}

// inForce is the compressor if the settings allow its codec still.
func (l *loop) inForce(c *compressor) *compressor {
	if c == nil || !l.settings().Compress.allows(c.id) {
		return nil
	}
	return c
}

// compress is out 6 — it compresses the frame at the end of the arena, which
// begins with first and has head bytes before the payloads, unless it is small or of a class that stays as it is. A
// cohort's frame is compressed once; all that it shares one compression with
// are ticks of its class.
func (l *loop) compress(arena []byte, head int, first *entry, with *compressor) []byte {
	start := len(l.scratch.arena)
	if with == nil || len(arena)-start < l.settings().Compress.MinBytes || l.class(first) == classOff {
		return arena
	}
	packed := with.encoder.Compress(arena, start, head)
	if n := len(arena); len(packed) < n {
		l.stats.compressedFrom.Add(uint64(n - start))
		l.stats.compressedTo.Add(uint64(len(packed) - start))
	}
	return packed
}

// class is an entry's. A topic that nobody on the loop follows is not compressed.
func (l *loop) class(e *entry) class {
	switch e.what.(type) {
	case *fanout.Tick, *fanout.Reset:
	default:
		return classAny
	}
	table := l.settings().rules
	switch {
	case table.uniform:
		return table.fallback.class
	case e.topic == nil:
		return classOff
	}
	return e.topic.policy(table).class
}

// classedEntry is an entry that is being sorted.
type classedEntry struct {
	entry
	class class
}

// groupClasses puts the ticks of each class side by side, as far as nothing else
// stands between them, so that classes which alternate do not end in a frame for
// each tick. The order within a class, and so within a topic, stays.
func (l *loop) groupClasses(entries []entry) {
	for from := 0; from < len(entries); {
		to, mixed := l.endOfRun(entries, from)
		if mixed {
			l.sortRun(entries[from:to])
		}
		from = max(to, from+1)
	}
}

// endOfRun finds the end of the ticks and resets from entries[from] on, and
// tells whether they are of more than one class.
func (l *loop) endOfRun(entries []entry, from int) (to int, mixed bool) {
	first := l.class(&entries[from])
	for to = from; to < len(entries); to++ {
		c := l.class(&entries[to])
		if c == classAny {
			break
		}
		mixed = mixed || c != first
	}
	return to, mixed
}

func (l *loop) sortRun(entries []entry) {
	run := l.scratch.classed[:0]
	for i := range entries {
		run = append(run, classedEntry{entries[i], l.class(&entries[i])})
	}
	slices.SortStableFunc(run, func(a, b classedEntry) int { return int(a.class) - int(b.class) })
	for i := range run {
		entries[i] = run[i].entry
	}
	clear(run)
	l.scratch.classed = run
}
