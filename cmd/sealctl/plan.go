package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/capacity"
)

// planFlags are the inputs of a plan, as they are written on the command line.
type planFlags struct {
	in                                   capacity.Inputs
	size, memory, link, history, waiting string
	delay                                time.Duration
	format                               string
}

// plan estimates what an installation needs.
func (a *app) plan(_ context.Context, args []string) error {
	p := &planFlags{in: capacity.Defaults()}
	f := newFlags("plan", "", `Estimates gateways, cores, memory, bandwidth, descriptors and Redis servers for a load. Every figure is shown
with its arithmetic, and every constant in it with where it was measured. Nothing is connected to.`)
	p.declare(f)
	if help, err := a.parse(f, args, 0, 0); help || err != nil {
		return err
	}
	if err := p.read(f); err != nil {
		return err
	}
	plan, err := capacity.Estimate(p.in)
	var wrong *capacity.InputError
	switch {
	case errors.As(err, &wrong):
		return advice.Misuse("plan: --"+err.Error(), wrong.Hint)
	case errors.Is(err, capacity.ErrNeverEnough):
		return advice.Failed(err, "larger machines (--cores, --memory, --link), longer batches (--delay), or groups of gateways that have topics of their own")
	case err != nil:
		return advice.Failed(err, "")
	}
	if p.format == "json" {
		enc := json.NewEncoder(a.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return outputError(enc.Encode(plan))
	}
	return outputError(plan.WriteText(a.stdout))
}

func (p *planFlags) declare(f *flags) {
	in, m := &p.in, &p.in.Machine
	f.IntVar(&in.Clients, "clients", 0, "clients that are connected at the same time, `N`")
	f.IntVar(&in.Topics, "topics", 0, "topics that ticks are published to, `N`")
	f.IntVar(&in.PerClient, "subscriptions", in.PerClient, "topics that one client follows, `N`")
	f.IntVar(&in.Lists, "lists", 0, "different watch lists, `N`; 0: each client has its own")
	f.Float64Var(&in.Rate, "rate", in.Rate, "ticks a second of one topic, `R`")
	f.StringVar(&p.size, "size", "200", "bytes of a tick's payload, `B`")
	f.Float64Var(&in.Connects, "connects", in.Connects, "connections a second after an outage, `C`, of all clients")
	f.DurationVar(&p.delay, "delay", time.Duration(in.DelayMS*float64(time.Millisecond)), "`TIME` that ticks wait for others, batch.max_delay")
	f.StringVar(&in.Suite, "suite", in.Suite, "`SUITE` that records are sealed with")
	f.StringVar(&in.Seal, "seal", in.Seal, "`HOW` batches are sealed, fanout.seal: session or group")
	f.StringVar(&in.Codec, "codec", in.Codec, "`CODEC` of batches: none, snappy or zstd")
	f.Float64Var(&in.Ratio, "ratio", 0, "`X`, bytes of payloads by those that are sent of their batch, as bench compression has it; 0: the least that was measured")
	f.Float64Var(&in.Headroom, "headroom", in.Headroom, "share of processors and links that may be in use, `X` of 1")
	f.IntVar(&in.Spare, "spare", in.Spare, "gateways that may be away at the same time, `N`")
	f.IntVar(&m.Cores, "cores", m.Cores, "cores of one gateway, `N`")
	f.StringVar(&p.memory, "memory", "16GiB", "`BYTES` of memory of one gateway")
	f.StringVar(&p.link, "link", "10G", "`BITS` a second of one gateway's network, such as 1G")
	f.IntVar(&m.Descriptors, "descriptors", m.Descriptors, "descriptors of one gateway, `N`")
	f.StringVar(&p.history, "history", "256MiB", "`BYTES` of limits.history_bytes")
	f.StringVar(&p.waiting, "slow", "1GiB", "`BYTES` of slow.total")
	f.StringVar(&p.format, "o", "text", "`FORMAT` of the output: text or json")
}

// read turns texts into numbers.
func (p *planFlags) read(f *flags) error {
	if p.format != "text" && p.format != "json" {
		return advice.Misuse(fmt.Sprintf("-o: there is no format %q", p.format), "one of text, json")
	}
	for _, name := range []string{"clients", "topics"} {
		if !f.given(name) {
			return advice.Misuse("plan: --"+name+" is missing", "for example sealctl plan --clients 100000 --topics 2000 --rate 5 --size 200")
		}
	}
	p.in.DelayMS = float64(p.delay) / float64(time.Millisecond)
	size := 0.0
	for _, q := range []struct {
		flag, text string
		step       float64
		into       *float64
	}{
		{"size", p.size, 1024, &size},
		{"memory", p.memory, 1024, &p.in.Machine.MemoryBytes},
		{"link", p.link, 1000, &p.in.Machine.LinkBits},
		{"history", p.history, 1024, &p.in.HistoryBytes},
		{"slow", p.waiting, 1024, &p.in.SlowTotal},
	} {
		value, ok := quantity(q.text, q.step)
		if !ok {
			return advice.Misuse(fmt.Sprintf("plan: --%s: %q is no amount", q.flag, q.text), "a number, with KiB, MiB or GiB for bytes, with k, M or G for bits")
		}
		*q.into = value
	}
	p.in.Size = int(math.Ceil(size))
	return nil
}

// quantity reads a number with a prefix: KiB, MiB, GiB, TiB in steps of 1024, or k, M, G, T in steps of 1000.
func quantity(text string, step float64) (float64, bool) {
	text = strings.TrimSpace(text)
	suffixes := []string{"KiB", "MiB", "GiB", "TiB"}
	if step == 1000 {
		suffixes = []string{"k", "M", "G", "T"}
	}
	factor := 1.0
	for i, suffix := range suffixes {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, factor = strings.TrimSpace(rest), math.Pow(step, float64(i+1))
		}
	}
	value, err := strconv.ParseFloat(text, 64)
	return value * factor, err == nil && value >= 0 && value*factor <= 1e18
}
