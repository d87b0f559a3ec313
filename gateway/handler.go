package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

var errOutOfPlace = errors.New("message out of place: Connect comes first, and once")

const (
	// maxRequests bounds the Subscribes of a session that wait for their answer.
	maxRequests = 64
	// spareEntries is how many more filters than a session may hold stand in one
	// message at most. Each of them is answered, and so costs the loop something.
	spareEntries = 1000
)

// request is a Subscribe that waits until the source has confirmed all of its
// filters, and then for what the hub remembers of their topics.
type request struct {
	conn    *conn
	id      uint32
	names   []string // accepted filters as the client wrote them
	filters []*heldFilter
	options map[topic.Filter]options // of names, also of those that the session holds already
	missing int                      // filters that are not confirmed
	since   []fanout.Position
	cursor  []byte // in streams; nil: none
	fresh   bool   // no Subscribe: the hub was asked for last values after a gap
}

// onMessage is in 5 — plaintext to message.
func (c *conn) onMessage(plaintext []byte) {
	f, err := wire.ParseClientFrame(plaintext)
	if err != nil {
		c.fail(err)
		return
	}
	if m, ok := f.Message.(*wire.ClientFrame_Connect); ok != (c.phase == phaseConnect) {
		c.fail(errOutOfPlace)
		return
	} else if ok {
		c.connect(m.Connect)
		return
	}
	if c.phase == phaseLogin {
		c.hold(f, len(plaintext))
		return
	}
	c.onRequested(f)
}

// onRequested is in 6 — what a client in service asks for.
func (c *conn) onRequested(f *wire.ClientFrame) {
	switch m := f.Message.(type) {
	case *wire.ClientFrame_Subscribe:
		c.subscribe(m.Subscribe)
	case *wire.ClientFrame_Unsubscribe:
		c.unsubscribe(m.Unsubscribe)
	case *wire.ClientFrame_Refresh:
		c.refresh(m.Refresh)
	case *wire.ClientFrame_Ping:
		c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Pong{Pong: &wire.Pong{Id: m.Ping.Id}}})
	}
}

// send encodes a message and seals it, or lines it up behind what waits for a
// slow session.
func (c *conn) send(f *wire.ServerFrame) {
	if c.phase != phaseOpen {
		return // nothing but the close follows a Goodbye
	}
	plain, err := wire.AppendServerFrame(c.loop.scratch.plain[:0], f)
	if err != nil {
		c.loop.gateway.log.Error("message not encoded", zap.Error(err))
		c.end(wire.CloseInternal, "internal error")
		return
	}
	c.loop.scratch.plain = trim(plain)
	if c.isSlow() {
		c.lineUp(&control{plaintext: slices.Clone(plain), fence: isFence(f)})
		return
	}
	c.loop.scratch.plain = c.loop.pad(plain, 0)
	c.sendRecord(wire.KindRecord, c.loop.scratch.plain)
}

// sendControl is send for a message that is encoded already, for several sessions.
func (c *conn) sendControl(x *control) {
	switch {
	case c.phase != phaseOpen:
	case c.isSlow():
		c.lineUp(x)
	default:
		plain := append(c.loop.scratch.plain[:0], x.plaintext...)
		c.loop.scratch.plain = c.loop.pad(plain, 0)
		c.sendRecord(wire.KindRecord, c.loop.scratch.plain)
	}
}

// lineUp puts a message behind what waits for a slow session.
func (c *conn) lineUp(x *control) {
	if !c.loop.enqueue(c, []entry{{what: x}}) {
		c.end(wire.CloseTooSlow, queueFull)
	}
}

func (c *conn) sendError(id uint32, code wire.CloseCode, text, filter string) {
	c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Error{Error: &wire.Error{
		Id: id, Code: uint32(code), Text: text, Filter: filter}}})
}

