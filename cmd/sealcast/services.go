package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/admin"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/internal/embedded"
)

// phase is how far the services are; they only move forwards.
type phase int32

const (
	starting phase = iota
	serving
	draining
)

// services is everything that runs while the gateway serves. start and stop
// belong to one goroutine; what is nil has not been started.
type services struct {
	log  *logger
	load func() (*config.Loaded, error) // reads all settings again

	// set by start
	hardware suite.Hardware
	listener net.Listener
	admin    *admin.Server
	redis    *embedded.Redis
	hub      *fanout.Hub
	gateway  *gateway.Gateway
	audit    *auditLog
	follower keyFollower // also by run

	// any goroutine
	live    atomic.Pointer[inForce] // its keys are nil until start has read them
	phase   atomic.Int32
	failed  chan error    // the first part that failed
	reloads chan struct{} // holds a value when reload is wanted

	background       context.Context // of hub and feed, which outlive the gateway's drain
	cancelBackground context.CancelFunc
	running          sync.WaitGroup // hub and feed
}

func newServices(cfg *config.Config, log *logger, load func() (*config.Loaded, error)) *services {
	s := &services{log: log, load: load, failed: make(chan error, 1), reloads: make(chan struct{}, 1)}
	s.live.Store(&inForce{cfg: cfg})
	s.background, s.cancelBackground = context.WithCancel(context.Background())
	return s
}

