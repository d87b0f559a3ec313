package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/loadgen"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/wire"
)

// scenarios lists the load tests.
func scenarios() []scenario {
	return []scenario{
		{
			name: "echo", summary: "messages back and forth in every suite: at a fixed rate, saturated, with rising connections",
			text: `Measures the echo of a gateway, in every suite in turn. With --load rate (the default beside single)
messages leave at their times, whatever becomes of earlier ones, and latency counts from those times.`,
			defaults: loadFlags{rate: 5000, during: 10 * time.Second, warmup: 2 * time.Second},
			cases:    echoCases,
		},
		{
			name: "fanout", summary: "from a publisher through Redis to groups of subscribers",
			text: `Publishes ticks through Redis and measures until every subscriber has opened and verified them. Each of
--topics topics has its own group of --subscribers. Settings of a gateway that is started can be varied:
--vary 'fanout.seal=session|group' --vary 'batch.max_delay=0s|5ms'.`,
			defaults: loadFlags{rate: 200, during: 10 * time.Second, warmup: 2 * time.Second},
			ticks:    true, cases: fanoutCases,
		},
		{
			name: "idle", summary: "many quiet connections: memory for each, and latency of a few active ones among them",
			text: `Opens connections that only answer heartbeats, in steps after which the gateway's memory is measured.
A share of them (--active) sends pings within the session, once a second. Beyond what one process may
have descriptors for, --gateways and --processes spread them.`,
			defaults: loadFlags{rate: 1, during: 10 * time.Second, warmup: 2 * time.Second},
			cases:    idleCases,
		},
		{
			name: "handshake", summary: "new, hybrid and resumed handshakes, alone and while ticks flow",
			text: `Makes connections, --connections at a time or at a --rate, and ends each as soon as its session is there.
Latency counts from the first packet to the session, the client's own arithmetic included.`,
			defaults: loadFlags{during: 5 * time.Second, warmup: time.Second},
			ticks:    true, ticksOptional: true, cases: handshakeCases,
		},
		{
			name: "mixed", summary: "a market's day in small, with noise: clients that come and go, and some that break the rules",
			text: `Ticks for single clients and for groups (nine in ten below 1 KiB, the others 2 to 4 KiB), logins, logouts
and changes of subscriptions; beside them clients that send illegal frames or oversized messages, read
slowly, vanish, stop answering, log in twice. Each client is a user of its own, with a token, where that can be (--start without
the suite plain, or --secret-file). Only healthy clients are judged. Ten minutes of --warmup
and twenty of --for are the practice for a final verdict.`,
			defaults: loadFlags{rate: 500, during: 20 * time.Second, warmup: 5 * time.Second},
			ticks:    true, cases: mixedCases,
		},
		{
			name: "all", summary: "a short run of each of the others, in one report",
			text:     `Runs a short selection of every scenario, one after the other. --for is the time of each case.`,
			defaults: loadFlags{during: 5 * time.Second, warmup: time.Second},
			ticks:    true, ticksOptional: true, cases: allCases,
		},
	}
}

// fanFlags are those of scenarios with ticks or many connections.
type fanFlags struct {
	subscribers, codecs         []string
	topics, steps, noise, procs int
	active                      float64
}

// declareScenario adds the flags that only some scenarios have.
func (b *load) declareScenario(a *app, f *flags) {
	switch b.scenario {
	case "echo":
		f.list(&b.how.loads, "load", true, "`LIST` of ways to drive it: single (one connection), rate (--rate over --connections), "+
			"saturate (--connections, as fast as it goes), rise (saturate with 1, 2, 4 … connections until throughput stops rising)")
	case "fanout":
		f.list(&b.fan.subscribers, "subscribers", true, "`LIST` of sizes of the groups (default 1,10,100,500)")
		f.IntVar(&b.fan.topics, "topics", 1, "topics, `N`, each with its own group")
		f.list(&b.fan.codecs, "codecs", true, "`LIST` of codecs that subscribers offer, best first: zstd, snappy (default none)")
	case "idle":
		f.IntVar(&b.fan.steps, "steps", 4, "steps to connect in, `N`; memory is measured after each")
		f.Float64Var(&b.fan.active, "active", 0.01, "share of the connections that ping, `X` of 1")
		f.IntVar(&b.gw.gateways, "gateways", 1, "gateways to start, `N`, which share the connections")
		f.IntVar(&b.fan.procs, "processes", 0, "generator processes, `N`; 0: one, or one for each gateway")
	case "mixed":
		f.IntVar(&b.fan.topics, "topics", 20, "topics of groups, `N`, and as many of single clients")
		f.IntVar(&b.fan.noise, "noise", 5, "clients for each sort of noise, `N`")
		b.users.declare(f)
	}
	if b.scenario == "fanout" || b.scenario == "mixed" || b.scenario == "handshake" || b.scenario == "all" {
		b.redis.declare(a, f)
	}
}

