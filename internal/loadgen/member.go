package loadgen

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"

	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/session"
)

// member is one client of any scenario: a connection and the peer on it. It
// belongs to its station.
type member struct {
	st      *station
	conn    *reactor.Conn
	peer    *peer.Peer
	role    peer.Handler
	handler reactor.Handler // nil: the member itself
	begun   int64           // when it began to connect, or was to
	ready   bool
	leaving bool        // its end is wanted
	beside  bool        // it belongs to another client and counts for nothing
	gone    func(error) // nil, or hears of the end of a member that was ready, or is beside
}

// dial begins the connection of a member.
func (m *member) dial(s *station, gw *Gateway, from netip.Addr) (*reactor.Conn, error) {
	m.st = s
	m.begun = s.loop.Now()
	h := m.handler
	if h == nil {
		h = m
	}
	conn, err := s.loop.Dial(gw.Address, from, h)
	m.conn = conn
	return conn, err
}

// Opened implements reactor.Handler.
func (m *member) Opened(c *reactor.Conn) { c.Out = m.peer.Begin(c.Out) }

// Data implements reactor.Handler.
func (m *member) Data(c *reactor.Conn, b []byte) int {
	n, err := m.peer.Receive(&c.Out, b, m.role)
	if err != nil {
		m.end(err)
	}
	return n
}

// Closed implements reactor.Handler.
func (m *member) Closed(_ *reactor.Conn, err error) {
	if err == nil {
		return // by end or leave, which have told already
	}
	kind := peer.KindLost
	if !m.ready {
		kind = peer.KindConnect
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection has ended without a goodbye")
	}
	m.over(&peer.Error{Kind: kind, Err: err})
}

// end closes the connection because of an error.
func (m *member) end(err error) {
	m.conn.Close(false)
	m.over(err)
}

// over tells whom it concerns, once.
func (m *member) over(err error) {
	m.peer.Close()
	switch {
	case m.leaving || m.beside:
	case m.ready:
		m.st.dropped(err)
	default:
		m.st.refused(err)
	}
	if m.gone != nil && (m.ready || m.beside) {
		m.gone(err)
	}
}

// arrive notes that the member is ready for what it is there for.
func (m *member) arrive() {
	if m.ready = true; !m.beside {
		m.st.arrived()
	}
}

// leave ends the connection in order: with a goodbye, then a close.
func (m *member) leave() {
	if m.leaving || !m.conn.Open() {
		return
	}
	m.leaving = true
	m.conn.Room()
	m.conn.Out = m.peer.AppendLeave(m.conn.Out)
	m.conn.Flush()
	m.conn.Close(false)
}

// mask is the i-th client's, decided by the seed.
func (e *Env) mask(i int) (key [4]byte) {
	binary.LittleEndian.PutUint32(key[:], uint32(e.Seed*0x9e3779b9)^uint32(i*0x85ebca6b)|1)
	return key
}

// sessionConfig is that of all clients of one gateway.
func (e *Env) sessionConfig(gw *Gateway) *session.ClientConfig {
	return &session.ClientConfig{Pins: gw.Pins, Insecure: e.Insecure && len(gw.Pins) == 0, PostQuantum: e.PostQuantum}
}
