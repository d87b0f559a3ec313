package gateway

import (
	"math"
	"slices"
	"time"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// The seam between what was and what comes. A request whose filters are all
// confirmed asks the hub what it remembers of their topics; the answer stands at
// a definite point in the order of events, and there the request is granted.

// recoverQueues times slow.queue is about how much past one answer may bring back:
// what a slow session has not been sent stays in memory for it alone, once the hub
// has let go of it.
const recoverQueues = 4

// maxPositions bounds the positions that a session's waiting requests hold. More
// are ignored: their topics are not recovered, and the client sees it.
const maxPositions = 10_000

// lastValue is an entry: what a topic was before its delivery began.
type lastValue struct {
	*fanout.Tick
	epoch uint64
	stale bool
}

// seam is an entry of a slow session's queue: last values and recovered ticks that
// have yet to be sent. It counts little in the queue, because remember bounds it and
// the next request waits for its end.
type seam struct{ entries []entry }

// withPositions adds the client's positions to a request, as many as the session may hold.
func (r *request) withPositions(since []*wire.Position) {
	held := 0
	for _, o := range r.conn.sub.requests {
		held += len(o.since)
	}
	for _, p := range since[:min(len(since), max(maxPositions-held, 0))] {
		r.since = append(r.since, fanout.Position{Topic: p.GetTopic(), Epoch: p.GetEpoch(), Seq: p.GetSeq()})
	}
}

// proceed takes the session's requests on, in the order in which they came: each
// waits until its filters are confirmed and what the one before it has brought is
// sent. A request that repeats a filter so is not answered before the filter holds.
func (l *loop) proceed(c *conn) {
	for c.phase == phaseOpen && !c.sub.asking && !c.sub.bridging() {
		if len(c.sub.requests) == 0 || c.sub.requests[0].missing > 0 {
			return
		}
		r := c.sub.requests[0]
		if len(r.filters) == 0 {
			l.grant(r, nil)
			continue
		}
		ask := fanout.Recall{Since: r.since, Cursor: r.cursor}
		for _, h := range r.filters {
			ask.Filters = append(ask.Filters, h.Filter)
		}
		c.sub.asking = true
		l.index.asked[l.gateway.opts.Hub.Recall(l.id, ask)] = r
	}
}

// recalled grants the request that has asked, at this point of the order.
func (l *loop) recalled(e *fanout.Recalled) {
	r := l.index.asked[e.Ticket]
	delete(l.index.asked, e.Ticket)
	switch {
	case r != nil && r.fresh && r.conn.phase == phaseOpen:
		l.serve(r.conn, func(c *conn) { l.refreshed(c, e.Memories) })
		return
	case r == nil || !r.asked():
		return // the session has ended meanwhile
	}
	l.serve(r.conn, func(c *conn) {
		c.sub.asking = false
		memories := make(map[uint32]*fanout.Memory, len(e.Memories))
		for i := range e.Memories {
			memories[e.Memories[i].Topic] = &e.Memories[i]
		}
		l.grant(r, memories)
		l.proceed(c)
	})
}

// asked tells whether the hub has been asked for the request, and has yet to answer.
func (r *request) asked() bool {
	s := r.conn.sub
	return s.asking && len(s.requests) > 0 && s.requests[0] == r
}

// grant puts a request's filters into effect at this point of the order, with
// what the hub remembers of the topics as of here.
func (l *loop) grant(r *request, memories map[uint32]*fanout.Memory) {
	c := r.conn
	l.withdrawRefused(r)
	if c.phase != phaseOpen {
		return
	}
	fresh := l.index.newTopics(c.sub.filters, r.filters)
	filters := slices.Clone(c.sub.filters)
	for _, h := range r.filters {
		filters = append(filters, holding{heldFilter: h})
	}
	for i := range filters {
		if o, ok := r.options[filters[i].Filter]; ok {
			filters[i].options = o
		}
	}
	sortFilters(filters)
	if !l.regroup(c, filters) {
		return
	}
	if c.sub.requests = slices.Delete(c.sub.requests, 0, 1); len(c.sub.requests) == 0 { // r, as proceed goes by order
		c.sub.requests = nil
	}
	entries := l.remember(c, fresh, memories)

	r.keepHeld()
	first := fresh[:min(len(fresh), topicsPerMessage)]
	c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Subscribed{Subscribed: &wire.Subscribed{
		Id: r.id, Filters: r.names, Topics: first}}})
	for more := range slices.Chunk(fresh[len(first):], topicsPerMessage) {
		if c.phase != phaseOpen {
			return
		}
		c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Topics{Topics: &wire.Topics{Topics: more}}})
	}
	l.bridge(c, entries)
	c.sendMark()
}

// keepHeld takes the names out whose filters the session does not have, and says
// so: another request asked for them first and was refused, or gave them back.
func (r *request) keepHeld() {
	c := r.conn
	r.names = slices.DeleteFunc(r.names, func(name string) bool {
		f, err := topic.ParseFilter(name)
		if err == nil && c.sub.holding(f) >= 0 {
			return false
		}
		c.sendError(r.id, wire.CloseForbidden, "not subscribed: refused, or given back meanwhile", name)
		return true
	})
}

// withdrawRefused takes out the filters that the source has taken back while the
// request waited for others, or for the hub.
func (l *loop) withdrawRefused(r *request) {
	for _, h := range slices.Clone(r.filters) {
		if h.refused != nil {
			l.withdrawWaiting(r, h)
		}
	}
}

