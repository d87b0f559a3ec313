package fanout

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire/topic"
)

// What one turn of the hub takes from the queue at most, so that commands and
// hand-overs are not held up behind a long queue.
const (
	turnItems = 1024
	turnBytes = 4 << 20
)

// What one turn does for loops at most, so that ticks are not held up behind
// many Recalls: commands, and for a Recall also topics looked at and ticks
// answered. One command is never split.
const turnWork = 4096

// How often idle topics are looked for, at least and at most.
const (
	minSweep = 100 * time.Millisecond
	maxSweep = time.Minute
)

// source is where ticks come from.
type source interface {
	// run stays connected until ctx ends, and puts what it hears into the queue.
	run(ctx context.Context)
	// send gives orders to the connection of this number, and drops them if
	// that is gone. It never blocks.
	send(link uint64, orders []order)
}

// Hub joins the source and the loops. Its methods are safe for concurrent use.
// Everything about topics and filters belongs to the goroutine of Run.
type Hub struct {
	// Fixed after construction.
	opt    Options
	source source
	queue  *queue
	status *status
	wake   chan struct{}

	// Any goroutine.
	mail  mailbox
	count counters

	// Owned by Run.
	root   *node
	cover  *cover
	topics map[string]*feed
	book
	slab  slab
	store store
	boxes []outbox // by LoopID
	link  uint64   // number of the connection that holds the subscriptions
	nodes []*node  // scratch of one walk in the tree
	turns turnState
}

// book is what the hub notes about its topics, its filters and the source.
type book struct {
	filters    int
	standing   []*want // of the rules
	discovered int     // topics that were opened by a message
	lastNumber uint32
	rested     map[string]rest // by name
	outage     outage
	progress   progress
	seeds      seeds
}

// turnState is what the hub keeps from one turn to the next besides topics and filters.
type turnState struct {
	items        []item    // scratch
	commands     []command // taken from the mailbox
	done         int       // commands: so many from the first one on
	partly       bool      // a part of the source was lost and is not wholly back
	recovering   bool      // connected, but what was wanted then is not answered yet
	unanswered   int       // recovering: answers to come
	overflowSaid time.Time // when an overflow was logged last
	fullSaid     time.Time // when MaxTopics was logged last, of publishers
	namesSaid    time.Time // the same of clients
	refusedSaid  time.Time // when a refused subscription was logged last
}

// mailbox takes the commands of the loops.
type mailbox struct {
	mu       sync.Mutex
	commands []command
	loops    LoopID
	tickets  Ticket
}

// command is one call of Attach, Acquire, Release, Recall or SetRules, or what
// a reader of streams or of first values has found.
type command struct {
	loop    LoopID
	attach  Loop         // Attach
	filter  topic.Filter // Acquire, Release
	ticket  Ticket       // Acquire, Recall
	recall  *Recall      // Recall
	patient bool         // Recall: it has waited for first values
	found   *recovery    // entries of streams that were read for a Recall
	seeds   []*seed      // first values that were read, and those that could not be
	rules   *[]Rule      // SetRules
}

// NewHub makes a hub that does nothing until Run is called.
func NewHub(opt Options) *Hub {
	h := newHub(opt)
	switch h.opt.Redis.Source {
	case Sharded:
		h.source = newShardedSource(h.opt, h.queue, h.status)
	case Streams:
		h.source = newStreamSource(h.opt, h.queue, h.status)
	default:
		h.source = newRedisSource(h.opt, h.queue, h.status)
	}
	return h
}

func newHub(opt Options) *Hub {
	opt = opt.withDefaults()
	h := &Hub{
		opt:    opt,
		status: newStatus(opt.Now, opt.Redis.Addrs[0]),
		wake:   make(chan struct{}, 1),
		root:   new(node),
		topics: make(map[string]*feed),
	}
	h.queue = newQueue(opt.QueueTicks, opt.QueueBytes, h.kick)
	h.cover = newCover(h.root, opt.WholeSource || opt.Redis.Source == Streams)
	h.store.limit = opt.HistoryBytes
	if opt.Redis.Source == Streams {
		h.progress.streams = opt.Redis.Streams
		h.progress.at = make([]position, len(opt.Redis.Streams))
	}
	return h
}

// Attach makes a loop known. It panics beyond MaxLoops. A loop stays attached.
func (h *Hub) Attach(loop Loop) LoopID {
	h.mail.mu.Lock()
	id := h.mail.loops
	if id == MaxLoops {
		panic("fanout: more loops than MaxLoops")
	}
	h.mail.loops++
	h.mail.commands = append(h.mail.commands, command{loop: id, attach: loop})
	h.mail.mu.Unlock()
	h.kick()
	return id
}

// Acquire asks for a filter's ticks; a *Confirmed or *Refused with the Ticket
// follows, once the source has answered. A loop calls it when its first client
// subscribes to the filter, and once more only after Release or a *Refused. It
// never blocks.
func (h *Hub) Acquire(id LoopID, f topic.Filter) Ticket {
	return h.ask(command{loop: id, filter: f})
}

// Recall asks what is kept of the topics of filters that the loop has acquired;
// a *Recalled with the Ticket follows. It never blocks.
func (h *Hub) Recall(id LoopID, r Recall) Ticket {
	return h.ask(command{loop: id, recall: &r})
}

// ask posts a command that is answered.
func (h *Hub) ask(c command) Ticket {
	h.mail.mu.Lock()
	h.mail.tickets++
	c.ticket = h.mail.tickets
	h.mail.commands = append(h.mail.commands, c)
	h.mail.mu.Unlock()
	h.kick()
	return c.ticket
}

