package client

import (
	"time"

	"github.com/sealcast/sealcast/wire"
)

// begin makes events of a message, or gets ready to work through a batch.
func (c *Conn) begin(q queued) error {
	switch m := q.frame.GetMessage().(type) {
	case *wire.ServerFrame_Batch:
		return c.beginBatch(m.Batch)
	case *wire.ServerFrame_Subscribed:
		if q.unasked {
			c.events = append(c.events, &Subscribed{Filters: m.Subscribed.GetFilters()})
		}
		if err := c.view.confirm(m.Subscribed.GetFilters()); err != nil {
			return err
		}
		return c.announce(m.Subscribed.GetTopics())
	case *wire.ServerFrame_Unsubscribed:
		return c.view.release(m.Unsubscribed.GetFilters())
	case *wire.ServerFrame_Topics:
		return c.announce(m.Topics.GetTopics())
	case *wire.ServerFrame_Snapshot:
		return c.snapshot(m.Snapshot.GetValues())
	case *wire.ServerFrame_Gap:
		return c.told(m.Gap)
	case *wire.ServerFrame_Notice:
		return c.notice(m.Notice)
	case *wire.ServerFrame_Heartbeat:
		return c.heartbeat(m.Heartbeat)
	case *wire.ServerFrame_Error:
		refused := refusedBy(m.Error)
		c.events = append(c.events, &refused)
	}
	return nil
}

// beginBatch gets ready to work through a batch, after all checks that it has to
// pass (docs/protocol.md section 6.4). Of one that fails nothing is used.
func (c *Conn) beginBatch(b *wire.Batch) error {
	entries, err := c.split.Split(b)
	if err == nil {
		err = c.view.announcedAll(b)
	}
	if err != nil {
		return err
	}
	c.entries, c.at = entries, 0
	c.moveCursor(b.GetCursor())
	return nil
}

// moveCursor notes where the message in progress ends. Next returns all of it
// before it says that the connection has ended.
func (c *Conn) moveCursor(cursor []byte) {
	if len(cursor) > 0 {
		c.cursor = cursor
	}
}

// told makes an event of a gap that the gateway tells, unless all of it is
// covered already.
func (c *Conn) told(g *wire.Gap) error {
	p, v, err := c.view.gap(g)
	if err == nil && v.gap {
		c.events = append(c.events, c.gap(&Gap{Topic: p.name, Epoch: p.epoch, From: v.from, To: v.to, Cause: g.GetCause()}))
	}
	return err
}

// heartbeat makes gaps of what the heads show to be missing, and an event of the
// heartbeat itself.
func (c *Conn) heartbeat(h *wire.Heartbeat) error {
	for _, head := range h.GetHeads() {
		p, v, err := c.view.head(head)
		if err != nil {
			return err
		}
		if v.gap {
			c.events = append(c.events, c.gap(&Gap{Topic: p.name, Epoch: p.epoch, From: v.from, To: v.to}))
		}
	}
	c.moveCursor(h.GetCursor())
	c.events = append(c.events, &Heartbeat{Time: time.UnixMicro(int64(h.GetTimeUs()))})
	return nil
}

// notice makes an event of a notice, unless it is about topics that are not
// wanted any more, or of a kind that this version does not know.
func (c *Conn) notice(n *wire.Notice) error {
	if _, known := wire.Notice_Kind_name[int32(n.GetKind())]; !known || n.GetKind() == wire.Notice_KIND_UNSPECIFIED {
		return nil
	}
	topics, err := c.view.names(n.GetTopics())
	if err != nil || len(topics) == 0 && len(n.GetTopics()) > 0 {
		return err
	}
	c.counts.notices.Add(1)
	c.events = append(c.events, &Notice{Kind: n.GetKind(), Text: printable(n.GetText()), Merged: n.GetMerged(),
		Dropped: n.GetDropped(), ExpiresAt: unixTime(n.GetExpiresAtS()), Topics: topics})
	return nil
}

// unixTime is a time on the wire, in seconds; 0 stands for none.
func unixTime(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(min(seconds, maxUnix)), 0)
}

// maxUnix is a second far beyond any that is meant, which time.Time can hold.
const maxUnix = 1 << 53

// announce makes events of topics that the gateway names.
func (c *Conn) announce(topics []*wire.TopicState) error {
	var added []TopicState
	var missed []Event
	for _, t := range topics {
		meaning, err := c.view.announce(t)
		switch {
		case err != nil:
			return err
		case meaning == announcedNew:
			added = append(added, TopicState{Topic: t.GetName(), Epoch: t.GetEpoch(), NextSeq: t.GetNextSeq(), Recovered: t.GetRecovered()})
			if e := c.missed(t); e != nil {
				missed = append(missed, e)
			}
		case meaning == announcedReset:
			c.events = append(c.events, c.reset(&Reset{Topic: t.GetName(), Epoch: t.GetEpoch(), NextSeq: t.GetNextSeq()}))
		}
	}
	if len(added) > 0 {
		c.events = append(c.events, &TopicsAdded{Topics: added})
	}
	c.events = append(c.events, missed...)
	return nil
}
