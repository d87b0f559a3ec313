package fanout

import (
	"slices"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire/topic"
)

// Rule says what is kept of the topics that a filter matches. The first rule
// that matches a topic decides.
type Rule struct {
	Match    topic.Filter
	Snapshot bool          // the last value, for whoever subscribes later
	History  int           // the last ticks, so many, for subscribers that come back
	MaxAge   time.Duration // of ticks of the history; 0: any. The last value of Snapshot stays

	// Seed is the key at Redis of a topic's first value, with SeedTopic for its name;
	// "": none. With Snapshot, the value is read when the topic is opened, and stands,
	// as a stale one of epoch 0, until a tick comes.
	Seed string
}

// keep is how many ticks of a topic the rule keeps.
func (r *Rule) keep() int {
	if r.Snapshot {
		return max(r.History, 1)
	}
	return max(r.History, 0)
}

// rule returns the rule that keeps something of a topic, or nil.
func (h *Hub) rule(name string) *Rule {
	for i := range h.opt.Rules {
		if r := &h.opt.Rules[i]; r.Match.Match(name) {
			if r.keep() == 0 {
				return nil
			}
			return r
		}
	}
	return nil
}

// stand wants what the rules keep, whether or not a loop does: who comes first
// is to get a value too. It wants again what the source has refused before.
func (h *Hub) stand() {
	h.standing = h.standing[:0]
	for i := range h.opt.Rules {
		if r := &h.opt.Rules[i]; r.keep() > 0 && h.stands(r.Match) {
			w := h.want(r.Match)
			w.standing = true
			h.standing = append(h.standing, w)
		}
	}
}

// stands tells whether the source can give a rule's filter.
func (h *Hub) stands(f topic.Filter) bool {
	return h.opt.Redis.Source != Sharded || !f.IsPattern()
}

// setRules wants what the new rules keep before it gives up what only the old
// ones did.
func (h *Hub) setRules(rules []Rule) {
	before := slices.Clone(h.standing)
	for _, w := range before {
		w.standing = false
	}
	h.opt.Rules = rules
	h.stand()
	for _, w := range before {
		if w.node.want == w && !w.standing && len(w.holders) == 0 {
			h.drop(w)
		}
	}
	for _, f := range h.topics {
		f.rule = h.rule(f.name)
		if f.rule != nil {
			h.store.shrink(f, f.rule.keep())
			h.seeds.opened = append(h.seeds.opened, f)
			continue
		}
		h.store.shrink(f, 0)
		if f.loops.empty() {
			h.forget(f)
		}
	}
}

// kept is a tick in the store.
type kept struct {
	feed         *feed
	seq          uint64
	received     int64
	payload      string // the message's own memory
	older, newer *kept  // of all topics
	before, next *kept  // of the same topic
}

// What is counted for a kept tick and for a topic with one, beyond payload and name.
const (
	keptOverhead = 96
	feedOverhead = 384
)

// past is what the store has of one topic: ticks of one epoch without a hole,
// the oldest first.
type past struct {
	first, last *kept
	count       int
	epoch       uint64 // of the ticks; another one than the topic's: they are stale
}

// store keeps ticks of all topics, in the order in which they came, and lets the
// oldest go when they are too many bytes. Owned by the hub.
type store struct {
	limit          int
	bytes          int
	ticks          int
	oldest, newest *kept
}

// add keeps the topic's next tick in the place of one that is one too many, and
// returns how many of any topic had to go because of the limit.
func (s *store) add(f *feed, it *item) (evicted uint64) {
	if f.past.epoch != f.epoch {
		s.shrink(f, 0)
		f.past.epoch = f.epoch
	}
	var k *kept
	if f.past.count >= f.rule.keep() {
		k = s.drop(f)
	} else {
		k = new(kept)
	}
	*k = kept{feed: f, seq: f.next, received: it.received, payload: it.payload, older: s.newest}
	s.append(f, k)
	return s.fit()
}

// fit lets the oldest ticks go until the limit holds, and returns how many.
func (s *store) fit() (evicted uint64) {
	for ; s.bytes > s.limit; evicted++ {
		s.drop(s.oldest.feed) // of its topic it is the oldest, too
	}
	return evicted
}

func (s *store) append(f *feed, k *kept) {
	if s.newest != nil {
		s.newest.newer = k
	} else {
		s.oldest = k
	}
	s.newest = k
	p := &f.past
	if p.count == 0 {
		p.first = k
		s.bytes += len(f.name) + feedOverhead
	} else {
		p.last.next, k.before = k, p.last
	}
	p.last = k
	p.count++
	s.ticks++
	s.bytes += len(k.payload) + keptOverhead
}

