package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/gateway/upgrade"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

const (
	pathPush = "/ws"
	pathEcho = "/echo"
	// recordOverhead is what an envelope adds to a plaintext at most: kind and tag.
	recordOverhead = 1 + 16
)

// conn is one connection. It belongs to its loop. There are thousands, most of
// which do nothing most of the time: bytes count here.
type conn struct {
	// fixed after accept and OnOpen
	id     uint64
	gc     gnet.Conn
	loop   *loop
	opened atomic.Bool // OnOpen has run

	// owned by the loop
	phase    phase
	role     session.Role
	counted  bool           // among those of its source
	peerDone bool           // the peer has said that it is leaving
	midway   bool           // a message had begun at lastStep
	slot     uint16         // of the wheel, in which timer is
	progress uint32         // of the decoder at lastStep; while closing, bytes that were unsent
	remote   netip.AddrPort // the client's, as far as it is known
	timer    timer
	// As the client was told when it came into service; a reload does not change it.
	heartbeats *HeartbeatOptions
	began      int64 // when the phase began; this and the next three in ms of the loop's clock
	lastStep   int64 // a message got closer to its end
	lastLife   int64 // a record opened, a pong came, or a slow socket took something
	lastBeat   int64 // a heartbeat went out
	leaveAt    int64 // told goodbye then; 0: never
	arrival    *arrival
	decoder    frame.Decoder
	sess       *session.Session
	sub        *subscriber // push sessions in service
}

// arrival is what matters until the upgrade is done; nil from then on.
type arrival struct {
	preamble bool   // a PROXY protocol header comes first
	request  []byte // of the upgrade, or what comes before, while incomplete
}

// move changes the phase and sets the deadline that comes with it.
func (c *conn) move(to phase) {
	if !c.phase.mayMove(to) {
		panic(fmt.Sprintf("connection cannot move from phase %d to %d", c.phase, to))
	}
	c.phase = to
	c.began = c.loop.now
	if to == phaseOpen || to == phasePlain {
		c.heartbeats = &c.loop.settings().Heartbeat
		c.lastLife = c.began
		c.lastBeat = c.began - c.spread(c.heartbeats.Interval.Milliseconds()/2)
	}
	if to != phaseClosed {
		c.loop.wheel.set(c, c.deadline())
	}
}

// onTraffic consumes everything that gnet holds for the connection.
func (c *conn) onTraffic() {
	buf, _ := c.gc.Peek(-1)
	c.loop.stats.bytesIn.Add(uint64(len(buf)))
	if c.takesNothing() {
		c.end(wire.CloseTooSlow, "sends without reading")
	}
	for len(buf) > 0 && c.phase != phaseClosed {
		n, more := 0, true
		switch c.phase {
		case phasePreamble:
			n = c.onPreamble(buf)
		case phaseUpgrade:
			n = c.onRequest(buf)
		default:
			n, more = c.onFrames(buf)
		}
		if !more {
			return
		}
		buf = buf[n:]
	}
}

// onRequest is in 2 — the HTTP upgrade, acted on once it is complete. It returns
// how much of buf belongs to the request; what follows are frames.
func (c *conn) onRequest(buf []byte) int {
	before, all := 0, buf
	if len(c.arrival.request) > 0 {
		before, all = c.gather(buf)
	}
	req, n, err := upgrade.Parse(all)
	switch {
	case err != nil:
		var no *upgrade.Rejection // here, because it escapes
		errors.As(err, &no)
		c.reject(no)
		return len(buf)
	case n == 0:
		if before == 0 {
			c.gather(buf)
		}
		return len(buf)
	}
	c.arrival = nil
	c.accept(req)
	return n - before
}

