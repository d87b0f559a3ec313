package loadgen

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/loadgen/message"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/report"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// The ways to drive an echo.
const (
	LoadSingle   = "single"   // one connection, closed loop
	LoadRate     = "rate"     // open loop: messages leave at their times
	LoadSaturate = "saturate" // many connections, closed loop
	LoadRise     = "rise"     // saturate with ever more connections
)

// WebSocket is the suite of an ordinary WebSocket client, without Sealcast's protocol.
const WebSocket = "websocket"

// Echo is one case of the echo.
type Echo struct {
	Of     report.Case
	Rate   float64 // messages a second over all connections; 0: closed loop
	Window int     // messages under way on one connection; 0: a default
}

// unansweredFor is how much of a rate may be under way on one connection. A
// client that sent on for longer would fill a stalled gateway's sockets and
// never learn of the stall; this one holds its messages back, and they count as late.
const unansweredFor = 0.25 // seconds

func (e *Echo) window() int {
	switch {
	case e.Window > 0:
		return e.Window
	case e.Rate > 0:
		return max(int(math.Ceil(e.Rate/float64(e.Of.Connections)*unansweredFor)), 1)
	}
	return 1
}

// config is how the clients of the case connect.
func (e *Echo) config(env *Env, gw *Gateway) (*peer.Config, error) {
	cfg := &peer.Config{Host: gw.Host, Path: gw.Prefix + "/echo", Header: env.Header, Realm: env.Realm}
	if e.Of.Suite == WebSocket {
		return cfg, nil
	}
	id, ok := suite.ByName(e.Of.Suite)
	if !ok {
		return nil, fmt.Errorf("there is no suite %q", e.Of.Suite)
	}
	cfg.Role, cfg.Suite, cfg.Session = session.RoleEcho, id, env.sessionConfig(gw)
	return cfg, nil
}

// Run implements Case.
func (e *Echo) Run(ctx context.Context, env *Env) ([]report.Result, error) {
	cfg, err := e.config(env, env.Gateways[0])
	if err != nil {
		return nil, err
	}
	r, err := begin(env, e.Of, e.Of.Connections)
	if err != nil {
		return nil, err
	}
	defer r.crew.stop()
	r.open = e.Rate > 0
	clients := make([]*echoClient, e.Of.Connections)
	pattern := message.Template(env.Seed, e.Of.Size)
	r.crew.enlist(e.Of.Connections, func(i int) func(*station) (*reactor.Conn, error) {
		return func(s *station) (*reactor.Conn, error) {
			c := &echoClient{pattern: pattern, message: slices.Clone(pattern), window: e.window()}
			c.peer, c.role = peer.New(cfg, s.shared, env.mask(i)), c
			clients[i] = c
			return c.dial(s, env.Gateways[0], env.source(i))
		}
	})
	if err := r.connect(ctx, 30*time.Second); err != nil {
		return nil, err
	}
	r.measure(ctx, func(s *station, from, to int64) {
		mine := slices.DeleteFunc(slices.Clone(clients), func(c *echoClient) bool { return c == nil || c.st != s || !c.ready })
		if e.Rate > 0 {
			share := e.Rate * float64(len(mine)) / float64(r.crew.ready.Load())
			s.pacers = append(s.pacers, newCycle(mine, share, from, to, env.Seed))
			return
		}
		for _, c := range mine {
			c.saturate(to)
		}
	}, func(s *station) bool {
		return !slices.ContainsFunc(clients, func(c *echoClient) bool { return c != nil && c.st == s && c.busy() })
	})
	r.crew.each(func(s *station) {
		for _, c := range clients {
			if c != nil && c.st == s && r.open {
				s.rec.Unanswered += uint64(c.underWay + len(c.held))
			}
		}
	})
	return r.result(e.Rate)
}

// echoClient sends messages and wants each back, in order.
type echoClient struct {
	member
	pattern  []byte
	message  []byte
	window   int
	sent     uint64
	expected uint64
	underWay int
	held     []int64 // intended times of messages that wait for room in the window
	until    int64   // closed loop: sends until then
}

// Ready implements peer.Handler.
func (c *echoClient) Ready() error {
	c.arrive()
	return nil
}

// busy tells whether answers are still to come.
func (c *echoClient) busy() bool { return c.conn != nil && c.conn.Open() && c.underWay+len(c.held) > 0 }

// due is called when a message is to leave.
func (c *echoClient) due(intended, now int64) {
	if !c.conn.Open() {
		return
	}
	if c.underWay >= c.window {
		c.held = append(c.held, intended)
		return
	}
	c.append(intended)
	c.conn.Flush()
	if c.st.rec != nil {
		c.st.rec.Left(intended, intended, now)
	}
}

func (c *echoClient) append(intended int64) {
	c.conn.Room()
	message.Stamp(c.message, c.sent, intended)
	c.sent++
	c.underWay++
	c.conn.Out = c.peer.AppendMessage(c.conn.Out, c.message)
}

// saturate begins a closed loop.
func (c *echoClient) saturate(until int64) {
	c.until = until
	for range c.window {
		c.append(c.st.loop.Now())
	}
	c.conn.Flush()
}

// Message implements peer.Handler: an answer.
func (c *echoClient) Message(_ wire.Kind, plaintext []byte) error {
	seq, intended, ok := message.Check(plaintext, c.pattern)
	switch {
	case !ok:
		return &peer.Error{Kind: peer.KindContent, Err: fmt.Errorf("an answer of %d bytes is not what was sent", len(plaintext))}
	case seq != c.expected:
		return &peer.Error{Kind: peer.KindOrder, Err: fmt.Errorf("answer %d came instead of %d", seq, c.expected)}
	}
	c.expected++
	c.underWay--
	now := c.st.loop.Now()
	rec := c.st.rec
	if rec != nil {
		rec.Record(intended, now)
	}
	switch {
	case len(c.held) > 0:
		intended := c.held[0]
		c.held = c.held[:copy(c.held, c.held[1:])]
		c.append(intended)
		if rec != nil {
			rec.Left(intended, now, now)
		}
	case now < c.until:
		c.append(now)
	}
	return nil
}

// cycle is the schedule of an open loop: every client once in each period, at
// times that the seed decides.
type cycle struct {
	clients []paced
	offsets []int64 // in order, from the beginning of a period
	period  float64
	from    int64
	to      int64
	next    int
}

// paced is a client that sends at given times.
type paced interface{ due(intended, now int64) }

// newCycle spreads rate messages a second over the clients.
func newCycle[C paced](clients []C, rate float64, from, to int64, seed uint64) *cycle {
	c := &cycle{from: from, to: to}
	if len(clients) == 0 || rate <= 0 {
		return c
	}
	random := rand.New(rand.NewPCG(seed, uint64(len(clients))))
	c.period = float64(len(clients)) / rate * 1e9
	for _, i := range random.Perm(len(clients)) {
		c.clients = append(c.clients, clients[i])
		c.offsets = append(c.offsets, int64(random.Float64()*c.period))
	}
	slices.Sort(c.offsets)
	return c
}

// at is the intended time of the k-th message.
func (c *cycle) at(k int) int64 {
	n := len(c.clients)
	return c.from + int64(float64(k/n)*c.period) + c.offsets[k%n]
}

// Due implements reactor.Pacer.
func (c *cycle) Due(now int64) int64 {
	if len(c.clients) == 0 {
		return reactor.Never
	}
	for {
		at := c.at(c.next)
		if at >= c.to {
			return reactor.Never
		}
		if at > now {
			return at
		}
		client := c.clients[c.next%len(c.clients)]
		c.next++
		client.due(at, now)
	}
}
