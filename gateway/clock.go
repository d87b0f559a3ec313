package gateway

import "time"

const (
	// coarseTick is the resolution of deadlines: fine against limits of seconds,
	// and five wake-ups a second cost an idle loop nothing to speak of.
	coarseTick = 200 * time.Millisecond
	// watchTick is how often the watchdog looks at the loops. With fastTick all the
	// time, a gateway without a single client used 2.8 % of a core.
	watchTick = 50 * time.Millisecond
	// fastTick is how often slow sessions are looked at, because gnet has no
	// callback for a drained buffer.
	fastTick = 5 * time.Millisecond
	// deadAfter is how long a loop may be silent before it counts as dead. It answers
	// five times a second.
	deadAfter = 30 * time.Second
)

// clock wakes each loop for its timers, every coarseTick, and every fastTick while
// it has slow sessions; and it looks after loops that do not come back.
func (g *Gateway) clock() {
	ticker, period := time.NewTicker(watchTick), watchTick
	defer ticker.Stop()
	dog, due := newWatchdog(g.log), time.Now()
	for {
		select {
		case <-g.life.stop:
			return
		case <-g.hurry:
		case <-ticker.C:
		}
		now := time.Now()
		coarse := !now.Before(due)
		if coarse {
			due = later(due.Add(coarseTick), now)
		}
		wanted := watchTick
		for _, l := range *g.loops.Load() {
			slow := l.hasSlow.Load()
			if slow {
				wanted = fastTick
			}
			if coarse || slow {
				l.mail.tick()
			}
			dog.look(l, now)
			if coarse && now.Sub(l.started)-time.Duration(l.lastTurn.Load()) > deadAfter {
				g.fail(ErrStopped)
			}
		}
		if wanted != period {
			period = wanted
			ticker.Reset(period)
		}
	}
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// hasten has the clock look at slow sessions soon. It is safe for concurrent use.
func (g *Gateway) hasten() {
	select {
	case g.hurry <- struct{}{}:
	default: // it is about to look
	}
}
