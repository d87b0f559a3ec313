package loadgen

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os/exec"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/session"
)

// More connections than one process may have descriptors for are held by
// helpers: the same program again, which is told by lines of JSON what to do
// and answers each with one.
//
//	→ job                      once
//	→ {"grow": N}              ← grown
//	→ {"begin": true}          ← {} at once
//	→ {"figures": true}        ← heard, once the pings are over
//
// The end of its input ends a helper.

// job is what a helper is for.
type job struct {
	Suite       string
	Connections int
	Active      float64
	Rate        float64
	Process     int // this is the so-manieth
	Gateway     jobGateway
	Seed        uint64
	Connecting  int
	For         time.Duration
	Warmup      time.Duration
}

// jobGateway is whom a helper connects to.
type jobGateway struct {
	Address       netip.AddrPort
	Host, Prefix  string
	Pins          []string
	Realm         string
	Insecure      bool
	PostQuantum   string
	Token, Header string
}

// newJob is that of the k-th helper, which serves one gateway.
func newJob(env *Env, c *Idle, k, connections int) *job {
	gw := env.Gateways[k%len(env.Gateways)]
	j := &job{
		Suite: c.Of.Suite, Connections: connections, Active: c.Active, Rate: c.Rate, Process: k + 1,
		Seed: env.Seed + uint64(k), Connecting: max(env.Connecting/c.Processes, 8), For: env.For, Warmup: env.Warmup,
		Gateway: jobGateway{
			Address: gw.Address, Host: gw.Host, Prefix: gw.Prefix, Realm: env.Realm, Insecure: env.Insecure,
			PostQuantum: env.PostQuantum.String(), Token: env.Token, Header: env.Header,
		},
	}
	for _, pin := range gw.Pins {
		j.Gateway.Pins = append(j.Gateway.Pins, pin.String())
	}
	return j
}

// env is the helper's own.
func (j *job) env() (*Env, error) {
	g := &j.Gateway
	gw := &Gateway{Address: g.Address, Host: g.Host, Prefix: g.Prefix}
	for _, pin := range g.Pins {
		key, err := session.ParsePin(pin)
		if err != nil {
			return nil, err
		}
		gw.Pins = append(gw.Pins, key)
	}
	mode, err := session.ParsePostQuantum(g.PostQuantum)
	if err != nil {
		return nil, err
	}
	e := &Env{
		Gateways: []*Gateway{gw}, Realm: g.Realm, Insecure: g.Insecure, PostQuantum: mode, Token: g.Token, Header: g.Header,
		Seed: j.Seed, Loops: 1, Connecting: j.Connecting, For: j.For, Warmup: j.Warmup,
	}
	if at := g.Address.Addr(); at.Is4() && at.IsLoopback() {
		e.Sources = LoopbackSources(j.Process, j.Connections)
	}
	return e, nil
}

// heard is what a group has measured. Histograms travel in their own encoding.
type heard struct {
	figures *measure.Figures
	Window  measure.Window
	Counts  measure.Counts
	Slices  []encodedSlice
	Errors  map[string]uint64
	Asked   float64
	CPU     time.Duration
}

type encodedSlice struct {
	Latency []byte
	Came    uint64
}

// pack gets the figures ready to travel.
func (h *heard) pack() error {
	h.Window, h.Counts = h.figures.Window, h.figures.Counts
	for _, s := range h.figures.Slices {
		b, err := s.Latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return err
		}
		h.Slices = append(h.Slices, encodedSlice{b, s.Came})
	}
	return nil
}

func (h *heard) unpack() error {
	h.figures = &measure.Figures{Window: h.Window, Counts: h.Counts, Latency: measure.NewHistogram()}
	for _, s := range h.Slices {
		latency, err := hdrhistogram.Decode(s.Latency)
		if err != nil {
			return fmt.Errorf("figures of a generator process: %w", err)
		}
		h.figures.Latency.Merge(latency)
		h.figures.Came += s.Came
		h.figures.Slices = append(h.figures.Slices, measure.Slice{Latency: latency, Came: s.Came})
	}
	return nil
}

// join adds groups up, slice by slice: each counts from the beginning of its own window.
func join(all []*heard) (*measure.Figures, map[string]uint64) {
	f, byKind := all[0].figures, maps.Clone(all[0].Errors)
	for _, h := range all[1:] {
		f.Add(h.figures)
		for kind, n := range h.Errors {
			byKind[kind] += n
		}
	}
	return f, byKind
}

// order is one line to a helper, answer one from it.
type order struct {
	Grow           int `json:",omitempty"`
	Begin, Figures bool
}

type answer struct {
	Error string `json:",omitempty"`
	Grown grown
	Heard *heard
}

// Helper is a further generator process, in the hands of the first.
type Helper struct {
	cmd *exec.Cmd
	in  *json.Encoder
	end io.Closer
	out *json.Decoder
}

// StartHelper runs a program that calls Help with its standard input and output.
func StartHelper(cmd *exec.Cmd) (*Helper, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("generator process: %w", err)
	}
	return &Helper{cmd: cmd, in: json.NewEncoder(in), end: in, out: json.NewDecoder(bufio.NewReader(out))}, nil
}

func (h *Helper) employ(j *job) error {
	if err := h.in.Encode(j); err != nil {
		return fmt.Errorf("generator process: %w", err)
	}
	return nil
}

func (h *Helper) ask(o order) (*answer, error) {
	if err := h.in.Encode(o); err != nil {
		return nil, fmt.Errorf("generator process: %w", err)
	}
	a := new(answer)
	if err := h.out.Decode(a); err != nil {
		return nil, fmt.Errorf("generator process: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a, nil
}

func (h *Helper) grow(_ context.Context, n int) (grown, error) {
	a, err := h.ask(order{Grow: n})
	if err != nil {
		return grown{}, err
	}
	return a.Grown, nil
}

func (h *Helper) begin(context.Context) error {
	_, err := h.ask(order{Begin: true})
	return err
}

func (h *Helper) figures(context.Context) (*heard, error) {
	a, err := h.ask(order{Figures: true})
	if err != nil {
		return nil, err
	}
	return a.Heard, a.Heard.unpack()
}

func (h *Helper) close() {
	h.end.Close()
	_ = h.cmd.Wait() // its answers have told what matters
}

// Help is a helper's whole life: it does what in says until its end.
func Help(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var j job
	if err := orders.Decode(&j); err != nil {
		return fmt.Errorf("the job: %w", err)
	}
	env, err := j.env()
	if err != nil {
		return err
	}
	g, err := newIdlers(env, j.Suite, j.Connections, j.Active, j.Rate)
	if err != nil {
		return err
	}
	defer g.close()
	for {
		var o order
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("an order: %w", err)
		}
		if err := answers.Encode(g.obey(ctx, o)); err != nil {
			return err
		}
	}
}

func (g *idlers) obey(ctx context.Context, o order) (a answer) {
	var err error
	switch {
	case o.Grow > 0:
		a.Grown, err = g.grow(ctx, o.Grow)
	case o.Begin:
		err = g.begin(ctx)
	case o.Figures:
		if a.Heard, err = g.figures(ctx); err == nil {
			err = a.Heard.pack()
		}
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
