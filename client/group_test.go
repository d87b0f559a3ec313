package client

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// groupOf is a group of whatever suite the connection has.
type groupOf struct {
	*peer
	seal record.GroupSealer
	pool *record.Pool
}

func newGroup(p *peer, number byte) *groupOf {
	g := &groupOf{peer: p, pool: record.NewPool(0, 0)}
	secret, err := record.NewSecret(bytes.NewReader(bytes.Repeat([]byte{number}, record.SecretSize)))
	if err != nil {
		p.t.Error(err)
	}
	g.seal.Init(p.sess.Suite(), uint32(number), secret, record.Limits{})
	return g
}

func (g *groupOf) key() {
	at := g.seal.Point()
	g.record(wire.KindRecord, wire.AppendGroupKeyFrame(nil, at.ID, g.seal.Secret().AppendTo(nil),
		g.sess.Suite().String(), at.Next, at.Chain[:]))
}

func (g *groupOf) mark() {
	at := g.seal.Point()
	g.record(wire.KindRecord, wire.AppendGroupMarkFrame(nil, at.ID, at.Next, at.Chain[:]))
}

func (g *groupOf) ticks(items ...wire.BatchItem) {
	msg := g.seal.Seal(g.pool, nil, byte(wire.KindGroupRecord), wire.AppendBatchFrame(nil, items))
	_ = g.raw(ws.MustCompileFrame(ws.NewBinaryFrame(msg)))
}

func TestGroupRecords(t *testing.T) {
	hellos := make(chan *wire.Connect, 1)
	large := string(bytes.Repeat([]byte("x"), wire.MaxTick))
	gw := newFakeGateway(t, func(p *peer) {
		hellos <- p.connected()
		p.subscribed(state(1, "md:a", 77, 1))
		first, second := newGroup(p, 1), newGroup(p, 2)
		first.key()
		first.ticks(tickItem(1, 1, 0, "one"), tickItem(1, 2, 0, "two"))
		first.ticks(tickItem(1, 3, 0, large))
		first.mark()
		p.send(heartbeatFrame())
		first.ticks(tickItem(1, 4, 0, "four"))
		first.mark()
		second.key()
		second.ticks(tickItem(1, 5, 0, "five"))
		second.mark()
		p.record(wire.KindRecord, wire.AppendGroupLeaveFrame(nil, 2))
		p.batch(tickItem(1, 6, 0, "six"))
		p.goodbye(wire.CloseRestart, "")
	})
	conn := mustDial(t, gw.options())
	if !(<-hellos).GetGroups() {
		t.Error("the client does not ask for groups")
	}
	if _, err := conn.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		e, err := conn.Next(t.Context())
		if err != nil {
			var end *ClosedError
			if !errors.As(err, &end) || end.Code != wire.CloseRestart || !end.Final {
				t.Fatal(err)
			}
			break
		}
		if tick, ok := e.(*Tick); ok {
			got = append(got, string(tick.Payload[:min(len(tick.Payload), 4)]))
		}
	}
	want := []string{"one", "two", "xxxx", "four", "five", "six"}
	if len(got) != len(want) {
		t.Fatalf("ticks %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("tick %d is %q", i, got[i])
		}
	}
	if n := conn.Stats().GroupRecords; n != 4 {
		t.Errorf("%d group records", n)
	}
}

func TestNoGroups(t *testing.T) {
	hellos := make(chan *wire.Connect, 1)
	gw := newFakeGateway(t, func(p *peer) { hellos <- p.connected(); p.wait() })
	opts := gw.options()
	opts.NoGroups = true
	mustDial(t, opts)
	if (<-hellos).GetGroups() {
		t.Error("the client asks for groups")
	}
}

// TestGroupViolations: everything that the rules of groups forbid ends the
// connection with 4400.
func TestGroupViolations(t *testing.T) {
	for name, misuse := range map[string]func(g *groupOf){
		"record without a key":        func(g *groupOf) { g.ticks() },
		"record twice":                func(g *groupOf) { g.key(); twice := g.seal; g.ticks(); g.seal = twice; g.ticks() },
		"record left out":             func(g *groupOf) { g.key(); g.leaveOut(); g.ticks() },
		"last record left out":        func(g *groupOf) { g.key(); g.leaveOut(); g.mark() },
		"heartbeat without a mark":    func(g *groupOf) { g.key(); g.ticks(); g.send(heartbeatFrame()) },
		"goodbye without a mark":      func(g *groupOf) { g.key(); g.ticks(); g.record(wire.KindGoodbye, nil) },
		"a record that is no batch":   func(g *groupOf) { g.key(); g.noBatch() },
		"a record that is no message": func(g *groupOf) { g.key(); g.garbage() },
	} {
		t.Run(name, func(t *testing.T) {
			gw := newFakeGateway(t, func(p *peer) {
				p.connected()
				misuse(newGroup(p, 1))
				p.wait()
			})
			conn := mustDial(t, gw.options())
			for {
				_, err := conn.Next(t.Context())
				if err == nil {
					continue
				}
				var end *ClosedError
				if !errors.As(err, &end) || end.Code != wire.CloseBadRecord || end.Final {
					t.Errorf("ended by %v", err)
				}
				if misused := new(session.Error); name != "a record that is no message" && !errors.As(err, &misused) {
					t.Errorf("not by the session's rules: %v", err)
				}
				return
			}
		})
	}
}

func (g *groupOf) leaveOut() {
	g.seal.Seal(g.pool, nil, byte(wire.KindGroupRecord), wire.AppendBatchFrame(nil, nil))
}

func (g *groupOf) noBatch() {
	msg := g.seal.Seal(g.pool, nil, byte(wire.KindGroupRecord), g.plain(heartbeatFrame()))
	_ = g.raw(ws.MustCompileFrame(ws.NewBinaryFrame(msg)))
}

func (g *groupOf) garbage() {
	msg := g.seal.Seal(g.pool, nil, byte(wire.KindGroupRecord), []byte("\x00\x00\x00garbage"))
	_ = g.raw(ws.MustCompileFrame(ws.NewBinaryFrame(msg)))
}