// start brings everything up, what may fail by a user's mistake first. After
// an error the caller still calls stop.
func (s *services) start() error {
	for _, step := range []func() error{
		s.loadKeys, s.listen, s.listenAdmin, s.startSource, s.startGateway,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	s.phase.Store(int32(serving))
	return nil
}

// settings are those in force.
func (s *services) settings() *config.Config { return s.live.Load().cfg }

func (s *services) loadKeys() error {
	first, err := newInForce(s.settings(), nil)
	if err == nil {
		s.live.Store(first)
	}
	return err
}

func (s *services) listen() (err error) {
	address, socket := s.settings().Listen, &s.settings().Socket
	if s.listener, err = gateway.Listen(address, gateway.SocketOptions{SendBuffer: socket.SendBuffer, ReusePort: socket.ReusePort}); err != nil {
		return listenFailure("listen", address, err)
	}
	return nil
}

// listenAdmin also serves from here on, so that a probe sees the start.
func (s *services) listenAdmin() (err error) {
	s.hardware = suite.Detect()
	address := s.settings().Admin.Listen
	if s.admin, err = admin.Listen(address, s.adminOptions()); err != nil {
		return listenFailure("admin.listen", address, err)
	}
	go s.watch(s.admin.Serve)
	return nil
}

// listenFailure words why an address cannot be had, and what to do.
func listenFailure(key, address string, err error) error {
	text, hint := err.Error(), "name an address of this machine with --set "+key+"=HOST:PORT"
	if op, ok := errors.AsType[*net.OpError](err); ok {
		text = op.Err.Error() // without the address, which is named already
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text = errno.Error()
		switch errno {
		case syscall.EADDRINUSE:
			hint = "stop the program that listens there, or choose another port with --set " + key + "=HOST:PORT"
		case syscall.EACCES:
			hint = "ports below 1024 need privileges; choose another with --set " + key + "=HOST:PORT"
		}
	}
	return advice.Failed(fmt.Errorf("%s %s: %s", key, address, text), hint)
}

// startSource starts the hub, and before it the embedded Redis if that is wanted.
func (s *services) startSource() error {
	if s.settings().Redis.Mode == config.RedisEmbedded {
		if err := s.startEmbedded(); err != nil {
			return err
		}
	}
	s.hub = fanout.NewHub(s.hubOptions())
	s.running.Go(func() { s.watch(func() error { return s.hub.Run(s.background) }) })
	return nil
}

const (
	// embeddedAddress is tried first, so that the address is usually the same.
	embeddedAddress = "127.0.0.1:16379"
	// demoRate is how many ticks of the demo feed there are in a second: enough
	// to see prices move, few enough to read along.
	demoRate  = 50
	demoPause = time.Second // after a failure
)

func (s *services) startEmbedded() (err error) {
	if s.redis, err = embedded.Start(embeddedAddress); err != nil {
		s.redis, err = embedded.Start("127.0.0.1:0")
	}
	if err != nil {
		return fmt.Errorf("embedded Redis: %w", err)
	}
	s.log.Info("embedded Redis with a demo feed", zap.String("redis", s.redis.Addr()))
	s.running.Go(s.feedDemo)
	return nil
}

// feedDemo keeps the demo feed going. A built-in Redis that is too busy for a
// while is no reason to end the gateway.
func (s *services) feedDemo() {
	for s.background.Err() == nil {
		seed := uint64(time.Now().UnixNano())
		if err := embedded.Feed(s.background, s.redis.Addr(), demoRate, seed); err != nil {
			s.log.Warn("the demo feed stumbled and begins anew", zap.Error(err), zap.Duration("in", demoPause))
			select {
			case <-s.background.Done():
			case <-time.After(demoPause):
			}
		}
	}
}

func (s *services) startGateway() (err error) {
	f := s.live.Load()
	if s.audit, err = newAuditLog(f.cfg.Audit, s.log); err != nil {
		return err
	}
	control := fanout.NewControl(s.redisOptions(), f.cfg.Realm, s.log.Logger)
	options := s.gatewayOptions(f)
	options.Audit, options.AuditLost, options.Control = s.audit.Logger, s.audit.lost.Load, control
	if s.gateway, err = gateway.New(options); err != nil {
		return err
	}
	s.running.Go(func() { control.Run(s.background, s.gateway) })
	s.followKeys()
	s.warnNoTokens(f)
	s.warnTemporaryKey(f)
	s.log.Info("gateway", zap.String("version", options.Version), zap.Stringer("public_key", f.key.Public()),
		zap.Strings("suites", f.suiteNames()), zap.String("realm", f.cfg.Realm), zap.Stringer("hardware", s.hardware))
	if cpuinfo, err := os.ReadFile("/proc/cpuinfo"); err == nil && s.hardware.Hidden(cpuinfo) { // Linux only
		s.log.Warn("this CPU has AES instructions, but they are hidden from this process: look at the virtual machine's CPU model and at GODEBUG")
	}
	go s.watch(func() error { return s.gateway.Serve(s.listener) })
	return nil
}

func (s *services) warnTemporaryKey(f *inForce) {
	if f.cfg.KeyFile == "" {
		s.log.Warn("temporary key: it is gone when the gateway stops, and pins of it with it; set key_file to keep one")
	}
}

// watch runs one part; its failure ends the services.
func (s *services) watch(part func() error) {
	err := part()
	if err == nil || phase(s.phase.Load()) == draining {
		return
	}
	select {
	case s.failed <- err:
	default: // another part failed first
	}
}

// stopReserve is kept of drain.timeout for what comes after the sessions.
const stopReserve = 500 * time.Millisecond

// stop drains the sessions and ends every part, the admin interface last.
func (s *services) stop() {
	s.phase.Store(int32(draining))
	timeout := s.settings().Drain.Timeout
	ctx, cancel := context.WithTimeout(context.Background(), timeout-min(stopReserve, timeout/10))
	defer cancel()
	if s.gateway != nil {
		s.note("gateway", s.gateway.Shutdown(ctx))
	}
	if s.listener != nil {
		_ = s.listener.Close() // closed already if the gateway had it
	}
	s.cancelBackground()
	s.running.Wait()
	if s.redis != nil {
		s.redis.Close()
	}
	if s.admin != nil {
		s.note("admin", s.admin.Shutdown(ctx))
	}
	if s.audit != nil {
		s.audit.close()
	}
	if key := s.live.Load().key; key != nil && s.gateway == nil {
		key.Clear() // else a late handshake may still read it
	}
}

func (s *services) note(part string, err error) {
	if err != nil {
		s.log.Warn("not stopped cleanly", zap.String("part", part), zap.Error(err))
	}
}

// notReady says why clients should not be sent here. Any goroutine may call it.
func (s *services) notReady() []string {
	switch phase(s.phase.Load()) {
	case starting:
		return []string{"starting"}
	case draining:
		return []string{"draining"}
	}
	var reasons []string
	if err := s.hub.Ready(); err != nil {
		reasons = append(reasons, err.Error())
	}
	if v := s.live.Load().verifier; v != nil && v.Remote() != nil {
		if err := v.Remote().Ready(); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	return reasons
}

// Intervals of looking whether the gateway is ready.
const (
	readyPollAtStart = 10 * time.Millisecond
	readyPoll        = 250 * time.Millisecond
	readyPatience    = time.Second // before it is worth a line in the log
)

// watchReady logs "ready" once it is so for the first time, and each change after that.
func (s *services) watchReady(ctx context.Context) {
	began, was, first := time.Now(), true, true
	for ctx.Err() == nil {
		reasons := s.notReady()
		is := len(reasons) == 0
		switch {
		case is && first:
			s.log.Info("ready", zap.Stringer("listen", s.listener.Addr()), zap.Stringer("admin", s.admin.Addr()))
			first, was = false, true
		case is && !was:
			s.log.Info("ready again")
			was = true
		case !is && was && (!first || time.Since(began) > readyPatience):
			s.log.Warn("not ready", zap.Strings("reasons", reasons))
			was = false
		}
		wait := readyPoll
		if first {
			wait = readyPollAtStart
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}