// refuseLong refuses a whole request that has more filters than one may have.
func (c *conn) refuseLong(id uint32, entries int) bool {
	most := c.maxSubscriptions() + spareEntries
	if entries <= most {
		return false
	}
	c.sendError(id, wire.CloseTooMany, fmt.Sprintf("%d filters in one message: at most %d", entries, most), "")
	return true
}

// subscribe holds each acceptable filter; the answer comes when all are
// confirmed and the hub has said what it remembers.
func (c *conn) subscribe(m *wire.Subscribe) {
	if len(c.sub.requests) >= maxRequests {
		c.sendError(m.Id, wire.CloseTooMany, "too many requests wait for an answer", "")
		return
	}
	if c.refuseLong(m.Id, len(m.Subscriptions)) {
		return
	}
	req := &request{conn: c, id: m.Id}
	req.withPositions(m.Since)
	req.cursor = m.Cursor
	var forbidden []string
	for _, s := range m.Subscriptions {
		if c.phase != phaseOpen {
			break // an Error was too much for a slow session
		}
		f, o, err := parseSubscription(s)
		switch {
		case err != nil:
			c.sendError(m.Id, wire.CloseBadRecord, err.Error(), s.Filter)
		case !c.sub.who.grant.Rights.Allow(f):
			forbidden = append(forbidden, s.Filter)
			c.sendError(m.Id, wire.CloseForbidden, notCovered, s.Filter)
		case len(req.names) < c.maxSubscriptions() && (c.holds(f) || req.holds(f)):
			req.want(s.Filter, f, o)
		case c.held()+len(req.filters) >= c.maxSubscriptions():
			c.sendError(m.Id, wire.CloseTooMany, "too many subscriptions: at most "+strconv.Itoa(c.maxSubscriptions()), s.Filter)
		default:
			req.want(s.Filter, f, o)
			req.add(c.loop.hold(f))
		}
	}
	c.sub.requests = append(c.sub.requests, req)
	c.auditForbidden(forbidden)
	c.auditSubscription(req.names)
	c.loop.proceed(c)
}

// want adds a filter that is accepted, as the client wrote it.
func (r *request) want(name string, f topic.Filter, o options) {
	if r.options == nil {
		r.options = make(map[topic.Filter]options)
	}
	r.names = append(r.names, name)
	r.options[f] = o
}

// Bounds of a subscription's options.
const (
	minRate = 0.001
	maxRate = 1000
	maxAge  = 24 * time.Hour
)

// parseSubscription reads a filter and its options. The error is for the client.
func parseSubscription(s *wire.Subscription) (f topic.Filter, o options, err error) {
	if f, err = topic.ParseFilter(s.Filter); err != nil {
		return f, o, err
	}
	// Written so for what is no number.
	if rate := s.GetMaxRate(); rate != 0 && !(rate >= minRate && rate <= maxRate) {
		return f, o, fmt.Errorf("max_rate is 0 or from %v to %v ticks a second", minRate, maxRate)
	}
	o = options{interval: intervalOf(s.GetMaxRate()), maxAge: time.Duration(s.GetMaxAgeMs()) * time.Millisecond}
	if o.maxAge > maxAge {
		return f, o, fmt.Errorf("max_age_ms is at most %d", maxAge.Milliseconds())
	}
	return f, o, nil
}

func (r *request) add(h *heldFilter) {
	r.filters = append(r.filters, h)
	if !h.confirmed {
		r.missing++
		h.waiting = append(h.waiting, r)
	}
}

func (r *request) holds(f topic.Filter) bool {
	return slices.ContainsFunc(r.filters, func(h *heldFilter) bool { return h.Filter == f })
}

// remove takes a filter out of a request that still waits.
func (r *request) remove(h *heldFilter, name string) {
	r.filters = without(r.filters, h)
	r.names = slices.DeleteFunc(r.names, func(s string) bool { return s == name })
	r.release(h)
}

