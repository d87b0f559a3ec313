package gateway

import (
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
)

// maxHeads bounds the topics that are looked at for one heartbeat, and with them
// its size. A session that has more is told of them in turn.
const maxHeads = 1024

// round goes through a session's topics, heartbeat by heartbeat.
type round struct {
	since      uint64 // index.turn: topics that went on after it are named
	began      uint64 // since of the next round
	filter, at int32  // where to go on
}

// heads says how far the session's topics have been sent that went on since it was
// told last. What its cohort has collected or holds back is not sent: it is left
// out, and named the next time.
func (l *loop) heads(c *conn) (heads []*wire.TopicHead) {
	co, r := c.sub.cohort, &c.sub.round
	if co == nil {
		return nil
	}
	l.index.turn++
	turn := l.index.turn
	asOf := co.markPending(turn)
	if r.filter == 0 && r.at == 0 {
		r.began = asOf
	}
	for range maxHeads {
		t := r.next(c.sub.filters)
		if t == nil {
			*r = round{since: r.began}
			break
		}
		seq, when := co.head(t)
		if t.mark == turn {
			seq = uint64(t.at)
		}
		t.mark, t.at = turn, 0 // once is enough
		if when > r.since && seq > 0 {
			heads = append(heads, &wire.TopicHead{Topic: t.Number, Seq: seq})
		}
	}
	return heads
}

// next is the topic that the round has come to; nil: it is at its end.
func (r *round) next(filters []holding) *loopTopic {
	for ; int(r.filter) < len(filters); r.filter, r.at = r.filter+1, 0 {
		if topics := filters[r.filter].topics; int(r.at) < len(topics) {
			r.at++
			return topics[r.at-1]
		}
	}
	return nil
}

// markPending notes in the topics of which something waits in the cohort how far
// they have been sent. It returns up to which turn everything has been sent.
func (co *cohort) markPending(turn uint64) (asOf uint64) {
	q := &co.pending
	for i := len(q.entries) - 1; i >= 0; i-- {
		e := &q.entries[i]
		e.topic.mark, e.topic.at = turn, 0 // before the topic's announcement or reset: unknown
		if _, isTick := e.what.(*fanout.Tick); isTick {
			e.topic.at = int(e.first()) - 1
		}
	}
	if len(q.entries) > 0 {
		return q.since - 1
	}
	return turn
}

// head is the last tick of a topic that has gone to the cohort, and when.
func (co *cohort) head(t *loopTopic) (seq, turn uint64) {
	if p, ok := co.paces[t]; ok && p.interval > 0 {
		return p.sent, p.turn
	}
	return t.head, t.headTurn
}
