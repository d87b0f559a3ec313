package integration

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

func startWithTickets(t testing.TB, rules ...fanout.Rule) *system {
	t.Helper()
	key := make([]byte, session.TicketKeySize)
	_, _ = rand.Read(key)
	keys, err := session.NewTicketKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, &session.GatewayConfig{Tickets: &session.Tickets{Keys: keys, Now: time.Now}}, rules...)
}

// ticket gets one through an untouched connection.
func (s *system) ticket(t testing.TB) *session.ClientTicket {
	t.Helper()
	c, err := client.Dial(limited(t), "ws://"+s.addr+"/ws", s.options())
	if err != nil {
		t.Error(err)
		return nil
	}
	defer c.Close(limited(t))
	return c.Ticket()
}

// resume dials through a middle with a fresh ticket. nil: no connection came about.
func (s *system) resume(t testing.TB, m *middle) (*client.Conn, error) {
	opts := s.options()
	opts.PostQuantum = session.PostQuantumOff
	opts.Ticket, opts.NetDial = s.ticket(t), m.dial
	return client.Dial(limited(t), "ws://"+s.addr+"/ws", opts)
}

// TestEveryResumptionByteOnTheWire flips each byte of ResumeInit, the ticket in it
// too, and of ResumeReply. Nothing is ever resumed: either the client goes on with
// a full handshake on the same connection, or the connection ends with 4400.
func TestEveryResumptionByteOnTheWire(t *testing.T) {
	s := startWithTickets(t)
	untouched := &middle{}
	c, err := s.resume(t, untouched)
	if err != nil || !c.Info().Resumed {
		t.Fatalf("untouched: %v", err)
	}
	_ = c.Close(limited(t))
	for direction, name := range []string{"ResumeInit", "ResumeReply"} {
		size := len(untouched.messages(direction)[0])
		t.Run(fmt.Sprintf("%s of %d bytes", name, size), func(t *testing.T) {
			var full atomic.Int64
			concurrently(size, 4, func(at int) {
				m := &middle{}
				edits := [2]*edit{&m.toGateway, &m.toClient}
				*edits[direction] = flip(0, at, at%8)
				c, err := s.resume(t, m)
				switch {
				case err == nil && c.Info().Resumed:
					t.Errorf("byte %d: resumed", at)
				case err == nil:
					full.Add(1)
					if _, err := c.Ping(limited(t)); err != nil {
						t.Errorf("byte %d: after the full handshake: %v", at, err)
					}
				case codeOf(err) != wire.CloseBadRecord:
					t.Errorf("byte %d: %v", at, err)
				}
				if c != nil {
					_ = c.Close(limited(t))
				}
			})
			// The kind and the length of the ticket change what the message is.
			if got := int(full.Load()); (direction == up) != (got > size/2) {
				t.Errorf("%d of %d went on with a full handshake", got, size)
			}
		})
	}
	s.expectBase(t)
}

// TestForeignTicketOnTheWire puts another session's ResumeInit in the place of the
// client's: the gateway may answer it, but the client has other keys.
func TestForeignTicketOnTheWire(t *testing.T) {
	s := startWithTickets(t)
	recorded := &middle{}
	c, err := s.resume(t, recorded)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close(limited(t))
	foreign := recorded.messages(up)[0]
	m := &middle{toGateway: replace(0, func([]byte) [][]byte { return [][]byte{foreign} })}
	opened := s.Stats().RecordsOpened
	if c, err := s.resume(t, m); err == nil {
		_ = c.Close(limited(t))
		t.Error("connected with somebody else's ticket")
	} else if codeOf(err) != wire.CloseBadRecord {
		t.Error(err)
	}
	if m.sentRecords() {
		t.Error("the client has sent a record")
	}
	if n := s.Stats().RecordsOpened - opened; n > 2 { // of the connection that gave the ticket
		t.Errorf("the gateway has opened %d records", n)
	}
	s.expectBase(t)
}
