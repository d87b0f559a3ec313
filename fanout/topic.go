package fanout

import (
	"errors"
	"math"
	"unsafe"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// ErrNumbers reports that this process has used up its topic numbers.
var ErrNumbers = errors.New("no topic number is left in this gateway process; restart it")

// ErrTopics reports that clients have opened as many topics by name as Options.MaxTopics allows.
var ErrTopics = errors.New("the gateway has as many topics opened by name as limits.topics allows; subscribe to a pattern, or try again later")

// ErrPatterns reports that sharded channels have no patterns.
var ErrPatterns = errors.New("redis.source is sharded, which has no patterns; subscribe to names")

// feed is a topic. It exists while a loop has a confirmed filter that matches
// it, or a rule keeps something of it.
type feed struct {
	name   string
	number uint32
	epoch  uint64
	next   uint64 // sequence number of the next tick
	loops  loopSet
	node   *node
	cover  *subscription // copies count that come through it; nil: none comes
	cause  wire.Cause    // why the source does not cover the topic

	rule       *Rule // nil: nothing is kept
	past       past
	seed       *seed  // its first value is being read
	recalled   Ticket // of the last Recall that has looked here
	stream     int    // that its last tick came from; 0: none, or not known
	dark       bool   // its part of the source is lost
	discovered bool   // opened by a message
	touched    int64  // microseconds since the Unix epoch, of the last tick or of the opening
}

func (f *feed) state() TopicState {
	return TopicState{Number: f.number, Name: f.name, Epoch: f.epoch, NextSeq: f.next}
}

// tick gives a message its number in the topic's sequence.
//
// out 2 — topic number, epoch, sequence number: once per tick and process.
func (h *Hub) tick(it *item) {
	f := h.topics[it.channel]
	if f == nil {
		if f = h.discover(it.channel, it); f == nil {
			return
		}
	}
	if f.cover == nil || !it.via(f.cover) {
		h.count.copies.Add(1)
		return
	}
	if it.kind == itemOversized {
		h.count.oversized.Add(1)
		h.renew(f, wire.Cause_CAUSE_OVERSIZED)
		return
	}
	h.count.received.Add(1)
	h.count.receivedBytes.Add(uint64(len(it.payload)))
	t := h.slab.tick(f, it)
	h.send(&f.loops, t)
	if it.stream > 0 {
		h.collect(f, it, t)
		f.stream = it.stream
	}
	h.remember(f, it)
	f.touched = it.received
	f.next++
	if f.seed != nil {
		h.settleSeed(f)
	}
}

// discover opens a topic that a loop's confirmed filter or a rule matches. With a message
// it does so only if that is the copy that counts. It returns nil if there is
// nothing to open.
func (h *Hub) discover(name string, it *item) *feed {
	if topic.ValidName(name) != nil {
		h.count.invalid.Add(1)
		return nil
	}
	h.nodes = h.root.above(h.nodes[:0], name)
	first := oldest(h.nodes)
	if first == nil || wanted(h.nodes).empty() && h.rule(name) == nil {
		h.count.unmatched.Add(1)
		return nil
	}
	if it != nil && !it.via(first) {
		h.count.copies.Add(1)
		return nil
	}
	if h.full() {
		return nil
	}
	f := h.open(name)
	if f != nil {
		f.discovered = true
		h.discovered++
	}
	return f
}

// open makes a topic and tells the loops that have a confirmed filter for it.
// It returns nil when topic numbers have run out.
func (h *Hub) open(name string) *feed {
	h.nodes = h.root.above(h.nodes[:0], name)
	f := &feed{
		name:    name,
		epoch:   h.newEpoch(0),
		next:    h.firstSeq(),
		loops:   wanted(h.nodes),
		cover:   oldest(h.nodes),
		rule:    h.rule(name),
		touched: h.opt.Now().UnixMicro(),
	}
	if !h.wakeUp(f) {
		if h.lastNumber == math.MaxUint32 {
			h.count.unnumbered.Add(1)
			return nil
		}
		h.lastNumber++
		f.number = h.lastNumber
	}
	f.node = h.root.grow(name)
	f.node.topic = f
	h.topics[name] = f
	h.seeds.opened = append(h.seeds.opened, f)
	h.send(&f.loops, &Opened{f.state()})
	return f
}

// forget drops a topic in which nobody has an interest any more. If it comes
// back it is another topic, with a number and an epoch of its own.
func (h *Hub) forget(f *feed) {
	delete(h.topics, f.name)
	if f.dark {
		h.outage.parts--
	}
	h.store.shrink(f, 0)
	if f.discovered {
		h.discovered--
	}
	f.node.topic = nil
	f.node.prune()
}

// renew begins a new epoch and tells the loops. Of the old one the last value
// stays, as a stale one.
func (h *Hub) renew(f *feed, cause wire.Cause) {
	h.store.shrink(f, 1)
	f.epoch, f.next = h.newEpoch(f.epoch), h.firstSeq()
	h.breakOff(f)
	h.count.resets.Add(1)
	h.send(&f.loops, &Reset{Topic: f.number, Epoch: f.epoch, NextSeq: f.next, Cause: cause})
}

// firstSeq is the sequence number of an epoch's first tick. Of streams there may
// be ticks from before.
func (h *Hub) firstSeq() uint64 {
	if len(h.progress.streams) > 0 {
		return streamSeq
	}
	return 1
}

// newEpoch returns a random number from 1 to 2^53-1, so that JavaScript can
// hold it, and not the one before.
func (h *Hub) newEpoch(before uint64) uint64 {
	for {
		if e := h.opt.Random.Uint64() >> 11; e != 0 && e != before {
			return e
		}
	}
}

// overflow resets the topics whose messages the queue had to drop. Dropped
// first messages open their topics all the same, so that the loss is told.
func (h *Hub) overflow(dropped map[string]struct{}) {
	h.logOverflow()
	if dropped == nil {
		h.uncover()
		for _, f := range h.topics {
			h.overflown(f)
		}
		return
	}
	for name := range dropped {
		f := h.topics[name]
		if f == nil {
			f = h.discover(name, nil)
		}
		h.overflown(f)
	}
}

func (h *Hub) overflown(f *feed) {
	if f != nil && f.cover != nil { // without cover it will be reset anyway
		h.renew(f, wire.Cause_CAUSE_SOURCE_OVERFLOW)
	}
}

// A slab holds up to slabTicks ticks, so that a tick
// costs a fraction of an allocation. It is small because one tick that a slow
// client waits for keeps the whole slab, with its neighbours' payloads, alive.
const (
	slabTicks   = 16
	slabPayload = 16 << 10 // bytes of payload after which a slab is closed
)

type slab struct {
	ticks   []Tick
	payload int
}

// tick makes the next tick of the topic. The payload is the message's own memory.
func (s *slab) tick(f *feed, it *item) *Tick {
	if len(s.ticks) == cap(s.ticks) || s.payload > slabPayload {
		s.ticks = make([]Tick, 0, slabTicks)
		s.payload = 0
	}
	s.ticks = append(s.ticks, Tick{
		Topic:      f.number,
		Seq:        f.next,
		ReceivedUS: it.received,
		Payload:    unsafe.Slice(unsafe.StringData(it.payload), len(it.payload)), // shared and never written
	})
	s.payload += len(it.payload)
	return &s.ticks[len(s.ticks)-1]
}
