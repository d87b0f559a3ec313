package client

import (
	"maps"
	"slices"
	"time"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// Positions returns where the connection stands in every topic that it follows,
// for SubscribeWith on a later connection. It is for the goroutine that calls
// Next, and most useful after that has failed.
func (c *Conn) Positions() []Position {
	var all []Position
	for _, p := range c.view.topics {
		if p.held {
			all = append(all, Position{Topic: p.name, Epoch: p.epoch, Seq: p.next - 1})
		}
	}
	return all
}

// Cursor returns where the connection stands in the gateway's streams, for
// SubscribeWith on a later connection to that gateway or another one; nil if the
// gateway has no streams. It is for the goroutine that calls Next, and most
// useful after that has failed.
func (c *Conn) Cursor() []byte { return slices.Clone(c.cursor) }

// comeBack notes positions to hold announcements against.
func (c *Conn) comeBack(since []Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range since {
		c.since[p.Topic] = p
	}
}

// forgetSince drops positions of topics that match no wish: when their delivery
// begins again, nothing was lost.
func (c *Conn) forgetSince(wishes []wish) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.since, func(name string, _ Position) bool { return !wished(wishes, name) })
}

// positionsFor picks the positions in topics of valid filters, as many as fit
// into a message with them. What is left out is not recovered, and told as lost.
func (c *Conn) positionsFor(filters []string, since []Position) []*wire.Position {
	if len(since) == 0 {
		return nil
	}
	room := c.maxPlaintext - messageOverhead - len(filters)*perFilter
	parsed := make([]topic.Filter, len(filters))
	for i, s := range filters {
		parsed[i], _ = topic.ParseFilter(s)
	}
	var picked []*wire.Position
	for _, p := range since {
		if !slices.ContainsFunc(parsed, func(f topic.Filter) bool { return f.Match(p.Topic) }) {
			continue
		}
		if room -= len(p.Topic) + positionOverhead; room < 0 && c.maxPlaintext > 0 {
			break
		}
		picked = append(picked, &wire.Position{Topic: p.Topic, Epoch: p.Epoch, Seq: p.Seq})
	}
	return picked
}

// missed says what was lost between the position that the client came back with
// and the point where the topic's delivery begins; nil if that is nothing.
func (c *Conn) missed(t *wire.TopicState) Event {
	c.mu.Lock()
	p, ok := c.since[t.GetName()]
	delete(c.since, t.GetName())
	c.mu.Unlock()
	switch {
	case !ok, p.Epoch != t.GetEpoch() && t.GetRecovered(): // by cursor: another gateway, and nothing lost
		return nil
	case p.Epoch != t.GetEpoch():
		return c.reset(&Reset{Topic: p.Topic, Epoch: t.GetEpoch(), NextSeq: t.GetNextSeq()})
	case t.GetNextSeq() > p.Seq+1:
		return c.gap(&Gap{Topic: p.Topic, Epoch: p.Epoch, From: p.Seq + 1, To: t.GetNextSeq() - 1})
	}
	return nil
}

// snapshot makes events of last values.
func (c *Conn) snapshot(values []*wire.Value) error {
	for _, v := range values {
		name, err := c.view.value(v)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		c.counts.snapshots.Add(1)
		s := &Snapshot{Topic: name, Epoch: v.GetEpoch(), Seq: v.GetSeq(), Payload: v.GetPayload(), Stale: v.GetStale()}
		if us := v.GetTimeUs(); us != 0 {
			s.Time = time.UnixMicro(int64(us))
		}
		c.events = append(c.events, s)
	}
	return nil
}
