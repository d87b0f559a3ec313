package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen"
	"github.com/sealcast/sealcast/internal/loadgen/report"
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
	}
}

// declareScenario adds the flags that only some scenarios have.
func (b *load) declareScenario(f *flags) {
	switch b.scenario {
	case "echo":
		f.list(&b.how.loads, "load", true, "`LIST` of ways to drive it: single (one connection), rate (--rate over --connections), "+
			"saturate (--connections, as fast as it goes), rise (saturate with 1, 2, 4 … connections until throughput stops rising)")
	}
}

// startSource starts what ticks come from; echo needs nothing.
func (a *app) startSource(context.Context, *load, *bed) ([]string, error) { return nil, nil }

func echoCases(b *load, d *bed) ([]loadgen.Case, error) {
	if len(b.how.loads) == 0 {
		b.how.loads = []string{loadgen.LoadSingle, loadgen.LoadRate}
		if b.how.rate == 0 {
			b.how.loads = []string{loadgen.LoadSaturate}
		} else if len(b.how.connections) > 0 {
			b.how.loads = []string{loadgen.LoadRate}
		}
	}
	b.how.sizes = either(b.how.sizes, "1KiB")
	b.how.connections = either(b.how.connections, "500")
	sizes, err := sizes(b.how.sizes)
	if err != nil {
		return nil, err
	}
	connections, err := numbers("--connections", b.how.connections)
	if err != nil {
		return nil, err
	}
	var all []loadgen.Case
	for _, how := range b.how.loads {
		if !slices.Contains([]string{loadgen.LoadSingle, loadgen.LoadRate, loadgen.LoadSaturate, loadgen.LoadRise}, how) {
			return nil, misuse(fmt.Sprintf("--load: there is no %q", how), "single, rate, saturate, rise")
		}
		for _, size := range sizes {
			for _, n := range connections {
				for _, name := range d.suites {
					of := report.Case{Scenario: "echo", Load: how, Suite: name, Size: size, Connections: n}
					all = append(all, b.echoCase(of))
				}
				if how == loadgen.LoadSingle {
					break
				}
			}
		}
	}
	return all, nil
}

func (b *load) echoCase(of report.Case) loadgen.Case {
	switch of.Load {
	case loadgen.LoadSingle:
		of.Connections = 1
		return &loadgen.Echo{Of: of, Window: b.how.window}
	case loadgen.LoadRate:
		return &loadgen.Echo{Of: of, Rate: b.how.rate, Window: b.how.window}
	case loadgen.LoadRise:
		return &loadgen.Rise{Of: of, P99: b.out.p99, Each: max(b.how.during/8, 200*time.Millisecond)}
	}
	return &loadgen.Echo{Of: of, Window: b.how.window}
}
