package drive

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/wire"
)

// publisher puts ticks in where the server takes them: PUBLISH to Redis, or PUB
// to nats-server over a WebSocket like everybody's.
type publisher struct {
	m     *meter
	redis *reactor.Conn
	nats  *natsPublisher
	open  bool
	frame []byte // of one PUBLISH or PUB, up to the payload
	text  []byte
}

func (m *meter) newPublisher() (*publisher, error) {
	p := &publisher{m: m}
	n := strconv.Itoa(m.work.Size)
	if m.contestant.Server == "nats" {
		p.frame = []byte("PUB " + topic + " " + n + "\r\n")
		p.nats = &natsPublisher{of: p}
		if err := p.nats.dial(m, 1<<20, p.nats); err != nil {
			return nil, err
		}
	} else {
		p.frame = fmt.Appendf(nil, "*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%s\r\n", len(topic), topic, n)
		address, err := netip.ParseAddrPort(m.b.redis.address)
		if err != nil {
			return nil, err
		}
		if p.redis, err = m.loop.Dial(address, netip.Addr{}, p); err != nil {
			return nil, err
		}
	}
	for end := m.loop.Now() + int64(patience); !p.open; {
		if err := m.turn(end); err != nil {
			return nil, err
		}
		if m.loop.Now() >= end {
			return nil, fmt.Errorf("no connection for publishing within %v", patience)
		}
	}
	return p, nil
}

func (p *publisher) room() {
	if p.nats != nil {
		p.nats.room()
		return
	}
	p.redis.Room()
}

// publish appends one tick, between room and flush.
func (p *publisher) publish(payload []byte) {
	if p.nats == nil {
		out := append(append(p.redis.Out, p.frame...), payload...)
		p.redis.Out = append(out, "\r\n"...)
		return
	}
	p.text = append(append(p.text[:0], p.frame...), payload...)
	p.text = append(p.text, "\r\n"...)
	p.nats.send(p.text)
}

func (p *publisher) flush() {
	if p.nats != nil {
		p.nats.flush()
		return
	}
	p.redis.Flush()
}

// Opened implements reactor.Handler.
func (p *publisher) Opened(*reactor.Conn) { p.open = true }

// Data implements reactor.Handler: Redis answers each PUBLISH with a number.
func (p *publisher) Data(_ *reactor.Conn, b []byte) int {
	if b[0] == '-' {
		p.m.fail(fmt.Errorf("publishing: %q", b))
	}
	return len(b)
}

// Closed implements reactor.Handler.
func (p *publisher) Closed(_ *reactor.Conn, err error) {
	if err != nil {
		p.m.fail(fmt.Errorf("publishing: %w", err))
	}
}

// natsPublisher is the connection of a publisher to nats-server.
type natsPublisher struct {
	client
	of *publisher
}

// Ready implements peer.Handler.
func (p *natsPublisher) Ready() error {
	p.send([]byte("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n"))
	p.of.open = true
	return nil
}

// Message implements peer.Handler: nats-server introduces itself, and pings now and then.
func (p *natsPublisher) Message(_ wire.Kind, b []byte) error {
	if string(b) == "PING\r\n" {
		p.send([]byte("PONG\r\n"))
	}
	return nil
}
