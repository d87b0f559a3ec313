package client

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// fakeGateway answers dials in memory: the real session, and a script for what
// the gateway says.
type fakeGateway struct {
	t      *testing.T
	key    *session.StaticKey
	accept suite.Policy
	realm  string
	serve  func(*peer) // after the handshake
	pair   func() (ours, theirs net.Conn, err error)
	tamper func(theirs net.Conn) net.Conn // stands between client and gateway
	served sync.WaitGroup
}

// newFakeGateway makes a gateway that runs script for each connection that has
// agreed on keys.
func newFakeGateway(t *testing.T, script func(*peer)) *fakeGateway {
	t.Helper()
	key, err := session.GenerateStaticKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	g := &fakeGateway{t: t, key: key, realm: "default", serve: script, pair: loopback,
		accept: suite.Policy{Enabled: []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305}, AllowPlain: true, Hardware: suite.Detect()}}
	t.Cleanup(g.served.Wait)
	return g
}

// options are those of a client that knows the gateway.
func (g *fakeGateway) options() Options {
	return Options{
		Pins:    []session.PublicKey{g.key.Public()},
		NetDial: g.dial,
		Rand:    rand.NewChaCha8([32]byte{2}),
	}
}

func (g *fakeGateway) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs, err := g.pair()
	if err != nil {
		return nil, err
	}
	if g.tamper != nil {
		theirs = g.tamper(theirs)
	}
	g.served.Add(1)
	go func() {
		defer g.served.Done()
		defer ours.Close()
		if p := g.answer(ours); p != nil {
			g.serve(p)
		}
	}()
	return theirs, nil
}

// loopback is a pair of TCP connections.
func loopback() (ours, theirs net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if theirs, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	ours, err = l.Accept()
	return ours, theirs, err
}

// inMemory is a pair of connections without buffers, fit for a synctest bubble.
func inMemory() (ours, theirs net.Conn, err error) {
	ours, theirs = net.Pipe()
	return ours, theirs, nil
}

// answer upgrades a connection and agrees on keys; nil when the client gave up.
func (g *fakeGateway) answer(conn net.Conn) *peer {
	p := &peer{t: g.t, conn: conn}
	var path string
	offered := []string{}
	upgrader := ws.Upgrader{
		OnRequest:      func(uri []byte) error { path = string(uri); return nil },
		ProtocolCustom: func(v []byte) (string, bool) { offered = strings.Split(string(v), ", "); return g.choose(offered) },
	}
	if _, err := upgrader.Upgrade(conn); err != nil {
		return nil
	}
	role := session.RolePush
	if strings.HasSuffix(path, "/echo") {
		role = session.RoleEcho
	}
	selected, _ := g.choose(offered)
	var err error
	p.sess, err = session.NewGateway(&session.GatewayConfig{Key: g.key, HardwareAES: true}, record.NewPool(0, 0),
		session.Binding{Role: role, Realm: g.realm, Offered: offered, Selected: selected})
	if err != nil {
		g.t.Errorf("gateway session: %v", err)
		return nil
	}
	for !p.sess.Established() {
		msg, err := p.message()
		if err != nil {
			return nil
		}
		job, err := p.sess.Receive(msg)
		if err != nil {
			return nil
		}
		job.Run()
		reply, err := p.sess.Complete(job)
		if err != nil || p.raw(ws.MustCompileFrame(ws.NewBinaryFrame(reply))) != nil {
			return nil
		}
	}
	return p
}

func (g *fakeGateway) choose(offered []string) (string, bool) {
	id, err := g.accept.Select(offered)
	return id.Protocol(), err == nil
}

// peer is the gateway's side of one connection.
type peer struct {
	t        *testing.T
	conn     net.Conn
	sess     *session.Session
	closing  []byte // payload of the client's close frame
	farewell *wire.Goodbye
	pongs    []string
}

// message reads the client's next binary message, checking that frames are
// masked, and notes control frames. It fails with io.EOF after a close.
func (p *peer) message() ([]byte, error) {
	for {
		if p.closing != nil {
			return nil, io.EOF
		}
		h, err := ws.ReadHeader(p.conn)
		if err != nil {
			return nil, err
		}
		if err := ws.CheckHeader(h, ws.StateServerSide); err != nil {
			p.t.Errorf("client's frame: %v", err)
		}
		payload := make([]byte, h.Length)
		if _, err := io.ReadFull(p.conn, payload); err != nil {
			return nil, err
		}
		ws.Cipher(payload, h.Mask, 0)
		switch h.OpCode {
		case ws.OpBinary:
			return payload, nil
		case ws.OpPong:
			p.pongs = append(p.pongs, string(payload))
		case ws.OpClose:
			p.closing = payload
			return nil, io.EOF
		default:
			p.t.Errorf("client sent opcode %v", h.OpCode)
		}
	}
}

// receive reads the client's next record; nil when the client is gone or says goodbye.
func (p *peer) receive() []byte {
	for {
		msg, err := p.message()
		if err != nil {
			return nil
		}
		kind, plaintext, err := p.sess.Open(msg)
		switch {
		case err != nil:
			p.t.Errorf("client's record: %v", err)
			return nil
		case kind == wire.KindGoodbye:
			if p.farewell, err = wire.ParseGoodbye(plaintext); err != nil {
				p.t.Error(err)
			}
		case kind == wire.KindRecord:
			return plaintext
		}
	}
}

