package drive

import (
	"encoding/json"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sealcast/sealcast/bench/peers/servers"
	"github.com/sealcast/sealcast/internal/loadgen/measure"
)

// delayed is a feed at a rate, whose ticks carry when they were published.
type delayed struct {
	*feed
	start  int64 // of the rate
	sent   int64
	shift  int64 // from the loop's clock to the system's
	delays *hdrhistogram.Histogram
}

// delay measures an open loop: from PUBLISH until the tick is read from the
// subscriber's socket and opened, or, without subscribers, in the server itself.
func (m *meter) delay() (s Sample, err error) {
	f, err := m.newFeed()
	if err != nil {
		return s, err
	}
	d := &delayed{feed: f, delays: measure.NewHistogram(), shift: servers.Now() - m.loop.Now()}
	alone := m.contestant.Server == "redis-client"
	if !alone {
		if err := f.subscribe(d.arrived); err != nil {
			return s, err
		}
	}
	d.start = m.loop.Now()
	m.paced = d.due
	if alone {
		return d.alone()
	}
	if err := m.run(m.b.Warmup); err != nil {
		return s, err
	}
	d.delays.Reset()
	s, err = m.measured()
	s.P50, s.P99 = float64(d.delays.ValueAtQuantile(50)), float64(d.delays.ValueAtQuantile(99))
	return s, err
}

// alone has the server tell its delays itself.
func (d *delayed) alone() (s Sample, err error) {
	m := d.m
	var told servers.Delays
	for range 2 { // what the first asks for is the warm-up
		d.delays.Reset()
		for end := m.loop.Now() + int64(m.b.For); m.loop.Now() < end; {
			if err := m.turn(end); err != nil {
				return s, err
			}
		}
		body, err := get(m.b.ctx, m.server.address.String(), "/delays")
		if err != nil {
			return s, err
		}
		if err := json.Unmarshal(body, &told); err != nil || told.Ticks == 0 {
			return s, fmt.Errorf("no delays: %q", body)
		}
	}
	s.P50, s.P99, s.Rate = float64(told.P50), float64(told.P99), float64(told.Ticks)/m.b.For.Seconds()
	return s, nil
}

// due publishes what is due.
func (d *delayed) due(now int64) int64 {
	at := func(k int64) int64 { return d.start + int64(float64(k)*1e9/d.m.work.Rate) }
	if at(d.sent) > now {
		return at(d.sent)
	}
	d.to.room()
	for ; at(d.sent) <= now; d.sent++ {
		d.publish(now + d.shift)
	}
	d.to.flush()
	return at(d.sent)
}

// arrived times one delivery.
func (d *delayed) arrived(_ *subscriber, _ uint64, at int64) {
	d.m.done++
	_ = d.delays.RecordValue(max(d.m.loop.Now()+d.shift-at, 1)) // far within the range
}
