package gateway

import (
	"strconv"

	"github.com/sealcast/sealcast/wire"
)

// rateBurst is how much of what a rate allows a client may use at once: what it
// sent while the network, or the loop, stood still comes in one piece.
const rateBurst = 2_000_000 // microseconds

// allowance is what is left of a rate: the time from which on all of it is there
// again, in microseconds of the loop's clock.
type allowance int64

// allows counts once more, unless that is more than perSecond; 0 is any number.
// now is in milliseconds.
func (a *allowance) allows(now int64, perSecond int) bool {
	if perSecond == 0 {
		return true
	}
	us := now * 1000
	next := max(int64(*a), us) + 1_000_000/int64(perSecond)
	if next > us+rateBurst {
		return false
	}
	*a = allowance(next)
	return true
}

// countRecord ends a push session that sends more than it was told it may.
func (c *conn) countRecord() bool {
	if c.sub == nil || c.sub.records.allows(c.loop.now, int(c.sub.perSecond)) {
		return true
	}
	c.end(wire.CloseTooMany, "too many messages: limits.messages_per_second is "+strconv.Itoa(int(c.sub.perSecond)))
	return false
}

// countPing ends a push session that wants too many pongs. What is not asked for,
// a pong, never counts: RFC 6455 section 5.5.3 lets every client send it.
func (c *conn) countPing() bool {
	limit := c.loop.settings().Limits.PingsPerSecond
	if c.sub == nil || c.sub.pings.allows(c.loop.now, limit) {
		return true
	}
	c.end(wire.CloseTooMany, "too many pings: limits.pings_per_second is "+strconv.Itoa(limit))
	return false
}

// takesNothing tells whether more waits for a client that goes on sending than for
// one that also reads. A push session in service has bounds of its own: its pings
// count, and its answers line up in slow.queue.
func (c *conn) takesNothing() bool {
	opts := c.loop.settings()
	return c.sub == nil && c.gc.OutboundBuffered() > opts.Slow.Queue+opts.Echo.MaxMessage
}