// request reads the client's next message of the push role; nil at the end.
func (p *peer) request() *wire.ClientFrame {
	plaintext := p.receive()
	if plaintext == nil {
		return nil
	}
	f, err := wire.ParseClientFrame(plaintext)
	if err != nil {
		p.t.Errorf("client's message: %v", err)
		return nil
	}
	return f
}

// raw writes bytes.
func (p *peer) raw(b []byte) error {
	_, err := p.conn.Write(b)
	return err
}

// sealed is a record in a frame.
func (p *peer) sealed(kind wire.Kind, plaintext []byte) []byte {
	return ws.MustCompileFrame(ws.NewBinaryFrame(p.sess.Seal(nil, kind, plaintext)))
}

// record sends a record; what the client makes of it shows there.
func (p *peer) record(kind wire.Kind, plaintext []byte) {
	_ = p.raw(p.sealed(kind, plaintext))
}

// plain is a message's plaintext.
func (p *peer) plain(f *wire.ServerFrame) []byte {
	plaintext, err := wire.AppendServerFrame(nil, f)
	if err != nil {
		p.t.Error(err)
	}
	return plaintext
}

func (p *peer) send(f *wire.ServerFrame) { p.record(wire.KindRecord, p.plain(f)) }

// connected answers Connect, which it returns.
func (p *peer) connected() *wire.Connect {
	f := p.request()
	if f.GetConnect() == nil {
		return nil
	}
	p.send(connectedFrame(0))
	return f.GetConnect()
}

func connectedFrame(timeoutMS uint32) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Connected{Connected: &wire.Connected{
		Session: "7", Version: "v1.2.3", HeartbeatTimeoutMs: timeoutMS, HeartbeatIntervalMs: timeoutMS / 3,
		Limits: &wire.Limits{MessageBytes: 64 << 10, Subscriptions: 1000}}}}
}

// subscribed confirms the client's next Subscribe with these topics.
func (p *peer) subscribed(topics ...*wire.TopicState) {
	m := p.request().GetSubscribe()
	var filters []string
	for _, s := range m.GetSubscriptions() {
		filters = append(filters, s.GetFilter())
	}
	p.send(subscribedFrame(m.GetId(), filters, topics...))
}

func subscribedFrame(id uint32, filters []string, topics ...*wire.TopicState) *wire.ServerFrame {
	return &wire.ServerFrame{Message: &wire.ServerFrame_Subscribed{Subscribed: &wire.Subscribed{
		Id: id, Filters: filters, Topics: topics}}}
}

func state(number uint32, name string, epoch, next uint64) *wire.TopicState {
	return &wire.TopicState{Number: number, Name: name, Epoch: epoch, NextSeq: next}
}

func tickItem(number uint32, seq, skipped uint64, payload string) wire.BatchItem {
	return wire.BatchItem{Topic: number, Seq: seq,
		Payload: []byte(payload), Skipped: skipped, ReceivedUS: 1_700_000_000_000_000 + int64(seq)}
}

func resetItem(number uint32, epoch, next uint64, cause wire.Cause) wire.BatchItem {
	return wire.BatchItem{Topic: number, Reset: &wire.BatchReset{Epoch: epoch, NextSeq: next, Cause: cause}}
}

func (p *peer) batch(items ...wire.BatchItem) {
	p.record(wire.KindRecord, wire.AppendBatchFrame(nil, items))
}

// goodbye ends the session in order.
func (p *peer) goodbye(code wire.CloseCode, text string) {
	plaintext, err := wire.AppendGoodbye(nil, &wire.Goodbye{Code: uint32(code), Text: text, ReconnectAfterMs: 1500})
	if err != nil {
		p.t.Error(err)
	}
	p.record(wire.KindGoodbye, plaintext)
	p.close(code, text)
}

// close sends a close frame and waits for the client's.
func (p *peer) close(code wire.CloseCode, text string) {
	payload := append(binary.BigEndian.AppendUint16(nil, uint16(code)), text...)
	_ = p.raw(ws.MustCompileFrame(ws.NewCloseFrame(payload)))
	p.wait()
}

// wait reads until the client has gone.
func (p *peer) wait() {
	for p.receive() != nil {
	}
	if p.closing != nil {
		_ = p.raw(ws.MustCompileFrame(ws.NewCloseFrame(p.closing)))
	}
}

// fragmented cuts a message into frames of n bytes, with pings between.
func fragmented(msg []byte, n int) []byte {
	var out bytes.Buffer
	for i, part := range slices.Collect(slices.Chunk(msg, n)) {
		h := ws.Header{OpCode: ws.OpContinuation, Length: int64(len(part))}
		if i == 0 {
			h.OpCode = ws.OpBinary
		}
		h.Fin = (i+1)*n >= len(msg)
		if err := ws.WriteHeader(&out, h); err != nil {
			panic(err)
		}
		out.Write(part)
		if !h.Fin {
			out.Write(ws.MustCompileFrame(ws.NewPingFrame([]byte("between"))))
		}
	}
	return out.Bytes()
}

// acceptKey is the answer to a Sec-WebSocket-Key (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
