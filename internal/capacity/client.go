package capacity

import "math"

// client is plan 1: what one client is sent, on average.
type client struct {
	ticks   float64 // a second
	batch   float64 // ticks in a record
	records float64 // a second
	payload float64 // bytes of a batch's payloads, before compression
	bytes   float64 // of a record, on its connection
	wire    float64 // bits a second, with TCP, IP and Ethernet
}

// perClient works out plan 1. A batch closes batch.max_delay after its first
// tick, or when it is full; ticks come at random times, so that one batch holds
// the first and those of the delay.
func perClient(in *Inputs, v values, s *steps) client {
	var c client
	c.ticks = s.add("ticks", float64(in.PerClient)*in.Rate, "/s", "%s topics × %s ticks/s", amount(float64(in.PerClient)), amount(in.Rate))
	tick := float64(in.Size) + v["tick.head"]
	full := max(min(batchTicks, math.Floor(batchBytes/tick)), 1)
	c.batch = s.add("ticks in a record", min(1+c.ticks*in.DelayMS/1000, full), "", "1 + %s/s × %s ms, at most %s", amount(c.ticks), amount(in.DelayMS), amount(full))
	c.records = s.add("records", c.ticks/c.batch, "/s", "%s/s / %s", amount(c.ticks), amount(c.batch))
	c.payload = c.batch * float64(in.Size)
	c.bytes = in.record(v, c.batch, s)
	segments := math.Ceil(c.bytes / v["segment.payload"])
	c.wire = s.add("bandwidth", c.records*(c.bytes+segments*v["segment.head"])*8, "bit/s", "%s/s × (%s + %s × %s) × 8", amount(c.records), amount(c.bytes), amount(segments), amount(v["segment.head"]))
	return c
}

// record is how many bytes a record with so many ticks has. A ratio of
// compression is payloads by all that is sent of their batch, and so the bytes
// beside payloads are in it already.
func (in *Inputs) record(v values, batch float64, s *steps) float64 {
	const name, unit = "bytes of a record", "bytes"
	head := v["record.head"]
	if ratio := in.ratio(v, batch); ratio > 1 {
		return s.add(name, batch*float64(in.Size)/ratio+head, unit, "%s × %d / %s + %s", amount(batch), in.Size, amount(ratio), amount(head))
	}
	return s.add(name, batch*(float64(in.Size)+v["tick.head"])+head, unit, "%s × (%d + %s) + %s", amount(batch), in.Size, amount(v["tick.head"]), amount(head))
}

// ratio is the user's, or the least that was measured with such batches.
func (in *Inputs) ratio(v values, batch float64) float64 {
	switch {
	case in.Codec == "none":
		return 1
	case in.Ratio > 0:
		return in.Ratio
	case batch >= 50:
		return v["ratio."+in.Codec+".50"]
	}
	return v["ratio."+in.Codec+".1"]
}
