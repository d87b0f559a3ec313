package gateway

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
)

// tickOverhead is what a waiting tick is counted for beyond its payload.
const tickOverhead = 64

// entry is one thing on its way to sessions, in order.
type entry struct {
	// *fanout.Tick, *fanout.Reset, *fanout.Opened, or for one session alone
	// *lastValue, *control, *gap and *seam.
	what    any
	topic   *loopTopic // of all from the hub, and of a gap
	epoch   uint64     // of a tick
	skipped uint64     // of a tick: so many before it are merged into it
}

// cohort is the sessions of one loop whose subscriptions, their options and codecs
// are equal: a batch is built and compressed once for all of them.
type cohort struct {
	key     string
	filters []holding   // in order of id
	codec   *compressor // nil: none
	members []*conn
	first   int    // member to be served first next time
	turn    uint64 // of the last event that reached it
	pending pending
	marked  *fanout.Mark         // the cursor that was sent last
	paces   map[*loopTopic]*pace // nil: no filter has a rate
	holds   schedule             // of paces, by the number of the spot before
	sharing sharing
}

// holding is a filter that a session holds, as it wants it.
type holding struct {
	*heldFilter
	options
}

// options are what a client wants of topics whose policy is latest.
type options struct {
	interval time.Duration // between two ticks of a topic, at least; 0: none
	maxAge   time.Duration // older ticks are left out if there is a newer one; 0: none
}

// pending is what waits in a cohort until its batch closes.
type pending struct {
	entries  []entry
	bytes    int
	maxTicks int    // that close the batch
	maxBytes int    // likewise
	merges   bool   // there may be something to merge
	touched  bool   // in index.touched
	due      int64  // of the loop's clock: the batch closes
	since    uint64 // index.turn of the first entry
	alarm    alarm  // at due
}

// cohortKey is equal exactly for equal sets of filters, which must be in order of
// id, with equal options, equal codecs, and an equal way to be sealed.
func cohortKey(filters []holding, codec *compressor, seal sharing) string {
	serial := uint32(0) // of no compressor; always there, or it could be taken for a filter
	if codec != nil {
		serial = codec.serial
	}
	key := binary.BigEndian.AppendUint32(make([]byte, 0, 20*len(filters)+5), serial)
	key = append(key, seal.key())
	for i := range filters {
		key = binary.BigEndian.AppendUint32(key, filters[i].id)
		key = binary.BigEndian.AppendUint64(key, uint64(filters[i].interval))
		key = binary.BigEndian.AppendUint64(key, uint64(filters[i].maxAge))
	}
	return string(key)
}

// regroup gives c, which is being served, other filters, in order of id, and with
// them another cohort. What both cohorts have collected goes out before: c is sent
// what came until here by its old filters and what comes from here by the new ones.
// It reports false if c has ended by that.
func (l *loop) regroup(c *conn, filters []holding) bool {
	key := cohortKey(filters, c.sub.codec, c.sharing())
	if c.sub.cohort != nil && c.sub.cohort.key == key {
		return true
	}
	l.settle(c, c.sub.cohort)
	l.settle(c, l.index.cohorts[key])
	l.settlePaces(c)
	if c.phase != phaseOpen {
		return false
	}
	l.leave(c)
	l.join(c, filters)
	return true
}

// settle serves a cohort whose batch is open still, while c is being served.
func (l *loop) settle(c *conn, co *cohort) {
	if co == nil || len(co.pending.entries) == 0 {
		return
	}
	c.flushOut()
	l.serveCohort(co)
	l.scratch.out = l.scratch.out[:0]
}

// settlePaces sends c, which is about to leave its cohort, what that holds back.
func (l *loop) settlePaces(c *conn) {
	if c.phase != phaseOpen || c.sub.cohort == nil {
		return
	}
	var held []entry
	for _, p := range c.sub.cohort.paces {
		if p.held.what != nil {
			held = append(held, p.held)
		}
	}
	if held == nil {
		return
	}
	slices.SortFunc(held, func(a, b entry) int { return int(a.topic.Number) - int(b.topic.Number) })
	c.flushOut()
	l.build(held, c.sub.codec)
	l.deliver(c, held)
	l.scratch.out = l.scratch.out[:0]
}

// join makes c a member of the cohort of its filters. Nothing may be pending there.
func (l *loop) join(c *conn, filters []holding) {
	c.sub.filters = filters
	if len(filters) == 0 {
		c.sub.filters = nil
		return
	}
	key := cohortKey(filters, c.sub.codec, c.sharing())
	co, ok := l.index.cohorts[key]
	if !ok {
		co = l.newCohort(key, filters, c.sub.codec)
		co.sharing = c.sharing()
	}
	c.sub.filters = co.filters // equal; a thousand sessions need no list each
	c.sub.cohort, c.sub.place = co, int32(len(co.members))
	co.members = append(co.members, c)
}

