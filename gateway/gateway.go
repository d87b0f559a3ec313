// Package gateway serves WebSocket clients from event loops: it accepts,
// upgrades, frames, drives each connection's session, keeps the index of
// subscriptions, delivers ticks, echoes, and closes. It never talks to Redis and
// never does key agreement on a loop.
//
// The two flows, step by step (docs/architecture.md has the same list):
//
//	out 4  cohort.go   ticks collect once per cohort of like sessions
//	out 5  batch.go    a batch is encoded once for all sessions of a cohort
//	out 6  compress.go compressed once per cohort, if the clients want it
//	out 7  deliver.go  sealed once per session into the loop's scratch buffer
//	out 8  deliver.go  one write per session and flush
//
//	in 1   engine.go   bytes are peeked, and none is kept past Discard
//	in 2   conn.go     the upgrade request (package gateway/upgrade)
//	in 3   conn.go     WebSocket frames (package gateway/frame)
//	in 4   conn.go     handshake step, or record opened in place
//	in 5   handler.go  plaintext to message
//	in 6   login.go    connect, refresh
//	       handler.go  subscribe, unsubscribe, ping; echo.go the echo
package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"
)

// ErrStopped is returned by Serve when an event loop has ended, or hangs, although
// nobody had asked for it. The process has to end: half a gateway is none.
var ErrStopped = errors.New("an event loop does not run any more")

// stopTimeout bounds the wait for loops to end after the last connection has gone.
const stopTimeout = 10 * time.Second

// Gateway is the server. Its methods are safe for concurrent use.
type Gateway struct {
	// fixed after New
	opts      Options // without Settings, which are in live
	log       *zap.Logger
	workers   *workers
	admission *admission
	access    *access
	engine    *gnet.Client
	hurry     chan struct{} // to the clock: a loop has slow sessions now

	// any goroutine
	live   atomic.Pointer[live]
	loops  atomic.Pointer[map[gnet.EventLoop]*loop] // learnt from the first connection of each; copied on change
	lastID atomic.Uint64
	// lastGroup is the id of the latest group; ids are never used again.
	lastGroup atomic.Uint64
	conns     atomic.Int64
	stats     counters
	life      lifecycle
}

// lifecycle is the way from New to the end of Shutdown.
type lifecycle struct {
	draining  atomic.Bool
	failure   chan error    // what Serve returns, if a loop has failed
	stop      chan struct{} // closed when the loops are about to end
	accepting sync.WaitGroup
	ticking   sync.WaitGroup // the clock
	once      sync.Once
	err       error // of once

	mu sync.Mutex
	ln net.Listener
}

// New makes a gateway and starts its event loops and handshake workers; Serve
// lets clients in, Shutdown ends everything.
func New(opts Options) (*Gateway, error) {
	g := &Gateway{
		opts:      opts,
		log:       opts.Log,
		admission: newAdmission(),
		access:    newAccess(),
		hurry:     make(chan struct{}, 1),
	}
	if g.opts.Audit == nil {
		g.opts.Audit = zap.NewNop()
	}
	g.life.stop, g.life.failure = make(chan struct{}), make(chan error, 1)
	g.loops.Store(&map[gnet.EventLoop]*loop{})
	g.Reload(opts.Settings)
	g.workers = newWorkers(g.log)
	engine, err := gnet.NewClient(&handler{gateway: g},
		gnet.WithMulticore(opts.Loops == 0),
		gnet.WithNumEventLoop(opts.Loops),
		gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithLogger(engineLogger(g.log)))
	if err != nil {
		return nil, fmt.Errorf("event loops: %w", err)
	}
	g.engine = engine
	if err := engine.Start(); err != nil {
		return nil, fmt.Errorf("event loops: %w", err)
	}
	g.life.ticking.Go(g.clock)
	return g, nil
}

// Serve accepts from ln until Shutdown, which makes it return nil, or until a loop
// fails, with ErrStopped. It owns ln.
func (g *Gateway) Serve(ln net.Listener) error {
	g.life.mu.Lock()
	if g.life.draining.Load() {
		g.life.mu.Unlock()
		return ln.Close()
	}
	g.life.ln = ln
	g.life.accepting.Add(1)
	g.life.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer g.life.accepting.Done()
		g.accept(ln)
		close(closed)
	}()
	select { // enrolling with a loop that hangs would never return
	case <-closed:
		return nil
	case err := <-g.life.failure:
		_ = ln.Close()
		return err
	}
}

// Shutdown takes no more connections, says goodbye to every session and waits
// until they are gone or ctx ends; then it stops the loops. Later calls wait for
// the first and return what it returned.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.life.once.Do(func() { g.life.err = g.shutdown(ctx) })
	return g.life.err
}

func (g *Gateway) shutdown(ctx context.Context) error {
	g.stopAccepting(ctx)
	for _, l := range *g.loops.Load() {
		l.call(func() { l.drain() })
	}
	g.awaitDrained(ctx)
	close(g.life.stop)
	g.life.ticking.Wait()
	for _, l := range *g.loops.Load() {
		l.mail.close()
	}
	return g.stopLoops()
}

// stopAccepting closes the listener. If another process has the address too,
// nobody is to be turned away: who is on the way in here still comes in.
func (g *Gateway) stopAccepting(ctx context.Context) {
	g.life.mu.Lock()
	ln := g.life.ln
	if ln == nil || !isShared(ln) {
		g.life.draining.Store(true)
	}
	g.life.mu.Unlock()
	if ln == nil {
		return
	}
	_ = ln.Close()
	if g.life.draining.Load() {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(takeOverTime):
	}
	g.life.draining.Store(true)
}

// stopLoops waits for the loops to end, but not for ever for one that hangs.
func (g *Gateway) stopLoops() error {
	ended := make(chan error, 1)
	go func() {
		g.life.accepting.Wait() // enrolling needs running loops
		err := g.engine.Stop()
		g.workers.close() // nobody is left who could submit
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(stopTimeout):
		return ErrStopped
	}
}

// Draining tells whether Shutdown has begun.
func (g *Gateway) Draining() bool { return g.life.draining.Load() }

func (g *Gateway) awaitDrained(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for g.conns.Load() > 0 {
		select {
		case <-ctx.Done():
			g.log.Warn("drain timeout: closing what is left", zap.Int64("connections", g.conns.Load()))
			return
		case <-tick.C:
		}
	}
}

// loopOf returns the state that belongs to an event loop, made on first sight.
func (g *Gateway) loopOf(el gnet.EventLoop) *loop {
	if l, ok := (*g.loops.Load())[el]; ok {
		return l
	}
	g.life.mu.Lock()
	defer g.life.mu.Unlock()
	l := newLoop(g, el)
	l.id = g.opts.Hub.Attach(l)
	known := maps.Clone(*g.loops.Load())
	known[el] = l
	g.loops.Store(&known)
	return l
}

// loopCount is how many event loops there are, or will be.
func (g *Gateway) loopCount() int {
	if g.opts.Loops > 0 {
		return g.opts.Loops
	}
	return runtime.NumCPU()
}

// fail makes Serve return err; the first one counts.
func (g *Gateway) fail(err error) {
	select {
	case g.life.failure <- err:
	default:
	}
}
