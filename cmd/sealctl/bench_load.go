package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/loadgen"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/internal/loadgen/target"
	"github.com/sealcast/sealcast/session"
)

// load is what `sealctl bench echo` and the other load tests were asked for.
type load struct {
	scenario string
	how      loadFlags
	gw       gatewayFlags
	fan      fanFlags
	users    userFlags
	out      outputFlags

	redis                            server
	redisGiven, ticks, ticksOptional bool
}

// loadFlags say what load there is.
type loadFlags struct {
	suites, sizes, connections, loads []string
	rate                              float64
	window, loops, connecting         int
	during, warmup                    time.Duration
	repeat                            int
	seed                              uint64
	sources                           []string
}

// outputFlags say what becomes of the results.
type outputFlags struct {
	format, thresholdFile, profiles string
	thresholds                      []string
	p99                             time.Duration
	keyBits                         int
}

// loadBenches are the scenarios, each with its summary.
func loadBenches() []command {
	var all []command
	for _, s := range scenarios() {
		all = append(all, command{s.name, "[URL]", s.summary, func(a *app, ctx context.Context, args []string) error {
			return a.benchLoad(ctx, s, args)
		}})
	}
	return all
}

// scenario is one load test.
type scenario struct {
	name, summary, text  string
	defaults             loadFlags
	ticks, ticksOptional bool // it publishes ticks; it can do without
	cases                func(*load, *bed) ([]loadgen.Case, error)
}

// benchLoad runs one scenario.
func (a *app) benchLoad(ctx context.Context, s scenario, args []string) error {
	b := &load{scenario: s.name, how: s.defaults}
	f := newFlags("bench "+s.name, "[URL]", s.text)
	b.declare(a, f)
	if help, err := a.parse(f, args, 0, 1); help || err != nil {
		return err
	}
	b.gw.url = f.Arg(0)
	b.ticks, b.ticksOptional = s.ticks, s.ticksOptional
	b.redisGiven = f.Lookup("redis") != nil && f.given("redis")
	thresholds, err := b.check(f)
	if err != nil {
		return err
	}
	bed, err := a.prepare(ctx, b)
	if err != nil {
		return err
	}
	defer bed.close()
	cases, err := s.cases(b, bed)
	if err != nil {
		return err
	}
	cases = bed.bind(cases)
	doc, err := a.runLoad(ctx, b, bed, cases)
	if doc == nil {
		return explainLoad(err)
	}
	return a.conclude(b, doc, thresholds, err)
}

func (b *load) declare(a *app, f *flags) {
	h := &b.how
	f.list(&h.suites, "suites", true, "`LIST` of suites, run in turn; plain is the baseline of the others (default plain and all that the gateway accepts)")
	f.list(&h.sizes, "size", true, "`LIST` of sizes of messages in bytes, or with KiB")
	f.list(&h.connections, "connections", true, "`LIST` of numbers of connections")
	f.Float64Var(&h.rate, "rate", h.rate, "messages (fanout: ticks) a second, `R` in all; 0: as many as possible")
	f.IntVar(&h.window, "window", 0, "messages that may be under way on one connection, `N`; 0: a quarter of a second of the rate, or 1")
	f.DurationVar(&h.during, "for", h.during, "`TIME` that is measured of each case")
	f.DurationVar(&h.warmup, "warmup", h.warmup, "`TIME` before that in which nothing is counted")
	f.IntVar(&h.repeat, "repeat", 1, "run everything `N` times, in turn; medians and spread are shown")
	f.Uint64Var(&h.seed, "seed", 1, "`NUMBER` that decides contents and times")
	f.IntVar(&h.loops, "loops", 0, "event loops of this generator, `N`; 0: half of the cores")
	f.IntVar(&h.connecting, "connecting", 64, "connections that are being made at the same time, `N`")
	f.list(&h.sources, "sources", true, "`LIST` of addresses to connect from (default: on loopback as many as are needed)")
	b.gw.declare(a, f)
	o := &b.out
	f.list(&o.thresholds, "threshold", false, "`RULE` such as 'echo.p99<5ms'; several are allowed; a missed one ends with status 99")
	f.StringVar(&o.thresholdFile, "threshold-file", "", "`FILE` of such rules, one a line")
	f.DurationVar(&o.p99, "p99-target", 0, "`TIME` that P99 should keep to, for the recommendation")
	f.IntVar(&o.keyBits, "key-bits", 0, "`N` bits that the key must have, for the recommendation")
	f.StringVar(&o.profiles, "profile", "", "`DIR` for CPU and heap profiles of the gateway over the measured part; a running one needs admin.pprof")
	f.StringVar(&o.format, "o", "text", "`FORMAT` of the output: text or json")
	b.declareScenario(a, f)
}

