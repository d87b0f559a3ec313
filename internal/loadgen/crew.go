package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
)

// crew is all clients of a case, on their event loops.
type crew struct {
	stations []*station
	want     int          // connections that are to be made
	ready    atomic.Int64 // made so far
	failed   atomic.Int64 // that could not be made
	lost     atomic.Int64 // ready ones that have ended, unasked
}

// station is one event loop with its clients. All but loop is touched on the loop alone.
type station struct {
	crew   *crew
	loop   *reactor.Loop
	shared *peer.Shared
	rec    *measure.Recorder // nil: nothing is measured yet
	beside *measure.Recorder // of what flows beside the measured; nil: nothing does

	waiting    []func(*station) (*reactor.Conn, error) // clients to connect
	connecting int
	most       int // that connect at the same time
	pacers     []reactor.Pacer

	errors   map[peer.Kind]uint64
	firstErr error // of a client that could not connect
}

// newCrew starts event loops for so many clients.
func newCrew(env *Env, clients int) (*crew, error) {
	loops := max(env.Loops, 1)
	start := time.Now()
	c := &crew{}
	for range loops {
		backend, err := newBackend(start, env.Gateways[0].TLS)
		if err != nil {
			c.stop()
			return nil, err
		}
		c.add(reactor.New(backend), clients/loops+1, max(env.Connecting/loops, 1))
	}
	for _, s := range c.stations {
		go s.loop.Run()
	}
	return c, nil
}

// handshakeTimeout is for TLS, on a connection that is there.
const handshakeTimeout = time.Minute

// newBackend is the fastest for connections without TLS. With it there are
// goroutines: the standard library's TLS waits for its socket.
func newBackend(start time.Time, config *tls.Config) (reactor.Backend, error) {
	if config == nil {
		return reactor.NewBackend(start)
	}
	return reactor.NewGoroutines(start, func(conn net.Conn) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		defer cancel()
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		return secured, nil
	}), nil
}

// add adds a loop that does not run yet.
func (c *crew) add(l *reactor.Loop, clients, connecting int) *station {
	s := &station{crew: c, loop: l, shared: peer.NewShared(clients), most: connecting, errors: map[peer.Kind]uint64{}}
	c.stations = append(c.stations, s)
	l.Pace(s)
	return s
}

// stop ends the loops; connections that are still there are reset.
func (c *crew) stop() {
	for _, s := range c.stations {
		_ = s.loop.Stop() // a failure has shown in what was counted
	}
}

// each runs f on every loop, one after the other, and waits for it.
func (c *crew) each(f func(*station)) {
	for _, s := range c.stations {
		s.loop.Do(func() { f(s) })
	}
}

// Due implements reactor.Pacer: turn 1 of a loop.
func (s *station) Due(now int64) int64 {
	s.shared.Advance(now / int64(time.Second))
	s.connect()
	next := now + int64(time.Second)
	for _, p := range s.pacers {
		next = min(next, p.Due(now))
	}
	return next
}

// connect is run 1: it keeps a bounded number of connections in the making, so
// that neither the listener's queue nor the gateway's workers overflow.
func (s *station) connect() {
	for s.connecting < s.most && len(s.waiting) > 0 {
		begin := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.connecting++
		if _, err := begin(s); err != nil {
			s.refused(&peer.Error{Kind: peer.KindConnect, Err: err})
		}
	}
}

// arrived notes a client that is ready.
func (s *station) arrived() {
	s.connecting--
	s.crew.ready.Add(1)
}

// refused notes a client that could not connect.
func (s *station) refused(err error) {
	s.connecting--
	s.crew.failed.Add(1)
	s.count(err)
	if s.firstErr == nil {
		s.firstErr = err
	}
}

// dropped notes the end of a client that was ready.
func (s *station) dropped(err error) {
	s.crew.lost.Add(1)
	s.count(err)
	if s.rec != nil {
		s.rec.Disconnects++
	}
}

func (s *station) count(err error) {
	kind := peer.KindLost
	var known *peer.Error
	if errors.As(err, &known) {
		kind = known.Kind
	}
	s.errors[kind]++
}

// errorsByKind adds the stations' errors up.
func (c *crew) errorsByKind() map[string]uint64 {
	byKind := map[string]uint64{}
	c.each(func(s *station) {
		for kind, n := range s.errors {
			byKind[string(kind)] += n
		}
	})
	return byKind
}

// enlist has clients connected: begin is called for each on its loop.
func (c *crew) enlist(n int, begin func(i int) func(*station) (*reactor.Conn, error)) {
	c.want += n
	share := make([][]func(*station) (*reactor.Conn, error), len(c.stations))
	for i := range n {
		k := i % len(share)
		share[k] = append(share[k], begin(i))
	}
	for k, s := range c.stations {
		s.loop.Call(func() { s.waiting = append(s.waiting, share[k]...) })
	}
}

// ErrNobody says that not a single client could connect.
var ErrNobody = errors.New("no connection could be made")

// await waits until all that were enlisted are ready or have failed. It fails
// when none is ready, with the first cause.
func (c *crew) await(ctx context.Context, env *Env, what string, patience time.Duration) (took time.Duration, err error) {
	begun := time.Now()
	for int(c.ready.Load()+c.failed.Load()) < c.want {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
		if patience > 0 && time.Since(begun) > patience {
			break
		}
		env.show(what, float64(c.ready.Load()+c.failed.Load())/float64(c.want))
	}
	took = time.Since(begun)
	if c.ready.Load() > 0 {
		return took, nil
	}
	err = fmt.Errorf("no answer within %v", patience)
	c.each(func(s *station) {
		if s.firstErr != nil {
			err = s.firstErr
		}
	})
	return took, fmt.Errorf("%w: %w", ErrNobody, err)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LoopbackSources are addresses of this machine for so many connections; those
// of the k-th generator process are its own. With few connections none is needed.
func LoopbackSources(process, connections int) []netip.Addr {
	if process == 0 && connections <= MaxPerSource {
		return nil
	}
	n := (connections + MaxPerSource - 1) / MaxPerSource
	var all []netip.Addr
	for i := range max(n, 1) {
		all = append(all, netip.AddrFrom4([4]byte{127, 0, byte(process), byte(i + 2)}))
	}
	return all
}

// source is the address that the i-th connection comes from.
func (e *Env) source(i int) netip.Addr {
	if len(e.Sources) == 0 {
		return netip.Addr{}
	}
	return e.Sources[i%len(e.Sources)]
}

// LimitError says that this system does not allow as many connections as are wanted.
type LimitError struct {
	What       string
	Want, Have int
	Hint       string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d are needed, there are %d", e.What, e.Want, e.Have)
}

// descriptorReserve is what a process needs besides its connections.
const descriptorReserve = 64

// checkRoom makes sure that a process can have so many connections, before it tries.
func checkRoom(n, descriptors int, sources []netip.Addr) error {
	if n+descriptorReserve > descriptors {
		return &LimitError{"descriptors of one generator process", n + descriptorReserve, descriptors,
			fmt.Sprintf("raise the limit with \"ulimit -n %d\", or spread the connections over more processes with --processes %d",
				n+descriptorReserve, (n+descriptorReserve)/max(descriptors-descriptorReserve, 1)+1)}
	}
	if ports := 28_000 * max(len(sources), 1); n > ports {
		return &LimitError{"local ports", n, ports,
			"connect from more addresses with --sources, or widen net.ipv4.ip_local_port_range"}
	}
	return nil
}
