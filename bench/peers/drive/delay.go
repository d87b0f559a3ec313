package drive

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sealcast/sealcast/bench/peers/servers"
	"github.com/sealcast/sealcast/internal/loadgen/measure"
)

// One subscriber in probeEvery reads what comes at once, and is timed. The
// others read every restEvery: reading all of them at once would keep the
// generator so busy that it is what would be timed.
const (
	probeEvery = 10
	restEvery  = int64(5 * time.Millisecond)
)

// delayed is a feed at a rate, whose ticks carry when they were published.
type delayed struct {
	*feed
	start  int64 // of the rate
	sent   int64
	shift  int64 // from the loop's clock to the system's
	delays *hdrhistogram.Histogram

	rest    []*subscriber // who are not timed
	resumed int64         // when they read last
	reading bool          // they do in this turn
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
		if err := d.subscribe(); err != nil {
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

// subscribe connects all subscribers, timed and others.
func (d *delayed) subscribe() error {
	n := 0
	return d.m.connect(d.m.work.Connections, func(i int) error {
		n++
		if n%probeEvery == 0 {
			_, err := d.dial(i, d.arrived)
			return err
		}
		s, err := d.dial(i, d.untimed)
		d.rest = append(d.rest, s)
		return err
	})
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

// due publishes what is due, and has the untimed read now and then, for one turn.
func (d *delayed) due(now int64) int64 {
	if d.reading || now-d.resumed >= restEvery {
		d.reading = !d.reading
		d.resumed = now
		for _, s := range d.rest {
			s.conn.Pause(!d.reading)
		}
	}
	return min(d.publishDue(now), d.resumed+restEvery)
}

func (d *delayed) publishDue(now int64) int64 {
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

func (d *delayed) untimed(*subscriber, uint64, int64) { d.m.done++ }

// arrived times one delivery.
func (d *delayed) arrived(_ *subscriber, _ uint64, at int64) {
	d.m.done++
	_ = d.delays.RecordValue(max(d.m.loop.Now()+d.shift-at, 1)) // far within the range
}