func (l *loop) newCohort(key string, filters []holding, codec *compressor) *cohort {
	co := &cohort{key: key, filters: filters, codec: codec}
	co.pending.alarm.owner = co
	l.index.cohorts[key] = co
	for i := range filters {
		h := &filters[i]
		h.cohorts = append(h.cohorts, co)
		if h.interval > 0 && co.paces == nil {
			co.paces = make(map[*loopTopic]*pace)
		}
	}
	return co
}

// leave takes c out of its cohort; an empty cohort goes, with what it has collected.
func (l *loop) leave(c *conn) {
	co := c.sub.cohort
	if co == nil {
		return
	}
	c.sub.cohort = nil
	co.missed(c)
	last := len(co.members) - 1
	moved := co.members[last]
	co.members[c.sub.place] = moved
	moved.sub.place = c.sub.place
	co.members[last] = nil
	co.members = co.members[:last]
	if last > 0 {
		return
	}
	l.disband(co)
	delete(l.index.cohorts, co.key)
	for i := range co.filters {
		co.filters[i].cohorts = without(co.filters[i].cohorts, co)
	}
	l.alarms.clear(&co.pending.alarm)
	for _, p := range co.paces {
		l.alarms.clear(&p.alarm)
	}
}

// handOver is out 4 — the events of a hand-over collect per cohort. What of them
// is due is sent at the end of the turn.
func (l *loop) handOver(events []fanout.Event) {
	for i := 0; i < len(events); i++ {
		switch e := events[i].(type) {
		case *fanout.Tick:
			if t, ok := l.index.topics[e.Topic]; ok {
				t.NextSeq = e.Seq + 1
				l.index.collected += len(e.Payload)
				l.admit(t, entry{what: e, topic: t, epoch: t.Epoch})
			}
		case *fanout.Reset:
			if t, ok := l.index.topics[e.Topic]; ok {
				l.letPass(t)
				t.Epoch, t.NextSeq = e.Epoch, e.NextSeq
				l.collect(t, entry{what: e, topic: t}, t.policy(l.settings().rules))
			}
		case *fanout.Opened:
			l.index.learnOpened(e.TopicState)
			if t, ok := l.index.topics[e.Number]; ok {
				l.collect(t, entry{what: e, topic: t}, t.policy(l.settings().rules))
			}
		case *fanout.Confirmed:
			l.confirmed(e)
		case *fanout.Forgotten:
			l.forget(e.Topic)
		case *fanout.Refused:
			i += l.refused(events[i:]) - 1
		case *fanout.Recalled:
			if e.Cursor != nil {
				l.reach(&fanout.Mark{Cursor: e.Cursor})
			}
			l.recalled(e)
		case *fanout.SourceState:
			l.tellSourceState(e)
		case *fanout.Mark:
			l.reach(e)
		default:
			l.gateway.log.DPanic("unknown event from the hub", zap.Any("event", e))
		}
	}
}

// admit lets a tick pass to the cohorts, unless the topic has a rate and it is too
// early.
func (l *loop) admit(t *loopTopic, e entry) {
	rule := t.policy(l.settings().rules)
	if rule.interval == 0 {
		l.letPass(t)
		t.pace = nil
		l.collect(t, e, rule)
		return
	}
	if t.pace == nil {
		t.pace = newPace(t, nil, rule.interval)
	}
	t.pace.interval = rule.interval
	if t.pace.admit(l, e) {
		l.collect(t, e, rule)
	}
}

// letPass ends the wait of what a topic's rate holds back.
func (l *loop) letPass(t *loopTopic) {
	if t.pace == nil {
		return
	}
	if held, ok := t.pace.take(l); ok {
		l.collectHeld(t.pace, held, t.policy(l.settings().rules))
	}
}

// collect appends an event to each cohort that follows the topic, once even if
// several of its filters match.
func (l *loop) collect(t *loopTopic, e entry, rule *policy) {
	l.index.turn++
	turn := l.index.turn
	t.went(&e, turn)
	for _, h := range t.filters {
		for _, co := range h.cohorts {
			if co.turn == turn {
				continue
			}
			co.turn = turn
			if co.paces == nil || l.passes(co, t, &e, rule) {
				l.put(co, e, rule)
			}
		}
	}
}

// went notes how far the topic has gone to the cohorts.
func (t *loopTopic) went(e *entry, turn uint64) {
	if _, opened := e.what.(*fanout.Opened); !opened {
		t.head, t.headTurn = e.last(), turn
	}
}

