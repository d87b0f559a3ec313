package gateway_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gobwas/ws"
	"google.golang.org/protobuf/proto"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// established is a peer that has agreed on keys.
func established(t testing.TB, s *server, path string, id suite.ID) *peer {
	t.Helper()
	p := upgraded(t, s, path, id)
	p.agree()
	return p
}

// connected is a peer in service on /ws.
func connected(t testing.TB, s *server, id suite.ID) *peer {
	t.Helper()
	p := established(t, s, "/ws", id)
	p.send(p.say(connectMessage()))
	if p.hear().GetConnected() == nil {
		t.Fatal("not connected")
	}
	return p
}

func connectMessage() *wire.ClientFrame {
	return &wire.ClientFrame{Message: &wire.ClientFrame_Connect{Connect: &wire.Connect{ClientName: "peer"}}}
}

func subscribeMessage(id uint32, filters ...string) *wire.ClientFrame {
	m := &wire.Subscribe{Id: id}
	for _, f := range filters {
		m.Subscriptions = append(m.Subscriptions, &wire.Subscription{Filter: f})
	}
	return &wire.ClientFrame{Message: &wire.ClientFrame_Subscribe{Subscribe: m}}
}

func pingMessage(id uint64) *wire.ClientFrame {
	return &wire.ClientFrame{Message: &wire.ClientFrame_Ping{Ping: &wire.Ping{Id: id}}}
}

// ofKind is a message of a kind and a size that fits a handshake.
func ofKind(kind wire.Kind, n int) []byte {
	msg := make([]byte, n)
	msg[0] = byte(kind)
	return msg
}

const (
	initSize  = 1 + 32 + 1
	replySize = 1 + 32 + 48 + 1 + 16
)

// TestMessagesOutOfPlace: a message that the phase does not allow ends the
// connection with 4400, no reason, and nothing else.
func TestMessagesOutOfPlace(t *testing.T) {
	s := start(t, nil)
	awaiting := func(t testing.TB) *peer { return upgraded(t, s, "/ws", suite.AES128GCM) }
	keyed := func(t testing.TB) *peer { return established(t, s, "/ws", suite.AES128GCM) }
	serving := func(t testing.TB) *peer { return connected(t, s, suite.AES128GCM) }
	echoing := func(t testing.TB) *peer { return established(t, s, "/echo", suite.AES128GCM) }
	raw := func(msg []byte) func(*peer) []byte { return func(*peer) []byte { return binaryFrame(msg) } }
	says := func(f *wire.ClientFrame) func(*peer) []byte { return func(p *peer) []byte { return p.say(f) } }
	seals := func(plaintext []byte) func(*peer) []byte {
		return func(p *peer) []byte { return p.seal(wire.KindRecord, plaintext) }
	}
	for _, test := range []struct {
		name  string
		enter func(testing.TB) *peer
		send  func(*peer) []byte
	}{
		{"record before keys", awaiting, raw(ofKind(wire.KindRecord, 100))},
		{"key update before keys", awaiting, raw(ofKind(wire.KindKeyUpdate, 17))},
		{"goodbye before keys", awaiting, raw(ofKind(wire.KindGoodbye, 20))},
		{"reply to the gateway", awaiting, raw(ofKind(wire.KindHandshakeReply, replySize))},
		{"resumption without a ticket", awaiting, raw(ofKind(wire.KindResumeInit, 200))},
		{"resumption within a session", keyed, raw(ofKind(wire.KindResumeInit, 200))},
		{"group record", awaiting, raw(ofKind(0x11, 100))},
		{"unknown kind", awaiting, raw(ofKind(0x7f, 100))},
		{"empty message", awaiting, raw(nil)},
		{"init too short", awaiting, func(p *peer) []byte { return binaryFrame(p.init()[:initSize-1]) }},
		{"init too long", awaiting, func(p *peer) []byte { return binaryFrame(append(p.init(), 0)) }},
		{"two inits at once", awaiting, func(p *peer) []byte { b := binaryFrame(p.init()); return append(b, b...) }},
		{"record at once behind init", awaiting, func(p *peer) []byte {
			return append(binaryFrame(p.init()), binaryFrame(ofKind(wire.KindRecord, 100))...)
		}},
		{"second init", keyed, raw(ofKind(wire.KindHandshakeInit, initSize))},
		{"reply instead of a record", keyed, raw(ofKind(wire.KindHandshakeReply, replySize))},
		{"empty message instead of a record", keyed, raw(nil)},
		{"kind byte alone", keyed, raw(ofKind(wire.KindRecord, 1))},
		{"record too short for its tag", keyed, raw(ofKind(wire.KindRecord, 16))},
		{"Subscribe before Connect", keyed, says(subscribeMessage(1, "md:a"))},
		{"Ping before Connect", keyed, says(pingMessage(1))},
		{"second Connect", serving, says(connectMessage())},
		{"second init in service", serving, raw(ofKind(wire.KindHandshakeInit, initSize))},
		{"empty plaintext", serving, seals(nil)},
		{"header alone", serving, seals([]byte{0, 0, 0})},
		{"unknown codec", serving, seals(append([]byte{7, 0, 0}, body(pingMessage(1))...))},
		{"padding that is not zero", serving, seals(append(append([]byte{0, 0, 1}, body(pingMessage(1))...), 1))},
		{"more padding than bytes", serving, seals([]byte{0, 0xff, 0xff, 0})},
		{"two messages", serving, seals(bytes.Join([][]byte{{0, 0, 0}, body(pingMessage(1)), body(pingMessage(2))}, nil))},
		{"unknown message", serving, seals([]byte{0, 0, 0, 15<<3 | 2, 0})},
		{"message cut off", serving, seals(append([]byte{0, 0, 0}, body(subscribeMessage(1, "md:abc"))[:5]...))},
		{"message of the gateway", serving, seals(append([]byte{0, 0, 0},
			body(&wire.ServerFrame{Message: &wire.ServerFrame_Pong{Pong: &wire.Pong{Id: 1}}})...))},
		{"key update under an unused key", keyed, func(p *peer) []byte { return binaryFrame(p.sess.AppendKeyUpdate(nil, 0)) }},
		{"second init on echo", echoing, raw(ofKind(wire.KindHandshakeInit, initSize))},
		{"forged record on echo", echoing, raw(ofKind(wire.KindRecord, 40))},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := test.enter(t)
			p.send(test.send(p))
			if reason := p.expectClose(wire.CloseBadRecord, false); reason != "" {
				t.Errorf("the peer is told %q", reason)
			}
		})
	}
	expectBase(t, s)
	if n := s.hub.heldFilters(); n != 0 {
		t.Errorf("%d filters are held", n)
	}
}