// giveBack takes the filters that are marked with turn out of a request that still
// waits. silent: their names go too; else the client is told of them in its answer.
func (r *request) giveBack(turn uint64, silent bool) {
	gone := make(map[string]bool)
	r.filters = slices.DeleteFunc(r.filters, func(h *heldFilter) bool {
		if h.turn != turn {
			return false
		}
		gone[h.String()] = silent
		r.release(h)
		r.conn.loop.letGo(h)
		return true
	})
	r.names = slices.DeleteFunc(r.names, func(name string) bool { return gone[name] })
}

// release ends the wait for a filter that is taken out.
func (r *request) release(h *heldFilter) {
	if !h.confirmed {
		r.missing--
		h.waiting = without(h.waiting, r)
	}
}

// holds tells whether the session has f already; filters that wait count too.
func (c *conn) holds(f topic.Filter) bool {
	return c.sub.holding(f) >= 0 || slices.ContainsFunc(c.sub.requests, func(r *request) bool { return r.holds(f) })
}

// holding is where a filter stands among those that the session holds; -1: nowhere.
func (s *subscriber) holding(f topic.Filter) int {
	return slices.IndexFunc(s.filters, func(h holding) bool { return h.Filter == f })
}

func (c *conn) held() int {
	n := len(c.sub.filters)
	for _, r := range c.sub.requests {
		n += len(r.filters)
	}
	return n
}

// newTopics lists what the added filters match and the old ones do not, each once.
func (x *index) newTopics(old []holding, added []*heldFilter) []*wire.TopicState {
	x.turn++
	for _, h := range old {
		h.turn = x.turn
	}
	var fresh []*wire.TopicState
	for _, h := range added {
		for _, t := range h.topics {
			if !slices.ContainsFunc(t.filters, func(o *heldFilter) bool { return o.turn == x.turn }) {
				fresh = append(fresh, t.proto())
			}
		}
		h.turn = x.turn
	}
	return fresh
}

// unsubscribe gives filters back, those that still wait too.
func (c *conn) unsubscribe(m *wire.Unsubscribe) {
	if c.refuseLong(m.Id, len(m.Filters)) {
		return
	}
	done, turn := &wire.Unsubscribed{Id: m.Id}, c.loop.index.nextTurn()
	var gone []*heldFilter
	for _, name := range m.Filters {
		h := c.find(name)
		if h == nil || h.turn == turn { // named twice
			c.sendError(m.Id, wire.CloseBadRecord, "not subscribed", name)
			continue
		}
		h.turn = turn
		gone = append(gone, h)
		done.Filters = append(done.Filters, name)
	}
	c.giveBack(gone, true)
	c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Unsubscribed{Unsubscribed: done}})
}

// find returns the filter of this name that the session holds or waits for; nil: none.
func (c *conn) find(name string) *heldFilter {
	f, err := topic.ParseFilter(name)
	if err != nil {
		return nil
	}
	h := c.loop.index.filters[f]
	waits := func(r *request) bool { return slices.Contains(r.filters, h) }
	if h == nil || c.sub.holding(f) < 0 && !slices.ContainsFunc(c.sub.requests, waits) {
		return nil
	}
	return h
}

// giveBack takes filters from the session, however many by one change of its
// cohort. silent: the answers to requests that wait for them say nothing of it.
func (c *conn) giveBack(gone []*heldFilter, silent bool) {
	if len(gone) == 0 || c.phase != phaseOpen {
		return
	}
	l := c.loop
	turn := l.index.nextTurn()
	for _, h := range gone {
		h.turn = turn
	}
	left, held := make([]holding, 0, len(c.sub.filters)), gone[:0:0]
	for _, h := range c.sub.filters {
		if h.turn == turn {
			held = append(held, h.heldFilter)
		} else {
			left = append(left, h)
		}
	}
	for _, r := range c.sub.requests {
		r.giveBack(turn, silent)
	}
	if !l.regroup(c, left) {
		return
	}
	for _, h := range held {
		l.letGo(h)
	}
	l.proceed(c)
}

