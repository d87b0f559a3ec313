package fanout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// SeedTopic is what stands for a topic's name in Rule.Seed.
const SeedTopic = "{topic}"

// Bounds of what reads first values. seedReaders times seedPage values of
// Options.MaxTick are in memory at most while they are read.
const (
	seedReaders = 4 // pages that are read at a time
	seedPage    = 8 // keys of one page
	seedTimeout = time.Second
)

// seedQuiet is how long the log stays silent after a value that could not be read.
const seedQuiet = time.Minute

var (
	errSeedLarge = errors.New("the value is longer than limits.tick")
	errSeedLate  = errors.New("too many first values were asked for at a time")
)

// seed is the first value of a topic that is being read. Only until a tick comes,
// or the value does, the topic points to it.
type seed struct {
	feed    *feed
	key     string
	asked   time.Time
	waiting []*patient

	// Written by the reader, then handed to the hub.
	value string // "": there is none
	err   error
}

// patient is a Recall that waits for first values.
type patient struct {
	command
	left int // of them to come
}

// seeds is what the hub notes about first values. Owned by Run.
type seeds struct {
	opened  []*feed // in this turn
	queue   []*seed // to be read
	reading int     // pages
	waited  int     // seeds that topics point to
	said    time.Time
	read    func(page []*seed) // begins to read and returns at once; page comes back as a command
}

// seedOpened asks for the first values of topics that were opened in this turn
// and have had no tick in it.
func (h *Hub) seedOpened() {
	s := &h.seeds
	for i, f := range s.opened {
		s.opened[i] = nil
		if h.topics[f.name] != f || f.seed != nil || f.past.count > 0 || f.rule == nil || f.rule.Seed == "" {
			continue
		}
		f.seed = &seed{feed: f, key: strings.ReplaceAll(f.rule.Seed, SeedTopic, f.name), asked: h.opt.Now()}
		s.waited++
		s.queue = append(s.queue, f.seed)
	}
	s.opened = s.opened[:0]
	h.readOn()
}

// readOn reads what waits for it, as much at a time as is allowed, and gives up
// what has waited too long.
func (h *Hub) readOn() {
	s := &h.seeds
	for s.reading < seedReaders && len(s.queue) > 0 {
		var page []*seed
		for len(page) < seedPage && len(s.queue) > 0 {
			next := s.queue[0]
			s.queue[0] = nil
			s.queue = s.queue[1:]
			switch {
			case next.feed.seed != next: // a tick was faster
			case h.opt.Now().Sub(next.asked) > seedTimeout:
				next.err = errSeedLate
				h.sown(next)
			default:
				page = append(page, next)
			}
		}
		if len(page) > 0 {
			s.reading++
			s.read(page)
		}
	}
}

// sow takes a page that was read, at this point in the order of events.
func (h *Hub) sow(page []*seed) (work int) {
	h.seeds.reading--
	for _, s := range page {
		work += 1 + len(s.waiting)
		h.sown(s)
	}
	h.readOn()
	return work
}

// sown keeps a first value if no tick was faster. No epoch has the number 0: the
// value is stale until a tick takes its place.
func (h *Hub) sown(s *seed) {
	f := s.feed
	if f.seed != s {
		return
	}
	h.settleSeed(f)
	switch {
	case s.err != nil:
		h.count.seedsFailed.Add(1)
		h.logSeed(s)
	case s.value == "" || h.topics[f.name] != f || f.rule == nil || f.rule.Seed == "" || f.past.count > 0:
	default:
		h.count.seeds.Add(1)
		f.past.epoch = 0
		h.store.append(f, &kept{feed: f, payload: s.value, older: h.store.newest})
		h.count.evicted.Add(h.store.fit())
	}
}

// settleSeed ends the wait for a topic's first value. The Recalls that waited for no
// other are answered behind the commands that are there.
func (h *Hub) settleSeed(f *feed) {
	s := f.seed
	f.seed = nil
	h.seeds.waited--
	for _, p := range s.waiting {
		if p.left--; p.left == 0 {
			h.turns.commands = append(h.turns.commands, p.command)
		}
	}
	s.waiting = nil
}

// patience makes a Recall wait, once, for the first values that are being read of its
// topics. It reports false if there are none.
func (h *Hub) patience(c *command) bool {
	if h.seeds.waited == 0 || c.patient {
		return false
	}
	p := &patient{command: *c}
	p.patient = true
	for _, filter := range c.recall.Filters {
		for _, n := range h.root.below(nil, filter.String()) {
			if n.topic == nil || n.topic.seed == nil {
				continue
			}
			s := n.topic.seed
			if w := len(s.waiting); w == 0 || s.waiting[w-1] != p {
				s.waiting = append(s.waiting, p)
				p.left++
			}
		}
	}
	return p.left > 0
}

func (h *Hub) logSeed(s *seed) {
	now := h.opt.Now()
	if now.Sub(h.seeds.said) < seedQuiet {
		return
	}
	h.seeds.said = now
	h.opt.Log.Warn("a first value could not be read, its topic begins without one",
		zap.String("topic", s.feed.name), zap.String("key", s.key), zap.Error(plain(s.err)))
}

// readSeeds makes ready to read first values until ctx ends.
func (h *Hub) readSeeds(ctx context.Context, client redis.UniversalClient) {
	h.seeds.read = func(page []*seed) {
		go func() {
			readSeeds(ctx, client, page, h.opt.MaxTick)
			h.post(command{seeds: page})
		}()
	}
}

// readSeeds reads the values of keys, each up to one byte more than a tick may have.
// In a cluster the client asks each key's own node.
func readSeeds(ctx context.Context, client redis.UniversalClient, page []*seed, limit int) {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	answers := make([]*redis.StringCmd, len(page))
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error { // each answer has its own error
		for i, s := range page {
			answers[i] = p.GetRange(ctx, s.key, 0, int64(limit))
		}
		return nil
	})
	for i, s := range page {
		s.value, s.err = answers[i].Result()
		if len(s.value) > limit {
			s.value, s.err = "", fmt.Errorf("%w (%d bytes)", errSeedLarge, limit)
		}
	}
}
