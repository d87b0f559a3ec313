package client

import "sync/atomic"

// Stats count what became of the ticks since the beginning.
type Stats struct {
	Ticks     uint64 // returned by Next
	Bytes     uint64 // of their payloads
	Merged    uint64 // ticks that came as part of later ones
	Discarded uint64 // came twice, or too late for a topic that was given back
	Gaps      uint64
	Lost      uint64 // ticks, told by the Gaps
	Resets    uint64
	Snapshots uint64
	Notices   uint64
	// GroupRecords are batches that were sealed once for a group of clients.
	GroupRecords uint64
	// Connections of a Client that came about, the first included; of a Conn 1.
	Connections uint64
}

// counters are Stats in the making. Only the goroutine that calls Next counts,
// and who reads the group's records; any may read.
type counters struct {
	ticks, bytes, merged, discarded  atomic.Uint64
	gaps, lost                       atomic.Uint64
	resets, snapshots, notices, conn atomic.Uint64
	groupRecords                     atomic.Uint64
}

func (c *counters) stats() Stats {
	return Stats{
		Ticks: c.ticks.Load(), Bytes: c.bytes.Load(), Merged: c.merged.Load(), Discarded: c.discarded.Load(),
		Gaps: c.gaps.Load(), Lost: c.lost.Load(),
		Resets: c.resets.Load(), Snapshots: c.snapshots.Load(), Notices: c.notices.Load(), Connections: c.conn.Load(),
		GroupRecords: c.groupRecords.Load(),
	}
}

// Stats may be called by any goroutine.
func (c *Conn) Stats() Stats { return c.counts.stats() }

// gap counts a gap.
func (c *Conn) gap(g *Gap) Event {
	c.counts.gaps.Add(1)
	c.counts.lost.Add(g.To - g.From + 1)
	return g
}

// reset counts a reset.
func (c *Conn) reset(r *Reset) Event {
	c.counts.resets.Add(1)
	return r
}
