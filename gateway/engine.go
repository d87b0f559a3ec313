package gateway

import (
	"net"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"go.uber.org/zap"
)

// handler takes gnet's callbacks, each on the event loop of its connection.
// gnet has no recover of its own, so each is guarded.
type handler struct {
	gnet.BuiltinEventEngine
	gateway *Gateway
}

// OnOpen binds the connection that accept enrolled to its loop.
func (h *handler) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	c := gc.Context().(*conn)
	c.gc, c.loop = gc, h.gateway.loopOf(gc.EventLoop())
	c.opened.Store(true)
	forgetAddresses(gc)
	defer c.loop.endTurn(c.loop.beginTurn())
	defer c.loop.rescue(c)
	c.loop.index.conns.add(c)
	if unsent := h.gateway.opts.Unsent; unsent > 0 {
		if err := boundUnsent(gc.Fd(), unsent); err != nil {
			h.gateway.log.Debug("socket", zap.Uint64("conn", c.id), zap.Error(err)) // gone already
		}
	}
	if c.arrival.preamble {
		c.move(phasePreamble)
	} else {
		c.move(phaseUpgrade)
	}
	return nil, gnet.None
}

// forgetAddresses empties the addresses that gnet holds as long as a connection:
// conn.remote is what counts, and 64 bytes of each connection were theirs.
func forgetAddresses(gc gnet.Conn) {
	for _, a := range []net.Addr{gc.LocalAddr(), gc.RemoteAddr()} {
		if tcp, ok := a.(*net.TCPAddr); ok {
			*tcp = net.TCPAddr{}
		}
	}
}

// OnTraffic is in 1 — bytes are there: they are peeked where gnet's loop buffer
// holds them, all are consumed, and none is kept past Discard.
func (h *handler) OnTraffic(gc gnet.Conn) gnet.Action {
	c, ok := gc.Context().(*conn)
	if !ok {
		return gnet.None
	}
	defer c.loop.endTurn(c.loop.beginTurn())
	c.loop.serve(c, (*conn).onTraffic)
	// Also after a panic: what stayed would be read again.
	_, _ = gc.Discard(-1)
	return gnet.None
}

// OnClose may run inside one of our own writes; it only takes the connection
// out of the loop's state.
func (h *handler) OnClose(gc gnet.Conn, err error) gnet.Action {
	c, ok := gc.Context().(*conn)
	if !ok {
		return gnet.None
	}
	defer c.loop.endTurn(c.loop.beginTurn())
	defer c.loop.rescue(nil)
	c.onClosed(err)
	return gnet.None
}

// engineLogger lets gnet's warnings through and keeps its chatter out.
func engineLogger(log *zap.Logger) logging.Logger {
	return log.Named("gnet").WithOptions(zap.IncreaseLevel(zap.WarnLevel)).Sugar()
}
