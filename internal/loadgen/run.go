package loadgen

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/internal/loadgen/target"
)

// slicesOf is into how many parts the measured time is cut.
const slicesOf = 10

// drainFor is how long answers may still come after the measured part.
const drainFor = 5 * time.Second

// run is one case while it runs.
type run struct {
	env     *Env
	of      report.Case
	crew    *crew
	window  measure.Window
	took    time.Duration // to connect
	open    bool          // an open loop: what is not answered in time is an error
	helpers int           // further generator processes
	helped  time.Duration // processor time that they used
	partial string        // why it ended early
	marks   []mark        // at the beginning of the measured part and at the end of each slice
	notes   []string
}

// mark is what was used up to a moment.
type mark struct {
	at       time.Time
	gateways []*target.Sample // nil entries: not available
	rss      int64            // of all gateways, now
	own      time.Duration    // processor time of this process
}

// begin gets a crew ready for so many clients of one process.
func begin(env *Env, of report.Case, clients int) (*run, error) {
	if err := checkRoom(clients, measure.DescriptorLimit(), env.Sources); err != nil {
		return nil, err
	}
	c, err := newCrew(env, clients)
	if err != nil {
		return nil, err
	}
	return &run{env: env, of: of, crew: c}, nil
}

// name is what a person reads while the case runs.
func (r *run) name() string {
	parts := []string{r.of.Scenario}
	for _, p := range []string{r.of.Load, r.of.Suite, r.of.Variant} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if r.of.Size > 0 {
		parts = append(parts, fmt.Sprintf("%d B", r.of.Size))
	}
	return strings.Join(append(parts, fmt.Sprintf("× %d", r.of.Connections)), " ")
}

// connect is run 1.
func (r *run) connect(ctx context.Context, patience time.Duration) (err error) {
	r.took, err = r.crew.await(ctx, r.env, r.name()+": connecting", patience)
	return err
}

// measure is run 2 to 4. start begins the load of one station, which ends by
// itself at to; idle tells whether nothing is under way there any more.
func (r *run) measure(ctx context.Context, start func(s *station, from, to int64), idle func(*station) bool) {
	now := r.crew.stations[0].loop.Now()
	r.window = r.newWindow(now)
	r.crew.each(func(s *station) {
		s.rec = measure.NewRecorder(r.window)
		start(s, now, r.window.To)
	})
	r.watch(ctx)
	r.drain(ctx, idle)
}

// newWindow is the measured part of a load that begins now.
func (r *run) newWindow(now int64) measure.Window {
	from := now + int64(r.env.Warmup)
	return measure.Window{From: from, To: from + int64(r.env.For), Slices: slicesOf}
}

// watch samples the gateway at the ends of all slices.
func (r *run) watch(ctx context.Context) {
	profiled := make(chan error, 1)
	for i := range slicesOf + 1 {
		at := r.window.From + (r.window.To-r.window.From)*int64(i)/slicesOf
		if !r.until(ctx, at) {
			break
		}
		r.marks = append(r.marks, r.mark(ctx, i == 0 || i == slicesOf || r.window.To-r.window.From >= slicesOf*int64(askEvery)))
		if i == 0 && r.env.Profiles != "" {
			go func() { profiled <- r.profile(ctx) }()
		}
	}
	if len(r.marks) <= slicesOf { // ended early: what there is has to do
		if r.marks = append(r.marks, r.mark(ctx, true)); len(r.marks) == 1 {
			r.marks = append(r.marks, r.marks[0])
		}
	}
	if r.env.Profiles != "" && r.partial == "" {
		if err := <-profiled; err != nil {
			r.notes = append(r.notes, "no profile: "+err.Error())
		}
	}
}

// until waits for a time of the loops' clock. It reports false when there is nothing left to measure.
func (r *run) until(ctx context.Context, at int64) bool {
	clock := r.crew.stations[0].loop
	whole := max(r.window.To-(r.window.From-int64(r.env.Warmup)), 1)
	for {
		now := clock.Now()
		r.env.show(r.name(), 1-float64(r.window.To-now)/float64(whole))
		if r.partial = r.trouble(ctx); r.partial != "" {
			return false
		}
		if now >= at {
			return true
		}
		_ = pause(ctx, min(time.Duration(at-now), 100*time.Millisecond)) // trouble sees the end of ctx
	}
}

// trouble says why measuring makes no sense any more; empty if it does.
func (r *run) trouble(ctx context.Context) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	for _, gw := range r.env.Gateways {
		select {
		case <-gw.Ended:
			return "the gateway has ended"
		default:
		}
	}
	if lost, ready := r.crew.lost.Load(), r.crew.ready.Load(); ready > 0 && lost >= ready {
		return "all connections were lost"
	}
	return ""
}

// askEvery is the shortest time between two questions to the gateway: an answer
// costs it about a millisecond.
const askEvery = 400 * time.Millisecond

// mark samples everybody. If ask is not set, the gateways are left alone: only
// the memory of processes of this machine is read.
func (r *run) mark(ctx context.Context, ask bool) mark {
	m := mark{at: time.Now(), own: measure.ProcessCPU(), gateways: make([]*target.Sample, len(r.env.Gateways))}
	for i, gw := range r.env.Gateways {
		if gw.Admin == nil || !ask {
			m.rss += target.MemoryOf(gw.PID)
			continue
		}
		if s, err := gw.Admin.Sample(ctx); err == nil {
			m.gateways[i] = s
			m.rss += int64(s.RSS)
		}
	}
	return m
}

// profile takes profiles of the first gateway over the measured part.
func (r *run) profile(ctx context.Context) error {
	gw := r.env.Gateways[0]
	if gw.Admin == nil {
		return target.ErrAdmin
	}
	name := strings.Map(func(c rune) rune {
		if c == ' ' || c == '/' || c == ':' {
			return '-'
		}
		return c
	}, r.name())
	return gw.Admin.Profile(ctx, r.env.For, filepath.Join(r.env.Profiles, name))
}

// drain is run 4.
func (r *run) drain(ctx context.Context, idle func(*station) bool) {
	for end := time.Now().Add(drainFor); time.Now().Before(end) && r.trouble(ctx) == ""; {
		quiet := true
		r.crew.each(func(s *station) { quiet = quiet && idle(s) })
		if quiet {
			return
		}
		_ = pause(ctx, 10*time.Millisecond)
	}
}
