package gateway

import "sync/atomic"

// GroupStats count what groups of sessions cost and save.
type GroupStats struct {
	Made    uint64 // new keys, each a group of its own
	Keys    uint64 // given to members
	Marks   uint64 // sent to members
	Records uint64 // sealed once for all members
	Evicted uint64 // replaced early, because a member had been given more keys than are remembered
}

// groupCounts are a loop's part of GroupStats.
type groupCounts struct{ made, keys, marks, records, evicted atomic.Uint64 }

func (c *groupCounts) addTo(to *GroupStats) {
	to.Made += c.made.Load()
	to.Keys += c.keys.Load()
	to.Marks += c.marks.Load()
	to.Records += c.records.Load()
	to.Evicted += c.evicted.Load()
}
