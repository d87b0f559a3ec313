package fanout

import (
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/wire/topic"
)

// Bounds of what one Recall by cursor may bring back. Beyond them nothing is
// recovered, and the subscriber is told so.
const (
	recoverBytes   = 16 << 20
	recoverEntries = 500_000 // looked at, of all topics
	recoverWaiting = 64      // recoveries at a time
	recoverReaders = 4       // of them that read at a time
)

// streamSeq is the sequence number that topics of streams begin behind. What
// was published before this process knew the topic is numbered downwards from there.
const streamSeq = 1 << 20

// recovery is a Recall by cursor while its entries are read. What is published
// meanwhile is collected, so that nothing is missing between the two, and nothing double.
type recovery struct {
	command
	from, to []position // of each stream: behind from, up to and including to

	// Owned by the hub.
	live   map[*feed][]*Tick
	bytes  int
	wants  matcher
	broken bool // an epoch ended, or it was too much
	read   bool // found and err are there

	// Written by the reader, then handed to the hub.
	found map[string][]item // by topic, oldest first
	picks matcher
	err   error
}

// progress is what the hub notes about streams. Owned by Run.
type progress struct {
	streams    []string
	at         []position
	moved      bool
	recoveries []*recovery
	read       func(r *recovery) // begins to read and returns at once; r comes back as a command
}

// readRecoveries makes ready to read entries for Recalls until ctx ends.
func (h *Hub) readRecoveries(ctx context.Context, client redis.UniversalClient) {
	rr := &recoverReader{opt: &h.opt, client: client, slots: make(chan struct{}, recoverReaders), done: h.found}
	h.progress.read = func(r *recovery) { rr.begin(ctx, r) }
}

// found hands a recovery back to the hub. Any goroutine may call it.
func (h *Hub) found(r *recovery) { h.post(command{found: r}) }

// advance notes how far the items of a stream have been handled.
func (h *Hub) advance(it *item) {
	if it.stream > 0 {
		h.progress.at[it.stream-1], h.progress.moved = it.at, true
	}
}

// mark tells the loops at the end of a turn where the streams stand.
func (h *Hub) mark() {
	p := &h.progress
	if !p.moved {
		return
	}
	p.moved = false
	h.answerAhead()
	m := &Mark{Cursor: h.cursor()}
	for i := range h.boxes {
		if h.boxes[i].filters > 0 {
			h.boxes[i].add(m)
		}
	}
}

// cursor encodes where the streams stand; nil without streams.
func (h *Hub) cursor() []byte {
	p := &h.progress
	if len(p.streams) == 0 {
		return nil
	}
	return appendCursor(nil, p.streams, p.at)
}

// lapse resets the topics of a stream of which entries are gone, or all that have no stream.
func (h *Hub) lapse(stream int, n *note) {
	h.uncover()
	for _, f := range h.topics {
		if f.cover != nil && (f.stream == stream || f.stream == 0) {
			if !n.again || f.next > h.firstSeq() {
				h.renew(f, n.cause)
			}
		}
	}
}

// recallByCursor begins a recovery; false if there is none to be had.
func (h *Hub) recallByCursor(c *command) bool {
	p := &h.progress
	if len(p.streams) == 0 || len(p.recoveries) >= recoverWaiting {
		return false
	}
	from, err := parseCursor(c.recall.Cursor, p.streams)
	if err != nil {
		return false
	}
	r := &recovery{
		command: *c, from: from, to: slices.Clone(p.at), live: make(map[*feed][]*Tick), found: make(map[string][]item),
		wants: newMatcher(c.recall.Filters), picks: newMatcher(c.recall.Filters),
	}
	p.recoveries = append(p.recoveries, r)
	p.read(r)
	return true
}

// matcher tells which topics belong to filters, each of which is looked at once.
type matcher struct {
	filters []topic.Filter
	known   map[string]bool
}

func newMatcher(filters []topic.Filter) matcher {
	return matcher{filters, make(map[string]bool)}
}

func (m *matcher) match(name string) bool {
	matches, known := m.known[name]
	if !known {
		matches = slices.ContainsFunc(m.filters, func(f topic.Filter) bool { return f.Match(name) })
		m.known[name] = matches
	}
	return matches
}

// collect keeps a tick for the recoveries that it belongs to. A subscriber that
// comes from a gateway ahead of this one has it already.
func (h *Hub) collect(f *feed, it *item, t *Tick) {
	for _, r := range h.progress.recoveries {
		if r.from[it.stream-1].less(it.at) && r.wants.match(f.name) {
			r.live[f] = append(r.live[f], t)
			if r.bytes += len(t.Payload) + keptOverhead; r.bytes > recoverBytes {
				r.broken = true
			}
		}
	}
}

// breakOff ends recoveries that a reset makes impossible.
func (h *Hub) breakOff(f *feed) {
	for _, r := range h.progress.recoveries {
		r.broken = r.broken || r.wants.match(f.name)
	}
}

// ahead tells whether the subscriber has seen more than the hub. What it has seen
// is in Redis, so the hub will be there soon.
func (r *recovery) ahead(at []position) bool {
	for i := range at {
		if at[i].less(r.from[i]) {
			return true
		}
	}
	return false
}