// drop takes the topic's oldest tick out and returns it for use as another one.
func (s *store) drop(f *feed) *kept {
	p := &f.past
	k := p.first
	p.first = k.next
	p.count--
	s.ticks--
	s.bytes -= len(k.payload) + keptOverhead
	if p.first != nil {
		p.first.before = nil
	}
	if p.count == 0 {
		p.last = nil
		s.bytes -= len(f.name) + feedOverhead
	}
	if k.older != nil {
		k.older.newer = k.newer
	} else {
		s.oldest = k.newer
	}
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		s.newest = k.older
	}
	return k
}

// shrink leaves the topic's last n ticks.
func (s *store) shrink(f *feed, n int) {
	for f.past.count > n {
		s.drop(f)
	}
}

// remember keeps a tick if the topic's rule says so.
func (h *Hub) remember(f *feed, it *item) {
	if f.rule != nil {
		h.count.evicted.Add(h.store.add(f, it))
	}
}

// recall answers Recall: from streams, later, or from what is kept, at once unless
// a first value is being read.
func (h *Hub) recall(c *command) (work int) {
	if len(c.recall.Cursor) > 0 {
		if h.recallByCursor(c) {
			return 1
		}
		c.recall.Since = nil
	}
	if h.patience(c) {
		return len(c.recall.Filters)
	}
	return h.recallKept(c)
}

// recallKept answers Recall at this point in the order of events. It returns how
// many places of the tree it has looked at and ticks it has answered, at least 1.
func (h *Hub) recallKept(c *command) (work int) {
	since := make(map[string]Position, len(c.recall.Since))
	for _, p := range c.recall.Since {
		if _, twice := since[p.Topic]; !twice {
			since[p.Topic] = p
		}
	}
	answer := &Recalled{Ticket: c.ticket, Cursor: h.cursor()}
	work = 1 + len(c.recall.Filters)
	for _, filter := range c.recall.Filters {
		nodes := h.root.below(nil, filter.String())
		work += len(nodes)
		for _, n := range nodes {
			f := n.topic
			if f == nil || f.recalled == c.ticket {
				continue
			}
			f.recalled = c.ticket
			position, known := since[f.name]
			if m := f.memory(position, known, !h.outage.since.IsZero()); m != nil {
				answer.Memories = append(answer.Memories, *m)
				work += len(m.Ticks)
			}
		}
	}
	h.boxes[c.loop].add(answer)
	return work
}

// memory returns what a subscriber gets that was at a position, or at none. away
// tells whether the source is. It returns nil if that is nothing.
func (f *feed) memory(since Position, known, away bool) *Memory {
	p := &f.past
	current := p.count > 0 && p.epoch == f.epoch
	if known && since.Epoch == f.epoch && since.Seq < f.next {
		missed := f.next - 1 - since.Seq
		if missed == 0 || current && missed <= uint64(p.count) {
			return &Memory{Topic: f.number, Epoch: f.epoch, Recovered: true, Since: since.Seq, Ticks: f.lastTicks(int(missed))}
		}
	}
	if p.count == 0 || !f.rule.Snapshot {
		return nil
	}
	return &Memory{Topic: f.number, Epoch: p.epoch, Stale: !current || f.cover == nil || away, Ticks: f.lastTicks(1)}
}

// lastTicks makes ticks of the last n that are kept.
func (f *feed) lastTicks(n int) []*Tick {
	if n == 0 {
		return nil
	}
	k := f.past.last
	for range n - 1 {
		k = k.before
	}
	ticks, pointers := make([]Tick, n), make([]*Tick, n)
	for i := range ticks {
		ticks[i] = Tick{
			Topic:      f.number,
			Seq:        k.seq,
			ReceivedUS: k.received,
			Payload:    unsafe.Slice(unsafe.StringData(k.payload), len(k.payload)), // shared and never written
		}
		pointers[i] = &ticks[i]
		k = k.next
	}
	return pointers
}

// full tells whether a publisher may not open another topic, and says so in the
// log now and then.
func (h *Hub) full() bool {
	if h.opt.MaxTopics == 0 || h.discovered < h.opt.MaxTopics {
		return false
	}
	h.count.topicsRefused.Add(1)
	h.logFull(&h.turns.fullSaid, "ticks of new topics are dropped: there are as many topics as allowed")
	return true
}

// namesFull is the same for a client. Publishers and clients are counted apart,
// so that names which clients make up never cost a publisher's ticks.
func (h *Hub) namesFull() bool {
	if h.opt.MaxTopics == 0 || len(h.topics)-h.discovered < h.opt.MaxTopics {
		return false
	}
	h.logFull(&h.turns.namesSaid, "subscriptions to new names are refused: clients have opened as many topics as allowed")
	return true
}

func (h *Hub) logFull(said *time.Time, message string) {
	if now := h.opt.Now(); now.Sub(*said) >= fullQuiet {
		*said = now
		h.opt.Log.Warn(message, zap.Int("topics", h.opt.MaxTopics))
	}
}
