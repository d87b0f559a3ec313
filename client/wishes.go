package client

import (
	"maps"
	"slices"
	"time"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// wish is a filter that a Client is to follow on every connection.
type wish struct {
	filter string
	parsed topic.Filter
	pace
}

// pace is what of SubscribeOptions holds for every connection.
type pace struct {
	rate float64
	age  time.Duration
}

// request is for the filters of one pace.
type paced struct {
	pace
	filters []string
}

// grouped joins wishes of the same pace, in their order.
func grouped(wishes []wish) []paced {
	var groups []paced
	for _, w := range wishes {
		i := slices.IndexFunc(groups, func(g paced) bool { return g.pace == w.pace })
		if i < 0 {
			i = len(groups)
			groups = append(groups, paced{pace: w.pace})
		}
		groups[i].filters = append(groups[i].filters, w.filter)
	}
	return groups
}

func (p paced) options(at place) SubscribeOptions {
	return SubscribeOptions{MaxRate: p.rate, MaxAge: p.age, Since: slices.Collect(maps.Values(at.positions)), Cursor: at.cursor}
}

// place is where a Client stands in its topics.
type place struct {
	positions map[string]Position
	cursor    []byte
}

// leave notes where an ended connection stood. Topics that it did not come to
// are where they were; those that nobody wishes for any more are forgotten.
func (p *place) leave(conn *Conn, wishes []wish) {
	positions := maps.Clone(p.positions) // the old one may be in use by a request
	for _, at := range conn.Positions() {
		positions[at.Topic] = at
	}
	p.positions = positions
	p.forget(wishes)
	if cursor := conn.Cursor(); cursor != nil {
		p.cursor = cursor
	}
}

// forget drops topics that match no wish.
func (p *place) forget(wishes []wish) {
	positions := maps.Clone(p.positions)
	maps.DeleteFunc(positions, func(name string, _ Position) bool { return !wished(wishes, name) })
	p.positions = positions
}

func wished(wishes []wish, name string) bool {
	return slices.ContainsFunc(wishes, func(w wish) bool { return w.parsed.Match(name) })
}

// Subscribe follows topics, names or patterns, from now on, on this connection
// and all later ones. It does not wait for the gateway: Next returns Subscribed,
// or a Refused for a filter that the gateway does not allow, which is asked for
// again on the next connection. Filters that are followed already are no fault.
// Invalid filters are topic.ErrInvalid.
func (c *Client) Subscribe(filters ...string) error {
	return c.SubscribeWith(SubscribeOptions{}, filters...)
}

// SubscribeWith is Subscribe with options. Since and Cursor, as Positions and
// Cursor of a Client in another life of the program returned them, are for the
// first time; from then on the Client knows by itself.
func (c *Client) SubscribeWith(opts SubscribeOptions, filters ...string) error {
	filters, err := checkFilters(filters)
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		return err
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	conn, err := c.wish(opts, filters)
	if conn != nil {
		c.ask(conn, opts, filters)
	}
	return err
}

// wish notes wishes for later connections, and returns the present one.
func (c *Client) wish(opts SubscribeOptions, filters []string) (*Conn, error) {
	c.shared.Lock()
	defer c.shared.Unlock()
	s := &c.shared
	if s.ended != nil {
		return nil, s.ended
	}
	for _, f := range filters {
		parsed, _ := topic.ParseFilter(f) // was checked
		s.wishes = slices.DeleteFunc(slices.Clone(s.wishes), func(w wish) bool { return w.filter == f })
		s.wishes = append(s.wishes, wish{f, parsed, pace{opts.MaxRate, opts.MaxAge}})
	}
	s.place.remember(opts)
	return s.conn, nil
}

// remember notes where the program stood before this Client was there.
func (p *place) remember(opts SubscribeOptions) {
	positions := maps.Clone(p.positions)
	for _, at := range opts.Since {
		positions[at.Topic] = at
	}
	p.positions = positions
	if opts.Cursor != nil {
		p.cursor = slices.Clone(opts.Cursor)
	}
}

// ask subscribes without waiting for the answer, which Next gets. A connection
// that breaks meanwhile is none of its concern: the next one asks again. The
// caller holds asking.
func (c *Client) ask(conn *Conn, opts SubscribeOptions, filters []string) {
	for m := range conn.subscribes(opts, filters) {
		m.Id = conn.newID()
		f := &wire.ClientFrame{Message: &wire.ClientFrame_Subscribe{Subscribe: m}}
		if conn.writeMessage(c.life, f, 0) != nil {
			return
		}
	}
}

// Unsubscribe gives filters back, each exactly as it was subscribed. It does not
// wait for the gateway; ticks that are on their way still come. Filters that are
// not followed are no fault.
func (c *Client) Unsubscribe(filters ...string) error {
	filters, err := checkFilters(filters)
	if err != nil {
		return err
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	conn, filters, err := c.drop(filters)
	if conn == nil || len(filters) == 0 {
		return err
	}
	for part := range conn.parts(filters, false) {
		m := &wire.Unsubscribe{Id: conn.newID(), Filters: part}
		if conn.writeMessage(c.life, &wire.ClientFrame{Message: &wire.ClientFrame_Unsubscribe{Unsubscribe: m}}, 0) != nil {
			break // the next connection does not ask for them
		}
	}
	return nil
}

// drop forgets wishes, and returns those that there were and the present connection.
func (c *Client) drop(filters []string) (*Conn, []string, error) {
	c.shared.Lock()
	defer c.shared.Unlock()
	s := &c.shared
	if s.ended != nil {
		return nil, nil, s.ended
	}
	var dropped []string
	s.wishes = slices.DeleteFunc(slices.Clone(s.wishes), func(w wish) bool {
		gone := slices.Contains(filters, w.filter)
		if gone {
			dropped = append(dropped, w.filter)
		}
		return gone
	})
	s.place.forget(s.wishes)
	if s.conn != nil {
		s.conn.forgetSince(s.wishes)
	}
	return s.conn, dropped, nil
}

// Positions returns where the Client stands in every topic that it follows, for
// SubscribeWith in a later life of the program. It is for the goroutine that
// calls Next.
func (c *Client) Positions() []Position {
	return slices.Collect(maps.Values(c.stands().positions))
}

// Cursor returns where the Client stands in the gateway's streams, as
// Conn.Cursor does. It is for the goroutine that calls Next.
func (c *Client) Cursor() []byte { return slices.Clone(c.stands().cursor) }

func (c *Client) stands() place {
	c.shared.Lock()
	defer c.shared.Unlock()
	at := c.shared.place
	if conn := c.shared.conn; conn != nil && c.attempt == nil {
		at.leave(conn, c.shared.wishes)
	}
	return at
}
