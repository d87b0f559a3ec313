package capacity

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// Plan is an estimate, with all that led to it.
type Plan struct {
	Inputs   Inputs     `json:"inputs"`
	Gateways int        `json:"gateways"` // the spare ones included
	Bound    string     `json:"bound_by"` // what one gateway less would be short of
	Gateway  Gateway    `json:"gateway"`
	Total    Total      `json:"total"`
	Redis    Redis      `json:"redis"`
	Parts    []Part     `json:"parts"`
	Notes    []string   `json:"notes"`
	Measured []Constant `json:"constants"`
}

// Gateway is one of them while the spare ones are away.
type Gateway struct {
	Clients     float64 `json:"clients"`
	Cores       float64 `json:"cores"` // with headroom
	MemoryBytes float64 `json:"memory_bytes"`
	KernelBytes float64 `json:"kernel_bytes"`
	OutBits     float64 `json:"out_bits_per_second"`
	InBits      float64 `json:"in_bits_per_second"`
	Descriptors float64 `json:"descriptors"`
}

// Total is of all gateways.
type Total struct {
	Deliveries  float64 `json:"deliveries_per_second"`
	Cores       float64 `json:"cores"` // with headroom
	MemoryBytes float64 `json:"memory_bytes"`
	OutBits     float64 `json:"out_bits_per_second"`
	ReturnS     float64 `json:"return_seconds"` // of one gateway's clients, when it is lost
}

// ErrNeverEnough says that a gateway is too small for what every gateway has to do.
var ErrNeverEnough = errors.New("no number of such gateways is enough")

// Estimate makes a plan. An input that makes no sense is an *InputError.
func Estimate(in Inputs) (*Plan, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	v := constantValues()
	var parts parts
	c := perClient(&in, v, parts.begin("One client"))
	n, bound, err := gateways(&in, v, &c)
	if err != nil {
		return nil, err
	}
	g := perGateway(&in, v, &c, n, parts.begin(fmt.Sprintf("One of %d gateways", n)))
	all := n + in.Spare
	p := &Plan{Inputs: in, Gateways: all, Bound: bound, Measured: Constants()}
	p.Gateway = Gateway{g.clients, g.busy, g.memory, g.kernel, g.out, g.in, g.descriptors}
	p.Redis = perRedis(&in, v, &g, all, parts.begin(fmt.Sprintf("Redis, for all %d gateways", all)))
	p.Total = total(&in, &c, &g, n, all, parts.begin(fmt.Sprintf("All %d gateways, %d of them to spare", all, in.Spare)))
	p.Parts, p.Notes = parts, notes(&in, v, &c, &g, &p.Redis)
	return p, nil
}

// gateways is plan 3: the least number that is enough, and what one less is short of.
func gateways(in *Inputs, v values, c *client) (n int, bound string, err error) {
	short := func(n int) string {
		g := perGateway(in, v, c, n, &steps{})
		return lacking(in, &g)
	}
	most := min(in.Clients, mostGateways)
	if what := short(most); what != "" {
		return 0, "", fmt.Errorf("%w: each is short of %s", ErrNeverEnough, what)
	}
	n = 1 + sort.Search(most-1, func(i int) bool { return short(i+1) == "" })
	if n == 1 {
		return 1, "nothing: one is enough", nil
	}
	return n, short(n - 1), nil
}

// lacking names what a gateway has too little of; empty: nothing.
func lacking(in *Inputs, g *need) string {
	m := &in.Machine
	switch {
	case g.busy > float64(m.Cores):
		return "cores"
	case g.memory+g.kernel > m.MemoryBytes:
		return "memory"
	case g.descriptors > float64(m.Descriptors):
		return "descriptors"
	case max(g.out, g.in) > m.LinkBits*in.Headroom:
		return "bandwidth"
	}
	return ""
}

func total(in *Inputs, c *client, g *need, n, all int, s *steps) Total {
	var t Total
	t.Deliveries = s.add("deliveries", float64(in.Clients)*c.ticks, "/s", "%s × %s/s", amount(float64(in.Clients)), amount(c.ticks))
	t.Cores = s.add("cores", g.busy*float64(all), "cores", "%s × %d", amount(g.busy), all)
	t.MemoryBytes = s.add("memory", (g.memory+g.kernel)*float64(all), "bytes", "(%sB + %sB) × %d", binary(g.memory), binary(g.kernel), all)
	t.OutBits = s.add("bandwidth to clients", float64(in.Clients)*c.wire, "bit/s", "%s × %sbit/s", amount(float64(in.Clients)), scaled(c.wire))
	// When one is lost its clients come back to the others, which have their
	// cores' headroom for it.
	if n > 1 {
		rest := float64(max(all-1, 1)) * (float64(in.Machine.Cores) - g.cores)
		t.ReturnS = s.add("return of a lost gateway's clients", math.Ceil(g.clients/(rest*g.handshakesPerCore)), "s", "%s / (%d gateways × %s cores to spare × %s handshakes/s)", amount(g.clients), max(all-1, 1), amount(float64(in.Machine.Cores)-g.cores), amount(g.handshakesPerCore))
	}
	return t
}

// notes say what the figures do not.
func notes(in *Inputs, v values, c *client, g *need, r *Redis) (all []string) {
	if g.ticksIn > v["tick.most"] {
		all = append(all, fmt.Sprintf("One gateway has to take %s ticks/s; more than %s/s were not measured. Give groups of gateways topics of their own (docs/scaling.md).", amount(g.ticksIn), amount(v["tick.most"])))
	}
	if r.Shards > 1 {
		all = append(all, "More than one Redis server needs redis.mode cluster with redis.source sharded or streams: with pubsub every node carries every tick.")
	}
	if in.DelayMS == 0 && in.PerClient > 1 {
		all = append(all, "Without batch.max_delay a record is taken to hold one tick. Ticks that arrive together travel together, so it may be fewer.")
	}
	if c.batch < 2 && in.DelayMS > 0 && c.records > 10 {
		all = append(all, "Records hold few ticks: a longer batch.max_delay saves most processor time.")
	}
	return append(all,
		"The kernel's memory is without send buffers: up to socket.unsent (128 KiB), and what is on the way, for each client that does not keep up.",
		"Every tick is counted (policy every). With policy latest or max_rate give --rate as it is after merging.",
		"The processors' constants come from two crowded virtual cores; measure yours with \"sealctl bench fanout\" and \"sealctl bench handshake\" before you buy.")
}
