package gateway

import (
	"errors"
	"net"
	"net/http"
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

// Answers to newcomers over a limit.
var (
	tooMany      = upgrade.Reject(http.StatusServiceUnavailable, "too many connections", "Retry-After: 1")
	tooFast      = upgrade.Reject(http.StatusServiceUnavailable, "too many new connections", "Retry-After: 1")
	tooManyOfOne = upgrade.Reject(http.StatusServiceUnavailable, "too many connections from this address", "Retry-After: 1")
)

// admit decides about a newcomer before anything is read from it. Who comes
// through a trusted proxy is judged once the proxy has told the address.
func (g *Gateway) admit(nc net.Conn, refusing chan struct{}) {
	limits, peer := g.live.Load(), peerOf(nc.RemoteAddr())
	proxied := limits.Proxy.trusts(peer.Addr())
	switch {
	case limits.Limits.denies(peer.Addr()):
		g.stats.denied.Add(1)
		_ = nc.Close()
	case g.conns.Load() >= limits.connections:
		g.refuse(nc, refusing, tooMany)
	case !g.admission.arrivals.Allow():
		g.refuse(nc, refusing, tooFast)
	case !proxied && !g.admission.enter(sourceOf(peer.Addr()), limits.Limits.ConnectionsPerIP):
		g.refuse(nc, refusing, tooManyOfOne)
	default:
		g.enroll(nc, &conn{id: g.lastID.Add(1), remote: peer, counted: !proxied,
			arrival: &arrival{preamble: proxied && limits.Proxy.Protocol}})
	}
}

// enroll hands a connection to the event loop with the fewest.
func (g *Gateway) enroll(nc net.Conn, c *conn) {
	g.conns.Add(1)
	_, err := g.engine.EnrollContext(nc, c)
	if err != nil || !c.opened.Load() {
		g.leave(c)
		g.stats.enrollFailed.Add(1)
		g.log.Warn("connection not taken", zap.Stringer("remote", c.remote), zap.Error(err))
		return
	}
	g.stats.accepted.Add(1)
}

// leave gives back what admit has counted.
func (g *Gateway) leave(c *conn) {
	g.conns.Add(-1)
	if c.counted {
		g.admission.leave(sourceOf(c.remote.Addr()))
	}
}

// refuse tells a newcomer 503, or just closes when too many are being told.
func (g *Gateway) refuse(nc net.Conn, refusing chan struct{}, no *upgrade.Rejection) {
	g.stats.refused.Add(1)
	select {
	case refusing <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	go func() {
		defer func() { _ = nc.Close(); <-refusing }()
		sayBusy(nc, no)
	}()
}

// sayBusy answers 503 and reads for a moment what the client has sent, because
// closing with unread bytes would reset the connection and lose the answer.
func sayBusy(nc net.Conn, no *upgrade.Rejection) {
	_ = nc.SetDeadline(time.Now().Add(refusalLinger))
	if _, err := nc.Write(no.AppendResponse(nil)); err != nil {
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