// Release ends an acquisition, when the last client of the loop has left the
// filter. It never blocks.
func (h *Hub) Release(id LoopID, f topic.Filter) {
	h.post(command{loop: id, filter: f})
}

// SetRules puts other rules into force. What they no longer keep is given up. It
// never blocks.
func (h *Hub) SetRules(rules []Rule) {
	rules = slices.Clone(rules)
	h.post(command{rules: &rules})
}

// post hands over a command that needs no number. Any goroutine may call it.
func (h *Hub) post(c command) {
	h.mail.mu.Lock()
	h.mail.commands = append(h.mail.commands, c)
	h.mail.mu.Unlock()
	h.kick()
}

// Ready returns nil if the source is connected and has confirmed everything
// that was subscribed, else a *NotReady.
func (h *Hub) Ready() error { return h.status.get() }

// kick wakes Run. Many kicks before it wakes count as one.
func (h *Hub) kick() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run serves until ctx ends, then returns nil. Losing the source does not end
// it. It is called once.
func (h *Hub) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { h.source.run(ctx) })
	client := NewClient(h.opt.Redis) // connects when it is needed
	defer client.Close()
	h.readRecoveries(ctx, client)
	h.readSeeds(ctx, client)
	sweep := time.NewTicker(min(max(h.opt.TopicIdle/4, minSweep), maxSweep))
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			h.sweep()
		case <-h.wake:
		}
		for h.turn() && ctx.Err() == nil {
		}
	}
}

// turn does what there is to do, up to a bound, and tells whether more is left.
func (h *Hub) turn() (more bool) {
	waiting := h.takeCommands()
	items, more := h.queue.take(h.turns.items[:0], turnItems, turnBytes)
	for i := range items {
		h.handle(&items[i])
	}
	clear(items)
	h.turns.items = items
	h.seedOpened()
	if len(h.cover.orders) > 0 {
		h.source.send(h.link, h.cover.orders)
		h.cover.orders = nil
	}
	if h.turns.recovering && h.turns.unanswered <= 0 {
		h.turns.recovering = false
		h.status.ready(h.link)
		h.back()
	}
	if h.turns.partly && h.cover.lostNow == 0 && !h.turns.recovering {
		h.turns.partly = false
		h.status.ready(h.link)
	}
	h.tellTopics()
	h.count.gauge(h)
	h.mark()
	h.flush()
	return more || waiting || h.turns.done < len(h.turns.commands)
}

// takeCommands does what loops have asked for, in their order, up to a bound,
// and tells whether more of it waits.
func (h *Hub) takeCommands() (more bool) {
	t := &h.turns
	if t.done == len(t.commands) {
		h.mail.mu.Lock()
		t.commands, h.mail.commands = h.mail.commands, t.commands[:0]
		h.mail.mu.Unlock()
		t.done = 0
	}
	for work := 0; t.done < len(t.commands) && work < turnWork; t.done++ {
		work += h.obey(&t.commands[t.done])
		t.commands[t.done] = command{}
	}
	return t.done < len(t.commands)
}

// obey does one command and returns how much work it was.
func (h *Hub) obey(c *command) (work int) {
	switch {
	case c.attach != nil:
		h.boxes = append(h.boxes, outbox{loop: c.attach})
		if !h.outage.since.IsZero() {
			h.boxes[c.loop].add(&SourceState{Lost: true, Since: h.outage.since, Err: h.outage.err})
		}
	case c.rules != nil:
		h.setRules(*c.rules)
	case c.found != nil:
		return h.recovered(c.found)
	case c.seeds != nil:
		return h.sow(c.seeds)
	case c.recall != nil:
		return h.recall(c)
	case c.ticket != 0:
		h.acquire(c.loop, c.filter, c.ticket)
	default:
		h.release(c.loop, c.filter)
	}
	return 1
}

// handle takes what the source says, in its order.
func (h *Hub) handle(it *item) {
	switch it.kind {
	case itemTick, itemOversized:
		h.tick(it)
	case itemOverflow:
		h.overflow(it.note.dropped)
	case itemUp:
		h.link = it.note.link
		h.stand()
		h.cover.connected()
		h.turns.recovering, h.turns.unanswered = true, len(h.cover.orders)
	case itemAway:
		h.away(it.note.err)
	case itemDown:
		h.turns.recovering = false
		h.away(it.note.err)
		h.count.lost.Add(1)
		h.lost()
	case itemAdded:
		h.turns.unanswered--
		h.added(it.channel)
	case itemRemoved:
		h.removed(it.channel, it.note)
	case itemRefused:
		h.turns.unanswered--
		h.denied(it.channel, it.note.err)
	case itemBack:
		h.status.ready(h.link)
		h.back()
	case itemLapse:
		h.lapse(it.stream, it.note)
	case itemMalformed:
		h.count.invalid.Add(1)
	}
	h.advance(it)
}

// overflowQuiet is how long the log stays silent after an overflow; counters tell the rest.
const overflowQuiet = 10 * time.Second

// fullQuiet is the same for MaxTopics.
const fullQuiet = time.Minute

// refusedQuiet is the same for subscriptions that Redis refuses.
const refusedQuiet = time.Second

func (h *Hub) logOverflow() {
	now := h.opt.Now()
	if now.Sub(h.turns.overflowSaid) < overflowQuiet {
		return
	}
	h.turns.overflowSaid = now
	_, _, dropped := h.queue.depth()
	h.opt.Log.Warn("ticks came faster than they were taken, some were dropped and their topics reset",
		zap.Uint64("dropped", dropped), zap.Int("queue_ticks", h.opt.QueueTicks), zap.Int("queue_bytes", h.opt.QueueBytes))
}