// unsubscribeAll takes a session that ends out of the index. Its queue goes too.
func (l *loop) unsubscribeAll(c *conn) {
	if c.sub == nil {
		return
	}
	l.leave(c)
	for i := range c.sub.filters {
		l.letGo(c.sub.filters[i].heldFilter)
	}
	for _, r := range c.sub.requests {
		for _, h := range slices.Clone(r.filters) {
			r.remove(h, "")
			l.letGo(h)
		}
	}
	l.part(c.sub.codec)
	if b := c.sub.slow; b != nil {
		b.count(-b.bytes)
	}
	c.giveUpPlace()
	*c.sub = subscriber{}
}

// confirmed lets the requests go on that waited for a filter.
func (l *loop) confirmed(e *fanout.Confirmed) {
	h, ok := l.index.filters[e.Filter]
	if !ok || h.ticket != e.Ticket {
		return // everybody has left meanwhile
	}
	h.confirmed = true
	for _, s := range e.Topics {
		l.index.learn(h, s)
	}
	waiting := h.waiting
	h.waiting = nil
	for _, r := range waiting {
		if r.missing--; r.missing == 0 {
			l.serve(r.conn, l.proceed)
		}
	}
}

// refused tells those who wait for filters, or have them, that the source will not
// give them. It takes the Refused that the events begin with as one, so that a
// session changes its cohort once, and returns how many those are.
func (l *loop) refused(events []fanout.Event) (run int) {
	var gone []*heldFilter
	for run < len(events) {
		e, ok := events[run].(*fanout.Refused)
		if !ok {
			break
		}
		run++
		if h := l.index.filters[e.Filter]; h != nil && h.ticket == e.Ticket {
			h.refused = e.Err
			gone = append(gone, h)
		}
	}
	sessions, theirs := membersOf(gone)
	for _, c := range sessions {
		l.serve(c, func(c *conn) { c.withdraw(theirs[c], nil) })
	}
	for _, h := range gone {
		for _, r := range slices.Clone(h.waiting) {
			l.serve(r.conn, func(c *conn) {
				l.withdrawWaiting(r, h)
				l.proceed(c)
			})
		}
	}
	return run
}

// membersOf lists the sessions that have some of the filters, and which.
func membersOf(filters []*heldFilter) (sessions []*conn, theirs map[*conn][]*heldFilter) {
	theirs = make(map[*conn][]*heldFilter)
	for _, h := range filters {
		for _, co := range h.cohorts {
			for _, c := range co.members {
				if theirs[c] == nil {
					sessions = append(sessions, c)
				}
				theirs[c] = append(theirs[c], h)
			}
		}
	}
	return sessions, theirs
}

// withdraw takes filters away that the session had or waits for: for one cause, or
// nil for that with which the source refused each. What is collected for it still comes under the key that its group has now; nothing later does.
func (c *conn) withdraw(gone []*heldFilter, cause error) {
	c.sub.barred = true
	c.giveBack(gone, false)
	c.sub.barred = false
	for _, h := range gone {
		c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Unsubscribed{
			Unsubscribed: &wire.Unsubscribed{Filters: []string{h.String()}}}})
		c.sendError(0, wire.CloseForbidden, cmp.Or(cause, h.refused).Error(), h.String())
	}
}

// heartbeat sends a sealed record that the client can time out on, and a ping
// that a client which only listens has to answer, in one write.
func (c *conn) heartbeat() {
	c.lastBeat = c.loop.now
	if c.phase == phaseOpen && c.sub != nil && !c.isSlow() { // a slow one gets records enough
		c.send(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{
			Heartbeat: &wire.Heartbeat{TimeUs: uint64(time.Now().UnixMicro()), Heads: c.loop.heads(c), Cursor: c.cursor()}}})
	}
	if c.phase != phaseClosing { // the heartbeat was not too much for a slow session
		c.sendFrame(ws.OpPing, nil)
	}
}

// spread is a number below width, at least 0, evenly spread over connections.
func (c *conn) spread(width int64) int64 {
	return int64(c.id*0x9E3779B97F4A7C15>>33) % max(width, 1)
}
