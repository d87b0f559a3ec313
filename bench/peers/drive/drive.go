// Package drive measures servers: it starts each on a core of its own, drives
// it from another, verifies every answer, and makes of many rounds medians,
// spreads and ratios. The clients are those of internal/loadgen. It is no
// server itself.
//
//	drive 1  works.go            what is measured, with whom and by which bar
//	drive 2  process.go, pin.go  servers, Redis; cores, processor time, memory
//	drive 3  client.go, tls.go   one connection on the event loop
//	drive 4  echo.go, fanout.go, delay.go, idle.go, bare.go   the kinds of work
//	drive 5  results.go, stats.go, tables.go, history.go      what came of it
//
// All of drive 3 and 4 runs on the goroutine that calls Run, turn by turn.
package drive

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
)

// Config is what a run is told.
type Config struct {
	Gateway       string // its program
	Rounds        int
	Within        time.Duration // no round begins that would end later
	Warmup, For   time.Duration // of each measurement
	ServerCore    int
	GeneratorCore int
	Only          []string // parts of names of works; empty: all
	With          []string // parts of names of contestants; empty: all
	Profiles      string   // folder; empty: none
	Say           func(text string)
}

// topic is where ticks are published.
const topic = "bench:peers"

// bench is one run.
type bench struct {
	Config
	ctx   context.Context
	redis *redisServer
}

// Run measures all works round by round, and within a round all servers of a
// work one after the other, beginning with another one each time. It fails with
// the first measurement that does; what whole rounds have found is then
// returned too.
func Run(ctx context.Context, c Config) (*Results, error) {
	b := &bench{Config: c, ctx: ctx}
	if err := b.prepare(); err != nil {
		return nil, err
	}
	defer b.redis.stop()
	works := b.works()
	if len(works) == 0 {
		return nil, fmt.Errorf("no work has a name with %q and somebody with %q", strings.Join(c.Only, " or "), strings.Join(c.With, " or "))
	}
	results := newResults(works, c)
	begun := time.Now()
	for round := range c.Rounds {
		if took := time.Since(begun); round > 0 && took+took/time.Duration(round) > c.Within {
			b.Say(fmt.Sprintf("%d rounds have taken %v: there is no time for another", round, took.Round(time.Second)))
			break
		}
		samples, err := b.round(works, round)
		if err != nil {
			return results.orNil(), err
		}
		results.add(samples)
	}
	results.Took = time.Since(begun).Round(time.Second).String()
	return results, nil
}

// prepare binds this process to its core and starts Redis there too.
func (b *bench) prepare() (err error) {
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("two cores are needed, one for the server and one for the generator")
	}
	if limit := measure.DescriptorLimit(); limit < idleSessions+100 {
		return fmt.Errorf("%d descriptors are needed, there are %d: raise ulimit -n", idleSessions+100, limit)
	}
	if err := os.Setenv("GOMAXPROCS", "1"); err != nil { // of the servers
		return err
	}
	if err := pinProcess(b.GeneratorCore); err != nil {
		return err
	}
	b.redis, err = startRedis()
	return err
}

// works are those that are wanted, with those that are.
func (b *bench) works() []*Work {
	works := slices.DeleteFunc(allWorks(), func(w *Work) bool { return unwanted(w.Name, b.Only) })
	for _, w := range works {
		w.Contestants = slices.DeleteFunc(w.Contestants, func(c *Contestant) bool { return unwanted(c.Name, b.With) })
	}
	return slices.DeleteFunc(works, func(w *Work) bool { return len(w.Contestants) == 0 })
}

func unwanted(name string, parts []string) bool {
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}

func (b *bench) round(works []*Work, round int) (samples []Sample, err error) {
	for _, w := range works {
		if w.Once && round > 0 {
			continue
		}
		n := len(w.Contestants)
		for i := range n {
			c := w.Contestants[(i+round)%n]
			s, err := b.measure(w, c)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", w.Name, c.Name, err)
			}
			s.Work, s.Contestant, s.Round = w.Name, c.Name, round
			b.Say(fmt.Sprintf("round %d  %-28s %-22s %s", round+1, w.Name, c.Name, s.text()))
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// measure measures one server at one work, in processes that exist for nothing else.
func (b *bench) measure(w *Work, c *Contestant) (s Sample, err error) {
	if w.Kind == kindBare {
		return b.bare(w)
	}
	server, err := b.start(w, c)
	if err != nil {
		return s, err
	}
	defer server.stop()
	m, err := newMeter(b, w, c, server)
	if err != nil {
		return s, err
	}
	defer m.close()
	switch w.Kind {
	case kindEcho:
		return m.echo()
	case kindFanout:
		return m.fanout()
	case kindDelay:
		return m.delay()
	}
	return m.idle()
}

// source is an address of this machine for the i-th connection: too many from
// one take ever longer.
func source(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i/5000)})
}
