package loadgen

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/report"
)

// Fanout is one case of publishing to many: Of.Topics topics, each with a group
// of Of.Subscribers.
type Fanout struct {
	Of   report.Case
	Rate float64 // ticks a second over all topics
}

// ErrNoSource says that there is nothing to publish to.
var ErrNoSource = errors.New("ticks need a Redis that the gateway reads")

// Run implements Case.
func (f *Fanout) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	if env.Publish == nil {
		return nil, ErrNoSource
	}
	gw := env.Gateways[0]
	cfg, err := env.pushConfig(gw, f.Of.Suite)
	if err != nil {
		return nil, err
	}
	f.Of.Connections = f.Of.Topics * f.Of.Subscribers
	r, err := begin(env, f.Of, f.Of.Connections)
	if err != nil {
		return nil, err
	}
	defer r.crew.stop()
	name := strconv.FormatInt(time.Now().UnixNano(), 36) // topics that nobody else has
	ticks := newFeed(env, name, f.Of.Topics, f.Rate, f.Of.Size, func(*rand.Rand) int { return f.Of.Size })
	clients := make([]*subscriber, f.Of.Connections)
	r.crew.enlist(len(clients), func(i int) func(*station) (*reactor.Conn, error) {
		return func(s *station) (*reactor.Conn, error) {
			c := &subscriber{filters: []string{ticks.topics[i%len(ticks.topics)]}, feed: ticks}
			c.rec = func() *measure.Recorder { return s.rec }
			clients[i] = c
			return c.start(s, cfg, gw, env, i, c)
		}
	})
	if err := r.connect(ctx, time.Minute); err != nil {
		return nil, err
	}
	if err := r.withFeed(ctx, ticks, clients); err != nil {
		return nil, err
	}
	found, err := r.result(f.Rate * float64(f.Of.Subscribers))
	if err == nil {
		r.addSeen(&found[0], ticks, clients)
	}
	return found, err
}

// withFeed measures while the feed flows and waits until all has arrived.
func (r *run) withFeed(ctx context.Context, ticks *feed, clients []*subscriber) error {
	begun := false
	r.measure(ctx, func(_ *station, _, to int64) {
		if !begun {
			begun = true
			ticks.begin(ctx, r.crew.stations[0].loop, to)
		}
	}, func(*station) bool { return true })
	err := ticks.end()
	for end := time.Now().Add(drainFor); r.missing(ticks, clients) > 0 && time.Now().Before(end) && r.trouble(ctx) == ""; {
		_ = pause(ctx, 20*time.Millisecond)
	}
	return err
}

// seen adds up what all clients have seen.
func (r *run) seen(clients []*subscriber) (all peer.Seen) {
	r.crew.each(func(s *station) {
		for _, c := range clients {
			if c != nil && c.st == s && c.stream != nil {
				all.Add(&c.stream.Seen)
			}
		}
	})
	return all
}

// missing is how many deliveries of ticks that were published nobody has
// accounted for: neither delivered, nor merged, nor told as lost. It counts
// clients that were there all the time.
func (r *run) missing(ticks *feed, clients []*subscriber) uint64 {
	var expected, accounted uint64
	r.crew.each(func(s *station) {
		for i, c := range clients {
			if c != nil && c.st == s && c.ready && c.conn.Open() && c.stream.Seen.Resets == 0 {
				expected += ticks.perTopic[i%len(ticks.topics)]
				seen := &c.stream.Seen
				accounted += seen.Ticks + seen.Merged + seen.Gaps
			}
		}
	})
	return expected - min(accounted, expected)
}

// addSeen adds what only ticks have to a result.
func (r *run) addSeen(out *report.Result, ticks *feed, clients []*subscriber) {
	seen := r.seen(clients)
	out.Counts = map[string]uint64{
		"ticks published": ticks.published.Load(), "ticks published late": ticks.late.Load(),
		"ticks delivered": seen.Ticks, "ticks conflated": seen.Merged, "ticks skipped": seen.Gaps, "resets": seen.Resets,
	}
	if seen.Grouped > 0 {
		out.Counts["group records"] = seen.Grouped
	}
	if seen.Packed > 0 {
		out.Counts["compressed bytes"], out.Counts["bytes before compression"] = seen.Packed, seen.Unpacked
	}
	if missing := r.missing(ticks, clients); missing > 0 && r.partial == "" {
		out.Errors += missing
		if out.ByKind == nil {
			out.ByKind = map[string]uint64{}
		}
		out.ByKind["missing"] += missing
	}
}
