package drive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/target"
	"github.com/sealcast/sealcast/session"
)

// meter is one measurement: one server, and the event loop that drives it. It
// belongs to one goroutine.
type meter struct {
	b          *bench
	work       *Work
	contestant *Contestant
	server     *process
	config     *peer.Config

	loop   *reactor.Loop
	shared *peer.Shared
	until  int64 // when the loop is wanted back
	paced  func(now int64) (next int64)

	ready int
	done  uint64 // messages that came back, or deliveries
	err   error  // the first failure
}

func newMeter(b *bench, w *Work, c *Contestant, server *process) (*meter, error) {
	backend, err := reactor.NewBackend(time.Now())
	if err != nil {
		return nil, err
	}
	m := &meter{b: b, work: w, contestant: c, server: server, loop: reactor.New(backend)}
	m.shared = peer.NewShared(max(w.Connections, 1))
	m.loop.Pace(m)
	m.config = &peer.Config{Host: server.address.String(), Path: "/ws"}
	if w.Kind == kindEcho {
		m.config.Path = "/echo"
	}
	return m, m.speak(c)
}

// speak sets how clients of a contestant talk.
func (m *meter) speak(c *Contestant) error {
	if c.Suite == "" {
		if c.Dialect == centrifuge {
			m.config.Header = "Sec-WebSocket-Protocol: centrifuge-protobuf\r\n"
		}
		return nil
	}
	id, ok := suite.ByName(c.Suite)
	if !ok {
		return fmt.Errorf("there is no suite %q", c.Suite)
	}
	m.config.Suite, m.config.Role, m.config.Realm = id, session.RolePush, "default"
	if m.work.Kind == kindEcho {
		m.config.Role = session.RoleEcho
	}
	m.config.Session = &session.ClientConfig{Insecure: true, PostQuantum: session.PostQuantumOff}
	return nil
}

// close resets all connections.
func (m *meter) close() {
	go m.loop.Run()
	_ = m.loop.Stop() // what it says has nothing to do with what was measured
}

// Due implements reactor.Pacer.
func (m *meter) Due(now int64) int64 {
	m.shared.Advance(now / int64(time.Second))
	next := m.until
	if m.paced != nil {
		next = min(next, m.paced(now))
	}
	return max(next, now)
}

func (m *meter) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// turn makes one turn of the loop, which waits until then at most.
func (m *meter) turn(until int64) error {
	m.until = until
	return errors.Join(m.loop.Turn(), m.err, m.b.ctx.Err())
}

// run turns the loop for a while.
func (m *meter) run(d time.Duration) error {
	for end := m.loop.Now() + int64(d); m.loop.Now() < end; {
		if err := m.turn(end); err != nil {
			return err
		}
	}
	return nil
}

// use is what has been used up to a moment.
type use struct {
	at             int64
	done           uint64
	server, driver time.Duration
}

func (m *meter) use() (u use, err error) {
	u.at, u.done, u.driver = m.loop.Now(), m.done, measure.ProcessCPU()
	u.server, err = cpuTime(m.server.pid)
	return u, err
}

// measured is what comes of the load that runs already, warmed up.
func (m *meter) measured() (s Sample, err error) {
	profiled := m.profile()
	first, err := m.use()
	if err != nil {
		return s, err
	}
	if err := m.run(m.b.For); err != nil {
		return s, err
	}
	last, err := m.use()
	if err != nil {
		return s, err
	}
	if last.done == first.done {
		return s, fmt.Errorf("nothing has come within %v", m.b.For)
	}
	n, seconds := float64(last.done-first.done), float64(last.at-first.at)/1e9
	return Sample{
		ServerNS: float64(last.server-first.server) / n, DriverNS: float64(last.driver-first.driver) / n,
		ServerCores: (last.server - first.server).Seconds() / seconds, DriverCores: (last.driver - first.driver).Seconds() / seconds,
		Rate: n / seconds, RSS: target.MemoryOf(m.server.pid),
	}, <-profiled
}

// profile takes a profile of the server's processor over the measured part, if asked for.
func (m *meter) profile() <-chan error {
	done := make(chan error, 1)
	if m.b.Profiles == "" {
		done <- nil
		return done
	}
	go func() {
		body, err := m.server.get(m.b.ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(int(m.b.For/time.Second), 1)))
		if err == nil {
			err = os.WriteFile(filepath.Join(m.b.Profiles, m.work.Name+"-"+fileName(m.contestant.Name)+".pprof"), body, 0o644)
		}
		done <- err
	}()
	return done
}
