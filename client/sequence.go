package client

import (
	"errors"
	"fmt"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// errSequence reports ticks that the gateway cannot have meant: a topic it never
// announced, or numbers that contradict themselves or are above wire.MaxNumber.
var errSequence = errors.New("tick that was never announced")

// position is where a client stands in one topic.
type position struct {
	name  string
	epoch uint64
	next  uint64 // sequence number after the highest one seen
	held  bool   // a subscription matches the topic
}

// verdict is what the sequence rule says about one tick.
type verdict struct {
	discard bool   // seen before
	gap     bool   // the ticks [from, to] are lost
	from    uint64 // with gap
	to      uint64 // with gap
	merged  uint64 // earlier ticks that came as part of this one
}

// advance applies the sequence rule of docs/protocol.md section 6 to a tick
// that covers [seq-skipped, seq], and moves the position behind it. It expects
// skipped <= seq <= wire.MaxNumber.
func (p *position) advance(seq, skipped uint64) verdict {
	first := seq - skipped
	switch {
	case seq < p.next:
		return verdict{discard: true}
	case first > p.next:
		v := verdict{gap: true, from: p.next, to: first - 1, merged: skipped}
		p.next = seq + 1
		return v
	default:
		v := verdict{merged: seq - p.next}
		p.next = seq + 1
		return v
	}
}

// lose applies that the ticks up to to will not come, whatever was seen of them.
// It expects to <= wire.MaxNumber.
func (p *position) lose(to uint64) verdict {
	if to < p.next {
		return verdict{}
	}
	v := verdict{gap: true, from: p.next, to: to}
	p.next = to + 1
	return v
}

// view is everything a client knows about its topics. It is told what the
// gateway sent, in the order in which it came.
type view struct {
	topics  map[uint32]*position
	named   map[string]*position      // the latest of each name
	filters map[topic.Filter]struct{} // confirmed and not given back
}

func newView() *view {
	return &view{topics: map[uint32]*position{}, named: map[string]*position{}, filters: map[topic.Filter]struct{}{}}
}

// confirm notes filters that the gateway has accepted.
func (v *view) confirm(filters []string) error {
	for _, s := range filters {
		f, err := topic.ParseFilter(s)
		if err != nil {
			return err
		}
		v.filters[f] = struct{}{}
	}
	return nil
}

// release notes filters that were given back. Topics that no other filter
// matches are no longer held: when they are announced again, delivery begins
// anew and nothing was lost in between.
func (v *view) release(filters []string) error {
	for _, s := range filters {
		f, err := topic.ParseFilter(s)
		if err != nil {
			return err
		}
		delete(v.filters, f)
	}
	for _, p := range v.topics {
		p.held = p.held && v.matches(p.name)
	}
	return nil
}

func (v *view) matches(name string) bool {
	for f := range v.filters {
		if f.Match(name) {
			return true
		}
	}
	return false
}

// announced says what an announcement of a topic means to this client.
type announced uint8

const (
	announcedKnown announced = iota // delivered already, under the same epoch
	announcedNew                    // delivery begins
	announcedReset                  // delivered already, now under another epoch
)

// announce notes the topic's name and the point where delivery begins. A topic
// that is already delivered keeps its position, so that ticks which are still
// on their way are not taken for old ones.
func (v *view) announce(s *wire.TopicState) (announced, error) {
	p := v.topics[s.GetNumber()]
	switch {
	case s.GetEpoch() > wire.MaxNumber || s.GetNextSeq() > wire.MaxNumber:
		return 0, fmt.Errorf("%w: %q begins at %d of epoch %d", errSequence, s.GetName(), s.GetNextSeq(), s.GetEpoch())
	case p == nil:
		if err := topic.ValidName(s.GetName()); err != nil {
			return 0, err
		}
		p = v.renumber(s.GetName())
		v.topics[s.GetNumber()], v.named[s.GetName()] = p, p
		if p.held && p.epoch == s.GetEpoch() {
			return announcedKnown, nil
		}
	case p.name != s.GetName():
		return 0, fmt.Errorf("%w: topic %d was %q and is announced as %q", errSequence, s.GetNumber(), p.name, s.GetName())
	case p.held && p.epoch == s.GetEpoch():
		return announcedKnown, nil
	}
	meaning := announcedNew
	if p.held {
		meaning = announcedReset
	}
	p.epoch, p.next, p.held = s.GetEpoch(), s.GetNextSeq(), true
	return meaning, nil
}

// renumber makes the position of a topic that has a number for the first time, or
// another one than before: the earlier one is dead.
func (v *view) renumber(name string) *position {
	p := &position{name: name}
	if before := v.named[name]; before != nil {
		*p = *before
		before.held = false
	}
	return p
}

// value names the topic of a last value, which says nothing about the sequence.
// The name is empty when the topic is not wanted any more.
func (v *view) value(x *wire.Value) (string, error) {
	p := v.topics[x.GetTopic()]
	switch {
	case p == nil:
		return "", fmt.Errorf("%w: value of topic %d", errSequence, x.GetTopic())
	case x.GetEpoch() > wire.MaxNumber || x.GetSeq() > wire.MaxNumber:
		return "", fmt.Errorf("%w: value %d of epoch %d of %q", errSequence, x.GetSeq(), x.GetEpoch(), p.name)
	case !p.held:
		return "", nil
	}
	return p.name, nil
}

// announcedAll tells whether all topics of a batch have been announced.
func (v *view) announcedAll(b *wire.Batch) error {
	for _, number := range b.GetTopics() {
		if v.topics[number] == nil {
			return fmt.Errorf("%w: topic %d", errSequence, number)
		}
	}
	for _, r := range b.GetResets() {
		if v.topics[r.GetTopic()] == nil {
			return fmt.Errorf("%w: reset of topic %d", errSequence, r.GetTopic())
		}
	}
	return nil
}

// tick applies a tick of a batch that was checked. The position is nil when the
// tick is not wanted any more; its epoch and name are valid until the next call.
func (v *view) tick(e *wire.Entry) (*position, verdict) {
	p := v.topics[e.Topic]
	if !p.held {
		return nil, verdict{discard: true}
	}
	return p, p.advance(e.Seq, e.Skipped)
}

// gap applies a gap that the gateway tells. It covers everything up to its end
// that did not come: what comes is in order.
func (v *view) gap(g *wire.Gap) (*position, verdict, error) {
	p := v.topics[g.GetTopic()]
	switch {
	case p == nil:
		return nil, verdict{}, fmt.Errorf("%w: gap of topic %d", errSequence, g.GetTopic())
	case g.GetFrom() > g.GetTo() || g.GetTo() > wire.MaxNumber || g.GetEpoch() > wire.MaxNumber:
		return nil, verdict{}, fmt.Errorf("%w: %q, gap from %d to %d of epoch %d", errSequence, p.name, g.GetFrom(), g.GetTo(), g.GetEpoch())
	case !p.held || p.epoch != g.GetEpoch(): // a reset has told of an earlier epoch's loss
		return nil, verdict{}, nil
	}
	return p, p.lose(g.GetTo()), nil
}

// head applies what a heartbeat says: up to that tick everything was sent.
func (v *view) head(h *wire.TopicHead) (*position, verdict, error) {
	p := v.topics[h.GetTopic()]
	switch {
	case p == nil:
		return nil, verdict{}, fmt.Errorf("%w: head of topic %d", errSequence, h.GetTopic())
	case h.GetSeq() > wire.MaxNumber:
		return nil, verdict{}, fmt.Errorf("%w: %q, head %d", errSequence, p.name, h.GetSeq())
	case !p.held:
		return nil, verdict{}, nil
	}
	return p, p.lose(h.GetSeq()), nil
}

// names are those of the topics with these numbers, without those that are not
// wanted any more.
func (v *view) names(numbers []uint32) ([]string, error) {
	var names []string
	for _, n := range numbers {
		p := v.topics[n]
		if p == nil {
			return nil, fmt.Errorf("%w: topic %d", errSequence, n)
		}
		if p.held {
			names = append(names, p.name)
		}
	}
	return names, nil
}

// reset applies a change of epoch, of a batch that was checked. The position is
// nil when it says nothing new: the topic is not held, or was announced under
// this epoch already.
func (v *view) reset(number uint32, r *wire.Reset) *position {
	p := v.topics[number]
	if !p.held || p.epoch == r.GetEpoch() {
		return nil
	}
	p.epoch, p.next = r.GetEpoch(), r.GetNextSeq()
	return p
}