// withdrawWaiting takes a refused filter out of a request.
func (l *loop) withdrawWaiting(r *request, h *heldFilter) {
	r.remove(h, h.String())
	l.letGo(h)
	r.conn.sendError(r.id, wire.CloseForbidden, h.refused.Error(), h.String())
}

// remember notes in the topics which of them are recovered, and lists last values and
// recovered ticks, topic by topic.
func (l *loop) remember(c *conn, fresh []*wire.TopicState, memories map[uint32]*fanout.Memory) []entry {
	var entries []entry
	room := recoverQueues * l.settings().Slow.Queue
	for _, t := range fresh {
		m := memories[t.Number]
		switch {
		case m == nil:
		case room <= 0: // not recovered: the client sees the gap
		case m.Recovered:
			t.Recovered, t.NextSeq = true, m.Since+1
			before := len(entries)
			entries = l.appendRecovered(entries, c, m)
			for i := range entries[before:] {
				room -= entryBytes(&entries[before+i])
			}
		default:
			entries = appendValues(entries, m)
		}
	}
	return entries
}

// appendRecovered appends the ticks that a client has missed. Where it wants none
// that are older, they are merged into the first that is not, or into the last.
func (l *loop) appendRecovered(entries []entry, c *conn, m *fanout.Memory) []entry {
	t := l.index.topics[m.Topic]
	oldest := int64(math.MinInt64)
	if age := c.sub.maxAge(t); age > 0 && t.policy(l.settings().rules).latest {
		oldest = time.Now().Add(-age).UnixMicro()
	}
	var old entry
	for i, tick := range m.Ticks {
		e := entry{what: tick, topic: t, epoch: m.Epoch}
		if old.what != nil {
			e.cover(&old)
		}
		if old = e; tick.ReceivedUS >= oldest || i == len(m.Ticks)-1 {
			entries, old = append(entries, e), entry{}
		}
	}
	return entries
}

// maxAge is what the session wants of a topic: the longest of its filters that match.
func (s *subscriber) maxAge(t *loopTopic) (age time.Duration) {
	for i := range s.filters {
		switch h := &s.filters[i]; {
		case !slices.Contains(t.filters, h.heldFilter):
		case h.maxAge == 0:
			return 0
		default:
			age = max(age, h.maxAge)
		}
	}
	return age
}

// appendValues appends the last values that a memory holds.
func appendValues(entries []entry, m *fanout.Memory) []entry {
	for _, tick := range m.Ticks {
		entries = append(entries, entry{what: &lastValue{Tick: tick, epoch: m.Epoch, stale: m.Stale}})
	}
	return entries
}

// bridging tells whether last values or recovered ticks wait to be sent.
func (s *subscriber) bridging() bool { return s.slow != nil && s.slow.seams > 0 }

// bridge sends the entries of a seam, behind what was said before; what the
// socket does not take waits in the session's queue.
func (l *loop) bridge(c *conn, entries []entry) {
	if len(entries) == 0 {
		return
	}
	c.flushOut()
	if c.phase != phaseOpen {
		return
	}
	s := &seam{entries: entries}
	if !c.isSlow() {
		l.sendSeam(c, s)
	}
	if c.phase != phaseOpen || len(s.entries) == 0 {
		return
	}
	if !l.enqueue(c, []entry{{what: s}}) {
		c.end(wire.CloseTooSlow, queueFull)
	}
}

// sendSeam seals chunks of a seam until the socket has enough.
func (l *loop) sendSeam(c *conn, s *seam) {
	for c.phase == phaseOpen && len(s.entries) > 0 && c.gc.OutboundBuffered() <= highWater {
		n := chunk(s.entries, writeChunk)
		l.scratch.late = true
		l.build(s.entries[:n], c.sub.codec)
		l.scratch.late = false
		if len(l.scratch.frames) > 0 {
			n = l.writeFrames(c)
		}
		s.entries = s.entries[n:]
	}
}

// chunk returns how many entries to seal before the socket is looked at again:
// about so many bytes.
func chunk(entries []entry, enough int) int {
	n, bytes := 0, 0
	for n < len(entries) && (n == 0 || bytes < enough) {
		if _, ok := entries[n].what.(*seam); ok {
			break
		}
		bytes += entryBytes(&entries[n])
		n++
	}
	return n
}

// buildValues makes one frame of the last values from entries[from] on, up to
// the limits of a batch, and returns where it stopped.
func (l *loop) buildValues(entries []entry, from int) int {
	limits := &l.settings().Batch
	m := &wire.Snapshot{}
	size, to := 0, from
	for ; to < len(entries) && len(m.Values) < limits.MaxTicks; to++ {
		v, ok := entries[to].what.(*lastValue)
		if !ok {
			break
		}
		next := len(v.Payload) + tickOverhead
		if len(m.Values) > 0 && size+next > min(limits.MaxBytes, wire.MaxTick) {
			break
		}
		size += next
		m.Values = append(m.Values, &wire.Value{Topic: v.Topic, Epoch: v.epoch, Seq: v.Seq,
			TimeUs: uint64(v.ReceivedUS), Payload: v.Payload, Stale: v.stale})
	}
	l.addMessage(&wire.ServerFrame{Message: &wire.ServerFrame_Snapshot{Snapshot: m}}, from, to)
	return to
}
