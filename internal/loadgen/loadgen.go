// Package loadgen puts load on gateways and measures what comes of it: echo,
// fan-out, idle connections, a mixture with noise, handshakes. It is sans
// Redis and sans flags: what publishes comes from outside, and the report
// package shows what was found.
//
// How a case runs (run.go):
//
//	run 1  crew.go      connections are made, a bounded number at a time
//	run 2  run.go       warm-up: the load runs, nothing is counted
//	run 3  run.go       the measured part: the gateway is sampled at its ends and at every slice
//	run 4  run.go       drain: what is under way may still arrive
//	run 5  result.go    recorders are merged and become a result
package loadgen

import (
	"context"
	"crypto/tls"
	"net/netip"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/internal/loadgen/target"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Gateway is one that is measured.
type Gateway struct {
	Address netip.AddrPort
	Host    string      // for the upgrade request
	Prefix  string      // of the paths /ws and /echo
	TLS     *tls.Config // of what ends TLS before it; nil: none is spoken
	Pins    []session.PublicKey
	Admin   *target.Admin   // nil: its own figures are not available
	PID     int             // of a process of this machine; 0: not known
	Ended   <-chan struct{} // closed when the process ends; nil: not known
}

// Env is what all cases of a command share. It is not changed while one runs.
type Env struct {
	Gateways    []*Gateway
	Realm       string
	Insecure    bool // accept any key
	PostQuantum session.PostQuantum
	Token       string
	Codecs      []wire.Codec // that subscribers offer
	Header      string       // further lines of upgrade requests
	Version     string       // of this program

	Seed       uint64
	Loops      int          // event loops of the generator
	Sources    []netip.Addr // to connect from; empty: as the system likes
	Connecting int          // connections that are being made at the same time
	For        time.Duration
	Warmup     time.Duration

	Profiles string         // folder for profiles of the gateway; empty: none
	Progress func(Progress) // nil: nobody looks
	Publish  Publisher      // of ticks; nil: fan-out cannot be measured
}

// Progress is how far a case is.
type Progress struct {
	What string
	Done float64 // of 1
}

// Publisher puts ticks into what the gateway reads. Publish returns once they
// are there. It is called by one goroutine.
type Publisher interface {
	Publish(ctx context.Context, ticks []Tick) error
}

// Tick is one to be published.
type Tick struct {
	Topic   string
	Payload []byte
}

// MaxPerSource is how many connections are made from one source address:
// beyond, the system takes ever longer to find a free port.
const MaxPerSource = 5000

func (e *Env) show(what string, done float64) {
	if e.Progress != nil {
		e.Progress(Progress{what, done})
	}
}

// Case is one thing to measure. Run measures it once; a case that looks for
// something measures several things. A result that is marked partial may come
// without an error.
type Case interface {
	Run(ctx context.Context, env *Env) ([]report.Result, error)
}

// Bound is a case that is measured in surroundings of its own, under the name of
// a variant: gateways with other settings.
type Bound struct {
	Case
	Env     *Env
	Variant string
}

// Run implements Case.
func (b *Bound) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	own := *b.Env
	own.Progress = env.Progress
	found, err := b.Case.Run(ctx, &own)
	for i := range found {
		found[i].Variant = strings.TrimSpace(found[i].Variant + " " + b.Variant)
	}
	return found, err
}

// Run measures all cases in turn, so many times, so that a disturbance that
// lasts falls on all of them, and makes medians of the repeats. It ends early
// with what there is when a result is partial; done is told after every case.
func Run(ctx context.Context, env *Env, cases []Case, repeat int, done func(results int)) (results []report.Result, partial string, err error) {
	var order []report.Case
	runs := map[report.Case][]report.Result{}
	for range max(repeat, 1) {
		for _, c := range cases {
			found, err := c.Run(ctx, env)
			if err != nil && len(order) == 0 {
				return nil, "", err
			}
			if err != nil {
				return medians(order, runs), err.Error(), err
			}
			for _, r := range found {
				if runs[r.Case] == nil {
					order = append(order, r.Case)
				}
				runs[r.Case] = append(runs[r.Case], r)
				partial = r.Partial
			}
			if done(len(found)); partial != "" {
				return medians(order, runs), partial, nil
			}
		}
	}
	return medians(order, runs), "", nil
}

func medians(order []report.Case, runs map[report.Case][]report.Result) []report.Result {
	var all []report.Result
	for _, c := range order {
		all = append(all, report.Median(runs[c]))
	}
	report.Compare(all)
	return all
}