// check refuses what cannot be followed, and reads the thresholds.
func (b *load) check(f *flags) ([]report.Threshold, error) {
	h, o := &b.how, &b.out
	switch {
	case h.repeat < 1 || h.repeat > 1000:
		return nil, advice.Misuse("--repeat: between 1 and 1000", "")
	case h.during < 10*time.Millisecond || h.warmup < 0:
		return nil, advice.Misuse("--for: at least 10ms, and --warmup not negative", "")
	case !(h.rate >= 0 && h.rate <= 1e9):
		return nil, advice.Misuse("--rate: between 0 and 1,000,000,000 a second", "")
	case h.window < 0 || h.loops < 0 || h.loops > 256 || h.connecting < 1:
		return nil, advice.Misuse("--window, --loops and --connecting cannot be negative", "")
	case o.format != "text" && o.format != "json":
		return nil, advice.Misuse(fmt.Sprintf("-o: there is no format %q", o.format), "text or json; \"sealctl report -o html\" makes a page of a JSON file")
	case o.p99 < 0 || o.keyBits < 0:
		return nil, advice.Misuse("--p99-target and --key-bits cannot be negative", "")
	}
	if err := b.gw.check(f); err != nil {
		return nil, err
	}
	return o.rules()
}

// rules reads the thresholds of the command line and of the file.
func (o *outputFlags) rules() ([]report.Threshold, error) {
	const hint = "for example 'echo.p99<5ms', 'echo/rate/aes-256-gcm.errors<1' or 'fanout.rate>100000'"
	var all []report.Threshold
	for _, s := range o.thresholds {
		t, err := report.ParseThreshold(s)
		if err != nil {
			return nil, advice.Misuse("--threshold: "+err.Error(), hint)
		}
		all = append(all, t)
	}
	if o.thresholdFile == "" {
		return all, nil
	}
	file, err := os.Open(o.thresholdFile)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("--threshold-file: %w", err), "")
	}
	defer file.Close()
	more, err := report.ReadThresholds(file)
	if err != nil {
		return nil, advice.Misuse(fmt.Sprintf("--threshold-file: %s: %v", o.thresholdFile, err), hint)
	}
	return append(all, more...), nil
}

// runLoad runs the cases and makes the document of what they have found; nil
// with an error if that is nothing.
func (a *app) runLoad(ctx context.Context, b *load, bed *bed, cases []loadgen.Case) (*report.Document, error) {
	show, wipe := a.loadProgress(len(cases) * b.how.repeat)
	bed.env.Progress = show.part
	started := time.Now()
	results, partial, err := loadgen.Run(ctx, bed.env, cases, b.how.repeat, show.step)
	wipe()
	if len(results) == 0 {
		return nil, err
	}
	doc := &report.Document{
		Machine: bed.machine, Settings: b.settings(bed, started), Results: results, Partial: partial,
		Recommendation: report.Recommend(bed.machine, results, report.Wish{KeyBits: b.out.keyBits, P99: float64(b.out.p99.Microseconds())}),
	}
	return doc, err
}

func (b *load) settings(bed *bed, started time.Time) report.Settings {
	h := &b.how
	s := report.Settings{
		Command: "bench " + b.scenario, Started: started.UTC().Format(time.RFC3339), Gateway: bed.where,
		Suites: bed.suites, For: h.during.String(), Warmup: h.warmup.String(), Repeat: h.repeat, Seed: h.seed,
		Rate: h.rate, Loops: bed.env.Loops, Set: b.gw.set, More: map[string]any{"post_quantum": bed.env.PostQuantum.String()},
	}
	s.Sizes, _ = sizes(h.sizes)
	s.Connections, _ = numbers("--connections", h.connections)
	if bed.env.Gateways[0].Admin == nil {
		s.More["gateway_figures"] = "unavailable: --admin URL names the gateway's admin interface"
	}
	return s
}

