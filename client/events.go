package client

import (
	"slices"
	"time"

	"github.com/sealcast/sealcast/wire"
)

// Event is what Next returns: *Tick, *Snapshot, *Gap, *Reset, *TopicsAdded,
// *Subscribed, *Refused, *Notice or *Heartbeat, and of a Client *Disconnected
// and *Connected too. More may be added; skip what you do not know.
type Event interface{ event() }

// Tick is one value of a topic. It is valid until the next call of Next; Clone
// keeps it longer.
type Tick struct {
	Topic string
	// Epoch and Seq place the tick among the topic's: within an epoch, Seq grows
	// by one with each tick that the gateway received.
	Epoch, Seq uint64
	// Skipped is how many earlier ticks the gateway merged into this one, and
	// Merged how many of those this client has not seen on their own.
	Skipped, Merged uint64
	Time            time.Time // of receipt by the gateway, by its clock
	Payload         []byte
}

// Clone returns a copy that owns its memory.
func (t *Tick) Clone() *Tick {
	c := *t
	c.Payload = slices.Clone(t.Payload)
	return &c
}

// Snapshot is the last value that a topic had before its delivery began. The
// sequence of its ticks is the same with and without it. With Epoch 0 it is no
// tick, but a first value that the publisher keeps; its time is not known.
type Snapshot struct {
	Topic      string
	Epoch, Seq uint64
	Time       time.Time // of receipt by the gateway, by its clock; zero with Epoch 0
	Payload    []byte
	Stale      bool // newer ticks may have been lost
}

// Position is the last tick that was seen of a topic. Seq 0 stands before the
// first of the epoch.
type Position struct {
	Topic      string
	Epoch, Seq uint64
}

// Gap tells that the ticks From to To of a topic are lost; it stands before the
// tick or the Snapshot that comes after them. Cause is set where the gateway
// has said it.
type Gap struct {
	Topic    string
	Epoch    uint64
	From, To uint64
	Cause    wire.Cause
}

// Reset tells that a topic goes on under a new epoch. Ticks may be missing
// before it, and nobody knows how many: cached values are stale.
type Reset struct {
	Topic   string
	Epoch   uint64 // the new one
	NextSeq uint64 // of the next tick
	Cause   wire.Cause
}

// TopicsAdded names topics whose ticks come from now on, because a subscription
// was confirmed or because they are new and match one.
type TopicsAdded struct {
	Topics []TopicState
}

// TopicState is a topic and the point in its sequence where delivery begins.
type TopicState struct {
	Topic   string
	Epoch   uint64
	NextSeq uint64
	// Recovered: it begins right after the position that SubscribeWith was given.
	Recovered bool
}

// Subscribed tells that filters were accepted without a call that waits for the
// answer. It stands where their delivery begins, before the topics' TopicsAdded.
type Subscribed struct {
	Filters []string
}

// Refused tells that a filter was refused or taken away without a call that
// waits for the answer.
type Refused struct {
	Filter string // empty: a whole request
	Code   wire.CloseCode
	Text   string
}

// Notice tells what happens to the session. Nothing need be done about it.
type Notice struct {
	Kind wire.Notice_Kind
	Text string // for people
	// Merged and Dropped are what it cost that this client was slow, of
	// Notice_KIND_CAUGHT_UP: ticks merged into newer ones, and ticks told by Gaps.
	Merged, Dropped uint64
	// ExpiresAt is when the session ends unless Refresh comes before, of Notice_KIND_TOKEN_EXPIRES.
	ExpiresAt time.Time
	// Topics whose values may be out of date, of Notice_KIND_SOURCE_LOST, or are
	// fed again, of Notice_KIND_SOURCE_BACK; empty means all.
	Topics []string
}

// Heartbeat comes at least every interval, whatever else comes.
type Heartbeat struct {
	Time time.Time // the gateway's clock
}

// Disconnected tells that a Client has lost its connection, or that an attempt
// to make one has failed, and when it tries again. What the gateway publishes
// meanwhile is recovered where it keeps it, and else told as lost.
type Disconnected struct {
	Err     error // of the connection, or as Dial returned it
	RetryIn time.Duration
}

// Connected tells that a Client has a connection again.
type Connected struct {
	Info Info
}

func (*Tick) event()        {}
func (*Snapshot) event()    {}
func (*Gap) event()         {}
func (*Reset) event()       {}
func (*TopicsAdded) event() {}
func (*Subscribed) event()  {}
func (*Refused) event()     {}
func (*Notice) event()      {}
func (*Heartbeat) event()   {}

func (*Disconnected) event() {}
func (*Connected) event()    {}
