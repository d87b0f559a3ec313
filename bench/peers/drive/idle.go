package drive

import (
	"fmt"
	"time"
)

// rest is how long connections do nothing before they count as idle: until then a
// server may keep for them what it keeps for those in use. Sealcast lets go of
// expanded keys after 5 s, and has found all of them 2.5 s later.
const rest = 8 * time.Second

// idle measures memory: of a server with so many connections that do nothing,
// less what it needs without them.
func (m *meter) idle() (s Sample, err error) {
	few := 50 // what the first connections need is no cost of later ones
	begin := m.beginIdle()
	if err := m.connect(few, begin); err != nil {
		return s, err
	}
	before, err := m.server.settled(m.b.ctx)
	if err != nil {
		return s, err
	}
	if err := m.connect(few+m.work.Connections, func(i int) error {
		if i < few {
			return nil
		}
		return begin(i)
	}); err != nil {
		return s, err
	}
	time.Sleep(min(rest, time.Duration(m.work.Connections)*time.Millisecond)) // for a handful, a try, there is no point
	after, err := m.server.settled(m.b.ctx)
	if err != nil {
		return s, err
	}
	if m.err != nil {
		return s, fmt.Errorf("while idle: %w", m.err)
	}
	return Sample{RSS: after, PerSession: float64(after-before) / float64(m.work.Connections)}, nil
}

// beginIdle dials clients that subscribe, where there is something to subscribe to.
func (m *meter) beginIdle() func(i int) error {
	if m.contestant.Dialect == frames {
		return func(i int) error {
			c := &blank{}
			return c.dial(m, i, c)
		}
	}
	f := &feed{m: m}
	return func(i int) error {
		_, err := f.dial(i, nil)
		return err
	}
}
