package loadgen

import (
	"fmt"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// subscriber is a push client: it introduces itself, subscribes, and holds each
// tick against what was published.
type subscriber struct {
	member
	stream  *peer.Stream
	version string
	filters []string // empty: it subscribes to nothing
	feed    *feed    // whose ticks come; nil: none do
	seen    map[uint32]uint64
	rec     func() *measure.Recorder // what it counts with now; nil results count nothing
}

// pushConfig is how push clients of a suite connect.
func (e *Env) pushConfig(gw *Gateway, name string) (*peer.Config, error) {
	id, ok := suite.ByName(name)
	if !ok {
		return nil, fmt.Errorf("there is no suite %q for ticks", name)
	}
	return &peer.Config{
		Host: gw.Host, Path: gw.Prefix + "/ws", Header: e.Header, Realm: e.Realm, Role: session.RolePush, Suite: id,
		Session: e.sessionConfig(gw), Token: e.Token, Codecs: e.Codecs,
	}, nil
}

// start begins to connect, as the i-th client. It is called on the station's
// loop. role hears what the peer receives: the subscriber, or what it is a part of.
func (c *subscriber) start(s *station, cfg *peer.Config, gw *Gateway, env *Env, i int, role peer.Handler) (*reactor.Conn, error) {
	c.peer, c.role, c.version = peer.New(cfg, s.shared, env.mask(i)), role, env.Version
	c.stream = peer.NewStream(c.peer)
	clear(c.seen)
	return c.dial(s, gw, env.source(i))
}

// Ready implements peer.Handler.
func (c *subscriber) Ready() (err error) {
	c.conn.Out, err = c.peer.AppendConnect(c.conn.Out, c.version)
	return err
}

// Message implements peer.Handler.
func (c *subscriber) Message(kind wire.Kind, plaintext []byte) error {
	return c.stream.Take(kind, plaintext, c)
}

// Connected implements peer.Listener.
func (c *subscriber) Connected(*wire.Connected) (err error) {
	if len(c.filters) == 0 {
		c.arrive()
		return nil
	}
	c.conn.Out, err = c.peer.AppendSubscribe(c.conn.Out, 1, c.filters...)
	return err
}

// Subscribed implements peer.Listener.
func (c *subscriber) Subscribed(*wire.Subscribed) error {
	if !c.ready {
		c.arrive()
	}
	return nil
}

// Refused implements peer.Listener.
func (c *subscriber) Refused(e *wire.Error) error {
	return &peer.Error{Kind: peer.KindRefused, Err: fmt.Errorf("request %d: code %d: %s", e.GetId(), e.GetCode(), e.GetText())}
}

// Tick implements peer.Listener.
func (c *subscriber) Tick(topic uint32, payload []byte) error {
	if c.feed == nil {
		return nil
	}
	seq, intended, ok := c.feed.check(payload)
	if !ok {
		return &peer.Error{Kind: peer.KindContent, Err: fmt.Errorf("a tick of %d bytes is not what was published", len(payload))}
	}
	if c.seen == nil {
		c.seen = map[uint32]uint64{}
	}
	last, known := c.seen[topic]
	if known && seq <= last {
		return &peer.Error{Kind: peer.KindOrder, Err: fmt.Errorf("tick %d of topic %d came after %d", seq, topic, last)}
	}
	c.seen[topic] = seq
	if rec := c.rec(); rec != nil {
		rec.Record(intended, c.st.loop.Now())
	}
	return nil
}
