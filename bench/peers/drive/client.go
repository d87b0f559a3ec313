package drive

import (
	"fmt"

	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/wire"
)

// client is one connection, whatever it is for. Embedders answer to peer.Handler.
type client struct {
	m    *meter
	conn *reactor.Conn
	peer *peer.Peer
	role peer.Handler
	tls  *secure // nil: none
}

// dial begins to connect, as the i-th client.
func (c *client) dial(m *meter, i int, role peer.Handler) error {
	c.m, c.role = m, role
	mask := [4]byte{byte(i) | 1, byte(i >> 8), byte(i >> 16), 0x5a}
	c.peer = peer.New(m.config, m.shared, mask)
	var h reactor.Handler = c
	if m.contestant.TLS {
		c.tls = newSecure(c)
		h = c.tls
	}
	conn, err := m.loop.Dial(m.server.address, source(i), h)
	c.conn = conn
	return err
}

// out is where messages are appended to, between room and flush.
func (c *client) out() *[]byte {
	if c.tls != nil {
		return &c.tls.out
	}
	return &c.conn.Out
}

// send appends one message without writing it.
func (c *client) send(plaintext []byte) {
	out := c.out()
	*out = c.peer.AppendMessage(*out, plaintext)
}

// room and flush frame what is sent outside of Message.
func (c *client) room() { c.conn.Room() }

func (c *client) flush() {
	if c.tls != nil {
		c.tls.seal()
	}
	c.conn.Flush()
}

// Opened implements reactor.Handler.
func (c *client) Opened(*reactor.Conn) {
	out := c.out()
	*out = c.peer.Begin(*out)
}

// Data implements reactor.Handler.
func (c *client) Data(_ *reactor.Conn, b []byte) int {
	n, err := c.peer.Receive(c.out(), b, c.role)
	if err != nil {
		c.m.fail(err)
	}
	return n
}

// Closed implements reactor.Handler.
func (c *client) Closed(_ *reactor.Conn, err error) {
	if err != nil {
		c.m.fail(fmt.Errorf("a connection has ended: %w", err))
	}
}

// blank is a client that takes nothing but its upgrade.
type blank struct{ client }

// Ready implements peer.Handler.
func (c *blank) Ready() error {
	c.m.ready++
	return nil
}

// Message implements peer.Handler.
func (c *blank) Message(wire.Kind, []byte) error { return nil }

// connecting is how many connections are made at the same time.
const connecting = 64

// connect makes n clients and waits until all of them are ready. begin dials the i-th.
func (m *meter) connect(n int, begin func(i int) error) error {
	last, since := 0, m.loop.Now()
	for begun := 0; m.ready < n; {
		for ; begun < n && begun-m.ready < connecting; begun++ {
			if err := begin(begun); err != nil {
				return err
			}
		}
		if err := m.turn(m.loop.Now() + int64(patience)/8); err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		if m.ready > last {
			last, since = m.ready, m.loop.Now()
		} else if m.loop.Now()-since > int64(patience) {
			return fmt.Errorf("only %d of %d connections are ready", m.ready, n)
		}
	}
	return nil
}