// accept routes a valid upgrade request to its endpoint.
func (c *conn) accept(req *upgrade.Request) {
	opts := c.loop.settings()
	if opts.Proxy.trusts(c.remote.Addr()) {
		if client, ok := opts.Proxy.forwarded(req.ForwardedFor); ok && !c.identify(client) {
			return
		}
	}
	switch {
	case c.loop.gateway.life.draining.Load():
		c.reject(upgrade.Reject(http.StatusServiceUnavailable, "the gateway is restarting"))
	case !opts.allowsOrigin(req.Origin):
		c.reject(upgrade.Reject(http.StatusForbidden, "this origin is not allowed: see the setting origins"))
	case req.Path == pathPush:
		c.acceptSealed(req, session.RolePush, &opts.push)
	case req.Path == pathEcho && opts.Echo.Enabled && offersSealed(req.Protocols):
		c.acceptSealed(req, session.RoleEcho, &opts.echo)
	case req.Path == pathEcho && opts.Echo.Enabled && opts.Echo.Unencrypted:
		c.reply(upgrade.AppendAccept(nil, req.Key, ""))
		c.decoder = frame.NewDecoder(&opts.plain)
		c.move(phasePlain)
	case req.Path == pathEcho && opts.Echo.Enabled:
		c.reject(upgrade.Reject(http.StatusBadRequest, "offer a subprotocol: "+strings.Join(opts.Suites.Accepted(), ", ")))
	default:
		c.reject(upgrade.Reject(http.StatusNotFound, "there is "+pathPush+" and "+pathEcho))
	}
}

// offersSealed tells a client of ours from an ordinary WebSocket client.
func offersSealed(protocols []string) bool {
	for _, p := range protocols {
		if strings.HasPrefix(p, "sealcast.") {
			return true
		}
	}
	return false
}

func (c *conn) acceptSealed(req *upgrade.Request, role session.Role, limits *frame.Limits) {
	opts := c.loop.settings()
	suites := opts.Suites
	if role == session.RolePush && opts.Auth.Verifier != nil {
		suites.AllowPlain = false // tokens would travel in the clear
	}
	id, err := suites.Select(req.Protocols)
	if err != nil {
		c.reject(upgrade.Reject(http.StatusBadRequest, fmt.Sprintf("%v; accepted: %s", err, strings.Join(suites.Accepted(), ", "))))
		return
	}
	binding := session.Binding{Role: role, Realm: c.loop.gateway.opts.Realm, Offered: req.Protocols, Selected: id.Protocol()}
	c.sess, err = session.NewGateway(opts.Session, c.loop.ciphers, binding)
	if err != nil {
		c.loop.gateway.log.Error("session", zap.Error(err))
		c.reject(upgrade.Reject(http.StatusBadRequest, "the gateway cannot serve this offer"))
		return
	}
	c.role = role
	c.reply(upgrade.AppendAccept(nil, req.Key, id.Protocol()))
	c.decoder = frame.NewDecoder(limits)
	c.move(phaseHandshake)
}

// reply appends bytes that are no WebSocket frame to what is written this turn.
func (c *conn) reply(b []byte) { c.loop.scratch.out = append(c.loop.scratch.out, b...) }

// onFrames is in 3 — one WebSocket message or control frame from the front of
// buf, unmasked in place. It reports how much it took, and false when the rest
// is not to be read.
func (c *conn) onFrames(buf []byte) (int, bool) {
	n, ev, ok, err := c.decoder.Next(buf, c.loop.buffers)
	if c.phase == phaseClosing {
		c.peerDone = c.peerDone || ok && ev.Op == ws.OpClose
		return n, err == nil
	}
	if err != nil {
		c.failFrame(err)
		return 0, false
	}
	if ok {
		c.onEvent(ev)
	}
	return n, true
}

func (c *conn) onEvent(ev frame.Event) {
	switch {
	case ev.Op == ws.OpPing:
		if c.countPing() {
			c.sendFrame(ws.OpPong, ev.Payload)
		}
	case ev.Op == ws.OpPong:
		c.lastLife = c.loop.now
	case ev.Op == ws.OpClose:
		c.onPeerClose(ev.Payload)
	case c.phase == phasePlain:
		c.echoPlain(ev)
	case c.phase == phaseHandshake:
		c.onHandshake(ev.Payload)
	default:
		c.onRecord(ev.Payload)
	}
}

// onHandshake is in 4 — a handshake message becomes a job for a worker.
func (c *conn) onHandshake(msg []byte) {
	if !c.loop.gateway.admission.handshakes.Allow() {
		c.end(wire.CloseTryLater, "too many handshakes")
		return
	}
	job, err := c.sess.Receive(msg)
	if err != nil {
		c.fail(err)
		return
	}
	if !c.loop.gateway.workers.submit(&task{conn: c, job: job}) {
		c.end(wire.CloseTryLater, "too many handshakes")
	}
}

