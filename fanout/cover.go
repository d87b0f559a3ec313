package fanout

import (
	"strings"

	"github.com/sealcast/sealcast/wire/topic"
)

// subState is where a subscription stands at the source.
//
//	idle ── order ──▶ asked ── acknowledged ──▶ held ── order ──▶ leaving ── acknowledged ──▶ idle
//	                    └───── refused ──▶ idle
//
// A lost connection makes every subscription idle.
type subState uint8

const (
	idle subState = iota
	asked
	held
	leaving
)

// subscription is one SUBSCRIBE or PSUBSCRIBE. It exists while it is wanted or not idle.
type subscription struct {
	filter  topic.Filter
	key     string // the channel, or the glob pattern, that Redis knows it by
	node    *node
	demand  int // wants that this subscription is the narrowest for
	state   subState
	age     uint64 // held and leaving: order in which the source confirmed them
	missing bool   // needed, but not held
	lost    bool   // missing, because the source has lost it while others stayed
}

// delivers tells whether messages come through the subscription.
func (s *subscription) delivers() bool { return s.state == held || s.state == leaving }

// cover is the set of subscriptions at the source. It holds only the widest of
// the wanted filters, and changes them make-before-break: a subscription is
// given up only after everything that takes over from it has been confirmed.
// Owned by the hub.
type cover struct {
	root  *node
	whole bool // Options.WholeSource
	subs  map[string]*subscription
	up    bool
	age   uint64
	live  int // subscriptions that are not idle

	lostNow int // subscriptions that are lost

	missing map[*subscription]struct{}
	surplus map[*subscription]*subscription // held, not needed, waiting for the other to be confirmed
	orders  []order                         // for the source, in this order
}

// order asks the source to add or to remove a subscription.
type order struct {
	key     string
	pattern bool
	add     bool

	answered chan struct{} // of a PING: closed when its answer has come; nil: nobody waits for it
}

func newCover(root *node, whole bool) *cover {
	return &cover{
		root:    root,
		whole:   whole,
		subs:    make(map[string]*subscription),
		missing: make(map[*subscription]struct{}),
		surplus: make(map[*subscription]*subscription),
	}
}

// widest returns the filter whose subscription at the source gives f. A glob
// pattern that ends in '*' also gives what "**" would, so that "a:*" and "a:**"
// are one subscription.
func (c *cover) widest(f topic.Filter) topic.Filter {
	if c.whole {
		everything, _ := topic.ParseFilter(anyRest) // always valid
		return everything
	}
	if s := f.String(); s == anyOne || strings.HasSuffix(s, string(topic.Separator)+anyOne) {
		if wide, err := topic.ParseFilter(s + anyOne); err == nil {
			return wide
		}
		// Only 255 bytes long: then no filter with "**" in its place exists either.
	}
	return f
}

// globEscaper quotes what Redis's patterns treat as special, '*' apart.
var globEscaper = strings.NewReplacer(`\`, `\\`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`)

// glob is how Redis knows a filter: a channel's name, or a pattern that matches
// at least what the filter does.
func glob(f topic.Filter) string {
	if !f.IsPattern() {
		return f.String()
	}
	g := globEscaper.Replace(f.String())
	if strings.HasSuffix(g, anyRest) {
		g = g[:len(g)-1]
	}
	return g
}

// want adds a demand for the filter.
func (c *cover) want(f topic.Filter) *subscription {
	f = c.widest(f)
	key := glob(f)
	s := c.subs[key]
	if s == nil {
		s = &subscription{filter: f, key: key, node: c.root.grow(f.String())}
		s.node.sub = s
		c.subs[key] = s
	}
	s.demand++
	if s.demand == 1 {
		c.settle(s)
		c.settleBelow(s)
	}
	return s
}

// unwant takes a demand back.
func (c *cover) unwant(s *subscription) {
	s.demand--
	if s.demand == 0 {
		c.settleBelow(s) // what s covered asks first, so that s waits for it
		c.settle(s)
	}
}

func (c *cover) settleBelow(s *subscription) {
	for _, n := range c.root.below(nil, s.filter.String()) {
		if n.sub != nil && n.sub != s {
			c.settle(n.sub)
		}
	}
}