// statusMissed is the exit status when a threshold was missed.
const statusMissed = 99

// conclude prints the document and says how it ended.
func (a *app) conclude(b *load, doc *report.Document, thresholds []report.Threshold, err error) error {
	var missed int
	doc.Thresholds, missed = report.Check(thresholds, doc.Results)
	write := doc.WriteText
	if b.out.format == "json" {
		write = doc.WriteJSON
	}
	if err := outputError(write(a.stdout)); err != nil {
		return err
	}
	switch {
	case err != nil:
		return explainLoad(err)
	case doc.Partial != "":
		return advice.Failed(fmt.Errorf("the results are partial: %s", doc.Partial), "what is there was printed, and is marked")
	case missed > 0:
		return &advice.Error{Err: fmt.Errorf("%d of %d thresholds were missed", missed, len(doc.Thresholds)), Hint: "the report names them", Status: statusMissed}
	}
	return nil
}

// explainLoad turns the error of a load test into one with advice and an exit status.
func explainLoad(err error) error {
	var done *advice.Error
	var limit *loadgen.LimitError
	switch {
	case err == nil, errors.As(err, &done):
		return err
	case errors.Is(err, context.Canceled):
		return advice.Failed(errInterrupted, "")
	case errors.As(err, &limit):
		return advice.Failed(err, limit.Hint)
	case errors.Is(err, target.ErrStart):
		return advice.Failed(err, "--gateway names the program, --set its settings")
	case errors.Is(err, loadgen.ErrNoSource):
		return advice.Misuse(err.Error(), "--redis names it")
	case errors.Is(err, loadgen.ErrNobody):
		return refused(err, hintForNobody(err))
	}
	return advice.Failed(err, "")
}

func hintForNobody(err error) string {
	switch {
	case errors.Is(err, session.ErrNoPin), errors.Is(err, session.ErrWrongPin):
		return "pass the gateway's key with --key; --insecure goes on without verification"
	case errors.Is(err, session.ErrHandshake):
		return "is --realm the gateway's?"
	}
	return "is the gateway running, and the address right? The suite plain needs cipher.allow_plain, and /ws without auth"
}

// numbers reads a list of whole numbers of at least 1.
func numbers(flag string, list []string) ([]int, error) {
	var all []int
	for _, s := range list {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 10_000_000 {
			return nil, advice.Misuse(fmt.Sprintf("%s: %q is no number from 1 on", flag, s), "")
		}
		all = append(all, n)
	}
	return all, nil
}

func sizes(list []string) ([]int, error) {
	var all []int
	for _, s := range list {
		n, err := parseBenchSize(s)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// loadProgress shows on a terminal how far a load test is.
type loadProgress struct {
	a           *app
	total, done int
	shown       time.Time
}

func (a *app) loadProgress(total int) (p *loadProgress, wipe func()) {
	p = &loadProgress{a: a, total: total}
	if !a.terminal(a.stderr) {
		return p, func() {}
	}
	return p, func() { fmt.Fprint(a.stderr, "\r\x1b[K") }
}

func (p *loadProgress) step(int) { p.done++ }

func (p *loadProgress) part(at loadgen.Progress) {
	now := time.Now()
	if !p.a.terminal(p.a.stderr) || now.Sub(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = now
	const width = 24
	share := (float64(p.done) + min(max(at.Done, 0), 1)) / float64(max(p.total, 1))
	bar := strings.Repeat("#", int(width*min(share, 1)))
	fmt.Fprintf(p.a.stderr, "\r\x1b[K[%-*s] %d of %d: %s", width, bar, min(p.done+1, p.total), p.total, at.What)
}

// either is the list, or the defaults if it is empty.
func either(list []string, defaults ...string) []string {
	if len(list) == 0 {
		return slices.Clone(defaults)
	}
	return list
}
