package capacity

import (
	"math"
	"strings"
)

// need is plan 2: what one of so many gateways has to do.
type need struct {
	clients, topics   float64
	ticksIn           float64 // a second
	cores, busy       float64 // processors in use, and those that this takes with headroom
	memory, kernel    float64 // bytes
	out, in           float64 // bits a second
	descriptors       float64
	handshakesPerCore float64 // a second
}

// perGateway works out plan 2 for one of n gateways.
func perGateway(in *Inputs, v values, c *client, n int, s *steps) need {
	g := need{handshakesPerCore: 1e6 / v["handshake"]}
	g.clients = s.add("clients", math.Ceil(float64(in.Clients)/float64(n)), "", "%s / %d gateways", amount(float64(in.Clients)), n)
	// Clients choose their topics at random: a gateway follows those that at
	// least one of its clients has chosen.
	followed := 1 - math.Exp(-g.clients*float64(in.PerClient)/float64(in.Topics))
	g.topics = s.add("topics followed", float64(in.Topics)*followed, "", "%s × (1 − e^(−%s × %d / %s))", amount(float64(in.Topics)), amount(g.clients), in.PerClient, amount(float64(in.Topics)))
	g.ticksIn = s.add("ticks from Redis", g.topics*in.Rate, "/s", "%s × %s/s", amount(g.topics), amount(in.Rate))
	processors(in, v, c, &g, n, s)
	memory(in, v, &g, s)
	g.out = s.add("bandwidth to clients", g.clients*c.wire, "bit/s", "%s × %sbit/s", amount(g.clients), scaled(c.wire))
	g.in = s.add("bandwidth from Redis", g.ticksIn*(float64(in.Size)+v["server.head"])*8, "bit/s", "%s/s × (%d + %s) × 8", amount(g.ticksIn), in.Size, amount(v["server.head"]))
	g.descriptors = s.add("descriptors", g.clients+v["descriptors.reserve"], "", "%s + %s", amount(g.clients), amount(v["descriptors.reserve"]))
	return g
}

const micro = 1e-6

// processors adds the cores up.
func processors(in *Inputs, v values, c *client, g *need, n int, s *steps) {
	core := func(name string, value float64, format string, args ...any) {
		g.cores += s.add(name, value, "cores", format, args...)
	}
	rate := tickCost(v, g.ticksIn)
	core("take ticks", g.ticksIn*rate*micro, "%s/s × %s µs", amount(g.ticksIn), amount(rate))
	records := g.clients * c.records
	kib := c.bytes / 1024
	core("write records", records*(v["record.write"]+kib*v["record.kib"])*micro, "%s/s × (%s + %s KiB × %s) µs", amount(records), amount(v["record.write"]), amount(kib), amount(v["record.kib"]))
	// What is done once for a watch list is done on each event loop that has clients with it.
	lists := g.clients
	if in.Lists > 0 {
		lists = min(lists, float64(in.Lists*in.Machine.Cores))
	}
	seals, cost := records, sealCost(v, in.Suite, c.bytes)
	if in.Seal == "group" {
		seals = lists * c.records
	}
	core("seal", seals*cost*micro, "%s/s × %s µs", amount(seals), amount(cost))
	core("join ticks", lists*c.ticks*v["tick.join"]*micro, "%s watch lists × %s/s × %s µs", amount(lists), amount(c.ticks), amount(v["tick.join"]))
	if in.Codec != "none" {
		per := c.payload / 1024 * v["codec."+in.Codec]
		core("compress", lists*c.records*per*micro, "%s watch lists × %s/s × %s µs", amount(lists), amount(c.records), amount(per))
	}
	core("heartbeats", g.clients*v["session.idle"]*micro, "%s × %s µs/s", amount(g.clients), amount(v["session.idle"]))
	connects := in.Connects / float64(n)
	core("connections", connects*v["handshake"]*micro, "%s/s × %s µs", amount(connects), amount(v["handshake"]))
	g.busy = s.add("cores needed", g.cores/in.Headroom, "cores", "%s / %s headroom", amount(g.cores), amount(in.Headroom))
}

// tickCost is that of one tick from Redis: the more there are, the more are
// taken at once. Between the measured rates the processor time stays the same
// until the next figure is the larger one.
func tickCost(v values, rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	busy := max(v["tick.in.2000"]*min(rate, 2000), v["tick.in.20000"]*min(rate, 20000), v["tick.in.57000"]*rate)
	return busy / rate
}

// sealCost lies on the line through the two measured sizes.
func sealCost(v values, suite string, bytes float64) float64 {
	small, large := v["seal."+suite+".64"], v["seal."+suite+".16384"]
	return small + (large-small)*max(bytes-64, 0)/(16384-64)
}

// memory adds the bytes up, at their bounds.
func memory(in *Inputs, v values, g *need, s *steps) {
	subscriptions := g.clients * float64(in.PerClient)
	topics := s.add("topics and subscriptions", g.topics*v["topic.memory"]+subscriptions*v["subscription.memory"], "bytes", "%s × %s + %s × %s", amount(g.topics), amount(v["topic.memory"]), amount(subscriptions), amount(v["subscription.memory"]))
	keys := 0.0
	if strings.HasPrefix(in.Suite, "aes-") {
		kept := min(g.clients, v["key.most"]*float64(in.Machine.Cores))
		keys = s.add("expanded keys", kept*v["key.memory"], "bytes", "%s × %s", amount(kept), amount(v["key.memory"]))
	}
	heap := topics + keys + in.HistoryBytes + in.SlowTotal
	g.memory = s.add("memory of the process", v["gateway.memory"]+g.clients*v["session.memory"]+v["heap.factor"]*heap, "bytes",
		"%sB + %s × %s + %s × (%sB + %sB history + %sB slow.total)", binary(v["gateway.memory"]), amount(g.clients), amount(v["session.memory"]),
		amount(v["heap.factor"]), binary(topics+keys), binary(in.HistoryBytes), binary(in.SlowTotal))
	g.kernel = s.add("memory of the kernel", g.clients*v["kernel.memory"], "bytes", "%s × %s", amount(g.clients), amount(v["kernel.memory"]))
}
