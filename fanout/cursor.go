package fanout

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strconv"
	"strings"
)

// position is how far a stream has been read.
type position struct {
	ms, seq uint64 // the ID of the last entry
	count   uint64 // entries that had ever been added up to there; 0: not known
}

// less compares IDs.
func (p position) less(q position) bool {
	return p.ms < q.ms || p.ms == q.ms && p.seq < q.seq
}

// id is the position as Redis writes it.
func (p position) id() string {
	return strconv.FormatUint(p.ms, 10) + "-" + strconv.FormatUint(p.seq, 10)
}

// after is the first ID behind the position.
func (p position) after() string {
	if p.seq++; p.seq == 0 {
		p.ms++
	}
	return p.id()
}

// parseID reads an ID of Redis.
func parseID(id string) (p position, err error) {
	ms, seq, _ := strings.Cut(id, "-")
	if p.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
		p.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	return p, err
}

// A cursor is a version and, for each stream in the order of the settings, a
// fingerprint of its name and the position in it:
//
//	version u8 = 1 | (fingerprint u64, ms uvarint, seq uvarint, count uvarint)...
//
// It holds nothing of a gateway, so that every gateway of the same Redis can read
// it. Clients cannot make sense of it, and what they could forge only decides
// which entries of topics they are entitled to they get again.
const cursorVersion = 1

// maxCursor bounds what is taken from a client.
const maxCursor = 64 << 10

var errCursor = errors.New("not a cursor of these streams")

func fingerprint(stream string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(stream)) // never fails
	return h.Sum64()
}

// appendCursor encodes the positions of streams.
func appendCursor(dst []byte, streams []string, at []position) []byte {
	dst = append(dst, cursorVersion)
	for i, name := range streams {
		dst = binary.BigEndian.AppendUint64(dst, fingerprint(name))
		dst = binary.AppendUvarint(dst, at[i].ms)
		dst = binary.AppendUvarint(dst, at[i].seq)
		dst = binary.AppendUvarint(dst, at[i].count)
	}
	return dst
}

// parseCursor returns the position in each stream. Streams that the cursor has and
// the settings have not are left out; the other way round it is an error.
func parseCursor(cursor []byte, streams []string) ([]position, error) {
	if len(cursor) == 0 || len(cursor) > maxCursor || cursor[0] != cursorVersion {
		return nil, errCursor
	}
	found := make(map[uint64]position)
	for b := cursor[1:]; len(b) > 0; {
		if len(b) < 8 {
			return nil, errCursor
		}
		name := binary.BigEndian.Uint64(b)
		b = b[8:]
		var p position
		for _, field := range []*uint64{&p.ms, &p.seq, &p.count} {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, errCursor
			}
			*field, b = v, b[n:]
		}
		found[name] = p
	}
	at := make([]position, len(streams))
	for i, name := range streams {
		p, ok := found[fingerprint(name)]
		if !ok {
			return nil, errCursor
		}
		at[i] = p
	}
	return at, nil
}
