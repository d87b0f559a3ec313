package drive

import (
	"fmt"
	"slices"

	"github.com/sealcast/sealcast/internal/loadgen/message"
	"github.com/sealcast/sealcast/wire"
)

// echoClient keeps a window of messages under way and wants each back, in order.
type echoClient struct {
	client
	pattern  []byte
	message  []byte
	sent     uint64
	expected uint64
}

// echo measures a closed loop.
func (m *meter) echo() (s Sample, err error) {
	pattern := message.Template(1, m.work.Size)
	clients := make([]*echoClient, m.work.Connections)
	if err := m.connect(len(clients), func(i int) error {
		clients[i] = &echoClient{pattern: pattern, message: slices.Clone(pattern)}
		return clients[i].dial(m, i, clients[i])
	}); err != nil {
		return s, err
	}
	for _, c := range clients {
		c.room()
		for range m.work.Window {
			c.next()
		}
		c.flush()
	}
	if err := m.run(m.b.Warmup); err != nil {
		return s, err
	}
	return m.measured()
}

func (c *echoClient) next() {
	message.Stamp(c.message, c.sent, 0)
	c.sent++
	c.send(c.message)
}

// Ready implements peer.Handler.
func (c *echoClient) Ready() error {
	c.m.ready++
	return nil
}

// Message implements peer.Handler: an answer, which the next message follows.
func (c *echoClient) Message(_ wire.Kind, plaintext []byte) error {
	seq, _, ok := message.Check(plaintext, c.pattern)
	if !ok || seq != c.expected {
		return fmt.Errorf("an answer of %d bytes is not message %d", len(plaintext), c.expected)
	}
	c.expected++
	c.m.done++
	c.next()
	return nil
}
