// Package fanout brings ticks from the source (Redis) to the event loops that
// have subscribers: it subscribes at the source, numbers every tick once,
// encodes its head once, and hands it over once per loop. It never knows a
// session, and never waits for one client.
//
// The flow, file by file:
//
//	out 1  source.go, queue.go  a message of Redis enters the bounded queue
//	out 2  topic.go             topic number, epoch, sequence number
//	out 3  dispatch.go          one hand-over per loop and turn of the hub
//
// cover.go decides which subscriptions to hold at the source, demand.go keeps
// what the loops asked for, tree.go finds names and filters that match, past.go
// keeps last values and last ticks for those who come later or come back.
package fanout

import (
	"time"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// MaxLoops is the number of event loops that one Hub serves at most.
const MaxLoops = 256

// LoopID names an attached Loop.
type LoopID int

// Ticket names one call of Acquire or Recall. Tickets of a Hub grow and are never 0.
type Ticket uint64

// Loop is the mailbox of one event loop. Post is called by the hub's goroutine
// alone. The slice is the loop's from then on; the events are shared with other
// loops and must not be written. Post may block, which holds up all loops: the
// source's queue then fills, and what overflows shows as a count and a Reset.
// It must return once Run's context has ended.
type Loop interface {
	Post(events []Event)
}

// Event is a *Tick, *Reset, *Opened, *Confirmed, *Refused, *Recalled, *SourceState, *Mark or *Forgotten. A loop gets events
// in the order in which they happened at the source. After Release it may still
// see events of the filter's topics that were posted before.
type Event interface{ event() }

// Tick is one message of the source. It stays valid for as long as it is
// referenced; up to 15 neighbours and their payloads, 16 KiB more in all, stay
// in memory with it, so who keeps a tick for long keeps a copy.
type Tick struct {
	Topic      uint32
	Seq        uint64 // grows by one per tick of the topic's epoch, from 1
	ReceivedUS int64  // microseconds since the Unix epoch
	Payload    []byte
}

// Reset says that a topic goes on under a new epoch: ticks may have been lost here.
type Reset struct {
	Topic   uint32
	Epoch   uint64
	NextSeq uint64
	Cause   wire.Cause
}

// TopicState is a topic and the point in its sequence that has been reached.
type TopicState struct {
	Number  uint32 // stands for the name in this process; never stands for another one
	Name    string
	Epoch   uint64 // random, from 1 to 2^53-1
	NextSeq uint64 // the sequence number of the next tick
}

// Opened is a new topic that matches a confirmed filter of the loop. It comes
// before the topic's first tick.
type Opened struct{ TopicState }

// Confirmed says that from here on every tick of the filter's topics comes.
// Topics are those that exist, as of this point in the order of events. A
// Ticket other than that of the latest Acquire belongs to an earlier one that
// was released since; it says nothing about the latest.
type Confirmed struct {
	Filter topic.Filter
	Ticket Ticket
	Topics []TopicState // shared; not to be written
}

// Refused ends an acquisition: the source does not give the filter, or gives it
// no longer (then it comes after a Confirmed, with the same Ticket). The filter
// needs no Release.
type Refused struct {
	Filter topic.Filter
	Ticket Ticket
	Err    error // wraps ErrDenied, ErrNumbers, ErrTopics or ErrPatterns; text for the user
}

// SourceState says that no ticks come for the moment, or that they come again.
// After a loss every topic that it concerns is Reset before its next tick. A loop
// that is attached while the source is away is told so first.
type SourceState struct {
	Lost   bool
	Since  time.Time
	Err    error    // Lost: why; nil with Topics
	Topics []uint32 // numbers; nil: all. Shared; not to be written
}

// Forgotten says that nothing has happened in a topic for so long that it is given
// up. It is no end: with its next tick it is Opened again, under the same number
// and, unless ticks may have been lost meanwhile, epoch.
type Forgotten struct{ Topic uint32 }

// Mark says that the loop has been given, in this and earlier hand-overs, all ticks
// of its filters up to a position in the source's streams. A client that was sent
// all of them can go on from there, at any gateway of the same Redis.
type Mark struct {
	Cursor []byte // opaque; shared, not to be written
}

// Position is the last tick of a topic that a subscriber has seen.
type Position struct {
	Topic      string
	Epoch, Seq uint64
}

// Recall asks what is kept of the topics of some filters.
type Recall struct {
	Filters []topic.Filter
	Since   []Position // of a subscriber that comes back, in any order
	Cursor  []byte     // of a Mark; then Since does not count. nil: none
}

// Recalled answers Hub.Recall. It stands where the ticks that it holds end and
// those begin that come as events.
type Recalled struct {
	Ticket   Ticket
	Memories []Memory // of topics of which there is something to say
	Cursor   []byte   // as of a Mark at this place; nil if the source is not streams. Shared, not to be written
}

// Memory is what is kept of a topic for one subscriber. If Recovered, Ticks are
// all that came after its position, oldest first, and may be none; else the last
// value.
type Memory struct {
	Topic     uint32
	Epoch     uint64 // of Ticks
	Since     uint64 // Recovered: the position's sequence number
	Recovered bool
	Stale     bool // the last value may be out of date: ticks may have been lost since
	Ticks     []*Tick
}

func (*Tick) event()      {}
func (*Reset) event()     {}
func (*Opened) event()    {}
func (*Confirmed) event() {}
func (*Refused) event()   {}
func (*Recalled) event()  {}

func (*SourceState) event() {}
func (*Mark) event()        {}
func (*Forgotten) event()   {}
