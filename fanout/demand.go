package fanout

import (
	"slices"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// want is a filter that loops have acquired, or a rule stands for.
type want struct {
	filter   topic.Filter
	node     *node
	sub      *subscription // the narrowest subscription that would give it
	holders  []holder
	loops    loopSet // those with a confirmed holder
	standing bool    // a rule wants it
}

// holder is one loop's acquisition.
type holder struct {
	loop      LoopID
	ticket    Ticket
	confirmed bool
}

func (w *want) holder(id LoopID) int {
	return slices.IndexFunc(w.holders, func(x holder) bool { return x.loop == id })
}

// wanted returns the loops with a confirmed filter among these nodes.
func wanted(nodes []*node) (loops loopSet) {
	for _, n := range nodes {
		if n.want != nil {
			loops.unite(&n.want.loops)
		}
	}
	return loops
}

// acquire notes a loop's filter and confirms it at once if the source gives it already.
// What the loop holds already is released first.
func (h *Hub) acquire(id LoopID, f topic.Filter, ticket Ticket) {
	h.release(id, f)
	w := h.want(f)
	w.holders = append(w.holders, holder{loop: id, ticket: ticket})
	h.nodes = h.root.above(h.nodes[:0], f.String())
	if gives(h.nodes) {
		h.confirm(w)
	}
}

// want returns the want of a filter, and asks for it if it is new.
func (h *Hub) want(f topic.Filter) *want {
	n := h.root.grow(f.String())
	if n.want == nil {
		n.want = &want{filter: f, node: n}
		n.want.sub = h.cover.want(f)
		h.filters++
	}
	return n.want
}

// confirm tells the loops that wait for the filter which topics it has now.
func (h *Hub) confirm(w *want) {
	if !slices.ContainsFunc(w.holders, func(x holder) bool { return !x.confirmed }) {
		return
	}
	if err := h.openNamed(w); err != nil {
		h.refuse(w, err)
		return
	}
	feeds := h.feeds(w)
	states := make([]TopicState, len(feeds))
	for i, f := range feeds {
		states[i] = f.state()
	}
	for i := range w.holders {
		x := &w.holders[i]
		if x.confirmed {
			continue
		}
		x.confirmed = true
		w.loops.add(x.loop)
		for _, f := range feeds {
			f.loops.add(x.loop)
		}
		h.boxes[x.loop].filters++
		h.boxes[x.loop].add(&Confirmed{Filter: w.filter, Ticket: x.ticket, Topics: states})
	}
}

// openNamed opens the topic of a name that is confirmed, if there is none yet. A
// topic lives on while somebody's pattern matches it, so names that clients make
// up are bounded; a name that a rule stands for is not made up.
func (h *Hub) openNamed(w *want) error {
	if w.filter.IsPattern() || w.node.topic != nil {
		return nil
	}
	if !w.standing && h.namesFull() {
		return ErrTopics
	}
	if h.open(w.filter.String()) == nil {
		return ErrNumbers
	}
	return nil
}

// feeds returns the topics that match.
func (h *Hub) feeds(w *want) []*feed {
	var feeds []*feed
	for _, n := range h.root.below(nil, w.filter.String()) {
		if n.topic != nil {
			feeds = append(feeds, n.topic)
		}
	}
	return feeds
}

// release takes a loop's filter back. Filters it does not hold are none of our business:
// they were refused meanwhile.
func (h *Hub) release(id LoopID, f topic.Filter) {
	n := h.root.find(f.String())
	if n == nil || n.want == nil {
		return
	}
	w := n.want
	i := w.holder(id)
	if i < 0 {
		return
	}
	confirmed := w.holders[i].confirmed
	w.holders = slices.Delete(w.holders, i, i+1)
	if confirmed {
		h.fade(w, id)
	}
	if len(w.holders) == 0 && !w.standing {
		h.drop(w)
	}
}

// fade ends a loop's interest in the topics of a filter that it held, as far as
// none of its other filters matches them.
func (h *Hub) fade(w *want, id LoopID) {
	w.loops.remove(id)
	h.boxes[id].filters--
	for _, f := range h.feeds(w) {
		if h.boxes[id].filters > 0 {
			h.nodes = h.root.above(h.nodes[:0], f.name)
			if loops := wanted(h.nodes); loops.has(id) {
				continue
			}
		}
		f.loops.remove(id)
		if f.loops.empty() && f.rule == nil {
			h.forget(f)
		}
	}
}

// refuse takes the filter from all loops and tells them why.
func (h *Hub) refuse(w *want, err error) {
	for _, x := range w.holders {
		h.count.refused.Add(1)
		if x.confirmed {
			h.fade(w, x.loop)
		}
		h.boxes[x.loop].add(&Refused{Filter: w.filter, Ticket: x.ticket, Err: err})
	}
	w.holders = nil
	h.drop(w)
}

// drop forgets a filter that nobody holds.
func (h *Hub) drop(w *want) {
	h.filters--
	h.cover.unwant(w.sub)
	w.node.want = nil
	w.node.prune()
}

// added brings the source's confirmation of a subscription to topics and loops.
func (h *Hub) added(key string) {
	s := h.cover.added(key)
	if s == nil {
		return
	}
	nodes := h.root.below(nil, s.filter.String())
	for _, n := range nodes {
		if f := n.topic; f != nil && f.cover == nil {
			f.cover = s
			h.lighten(f)
			h.renew(f, f.cause)
		}
	}
	for _, n := range nodes {
		if n.want != nil {
			h.confirm(n.want)
		}
	}
	h.cover.settle(s)
}

// removed passes the topics of an ended subscription on to the next oldest one.
// A cause in the note is why the source has lost it.
func (h *Hub) removed(key string, why *note) {
	s, cause := h.cover.removed(key), why.reason()
	if s == nil {
		return
	}
	for _, n := range h.root.below(nil, s.filter.String()) {
		if f := n.topic; f != nil && f.cover == s {
			h.nodes = h.root.above(h.nodes[:0], f.name)
			f.cover, f.cause = oldest(h.nodes), wire.Cause_CAUSE_RESUBSCRIBED
			if cause != nil && f.cover == nil {
				f.cause = wire.Cause_CAUSE_SOURCE_LOST
				h.darken(f)
			}
		}
	}
	h.cover.settle(s)
	if cause != nil {
		h.cover.lose(s)
		h.turns.partly = true
		h.status.missing(why.addr, h.link, cause)
	}
}

// denied ends the wants that depend on a subscription that the source refused.
func (h *Hub) denied(key string, err error) {
	s := h.cover.refused(key)
	if s == nil {
		return
	}
	if now := h.opt.Now(); now.Sub(h.turns.refusedSaid) >= refusedQuiet { // clients may ask for any number of names
		h.turns.refusedSaid = now
		h.opt.Log.Warn("redis refused a subscription", zap.Stringer("filter", s.filter), zap.Error(err))
	}
	for _, n := range h.root.below(nil, s.filter.String()) {
		if n.want != nil && n.want.sub == s {
			h.refuse(n.want, err)
		}
	}
	h.cover.settle(s)
}

// lost leaves every topic without cover.
func (h *Hub) lost() {
	for _, f := range h.topics {
		f.cover, f.cause = nil, wire.Cause_CAUSE_SOURCE_LOST
	}
	h.cover.lost()
}
