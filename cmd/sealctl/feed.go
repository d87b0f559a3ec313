package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/feed"
	"github.com/sealcast/sealcast/internal/feedfile"
	"github.com/sealcast/sealcast/wire"
)

// feeding is what `sealctl feed` was asked for.
type feeding struct {
	server
	route
	file    string
	loop    bool
	symbols int
	seed    uint64
	rate    float64
	speed   string
	count   int64
	during  time.Duration
}

func (a *app) feed(ctx context.Context, args []string) error {
	var o feeding
	f := newFlags("feed", "", `Publishes a recorded feed (--file) or a made-up one (--symbols) through Redis, in order, and says how
many ticks that were. A recorded feed has one tick a line: microseconds since its start, TAB, topic,
TAB, payload; it may be compressed with gzip.`)
	o.server.declare(a, f)
	f.StringVar(&o.file, "file", "", "`FILE` of a recorded feed")
	f.BoolVar(&o.loop, "loop", false, "begin the file again and again")
	f.IntVar(&o.symbols, "symbols", 0, "make up the prices of `N` symbols")
	f.Float64Var(&o.rate, "rate", 100, "`TICKS` a second of a made-up feed")
	f.Uint64Var(&o.seed, "seed", 1, "`NUMBER` that decides what is made up")
	f.StringVar(&o.speed, "speed", "1", "`FACTOR` by which the feed runs faster, or max")
	o.route.declare(f)
	f.Int64Var(&o.count, "count", 0, "end after `N` ticks; 0 means never")
	f.DurationVar(&o.during, "for", 0, "end after this `TIME`")
	if help, err := a.parse(f, args, 0, 0); help || err != nil {
		return err
	}
	speed, err := o.check(f)
	if err != nil {
		return err
	}
	src, err := o.source()
	if err != nil {
		return err
	}
	defer src.Close()
	db, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	to, err := o.publisher(db)
	if err != nil {
		return err
	}
	p := &pump{from: src, to: to, speed: speed, limit: o.count, show: a.progress()}
	p.totals.blind = !to.counts()
	return a.finishFeed(p, &o, o.run(ctx, p))
}

// check validates the flags and returns the speed; 0 is as fast as possible.
func (o *feeding) check(f *flags) (speed float64, err error) {
	switch {
	case (o.file == "") == (o.symbols == 0):
		return 0, advice.Misuse("feed: either --file or --symbols says what to publish", "for example --symbols 20 --rate 1000, or --file feed.tsv.gz --speed max")
	case o.symbols < 0 || o.symbols > 1_000_000:
		return 0, advice.Misuse("--symbols: between 1 and 1,000,000", "for example --symbols 20")
	case o.symbols > 0 && o.loop:
		return 0, advice.Misuse("--loop belongs to --file", "a made-up feed has no end anyway")
	case o.file != "" && (f.given("rate") || f.given("seed")):
		return 0, advice.Misuse("--rate and --seed belong to --symbols", "--speed makes a recorded feed faster")
	case o.rate <= 0 || o.rate > 1e9:
		return 0, advice.Misuse("--rate: more than 0 ticks a second", "for example --rate 1000")
	case o.count < 0 || o.during < 0:
		return 0, advice.Misuse("--count and --for cannot be negative", "leave them out to go on until interrupted")
	}
	if err := o.route.check(f); err != nil {
		return 0, err
	}
	return parseSpeed(o.speed)
}

func parseSpeed(s string) (float64, error) {
	if s == "max" {
		return 0, nil
	}
	speed, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err != nil || !(speed >= 1e-6 && speed <= 1e6) {
		return 0, advice.Misuse(fmt.Sprintf("--speed: %q is no speed", s), "a factor such as 1, 10 or 0.5, or max")
	}
	return speed, nil
}

// run feeds until the source, the count or the time is at its end.
func (o *feeding) run(ctx context.Context, p *pump) error {
	if o.during > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.during)
		defer cancel()
	}
	return p.run(ctx)
}

// finishFeed says what was published. An end that the user wanted is none too
// early; only a recording that was cut short is.
func (a *app) finishFeed(p *pump, o *feeding, err error) error {
	if err := a.print(p.totals.String()); err != nil {
		return err
	}
	if p.totals.ticks > 0 && p.totals.reached == 0 && !p.totals.blind {
		a.note("nobody was subscribed: is a gateway connected to this Redis, and a client to these topics?")
	}
	endless := o.symbols > 0 || o.loop
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled) && endless:
		return nil
	case errors.Is(err, context.Canceled):
		return advice.Failed(errInterrupted, "")
	}
	return err
}

// source is where ticks come from: io.EOF after the last one. A payload is
// valid until the next call.
type source interface {
	Next() (feedfile.Tick, error)
	Close() error
}

func (o *feeding) source() (source, error) {
	if o.symbols > 0 {
		return &synthetic{market: feed.NewSynthetic(o.symbols, o.seed), rate: o.rate}, nil
	}
	file, err := feedfile.Open(o.file)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("--file: %w", err), "")
	}
	return &recording{file: file, name: o.file, loop: o.loop}, nil
}

// synthetic is a made-up feed of evenly spaced ticks, without end.
type synthetic struct {
	market *feed.Market
	rate   float64 // ticks a second
	count  int64
}

func (s *synthetic) Next() (feedfile.Tick, error) {
	name, payload := s.market.Next()
	at := time.Duration(float64(s.count) / s.rate * float64(time.Second))
	s.count++
	return feedfile.Tick{At: at, Topic: name, Payload: payload}, nil
}

func (s *synthetic) Close() error { return nil }

// recording is a recorded feed, once or again and again.
type recording struct {
	file  *feedfile.File
	name  string
	loop  bool
	count int64         // ticks of this round
	begin time.Duration // of this round
	last  time.Duration // in the file
}

func (r *recording) Next() (feedfile.Tick, error) {
	tick, err := r.file.Next()
	if err == io.EOF && r.loop && r.count > 0 {
		if err := r.again(); err != nil {
			return tick, err
		}
		tick, err = r.file.Next()
	}
	if err == io.EOF {
		return tick, err
	}
	if err != nil {
		return tick, advice.Failed(fmt.Errorf("%s: %w", r.name, err), "")
	}
	if len(tick.Payload) > wire.MaxTick {
		return tick, advice.Failed(fmt.Errorf("%s: tick %d of %s is longer than %d bytes, which no gateway passes on", r.name, r.count+1, tick.Topic, wire.MaxTick), "")
	}
	r.count++
	r.last = tick.At
	tick.At += r.begin
	return tick, nil
}

// again begins another round, as far behind the last tick as ticks are apart on average.
func (r *recording) again() error {
	apart := time.Millisecond
	if r.count > 1 && r.last > 0 {
		apart = r.last / time.Duration(r.count-1)
	}
	r.begin += r.last + apart
	r.count, r.last = 0, 0
	if err := r.file.Rewind(); err != nil {
		return advice.Failed(err, "")
	}
	return nil
}

func (r *recording) Close() error { return r.file.Close() }
