package gateway

import (
	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/wire"
)

// echoPlain is in 6 for ordinary WebSocket clients: the message goes back as it
// came, in one frame.
func (c *conn) echoPlain(ev frame.Event) {
	c.lastLife = c.loop.now
	c.sendFrame(ev.Op, ev.Payload)
}

// echoSealed is in 6 for the sealed echo: an opaque plaintext goes back sealed
// under the other direction's key.
func (c *conn) echoSealed(plaintext []byte) {
	c.sendRecord(wire.KindRecord, plaintext)
}
