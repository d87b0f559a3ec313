package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway/upgrade"
)

const (
	// descriptorReserve is kept free of client connections: listeners, Redis,
	// the admin interface, and the second descriptor that Enroll needs for a moment.
	descriptorReserve = 64
	// refusals bounds the newcomers that are being told 503 at a time.
	refusals      = 16
	refusalLinger = 200 * time.Millisecond
	maxBackOff    = 100 * time.Millisecond
)

// accept takes connections and enrols them with an event loop. gnet's own
// accepting ends the whole engine when descriptors run out; this one waits.
func (g *Gateway) accept(ln net.Listener) {
	refusing := make(chan struct{}, refusals)
	backOff := time.Duration(0)
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return // Shutdown, or a failure, closed it
		}
		if err != nil {
			backOff = min(2*backOff+time.Millisecond, maxBackOff)
			g.log.Warn("accept failed", zap.Error(err), zap.Duration("retry_in", backOff))
			time.Sleep(backOff)
			continue
		}
		backOff = 0
		g.admit(nc, refusing)
	}
}

// admit decides about a newcomer before anything is read from it.
func (g *Gateway) admit(nc net.Conn, refusing chan struct{}) {
	limits, source := g.live.Load(), sourceOf(nc.RemoteAddr())
	switch {
	case limits.Limits.denies(nc.RemoteAddr()):
		g.stats.denied.Add(1)
		_ = nc.Close()
	case g.conns.Load() >= limits.connections:
		g.refuse(nc, refusing, "too many connections")
	case !g.admission.enter(source, limits.Limits.ConnectionsPerIP):
		g.refuse(nc, refusing, "too many connections from this address")
	default:
		g.enroll(nc, source)
	}
}

// enroll hands a connection to the event loop with the fewest.
func (g *Gateway) enroll(nc net.Conn, source netip.Addr) {
	c := &conn{id: g.lastID.Add(1), source: source}
	g.conns.Add(1)
	_, err := g.engine.EnrollContext(nc, c)
	if err != nil || !c.opened.Load() {
		g.conns.Add(-1)
		g.admission.leave(source)
		g.stats.enrollFailed.Add(1)
		g.log.Warn("connection not taken", zap.Stringer("remote", nc.RemoteAddr()), zap.Error(err))
		return
	}
	g.stats.accepted.Add(1)
}

// refuse tells a newcomer 503, or just closes when too many are being told.
func (g *Gateway) refuse(nc net.Conn, refusing chan struct{}, why string) {
	g.stats.refused.Add(1)
	select {
	case refusing <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	go func() {
		defer func() { _ = nc.Close(); <-refusing }()
		sayBusy(nc, why)
	}()
}

// sayBusy answers 503 and reads for a moment what the client has sent, because
// closing with unread bytes would reset the connection and lose the answer.
func sayBusy(nc net.Conn, why string) {
	_ = nc.SetDeadline(time.Now().Add(refusalLinger))
	if _, err := nc.Write(upgrade.Reject(http.StatusServiceUnavailable, why, "Retry-After: 1").AppendResponse(nil)); err != nil {
		return
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	var sink [2048]byte
	for {
		if _, err := nc.Read(sink[:]); err != nil {
			return
		}
	}
}