// finish takes a worker's result back to the connection, which may have gone
// meanwhile.
func (l *loop) finish(t *task) {
	l.serve(t.conn, func(c *conn) {
		switch {
		case t.job == nil && (c.sub == nil || c.sub.login != t.login), t.job != nil && c.phase != phaseHandshake:
		case t.panicked:
			c.end(wire.CloseInternal, "internal error")
		case t.job != nil:
			c.onHandshakeDone(t.job)
		default:
			c.onVerified(t.login)
		}
	})
}

func (c *conn) onHandshakeDone(job *session.Job) {
	reply, err := c.sess.Complete(job)
	if err != nil {
		c.fail(err)
		return
	}
	if cause := job.Refusal(); cause != nil {
		c.loop.stats.ticketsRefused.Add(1)
		c.loop.gateway.log.Debug("ticket refused", zap.Uint64("conn", c.id), zap.Error(cause))
	}
	c.sendFrame(ws.OpBinary, reply)
	if !c.sess.Established() {
		return
	}
	c.loop.stats.handshakes.done(c.sess.Suite(), c.sess.Peer().Resumed)
	if c.role == session.RoleEcho {
		c.sess.Settle()
		c.move(phaseOpen)
		return
	}
	c.move(phaseConnect)
}

// onRecord is in 4 — a record, opened in place.
func (c *conn) onRecord(msg []byte) {
	kind, plaintext, err := c.openRecord(msg)
	if err != nil {
		c.fail(err)
		return
	}
	c.loop.stats.recordsIn.Add(1)
	c.lastLife = c.loop.now
	if !c.countRecord() {
		return
	}
	switch {
	case kind == wire.KindGoodbye:
		c.end(wire.CloseNormal, "goodbye")
	case kind != wire.KindRecord: // a key update has taken effect inside the session
	case c.role == session.RoleEcho:
		c.echoSealed(plaintext)
	default:
		c.onMessage(plaintext)
	}
}

// openRecord opens a record, and now and then takes the time.
func (c *conn) openRecord(msg []byte) (wire.Kind, []byte, error) {
	if !c.loop.stats.openSampled() {
		return c.sess.Open(msg)
	}
	begin := time.Now()
	kind, plaintext, err := c.sess.Open(msg)
	c.loop.stats.times.open.observe(int64(time.Since(begin)))
	return kind, plaintext, err
}

// sendFrame appends one whole frame to what is written this turn.
func (c *conn) sendFrame(op ws.OpCode, payload []byte) {
	out := frame.AppendHeader(c.loop.scratch.out, op, len(payload))
	c.loop.scratch.out = append(out, payload...)
}

// sendRecord seals plaintext for c alone. What c was sent of its group is marked before.
func (c *conn) sendRecord(kind wire.Kind, plaintext []byte) {
	c.mark()
	c.seal(kind, plaintext)
}

// seal is out 7 — it seals plaintext straight into the loop's scratch buffer,
// behind a frame header of known size.
func (c *conn) seal(kind wire.Kind, plaintext []byte) {
	out, s := c.loop.scratch.out, c.sess
	if s.RekeyDue(c.loop.unix()) {
		out = frame.AppendHeader(out, ws.OpBinary, s.SealedSize(0))
		out = s.AppendKeyUpdate(out, c.loop.unix())
	}
	out = frame.AppendHeader(out, ws.OpBinary, s.SealedSize(len(plaintext)))
	stats := &c.loop.stats
	stats.recordsOut.Add(1)
	if !stats.sealSampled() {
		c.loop.scratch.out = s.Seal(out, kind, plaintext)
		return
	}
	begin := time.Now()
	c.loop.scratch.out = s.Seal(out, kind, plaintext)
	stats.times.seal.observe(int64(time.Since(begin)))
}

// flushOut is out 8 — everything that was appended for the connection goes out
// in one write. The write may run onClosed.
func (c *conn) flushOut() {
	l := c.loop
	if out := l.scratch.out; len(out) > 0 && c.phase != phaseClosed {
		l.stats.bytesOut.Add(uint64(len(out)))
		_, _ = c.gc.Write(out) // a failure closes the connection through OnClose
		l.scratch.out = trim(out)
	}
	switch c.phase {
	case phaseClosed:
	case phaseClosing:
		c.linger()
	default:
		c.watchProgress()
	}
}
