package gateway

import (
	"cmp"
	"context"
	"slices"
)

// TopicInfo is what operators see of one topic that somebody here follows.
type TopicInfo struct {
	Number      uint32 `json:"number"` // stands for the name in batches
	Name        string `json:"name"`
	Epoch       uint64 `json:"epoch"`
	Seq         uint64 `json:"seq"`         // of its last tick; 0 before the first
	Subscribers int    `json:"subscribers"` // sessions of this gateway
}

// Topics lists up to limit topics with a number above after that sessions of
// this gateway follow, in order of number. more tells whether there are others
// behind them. It fails like Sessions.
func (g *Gateway) Topics(ctx context.Context, after uint64, limit int) (page []TopicInfo, more bool, err error) {
	page, err = collectPage(ctx, g, after, limit+1, (*loop).topicsAfter)
	slices.SortStableFunc(page, func(a, b TopicInfo) int { return cmp.Compare(a.Number, b.Number) })
	page, more = cutPage(mergeTopics(page), limit)
	return page, more, err
}

// mergeTopics makes one of each topic that several loops have.
func mergeTopics(sorted []TopicInfo) []TopicInfo {
	merged := sorted[:0]
	for _, t := range sorted {
		if n := len(merged); n > 0 && merged[n-1].Number == t.Number {
			last := &merged[n-1]
			last.Subscribers += t.Subscribers
			last.Seq = max(last.Seq, t.Seq)
			continue
		}
		merged = append(merged, t)
	}
	return merged
}

// topicsAfter looks at some topics: at most room of them are returned. last is
// the number to go on from, unless it was the end. Few topics are looked at all
// together, because their numbers may be far apart; of many the numbers are
// nearly gapless, and are tried one by one.
func (l *loop) topicsAfter(after uint64, room int) (found []TopicInfo, last uint64, end bool) {
	next := l.nextTopics(after)
	last = after
	for work := 0; len(found) < room && work < lookAtOnce; work++ {
		n, ok := next()
		if !ok {
			return found, last, true
		}
		last = n
		if t, ok := l.index.topics[uint32(n)]; ok {
			info, cost := l.topicInfo(t)
			found = append(found, info)
			work += cost
		}
	}
	return found, last, false
}

// nextTopics returns a function that gives the numbers worth looking at, in order.
func (l *loop) nextTopics(after uint64) func() (uint64, bool) {
	if len(l.index.topics) > lookAtOnce {
		return func() (uint64, bool) {
			if after >= uint64(l.index.lastTopic) {
				return 0, false
			}
			after++
			return after, true
		}
	}
	var numbers []uint64
	for n := range l.index.topics {
		if uint64(n) > after {
			numbers = append(numbers, uint64(n))
		}
	}
	slices.Sort(numbers)
	return func() (n uint64, ok bool) {
		if len(numbers) == 0 {
			return 0, false
		}
		n, numbers = numbers[0], numbers[1:]
		return n, true
	}
}

// topicInfo counts each session once, even if several of its filters match;
// visited is how many cohorts it took.
func (l *loop) topicInfo(t *loopTopic) (info TopicInfo, visited int) {
	info = TopicInfo{Number: t.Number, Name: t.Name, Epoch: t.Epoch, Seq: t.NextSeq - min(t.NextSeq, 1)}
	l.index.turn++
	for _, h := range t.filters {
		for _, co := range h.cohorts {
			visited++
			if co.turn != l.index.turn {
				co.turn = l.index.turn
				info.Subscribers += len(co.members)
			}
		}
	}
	return info, visited
}