func body(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// TestMessagesBehindAFailureAreNotServed: what stands behind the message that
// ended the session, in the same segment, is not looked at.
func TestMessagesBehindAFailureAreNotServed(t *testing.T) {
	s := start(t, nil)
	p := connected(t, s, suite.AES128GCM)
	before := s.Stats().RecordsOpened
	ping, forged, subscribe := p.say(pingMessage(7)), binaryFrame(ofKind(wire.KindRecord, 40)), p.say(subscribeMessage(1, "md:a"))
	p.send(bytes.Join([][]byte{ping, forged, subscribe}, nil))
	if got := p.hear().GetPong().GetId(); got != 7 {
		t.Errorf("pong %d", got)
	}
	p.expectClose(wire.CloseBadRecord, false)
	if n := s.Stats().RecordsOpened - before; n != 1 {
		t.Errorf("%d records opened, want the one before the forged", n)
	}
	if n := s.hub.heldFilters(); n != 0 {
		t.Errorf("%d filters are held", n)
	}
}

// TestGoodbyeIsAnswered: a client's Goodbye ends the session with 1000, sealed
// and in the close frame, in every phase that has keys.
func TestGoodbyeIsAnswered(t *testing.T) {
	s := start(t, nil)
	for _, at := range stages {
		if !at.sealed {
			continue
		}
		t.Run(at.name, func(t *testing.T) {
			p := at.enter(t, s)
			goodbye, err := wire.AppendGoodbye(nil, &wire.Goodbye{Code: 1000, Text: "done"})
			if err != nil {
				t.Fatal(err)
			}
			p.send(append(p.seal(wire.KindGoodbye, goodbye), binaryFrame(ofKind(wire.KindRecord, 40))...))
			p.expectClose(wire.CloseNormal, true)
		})
	}
	expectBase(t, s)
}

// TestCloseAnsweredEndsTheStream: the gateway closes the connection as soon as
// both close frames are there, without the peer ending the stream first.
func TestCloseAnsweredEndsTheStream(t *testing.T) {
	s := start(t, nil)
	for name, send := range map[string]func(*peer) []byte{
		"record failure": func(*peer) []byte { return binaryFrame(ofKind(wire.KindRecord, 40)) },
		"peer's close":   func(*peer) []byte { return closeFrame(1000, "") },
	} {
		t.Run(name, func(t *testing.T) {
			p := connected(t, s, suite.AES128GCM)
			p.send(send(p))
			if header, _ := p.read(); header.OpCode != ws.OpClose {
				t.Fatalf("%+v", header)
			}
			if name != "peer's close" {
				p.send(closeFrame(4400, ""))
			}
			if _, err := p.br.ReadByte(); fmt.Sprint(err) != "EOF" {
				t.Errorf("%v, want the end of the stream", err)
			}
		})
	}
}

// TestKeysChangeInEveryDirection: a session in which both sides change keys with
// TestKeyUpdatesAreFollowed: a session in which both sides change their keys
// with every record goes on.
func TestKeyUpdatesAreFollowed(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Session.Limits.Records = 1 })
	p := established(t, s, "/echo", suite.AES128GCM)
	updates := 0
	for i := range 50 {
		text := fmt.Sprint("message ", i)
		p.send(append(p.seal(wire.KindRecord, []byte(text)), binaryFrame(p.sess.AppendKeyUpdate(nil, 0))...))
		kind, got := p.open()
		for ; kind == wire.KindKeyUpdate; kind, got = p.open() {
			updates++
		}
		if kind != wire.KindRecord || string(got) != text {
			t.Fatalf("kind %#x %q, want %q", kind, got, text)
		}
	}
	if updates != 49 {
		t.Errorf("the gateway changed its key %d times over 50 records", updates)
	}
}