// last is the sequence number that a topic has come to by a tick or reset.
func (e *entry) last() uint64 {
	switch x := e.what.(type) {
	case *fanout.Tick:
		return x.Seq
	case *fanout.Reset:
		return x.NextSeq - 1
	}
	return 0
}

// passes tells whether an event may go on to a cohort that wants rates. What it
// held back before goes first, when the event is no tick that may be merged.
func (l *loop) passes(co *cohort, t *loopTopic, e *entry, rule *policy) bool {
	if _, opened := e.what.(*fanout.Opened); opened {
		return true
	}
	p := co.pace(t)
	if p.interval == 0 {
		return true
	}
	if _, isTick := e.what.(*fanout.Tick); isTick && rule.latest {
		return p.admit(l, *e)
	}
	if held, ok := p.take(l); ok {
		l.put(co, held, rule)
	}
	p.sent, p.turn = e.last(), l.index.turn
	return true
}

// pace is a topic's in the cohort: the shortest interval of the filters that match.
func (co *cohort) pace(t *loopTopic) *pace {
	p, ok := co.paces[t]
	if !ok {
		interval := time.Duration(math.MaxInt64)
		for i := range co.filters {
			if slices.Contains(t.filters, co.filters[i].heldFilter) {
				interval = min(interval, co.filters[i].interval)
			}
		}
		p = newPace(t, co, interval)
		co.paces[t] = p
	}
	return p
}

// put adds an event to a cohort's batch.
func (l *loop) put(co *cohort, e entry, rule *policy) {
	q := &co.pending
	if len(q.entries) == 0 {
		q.since, q.due, q.bytes, q.merges = l.index.turn, math.MaxInt64, 0, false
		q.maxTicks, q.maxBytes = math.MaxInt, math.MaxInt
	}
	q.entries = append(q.entries, e)
	q.bytes += itemBytes(&e)
	q.merges = q.merges || rule.latest
	q.due = min(q.due, l.alarms.now+int64(rule.batch.MaxDelay))
	q.maxTicks, q.maxBytes = min(q.maxTicks, rule.batch.MaxTicks), min(q.maxBytes, rule.batch.MaxBytes)
	if !q.touched {
		q.touched = true
		l.index.touched = append(l.index.touched, co)
	}
}

// ring closes the cohort's batch.
func (co *cohort) ring(l *loop) {
	if q := &co.pending; !q.touched {
		q.touched = true
		l.index.touched = append(l.index.touched, co)
	}
}

// closeBatches serves the cohorts whose batch closes at this turn's end, and
// leaves the others to their alarms.
func (l *loop) closeBatches() {
	l.index.collected = 0
	for _, co := range l.index.touched {
		q := &co.pending
		q.touched = false
		switch {
		case len(q.entries) == 0 || len(co.members) == 0:
		case q.due <= l.alarms.now+alarmSlack || l.full(q):
			l.serveCohort(co)
		case q.alarm.at != q.due || q.alarm.place == 0:
			l.alarms.set(&q.alarm, q.due)
		}
	}
	clear(l.index.touched)
	l.index.touched = l.index.touched[:0]
}

// full tells whether a batch has as much as it may hold, once all is merged that
// can be. One that has nearly as much counts as well: to merge again for each
// further tick would cost more than waiting brings.
func (l *loop) full(q *pending) bool {
	if len(q.entries) < q.maxTicks && q.bytes < q.maxBytes {
		return false
	}
	if !q.merges {
		return true
	}
	q.entries, q.bytes = l.merge(q.entries), 0
	for i := range q.entries {
		q.bytes += itemBytes(&q.entries[i])
	}
	return len(q.entries) >= q.maxTicks-q.maxTicks/8 || q.bytes >= q.maxBytes-q.maxBytes/8
}

// serveCohort closes a cohort's batch and sends it, starting with another member
// each time, so that none is always last.
func (l *loop) serveCohort(co *cohort) {
	q := &co.pending
	l.alarms.clear(&q.alarm)
	if q.merges {
		q.entries = l.merge(q.entries)
	}
	l.build(q.entries, co.codec)
	l.addMark(co, len(q.entries))
	l.share(co)
	first := co.first % max(len(co.members), 1)
	co.first = first + 1
	// A copy: a write may close a member, which changes the list.
	members := append(l.scratch.members[:0], co.members[first:]...)
	members = append(members, co.members[:first]...)
	l.scratch.members = members
	for _, c := range members {
		l.deliver(c, q.entries)
	}
	l.unshare()
	clear(members)
	clear(q.entries)
	q.entries = q.entries[:0]
	l.makeRoom()
}

func sortFilters(filters []holding) {
	slices.SortFunc(filters, func(a, b holding) int { return int(a.id) - int(b.id) })
}
