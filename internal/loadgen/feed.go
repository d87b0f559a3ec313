package loadgen

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/message"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
)

// feed publishes ticks at a fixed rate, whatever becomes of them: an open loop.
type feed struct {
	to     Publisher
	clock  *reactor.Loop // whose time the ticks carry
	topics []string
	rate   float64 // ticks a second, over all topics
	text   []byte  // of the largest tick: smaller ones are its beginning
	sizes  func(*rand.Rand) int
	random *rand.Rand

	published atomic.Uint64 // all of them
	late      atomic.Uint64 // more than a millisecond behind their time
	perTopic  []uint64      // owned by run
	stop      context.CancelFunc
	ended     sync.WaitGroup
	err       error // set before ended is done
}

// newFeed makes a feed of ticks whose sizes the function decides, at most largest.
func newFeed(env *Env, name string, topics int, rate float64, largest int, sizes func(*rand.Rand) int) *feed {
	f := &feed{
		to: env.Publish, rate: rate, text: message.Template(env.Seed, largest), sizes: sizes,
		random: rand.New(rand.NewPCG(env.Seed, uint64(topics))), perTopic: make([]uint64, topics),
	}
	for i := range topics {
		f.topics = append(f.topics, fmt.Sprintf("bench:%s:%d", name, i))
	}
	return f
}

// check reads a tick of the feed.
func (f *feed) check(payload []byte) (seq uint64, at int64, ok bool) {
	if len(payload) > len(f.text) {
		return 0, 0, false
	}
	return message.Check(payload, f.text[:len(payload)])
}

// begin publishes from now until the time to.
func (f *feed) begin(ctx context.Context, clock *reactor.Loop, to int64) {
	ctx, f.stop = context.WithCancel(ctx)
	f.clock = clock
	from := clock.Now()
	f.ended.Go(func() { f.err = f.run(ctx, from, to) })
}

// end waits until the feed is over. It may be called more than once.
func (f *feed) end() error {
	if f.stop != nil {
		f.stop()
	}
	f.ended.Wait()
	if errors.Is(f.err, context.Canceled) {
		return nil
	}
	return f.err
}

// feedAtOnce bounds the ticks that are published together.
const feedAtOnce = 500

func (f *feed) run(ctx context.Context, from, to int64) error {
	var ticks []Tick
	for k := 0; ; {
		at := func(k int) int64 { return from + int64(float64(k)/f.rate*1e9) }
		now := f.clock.Now()
		if wait := at(k) - now; wait > 0 {
			if at(k) >= to {
				return nil
			}
			if err := pause(ctx, time.Duration(wait)); err != nil {
				return err
			}
			continue
		}
		for ticks = ticks[:0]; at(k) <= now && at(k) < to && len(ticks) < feedAtOnce; k++ {
			if now-at(k) > measure.LateAfter {
				f.late.Add(1)
			}
			ticks = append(ticks, f.tick(k, at(k)))
		}
		if len(ticks) == 0 {
			return nil
		}
		if err := f.to.Publish(ctx, ticks); err != nil {
			return fmt.Errorf("publishing: %w", err)
		}
		f.published.Add(uint64(len(ticks)))
	}
}

// tick makes the k-th tick: topics take turns.
func (f *feed) tick(k int, at int64) Tick {
	topic := k % len(f.topics)
	f.perTopic[topic]++
	payload := append([]byte(nil), f.text[:max(f.sizes(f.random), message.Min)]...)
	binary.LittleEndian.PutUint64(payload, f.perTopic[topic])
	binary.LittleEndian.PutUint64(payload[8:], uint64(at))
	return Tick{f.topics[topic], payload}
}
