// Package cryptobench measures what cryptography costs on this machine: the
// suites as the product uses them, public-key operations, and the usual ways
// to use ciphers badly. It opens no sockets and no files, and never offers
// anything that it measures to a peer.
package cryptobench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
)

// ErrOptions reports options that Run does not take.
var ErrOptions = errors.New("benchmark options")

// Group names a set of measurements that belong together.
type Group string

// The groups, in the order of a report.
const (
	GroupRecords   Group = "records"    // seal and open in place, suite by size
	GroupMixed     Group = "mixed"      // 70 % open, 30 % seal
	GroupMessages  Group = "messages"   // protobuf encoding together with sealing
	GroupPublicKey Group = "public-key" // signatures, key agreement, encapsulation
	GroupResponses Group = "responses"  // whole responses: RSA alone, RSA and AES, a session key
	GroupMisuse    Group = "misuse"     // what a cipher per message, fresh buffers and random nonces cost
	GroupOthers    Group = "others"     // AES-CTR with HMAC, SHA-256: for comparison, never suites
)

// Groups is every group, in the order of a report.
func Groups() []Group {
	return []Group{
		GroupRecords, GroupMixed, GroupMessages, GroupPublicKey, GroupResponses, GroupMisuse, GroupOthers,
	}
}

// Bounds of Options.
const (
	maxSize   = 1 << 20
	maxRepeat = 1000
)

// Options choose what is measured and for how long. Zero fields take the
// values of Defaults, except for Seed, where 0 is a seed like any other. What
// stands in a list twice is measured once; sizes are put in order.
type Options struct {
	Suites []suite.ID
	Sizes  []int // bytes of plaintext
	Groups []Group
	Repeat int           // measurements of each operation; from five on the extremes are dropped
	For    time.Duration // length of one measurement
	Warmup time.Duration // before the first measurement of an operation
	Seed   uint64        // of messages, symmetric keys and the order of the mixed load

	// Progress, if set, hears after every step how many of all steps are
	// done. It runs between measurements, on the goroutine of Run.
	Progress func(done, total int)
}

// Defaults are the options of a run of one to two minutes.
func Defaults() Options {
	return Options{
		Suites: suite.All(),
		Sizes:  []int{64, 256, 1 << 10, 4 << 10, 16 << 10},
		Groups: Groups(),
		Repeat: 5,
		For:    40 * time.Millisecond,
		Warmup: 20 * time.Millisecond,
		Seed:   1,
	}
}

// resolve fills in the defaults and reports the first option that is out of range.
func (o Options) resolve() (Options, error) {
	d := Defaults()
	if len(o.Suites) == 0 {
		o.Suites = d.Suites
	}
	if len(o.Sizes) == 0 {
		o.Sizes = d.Sizes
	}
	if len(o.Groups) == 0 {
		o.Groups = d.Groups
	}
	if o.Repeat == 0 {
		o.Repeat = d.Repeat
	}
	if o.For == 0 {
		o.For = d.For
	}
	if o.Warmup == 0 {
		o.Warmup = d.Warmup
	}
	o.Suites = unique(o.Suites)
	o.Sizes = slices.Compact(slices.Sorted(slices.Values(o.Sizes)))
	return o, o.check()
}

// unique returns the list without repetitions, in its order.
func unique(list []suite.ID) []suite.ID {
	var out []suite.ID
	for _, id := range list {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (o Options) check() error {
	for _, id := range o.Suites {
		if !id.Valid() {
			return fmt.Errorf("%w: %v is not a suite", ErrOptions, id)
		}
	}
	for _, n := range o.Sizes {
		if n < 1 || n > maxSize {
			return fmt.Errorf("%w: size %d is not between 1 and %d bytes", ErrOptions, n, maxSize)
		}
	}
	for _, g := range o.Groups {
		if !slices.Contains(Groups(), g) {
			return fmt.Errorf("%w: %q is none of the groups %s", ErrOptions, g, groupNames())
		}
	}
	switch {
	case o.Repeat < 1 || o.Repeat > maxRepeat:
		return fmt.Errorf("%w: %d repeats are not between 1 and %d", ErrOptions, o.Repeat, maxRepeat)
	case o.For < 0:
		return fmt.Errorf("%w: a measurement cannot take %v", ErrOptions, o.For)
	case o.Warmup < 0:
		return fmt.Errorf("%w: a warm-up cannot take %v", ErrOptions, o.Warmup)
	}
	return nil
}

func groupNames() string {
	var names []string
	for _, g := range Groups() {
		names = append(names, string(g))
	}
	return strings.Join(names, ", ")
}

// Run measures everything that the options ask for, on the calling goroutine,
// and returns the report. The repeats go round the operations in turn, so that
// a disturbance of the machine falls on all of them alike. It ends early, with
// the context's error, when ctx does, between two measurements.
func Run(ctx context.Context, o Options) (*Report, error) {
	return run(ctx, o, newMeter())
}

func run(ctx context.Context, o Options, m *meter) (*Report, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	tasks, err := newLab(o).tasks(o)
	if err != nil {
		return nil, err
	}
	if err := m.all(ctx, o, tasks); err != nil {
		return nil, err
	}
	return newReport(o, m.clockCost, tasks), nil
}

// all prepares every task, then measures them in turn, o.Repeat times.
func (m *meter) all(ctx context.Context, o Options, tasks []*task) error {
	steps := newSteps(ctx, o.Progress, len(tasks)*(1+o.Repeat))
	for _, t := range tasks {
		if err := m.prepare(t, o.Warmup); err != nil {
			return t.wrap(err)
		}
		if err := steps.next(); err != nil {
			return err
		}
	}
	for range o.Repeat {
		for _, t := range tasks {
			if err := m.measure(t, o.For); err != nil {
				return t.wrap(err)
			}
			if err := steps.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// steps counts what is done, tells whoever listens, and looks at the context.
type steps struct {
	ctx         context.Context
	progress    func(done, total int)
	done, total int
}

func newSteps(ctx context.Context, progress func(done, total int), total int) *steps {
	if progress == nil {
		progress = func(int, int) {}
	}
	return &steps{ctx: ctx, progress: progress, total: total}
}

func (s *steps) next() error {
	s.done++
	s.progress(s.done, s.total)
	return s.ctx.Err()
}
