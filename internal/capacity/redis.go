package capacity

import "math"

// Redis is plan 4: what the source has to do for the gateways.
type Redis struct {
	Ticks   float64 `json:"ticks_per_second"`
	Cores   float64 `json:"cores"`
	Shards  int     `json:"shards"` // with redis.source sharded from two on
	OutBits float64 `json:"out_bits_per_second"`
}

func perRedis(in *Inputs, v values, g *need, gateways int, s *steps) Redis {
	var r Redis
	r.Ticks = s.add("ticks published", float64(in.Topics)*in.Rate, "/s", "%s topics × %s/s", amount(float64(in.Topics)), amount(in.Rate))
	copies := s.add("copies", g.ticksIn*float64(gateways), "/s", "%s/s × %d gateways", amount(g.ticksIn), gateways)
	r.Cores = s.add("processors", (r.Ticks*v["server.publish"]+copies*v["server.gateway"])*micro, "cores", "%s/s × %s µs + %s/s × %s µs", amount(r.Ticks), amount(v["server.publish"]), amount(copies), amount(v["server.gateway"]))
	r.Shards = int(math.Ceil(s.add("shards", math.Ceil(r.Cores/in.Headroom), "", "%s cores / %s headroom, one core each", amount(r.Cores), amount(in.Headroom))))
	r.OutBits = s.add("bandwidth to gateways", copies*(float64(in.Size)+v["server.head"])*8, "bit/s", "%s/s × (%d + %s) × 8", amount(copies), in.Size, amount(v["server.head"]))
	return r
}