// product calls f for every combination of suite, size and connections.
func (b *load) product(d *bed, size, connections string, f func(of report.Case)) error {
	b.how.sizes = either(b.how.sizes, size)
	b.how.connections = either(b.how.connections, connections)
	sizes, err := sizes(b.how.sizes)
	if err != nil {
		return err
	}
	counts, err := numbers("--connections", b.how.connections)
	if err != nil {
		return err
	}
	for _, size := range sizes {
		for _, n := range counts {
			for _, name := range d.suites {
				f(report.Case{Scenario: b.scenario, Suite: name, Size: size, Connections: n})
			}
		}
	}
	return nil
}

func echoCases(b *load, d *bed) ([]loadgen.Case, error) {
	switch h := &b.how; {
	case len(h.loads) > 0:
	case h.rate == 0:
		h.loads = []string{loadgen.LoadSaturate}
	case len(h.connections) > 0:
		h.loads = []string{loadgen.LoadRate}
	default:
		h.loads = []string{loadgen.LoadSingle, loadgen.LoadRate}
	}
	var all []loadgen.Case
	for _, how := range b.how.loads {
		if !slices.Contains([]string{loadgen.LoadSingle, loadgen.LoadRate, loadgen.LoadSaturate, loadgen.LoadRise}, how) {
			return nil, advice.Misuse(fmt.Sprintf("--load: there is no %q", how), "single, rate, saturate, rise")
		}
		if how == loadgen.LoadRate && b.how.rate == 0 {
			return nil, advice.Misuse("--load rate needs a --rate", "")
		}
		seen := map[report.Case]bool{}
		err := b.product(d, "1KiB", "500", func(of report.Case) {
			if of.Load = how; how == loadgen.LoadSingle {
				of.Connections = 1
			}
			if !seen[of] {
				seen[of] = true
				all = append(all, b.echoCase(of))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (b *load) echoCase(of report.Case) loadgen.Case {
	switch of.Load {
	case loadgen.LoadRate:
		return &loadgen.Echo{Of: of, Rate: b.how.rate, Window: b.how.window}
	case loadgen.LoadRise:
		return &loadgen.Rise{Of: of, P99: b.out.p99, Each: max(b.how.during/8, 100*time.Millisecond)}
	}
	return &loadgen.Echo{Of: of, Window: b.how.window}
}

func fanoutCases(b *load, d *bed) ([]loadgen.Case, error) {
	if b.how.rate <= 0 {
		return nil, advice.Misuse("fanout: --rate must be above 0", "ticks are published at a rate")
	}
	if b.fan.topics < 1 {
		return nil, advice.Misuse("--topics: at least 1", "")
	}
	codecs := map[string]wire.Codec{"zstd": wire.CodecZstd, "snappy": wire.CodecSnappy}
	for _, name := range b.fan.codecs {
		id, ok := codecs[name]
		if !ok {
			return nil, advice.Misuse(fmt.Sprintf("--codecs: there is no %q", name), "zstd, snappy")
		}
		d.env.Codecs = append(d.env.Codecs, id)
	}
	groups, err := numbers("--subscribers", either(b.fan.subscribers, "1", "10", "100", "500"))
	if err != nil {
		return nil, err
	}
	var all []loadgen.Case
	for _, n := range groups {
		err = b.product(d, "200", "1", func(of report.Case) {
			of.Subscribers, of.Topics, of.Connections = n, b.fan.topics, n*b.fan.topics
			all = append(all, &loadgen.Fanout{Of: of, Rate: b.how.rate})
		})
	}
	return all, err
}

func idleCases(b *load, d *bed) (all []loadgen.Case, err error) {
	switch {
	case b.fan.steps < 1 || b.fan.steps > 1000:
		return nil, advice.Misuse("--steps: between 1 and 1000", "")
	case !(b.fan.active >= 0 && b.fan.active <= 1):
		return nil, advice.Misuse("--active: between 0 and 1", "")
	case b.how.rate < 0 || b.how.rate > 40:
		return nil, advice.Misuse("idle: --rate is the pings a second of one active connection: between 0 and 40", "")
	}
	if b.fan.procs > 1 && d.env.Gateways[0].TLS != nil {
		return nil, advice.Misuse("idle: --processes is for ws://", "over wss:// one process has all connections")
	}
	processes := b.fan.procs
	if processes == 0 && len(d.env.Gateways) > 1 {
		processes = len(d.env.Gateways)
	}
	one := slices.DeleteFunc(slices.Clone(d.suites), func(s string) bool { return s == suite.Plain.String() })
	if len(b.how.suites) == 0 && len(one) > 0 {
		d.suites = one[:1] // memory is the same in all
	}
	err = b.product(d, "1", "1000", func(of report.Case) {
		of.Size = 0
		all = append(all, &loadgen.Idle{Of: of, Steps: b.fan.steps, Active: b.fan.active, Rate: b.how.rate, Processes: processes, Helper: startHelper})
	})
	return all, err
}

// helperCommand is how this program is called to be a further generator process.
const helperCommand = "bench-helper"

func startHelper(context.Context) (*loadgen.Helper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, helperCommand)
	cmd.Stderr = os.Stderr
	dieWithParent(cmd)
	return loadgen.StartHelper(cmd)
}

func handshakeCases(b *load, d *bed) (all []loadgen.Case, err error) {
	if len(b.how.suites) == 0 {
		d.suites = slices.DeleteFunc(slices.Clone(d.suites), func(s string) bool { return s != suite.AES256GCM.String() })
	}
	loads := []string{""}
	if d.env.Publish != nil {
		loads = append(loads, loadgen.LoadTicks)
	}
	for _, load := range loads {
		for _, how := range []string{loadgen.BeginNew, loadgen.BeginHybrid, loadgen.BeginResumed} {
			err = b.product(d, "1", "8", func(of report.Case) {
				of.Size, of.Load, of.Variant = 0, load, how
				h := &loadgen.Handshake{Of: of, Rate: b.how.rate}
				if load == loadgen.LoadTicks {
					h.TickRate, h.Listeners = 100, 50
				}
				all = append(all, h)
			})
		}
	}
	return all, err
}

func mixedCases(b *load, d *bed) (all []loadgen.Case, err error) {
	if b.how.rate <= 0 || b.fan.topics < 1 || b.fan.noise < 0 {
		return nil, advice.Misuse("mixed: --rate and --topics must be above 0, --noise not negative", "")
	}
	if len(b.how.suites) == 0 {
		d.suites = slices.DeleteFunc(slices.Clone(d.suites), func(s string) bool { return s != suite.AES256GCM.String() })
	}
	err = b.product(d, "1", "200", func(of report.Case) {
		of.Size, of.Topics = 0, b.fan.topics
		all = append(all, &loadgen.Mixed{Of: of, Rate: b.how.rate, Noise: b.fan.noise, Token: b.users.token(b.gw.realm)})
	})
	return all, err
}

// allCases is the selection of `bench all`: each scenario with what tells most.
func allCases(b *load, d *bed) ([]loadgen.Case, error) {
	var all []loadgen.Case
	suites := slices.Clone(d.suites)
	part := func(scenario string, how loadFlags, fan fanFlags, cases func(*load, *bed) ([]loadgen.Case, error)) error {
		one := *b
		one.scenario, one.fan = scenario, fan
		one.how.loads, one.how.rate, one.how.sizes, one.how.connections = how.loads, how.rate, how.sizes, how.connections
		d.suites = slices.Clone(suites)
		found, err := cases(&one, d)
		all = append(all, found...)
		return err
	}
	parts := []func() error{
		func() error { // first: memory that others have left would not be the connections'
			return part("idle", loadFlags{rate: 1, connections: []string{"2000"}}, fanFlags{steps: 4, active: 0.05}, idleCases)
		},
		func() error {
			return part("echo", loadFlags{loads: []string{loadgen.LoadSingle, loadgen.LoadRate, loadgen.LoadSaturate}, rate: 5000, connections: []string{"500"}}, fanFlags{}, echoCases)
		},
		func() error { return part("handshake", loadFlags{}, fanFlags{}, handshakeCases) },
	}
	if d.env.Publish != nil {
		parts = append(parts,
			func() error {
				return part("fanout", loadFlags{rate: 100}, fanFlags{topics: 1, subscribers: []string{"1", "100", "500"}}, fanoutCases)
			},
			func() error { return part("mixed", loadFlags{rate: 300}, fanFlags{topics: 20, noise: 5}, mixedCases) })
	}
	for _, p := range parts {
		if err := p(); err != nil {
			return nil, err
		}
	}
	d.suites = suites
	return all, nil
}
