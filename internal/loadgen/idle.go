package loadgen

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/internal/loadgen/target"
	"github.com/sealcast/sealcast/wire"
)

// Idle is connections that do nothing but answer heartbeats, and a few among
// them that send pings, whose answers are timed.
type Idle struct {
	Of     report.Case
	Steps  int     // at which memory is measured
	Active float64 // share of the connections that ping
	Rate   float64 // pings a second of each of these
	// Helper starts a further generator process; nil: this one does everything.
	Helper    func(ctx context.Context) (*Helper, error)
	Processes int
}

// idlePatience is how long a step may take to connect.
const idlePatience = 5 * time.Minute

// group is connections that one process holds.
type group interface {
	grow(ctx context.Context, n int) (grown, error)
	// begin begins the pings; figures waits for their end.
	begin(ctx context.Context) error
	figures(ctx context.Context) (*heard, error)
	close()
}

// grown is how a group has grown.
type grown struct {
	Ready, Failed int
	Cause         string // of the first failure
}

// Run implements Case.
func (c *Idle) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	r, err := begin(env, c.Of, 0)
	if err != nil {
		return nil, err
	}
	defer r.crew.stop()
	groups, err := c.gather(ctx, env)
	defer func() {
		for _, g := range groups {
			g.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if c.Helper != nil && c.Processes > 1 {
		r.helpers = len(groups)
	}
	before := r.memory(ctx)
	steps, err := c.connect(ctx, r, groups, before)
	if err != nil {
		return nil, err
	}
	out, err := c.ping(ctx, r, groups)
	if err != nil {
		return nil, err
	}
	out.Memory = steps
	return []report.Result{*out}, nil
}

// gather makes the groups: one in this process, or one in each helper.
func (c *Idle) gather(ctx context.Context, env *Env) (groups []group, err error) {
	if c.Helper == nil || c.Processes <= 1 {
		if err := checkRoom(c.Of.Connections, measure.DescriptorLimit(), env.Sources); err != nil {
			return nil, err
		}
		g, err := newIdlers(env, c.Of.Suite, c.Of.Connections, c.Active, c.Rate)
		if err != nil {
			return nil, err
		}
		return []group{g}, nil
	}
	each := (c.Of.Connections + c.Processes - 1) / c.Processes
	if err := checkRoom(each, measure.DescriptorLimit(), LoopbackSources(1, each)); err != nil {
		return nil, err
	}
	for k := range c.Processes {
		h, err := c.Helper(ctx)
		if err != nil {
			return groups, err
		}
		groups = append(groups, h)
		if err := h.employ(newJob(env, c, k, each)); err != nil {
			return groups, err
		}
	}
	return groups, nil
}

// connect is run 1, in steps: after each the gateways' memory is measured.
func (c *Idle) connect(ctx context.Context, r *run, groups []group, before int64) ([]report.MemoryStep, error) {
	began := time.Now()
	var steps []report.MemoryStep
	for step := 1; step <= c.Steps; step++ {
		wanted := c.Of.Connections * step / c.Steps
		ready, cause, err := c.grow(ctx, groups, wanted)
		if err != nil {
			return nil, err
		}
		if ready == 0 {
			return nil, fmt.Errorf("%w: %s", ErrNobody, cause)
		}
		if cause != "" {
			r.notes = append(r.notes, fmt.Sprintf("%d of %d connections could not be made: %s", wanted-ready, wanted, cause))
		}
		took := time.Since(began)
		rss := r.memory(ctx)
		steps = append(steps, report.MemoryStep{
			Connections: ready, RSS: rss, PerConnection: float64(rss-before) / float64(ready), Seconds: took.Seconds(),
		})
		r.took = took
		r.env.show(r.name()+": connecting", float64(step)/float64(c.Steps))
	}
	return steps, nil
}

// grow brings all groups to so many connections together, at the same time.
func (c *Idle) grow(ctx context.Context, groups []group, wanted int) (ready int, cause string, err error) {
	type answer struct {
		grown
		error
	}
	answers := make(chan answer, len(groups))
	for k, g := range groups {
		n := wanted*(k+1)/len(groups) - wanted*k/len(groups)
		go func() {
			got, err := g.grow(ctx, n)
			answers <- answer{got, err}
		}()
	}
	for range groups {
		a := <-answers
		if a.error != nil {
			err = a.error
		}
		if ready += a.Ready; a.Cause != "" {
			cause = a.Cause
		}
	}
	return ready, cause, err
}

// memory is what the gateways use now, all together; 0 if they do not tell.
func (r *run) memory(ctx context.Context) (sum int64) {
	for _, gw := range r.env.Gateways {
		if n := target.MemoryOf(gw.PID); n > 0 {
			sum += n
		} else if gw.Admin != nil {
			if s, err := gw.Admin.Sample(ctx); err == nil {
				sum += int64(s.RSS)
			}
		}
	}
	return sum
}

// ping is run 2 to 5.
func (c *Idle) ping(ctx context.Context, r *run, groups []group) (*report.Result, error) {
	now := r.crew.stations[0].loop.Now()
	r.window = r.newWindow(now)
	for _, g := range groups {
		if err := g.begin(ctx); err != nil {
			return nil, err
		}
	}
	r.watch(ctx)
	var all []*heard
	for _, g := range groups {
		h, err := g.figures(ctx)
		if err != nil {
			return nil, err
		}
		if r.helpers > 0 {
			r.helped += h.CPU
		}
		all = append(all, h)
	}
	f, byKind := join(all)
	rate := 0.0
	for _, h := range all {
		rate += h.Asked
	}
	out := r.make(f, byKind, rate)
	return &out, nil
}

// idlers is a group within this process.
type idlers struct {
	env     *Env
	crew    *crew
	cfgs    []*peer.Config // one for each gateway
	clients []*pinger
	active  float64
	rate    float64 // of each active one
	window  measure.Window
	asked   float64
	used    time.Duration
}

// pinger is a push client that may send pings.
type pinger struct {
	subscriber
	pings []int64 // intended times of those under way, oldest first
	pongs uint64
}

func newIdlers(env *Env, suite string, most int, active, rate float64) (*idlers, error) {
	g := &idlers{env: env, active: active, rate: rate}
	for _, gw := range env.Gateways {
		cfg, err := env.pushConfig(gw, suite)
		if err != nil {
			return nil, err
		}
		g.cfgs = append(g.cfgs, cfg)
	}
	var err error
	g.crew, err = newCrew(env, most)
	return g, err
}

func (g *idlers) close() { g.crew.stop() }

func (g *idlers) grow(ctx context.Context, n int) (grown, error) {
	first := len(g.clients)
	g.clients = append(g.clients, make([]*pinger, max(n-first, 0))...)
	g.crew.enlist(n-first, func(i int) func(*station) (*reactor.Conn, error) {
		i += first
		return func(s *station) (*reactor.Conn, error) {
			c := &pinger{}
			c.rec = func() *measure.Recorder { return s.rec }
			g.clients[i] = c
			k := i % len(g.cfgs)
			return c.start(s, g.cfgs[k], g.env.Gateways[k], g.env, i, c)
		}
	})
	_, err := g.crew.await(ctx, g.env, "connecting", idlePatience)
	if ctx.Err() != nil {
		return grown{}, ctx.Err()
	}
	got := grown{Ready: int(g.crew.ready.Load()), Failed: int(g.crew.failed.Load())}
	if err != nil {
		got.Cause = err.Error()
	} else if got.Failed > 0 {
		g.crew.each(func(s *station) {
			if s.firstErr != nil {
				got.Cause = s.firstErr.Error()
			}
		})
	}
	return got, nil
}

func (g *idlers) begin(context.Context) error {
	now := g.crew.stations[0].loop.Now()
	g.window = (&run{env: g.env}).newWindow(now)
	g.used = measure.ProcessCPU()
	g.crew.each(func(s *station) {
		var mine []*pinger
		for i, c := range g.clients {
			if c != nil && c.st == s && c.ready && float64(i%1000) < 1000*g.active {
				mine = append(mine, c)
			}
		}
		rate := float64(len(mine)) * g.rate
		g.asked += rate
		s.rec = measure.NewRecorder(g.window)
		s.pacers = append(s.pacers, newCycle(mine, rate, now, g.window.To, g.env.Seed))
	})
	return nil
}

// due implements paced.
func (c *pinger) due(intended, now int64) {
	if !c.conn.Open() {
		return
	}
	c.conn.Room()
	var err error
	if c.conn.Out, err = c.peer.AppendPing(c.conn.Out, c.pongs+uint64(len(c.pings))); err != nil {
		c.end(&peer.Error{Kind: peer.KindRecord, Err: err})
		return
	}
	c.pings = append(c.pings, intended)
	c.conn.Flush()
	c.st.rec.Left(intended, intended, now)
}

// Message implements peer.Handler, and finds the answers to pings.
func (c *pinger) Message(kind wire.Kind, plaintext []byte) error {
	if err := c.subscriber.Message(kind, plaintext); err != nil {
		return err
	}
	for ; c.pongs < c.stream.Seen.Pongs && len(c.pings) > 0; c.pongs++ {
		if rec := c.rec(); rec != nil {
			rec.Record(c.pings[0], c.st.loop.Now())
		}
		c.pings = slices.Delete(c.pings, 0, 1)
	}
	return nil
}

// figures waits for the window's end and a little for the last answers.
func (g *idlers) figures(ctx context.Context) (*heard, error) {
	clock := g.crew.stations[0].loop
	for clock.Now() < g.window.To {
		if err := pause(ctx, time.Duration(g.window.To-clock.Now())); err != nil {
			return nil, err
		}
	}
	used := measure.ProcessCPU() - g.used
	for end := time.Now().Add(drainFor); g.waiting() > 0 && time.Now().Before(end); {
		_ = pause(ctx, 10*time.Millisecond)
	}
	var recorders []*measure.Recorder
	unanswered := uint64(g.waiting())
	g.crew.each(func(s *station) { recorders = append(recorders, s.rec) })
	byKind := g.crew.errorsByKind()
	if unanswered > 0 {
		byKind[string(peer.KindTimeout)] += unanswered
	}
	return &heard{figures: measure.Merge(recorders), Errors: byKind, Asked: g.asked, CPU: used}, nil
}

// waiting is how many pings of open connections were not answered yet.
func (g *idlers) waiting() (n int) {
	g.crew.each(func(s *station) {
		for _, c := range g.clients {
			if c != nil && c.st == s && c.conn != nil && c.conn.Open() {
				n += len(c.pings)
			}
		}
	})
	return n
}
