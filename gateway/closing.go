package gateway

import (
	"errors"
	"math"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/gateway/upgrade"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// Deadlines of the phases.
const (
	upgradeTimeout   = 10 * time.Second
	handshakeTimeout = 5 * time.Second
	connectTimeout   = 10 * time.Second
	progressTimeout  = 10 * time.Second // a begun message must go on
	lingerTimeout    = 5 * time.Second  // for the close code to arrive behind a backlog
	sessionTimeout   = 24 * time.Hour   // then a full handshake is due (docs/protocol.md section 4)
)

// end closes the connection in order: a sealed Goodbye where there is a session,
// the WebSocket close, then nothing more. Without effect once closing.
func (c *conn) end(code wire.CloseCode, text string) {
	switch c.phase {
	case phaseClosing, phaseClosed:
		return
	case phasePreamble, phaseUpgrade:
		c.reject(upgrade.Reject(http.StatusServiceUnavailable, text))
		return
	}
	c.loop.gateway.log.Debug("session ends", zap.Uint64("conn", c.id), zap.Stringer("code", code), zap.String("text", text))
	switch code {
	case wire.CloseUnauthenticated, wire.CloseForbidden, wire.CloseReplaced:
		c.expel()
	}
	if c.sess != nil && c.sess.Established() {
		c.sayGoodbye(code, text)
	}
	c.close(code, text, byGateway)
}

// fail closes after a handshake or record failure: one path and one code for
// all of them, and nothing but the close is sent.
func (c *conn) fail(err error) {
	code := wire.CloseBadRecord
	var e *session.Error
	if errors.As(err, &e) {
		code = e.Code
	}
	c.loop.gateway.log.Debug("session failed", zap.Uint64("conn", c.id), zap.Stringer("code", code), zap.Error(err))
	c.close(code, "", byGateway)
}

// failFrame closes after bytes that are no valid WebSocket frame; err is a *frame.Error.
func (c *conn) failFrame(err error) {
	var bad *frame.Error
	errors.As(err, &bad)
	c.end(bad.Code, bad.Reason)
}

func (c *conn) sayGoodbye(code wire.CloseCode, text string) {
	plain, err := wire.AppendGoodbye(c.loop.scratch.plain[:0], &wire.Goodbye{
		Code: uint32(code), Text: text, ReconnectAfterMs: c.reconnectAfter(code)})
	if err != nil {
		c.loop.gateway.log.Error("goodbye not encoded", zap.Error(err))
		return
	}
	c.loop.scratch.plain = plain
	c.sendRecord(wire.KindGoodbye, plain)
}

// reconnectAfter spreads the clients of a gateway that restarts, in milliseconds;
// otherwise the table of close codes holds.
func (c *conn) reconnectAfter(code wire.CloseCode) uint32 {
	if code != wire.CloseRestart || c.leaveAt == 0 {
		return 0
	}
	return uint32(c.spread(c.loop.settings().DrainWindow.Milliseconds()))
}

func (c *conn) close(code wire.CloseCode, text string, by closer) {
	c.countClose(code, by)
	c.loop.scratch.out = frame.AppendClose(c.loop.scratch.out, code, text)
	c.retire()
}

// countClose counts the end of a connection that was upgraded, and of its handshake.
func (c *conn) countClose(code wire.CloseCode, by closer) {
	c.loop.stats.closed(code, by)
	if c.phase == phaseHandshake {
		c.loop.stats.handshakes.broken(c.sess.Suite(), code, by)
	}
}

// onPeerClose answers a close frame with its own code; an empty one with an empty one.
func (c *conn) onPeerClose(payload []byte) {
	code, _, err := frame.ParseClose(payload)
	if err != nil {
		c.failFrame(err)
		return
	}
	c.peerDone = true
	c.close(code, "", byClient)
}

// reject answers an upgrade request with an HTTP error.
func (c *conn) reject(no *upgrade.Rejection) {
	c.loop.gateway.log.Debug("upgrade refused", zap.Uint64("conn", c.id), zap.Error(no))
	c.reply(no.AppendResponse(nil))
	c.arrival = nil
	c.decoder.Release(c.loop.buffers) // what still comes is no frame
	c.retire()
}

// retire takes the connection out of service; what is written stays to be read.
func (c *conn) retire() {
	c.loop.unsubscribeAll(c)
	c.move(phaseClosing)
	c.progress = math.MaxUint32 // from now on of what is unsent
}

// linger closes once the peer has said that it is leaving and everything is
// sent; before that, closing could reset the connection and lose the code. The
// deadline of the phase bounds the wait.
func (c *conn) linger() {
	if c.gc.OutboundBuffered() > 0 {
		return
	}
	if c.peerDone {
		_ = c.loop.el.Close(c.gc)
		return
	}
	shutdownWrite(c.gc.Fd()) // nothing more comes from here; the peer may know it now
}

// onClosed is the end, whoever brought it about.
func (c *conn) onClosed(err error) {
	if c.phase == phaseClosed {
		return
	}
	l := c.loop
	if c.phase > phaseUpgrade && c.phase < phaseClosing {
		c.countClose(closeLost, byClient)
	}
	l.unsubscribeAll(c)
	l.wheel.clear(c)
	c.decoder.Release(l.buffers)
	if c.sess != nil {
		c.sess.Close()
	}
	l.index.conns.remove(c)
	l.gateway.leave(c)
	l.gateway.log.Debug("connection closed", zap.Uint64("conn", c.id), zap.Error(err))
	c.move(phaseClosed)
}

// deadline is when onDeadline wants to look at the connection next.
func (c *conn) deadline() int64 {
	at := c.phaseDeadline()
	if c.leaveAt != 0 && c.phase != phaseClosing {
		at = min(at, c.leaveAt)
	}
	return at
}

func (c *conn) phaseDeadline() int64 {
	switch c.phase {
	case phasePreamble, phaseUpgrade:
		return c.began + upgradeTimeout.Milliseconds()
	case phaseHandshake:
		return c.began + handshakeTimeout.Milliseconds()
	case phaseConnect, phaseLogin:
		return c.began + connectTimeout.Milliseconds()
	case phaseClosing:
		return c.began + lingerTimeout.Milliseconds()
	}
	hb := c.heartbeats
	at := min(c.lastBeat+hb.Interval.Milliseconds(), c.lastLife+hb.Timeout.Milliseconds())
	if c.sess != nil {
		at = min(at, c.began+sessionTimeout.Milliseconds(), c.tokenDeadline())
	}
	if c.decoder.InMessage() {
		at = min(at, c.lastStep+progressTimeout.Milliseconds())
	}
	return at
}

// onDeadline does what is due in the connection's phase and sets the next deadline.
func (c *conn) onDeadline() {
	now := c.loop.now
	if now >= c.deadline() {
		c.overdue(now)
	}
	if c.phase != phaseClosed {
		c.loop.wheel.set(c, c.deadline())
	}
}

func (c *conn) overdue(now int64) {
	hb := c.heartbeats
	if c.leaveAt != 0 && now >= c.leaveAt && c.phase != phaseClosing {
		c.depart()
		return
	}
	switch c.phase {
	case phasePreamble, phaseUpgrade:
		c.reject(upgrade.Reject(http.StatusRequestTimeout, "the request did not arrive in time"))
	case phaseHandshake, phaseConnect:
		c.end(wire.CloseTooLate, "handshake not finished in time")
	case phaseLogin:
		c.countLogin(loginBusy)
		c.end(wire.CloseTryLater, "the token could not be verified in time")
	case phaseClosing:
		if !c.stillTakes() {
			_ = c.loop.el.Close(c.gc)
		}
	case phaseOpen, phasePlain:
		switch {
		case now >= c.tokenDeadline():
			c.tokenDue()
		case now >= c.lastLife+hb.Timeout.Milliseconds():
			c.end(wire.CloseHeartbeatLost, "no sign of life")
		case c.sess != nil && now >= c.began+sessionTimeout.Milliseconds():
			c.end(wire.CloseRestart, "a day has passed: connect again")
		case c.decoder.InMessage() && now >= c.lastStep+progressTimeout.Milliseconds():
			c.end(wire.ClosePolicy, "message does not go on")
		default:
			c.heartbeat()
		}
	}
}

// depart says goodbye because the gateway stops. A session that is behind gets no
// new ticks from then on, and its goodbye once it has what waits for it: this is
// called at every tick of the clock until then. slow.timeout holds as ever.
func (c *conn) depart() {
	if c.phase == phaseOpen && c.sub != nil && c.sub.slow != nil && len(c.sub.slow.queue) > 0 {
		c.loop.leave(c)
		return
	}
	c.end(wire.CloseRestart, "gateway restarts")
}

// stillTakes puts off the end of a connection that the gateway's stop closes, as
// long as its backlog shrinks. drain.timeout bounds that.
func (c *conn) stillTakes() bool {
	unsent := uint32(c.gc.OutboundBuffered())
	if c.leaveAt == 0 || unsent == 0 || unsent >= c.progress {
		return false
	}
	c.progress, c.began = unsent, c.loop.now
	return true
}

// watchProgress notes when the message being received got on, and brings the
// deadline forward when one has begun.
func (c *conn) watchProgress() {
	midway := c.decoder.InMessage()
	if p := c.decoder.Progress(); p != c.progress || midway != c.midway {
		c.progress, c.midway, c.lastStep = p, midway, c.loop.now
	}
	if at := c.lastStep + progressTimeout.Milliseconds(); midway && c.timer.at > at {
		c.loop.wheel.set(c, at)
	}
}