// settle gives the order that brings a subscription closer to what is needed.
func (c *cover) settle(s *subscription) {
	needed := s.demand > 0 && !c.covered(s)
	c.mark(s, needed)
	switch {
	case s.state == idle && s.demand == 0:
		delete(c.subs, s.key)
		s.node.sub = nil
		s.node.prune()
	case s.state == idle && needed && c.up:
		c.order(s, asked)
	case s.state == held && needed:
		delete(c.surplus, s)
	case s.state == held:
		if heir := c.heir(s); heir != nil {
			c.surplus[s] = heir
			break
		}
		delete(c.surplus, s)
		c.order(s, leaving)
	}
}

// mark keeps the set of missing subscriptions, and wakes those that waited for
// one that is missing no longer.
func (c *cover) mark(s *subscription, needed bool) {
	missing := needed && s.state != held
	if missing == s.missing {
		return
	}
	s.missing = missing
	if !missing {
		c.found(s)
	}
	if missing {
		c.missing[s] = struct{}{}
		return
	}
	delete(c.missing, s)
	for waiting, heir := range c.surplus {
		if heir == s {
			c.settle(waiting)
		}
	}
}

// lose notes that the source has lost a subscription while others stayed.
func (c *cover) lose(s *subscription) {
	if s.missing && !s.lost {
		s.lost = true
		c.lostNow++
	}
}

func (c *cover) found(s *subscription) {
	if s.lost {
		s.lost = false
		c.lostNow--
	}
}

// covered tells whether another wanted subscription gives all that s does.
func (c *cover) covered(s *subscription) bool {
	for _, n := range c.root.above(nil, s.filter.String()) {
		if n.sub != nil && n.sub != s && n.sub.demand > 0 {
			return true
		}
	}
	return false
}

// heir returns a missing subscription that has to be confirmed before s may go.
func (c *cover) heir(s *subscription) *subscription {
	for m := range c.missing {
		if m.filter.Overlaps(s.filter) {
			return m
		}
	}
	return nil
}

func (c *cover) order(s *subscription, next subState) {
	c.move(s, next)
	c.orders = append(c.orders, order{key: s.key, pattern: s.filter.IsPattern(), add: next == asked})
}

// move changes the state of a subscription; settle says what follows from it.
func (c *cover) move(s *subscription, next subState) {
	if s.state != idle {
		c.live--
	}
	if next != idle {
		c.live++
	}
	s.state = next
}

// connected starts with a connection that has no subscriptions yet. The source
// answers the orders for it before any later one.
func (c *cover) connected() {
	c.up = true
	for _, s := range c.subs {
		c.settle(s)
	}
}

// lost forgets what the source had confirmed.
func (c *cover) lost() {
	c.up = false
	clear(c.surplus)
	c.orders = c.orders[:0]
	for _, s := range c.subs {
		c.move(s, idle)
		c.settle(s)
	}
}

// added takes the source's confirmation and returns the subscription, or nil
// for one that was not asked for. The caller then calls settle.
func (c *cover) added(key string) *subscription {
	s := c.subs[key]
	if s == nil || s.state != asked {
		return nil
	}
	c.age++
	s.age = c.age
	c.move(s, held)
	return s
}

// removed takes the end of a subscription, asked for or not, and returns it if
// it delivered until now. The caller then calls settle.
func (c *cover) removed(key string) *subscription {
	s := c.subs[key]
	if s == nil || !s.delivers() {
		return nil
	}
	delete(c.surplus, s)
	c.move(s, idle)
	return s
}

// refused takes the source's refusal and returns the subscription, or nil. The
// caller then takes the demand for it back, which settles it.
func (c *cover) refused(key string) *subscription {
	s := c.subs[key]
	if s == nil || s.state != asked {
		return nil
	}
	c.move(s, idle)
	return s
}

// oldest returns, of the subscriptions at these nodes, the one through which a
// message counts: the one that the source confirmed first.
func oldest(nodes []*node) *subscription {
	var first *subscription
	for _, n := range nodes {
		if s := n.sub; s != nil && s.delivers() && (first == nil || s.age < first.age) {
			first = s
		}
	}
	return first
}

// gives tells whether a held subscription covers a filter whose nodes above these are.
func gives(nodes []*node) bool {
	for _, n := range nodes {
		if n.sub != nil && n.sub.state == held {
			return true
		}
	}
	return false
}
