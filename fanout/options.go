package fanout

import (
	cryptorand "crypto/rand"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/wire"
)

// Options configures a Hub. A zero field takes its default.
type Options struct {
	Redis Redis

	// WholeSource subscribes once to everything for as long as anything is
	// wanted. The embedded Redis needs it: miniredis delivers a message that
	// matches several patterns through any one of them, and does not keep the
	// order between names and patterns.
	WholeSource bool

	MaxTick    int // bytes of a payload; larger ticks are dropped and the topic is reset; default wire.MaxTick
	QueueTicks int // messages that wait between source and hub; default 65,536
	QueueBytes int // their payloads and names, in bytes; default 64 MiB

	Rules        []Rule        // what is kept of which topics
	HistoryBytes int           // bound for all that is kept; default 256 MiB
	MaxTopics    int           // topics that publishers may open under patterns, and as many that clients may open by name; default: no bound
	TopicIdle    time.Duration // without a tick, after which a topic is forgotten that nobody follows by name and of which nothing is kept; default 1 h

	Log    *zap.Logger      // default: none
	Now    func() time.Time // default time.Now
	Random rand.Source      // epochs and jitter; default ChaCha8 with a seed of the operating system
}

func (o Options) withDefaults() Options {
	o.Redis = o.Redis.withDefaults()
	if o.MaxTick <= 0 || o.MaxTick > wire.MaxTick {
		o.MaxTick = wire.MaxTick
	}
	setDefault(&o.QueueTicks, 64<<10)
	setDefault(&o.QueueBytes, 64<<20)
	setDefault(&o.HistoryBytes, 256<<20)
	setDefault(&o.TopicIdle, time.Hour)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		var seed [32]byte
		_, _ = cryptorand.Read(seed[:]) // never fails
		o.Random = rand.NewChaCha8(seed)
	}
	return o
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}