// answerAhead answers those who were ahead once the hub is where they were.
func (h *Hub) answerAhead() {
	for _, r := range slices.Clone(h.progress.recoveries) {
		if r.read {
			h.recovered(r)
		}
	}
}

// recovered answers a Recall at this point in the order of events.
func (h *Hub) recovered(r *recovery) (work int) {
	p := &h.progress
	r.read = true
	if r.err == nil && !r.broken && r.ahead(p.at) {
		return 1
	}
	p.recoveries = slices.DeleteFunc(p.recoveries, func(o *recovery) bool { return o == r })
	if r.err != nil || r.broken {
		r.recall.Since, r.recall.Cursor = nil, nil
		return h.recall(&r.command)
	}
	for name := range r.found {
		if h.topics[name] == nil {
			h.discover(name, nil)
		}
	}
	answer := &Recalled{Ticket: r.ticket, Cursor: h.cursor()}
	for _, filter := range r.recall.Filters {
		for _, n := range h.root.below(nil, filter.String()) {
			f := n.topic
			if f == nil || f.recalled == r.ticket {
				continue
			}
			f.recalled = r.ticket
			m := f.recovered(r.found[f.name], r.live[f])
			answer.Memories = append(answer.Memories, m)
			work += 1 + len(m.Ticks)
		}
	}
	h.boxes[r.loop].add(answer)
	return work
}

// recovered numbers what was read so that what was collected follows it.
func (f *feed) recovered(found []item, live []*Tick) Memory {
	next := f.next
	if len(live) > 0 {
		next = live[0].Seq
	}
	m := Memory{Topic: f.number, Epoch: f.epoch, Recovered: true, Since: next - uint64(len(found)) - 1}
	ticks := make([]Tick, len(found))
	for i := range found {
		it := &found[i]
		seq := m.Since + 1 + uint64(i)
		ticks[i] = Tick{
			Topic: f.number, Seq: seq, ReceivedUS: it.received,
			Payload: unsafe.Slice(unsafe.StringData(it.payload), len(it.payload)), // shared and never written
		}
		m.Ticks = append(m.Ticks, &ticks[i])
	}
	m.Ticks = append(m.Ticks, live...)
	return m
}

var (
	errTrimmed = errors.New("redis no longer holds what was missed")
	errMuch    = errors.New("too much was missed")
)

// recoverReader reads entries for recoveries, a few at a time. Each runs in a
// goroutine of its own until ctx ends.
type recoverReader struct {
	opt    *Options
	client redis.UniversalClient
	slots  chan struct{}
	done   func(*recovery)
}

func (rr *recoverReader) begin(ctx context.Context, r *recovery) {
	go func() {
		select {
		case rr.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-rr.slots }()
		r.err = rr.read(ctx, r)
		rr.done(r)
	}()
}

func (rr *recoverReader) read(ctx context.Context, r *recovery) error {
	entries, bytes := recoverEntries, recoverBytes
	for i, name := range rr.opt.Redis.Streams {
		at, to := r.from[i], r.to[i]
		for first := true; first || at.less(to); first = false {
			page, err := rr.page(ctx, name, at, to)
			if err != nil {
				return err
			}
			if page.gone(at) { // also of what was still there at the page before
				return errTrimmed
			}
			if len(page.entries) == 0 {
				break
			}
			for _, e := range page.entries {
				size, err := r.keep(rr.opt, e)
				if err != nil {
					return err
				}
				entries--
				bytes -= size
			}
			if entries < 0 || bytes < 0 {
				return errMuch
			}
			count := at.count + uint64(len(page.entries))
			if at, err = parseID(page.entries[len(page.entries)-1].ID); err != nil {
				return err
			}
			at.count = count
		}
	}
	return nil
}

// keep takes an entry, if it is a tick of the filters, and returns its size.
func (r *recovery) keep(opt *Options, e redis.XMessage) (size int, err error) {
	var it item
	it.entry(opt, e.Values)
	if !it.message() || !r.picks.match(it.channel) {
		return 0, nil
	}
	if it.kind == itemOversized {
		return 0, errMuch
	}
	if at, err := parseID(e.ID); err == nil {
		it.received = int64(at.ms) * 1000 // when Redis took it: the gateway may not have been there
	}
	r.found[it.channel] = append(r.found[it.channel], it)
	return len(it.payload) + keptOverhead, nil
}

// page reads entries behind at, up to and including to.
func (rr *recoverReader) page(ctx context.Context, name string, at, to position) (*page, error) {
	var info *redis.XInfoStreamCmd
	var read *redis.XMessageSliceCmd
	_, failure := rr.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		info = infoOf(ctx, tx, name)
		read = tx.XRangeN(ctx, name, at.after(), to.id(), streamPage)
		return nil
	})
	p, err := parseInfo(info, failure)
	if err != nil {
		return nil, err
	}
	if p.entries, err = read.Result(); err == nil && failure != nil && !isRedis(failure) {
		err = failure
	}
	return p, err
}

// gone tells whether the stream has lost entries behind a position: whether more
// of its first entries are gone than the position has behind it.
func (p *page) gone(from position) bool {
	return p.last.less(from) || from.count == 0 && from.ms != 0 || p.added-p.length > from.count
}
