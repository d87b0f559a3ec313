package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// patience bounds every wait of a peer. Nothing here takes that long.
const patience = 30 * time.Second

// peer is a client that can do wrong: it sends whatever a test wants, in
// whatever phase, and looks at each frame that comes back.
type peer struct {
	t    testing.TB
	conn net.Conn
	br   *bufio.Reader
	sess *session.Session // nil on the unencrypted echo
}

func knock(t testing.TB, s *server) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return peerOn(t, conn)
}

func peerOn(t testing.TB, conn net.Conn) *peer {
	p := &peer{t: t, conn: conn, br: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return p
}

const sampleKey = "dGhlIHNhbXBsZSBub25jZQ==" // RFC 6455 section 1.3, with its answer
const sampleAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

// request is an upgrade request for a path with the usual fields and more.
func request(path string, more ...string) string {
	return lines(append([]string{"GET " + path + " HTTP/1.1", "Host: gateway.test", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Key: " + sampleKey, "Sec-WebSocket-Version: 13"}, more...)...)
}

func lines(s ...string) string { return strings.Join(s, "\r\n") + "\r\n\r\n" }

func offer(ids ...suite.ID) string {
	var tokens []string
	for _, id := range ids {
		tokens = append(tokens, id.Protocol())
	}
	return "Sec-WebSocket-Protocol: " + strings.Join(tokens, ", ")
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// response reads the answer to an upgrade request.
func (p *peer) response() (*http.Response, string) {
	p.t.Helper()
	resp, err := http.ReadResponse(p.br, nil)
	if err != nil {
		p.t.Fatalf("no response: %v", err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatalf("body of %s: %v", resp.Status, err)
	}
	return resp, string(body)
}

// upgraded opens a WebSocket with an offer of one suite, or none.
func upgraded(t testing.TB, s *server, path string, ids ...suite.ID) *peer {
	t.Helper()
	p := knock(t, s)
	p.upgrade(s, path, ids...)
	return p
}

func (p *peer) upgrade(s *server, path string, ids ...suite.ID) {
	p.t.Helper()
	if len(ids) == 0 {
		p.send([]byte(request(path)))
	} else {
		p.send([]byte(request(path, offer(ids...))))
		p.sess = newClientSession(p.t, s, path, ids[0])
	}
	if resp, _ := p.response(); resp.StatusCode != http.StatusSwitchingProtocols {
		p.t.Fatalf("upgrade to %s: %s", path, resp.Status)
	}
}

func newClientSession(t testing.TB, s *server, path string, id suite.ID) *session.Session {
	t.Helper()
	role := session.RolePush
	if path == "/echo" {
		role = session.RoleEcho
	}
	cfg := &session.ClientConfig{Pins: []session.PublicKey{s.key.Public()}, PostQuantum: session.PostQuantumOff}
	sess, err := session.NewClient(cfg, record.NewPool(2, 0), session.Binding{Role: role, Realm: "default",
		Offered: []string{id.Protocol()}, Selected: id.Protocol()})
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

// init makes HandshakeInit.
func (p *peer) init() []byte {
	p.t.Helper()
	job, err := p.sess.Start()
	if err != nil {
		p.t.Fatal(err)
	}
	job.Run()
	msg, err := p.sess.Complete(job)
	if err != nil {
		p.t.Fatal(err)
	}
	return msg
}

// agree sends HandshakeInit and takes the reply.
func (p *peer) agree() {
	p.t.Helper()
	p.send(binaryFrame(p.init()))
	p.takeReply()
}

func (p *peer) takeReply() {
	p.t.Helper()
	header, msg := p.read()
	if header.OpCode != ws.OpBinary {
		p.t.Fatalf("not a reply: %+v %q", header, msg)
	}
	job, err := p.sess.Receive(msg)
	if err != nil {
		p.t.Fatal(err)
	}
	job.Run()
	if _, err := p.sess.Complete(job); err != nil {
		p.t.Fatal(err)
	}
}

// seal makes the frame of a record.
func (p *peer) seal(kind wire.Kind, plaintext []byte) []byte {
	return binaryFrame(p.sess.Seal(nil, kind, plaintext))
}

// say makes the frame of a message to /ws.
func (p *peer) say(f *wire.ClientFrame) []byte {
	p.t.Helper()
	plaintext, err := wire.AppendClientFrame(nil, f, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.seal(wire.KindRecord, plaintext)
}

// hear reads a record and returns its message.
func (p *peer) hear() *wire.ServerFrame {
	p.t.Helper()
	kind, plaintext := p.openNext()
	if kind != wire.KindRecord {
		p.t.Fatalf("kind %#x instead of a record", kind)
	}
	f, err := wire.ParseServerFrame(plaintext)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// openNext opens the next message that is no key update.
func (p *peer) openNext() (wire.Kind, []byte) {
	p.t.Helper()
	for {
		if kind, plaintext := p.open(); kind != wire.KindKeyUpdate {
			return kind, plaintext
		}
	}
}

// open reads a message and opens it.
func (p *peer) open() (wire.Kind, []byte) {
	p.t.Helper()
	header, msg := p.read()
	if header.OpCode != ws.OpBinary {
		p.t.Fatalf("not a record: %+v %q", header, msg)
	}
	kind, plaintext, err := p.sess.Open(msg)
	if err != nil {
		p.t.Fatalf("record: %v", err)
	}
	return kind, plaintext
}

func (p *peer) read() (ws.Header, []byte) {
	p.t.Helper()
	frame, err := readFrame(p.br)
	if err != nil {
		p.t.Fatalf("no frame: %v", err)
	}
	if frame.Header.Masked || !frame.Header.Fin || frame.Header.Rsv != 0 {
		p.t.Fatalf("a gateway sends no such frame: %+v", frame.Header)
	}
	return frame.Header, frame.Payload
}

// expectClose wants the close next, behind a sealed Goodbye if word is set, then
// silence whatever else is sent, and the end of the stream. It returns the reason.
func (p *peer) expectClose(code wire.CloseCode, word bool) (reason string) {
	p.t.Helper()
	if word {
		p.expectGoodbye(code)
	}
	header, payload := p.read()
	if header.OpCode != ws.OpClose {
		p.t.Fatalf("not a close: %+v %.80q", header, payload)
	}
	switch got := payload; {
	case code == wire.CloseNoStatus && len(got) > 0:
		p.t.Fatalf("close frame with %q, want an empty one", got)
	case code == wire.CloseNoStatus:
	case len(got) < 2 || wire.CloseCode(binary.BigEndian.Uint16(got)) != code:
		p.t.Fatalf("close frame with %q, want code %v", got, code)
	default:
		reason = string(got[2:])
	}
	p.expectSilence()
	return reason
}

func (p *peer) expectGoodbye(code wire.CloseCode) {
	p.t.Helper()
	kind, plaintext := p.openNext()
	if kind != wire.KindGoodbye {
		p.t.Fatalf("kind %#x %.80q instead of Goodbye", kind, plaintext)
	}
	if g, err := wire.ParseGoodbye(plaintext); err != nil || g.Code != uint32(code) {
		p.t.Fatalf("goodbye %v, %v, want code %v", g, err, code)
	}
}

// expectSilence sends what would be answered before a close, a close, and the end
// of the stream, and wants nothing back but that. The gateway may be gone already.
func (p *peer) expectSilence() {
	p.t.Helper()
	late := bytes.Join([][]byte{frame(ws.OpPing, true, "late"), frame(ws.OpBinary, true, "late"), closeFrame(1000, "")}, nil)
	if _, err := p.conn.Write(late); err != nil && !isReset(err) {
		p.t.Fatalf("write after the close: %v", err)
	}
	_ = p.conn.(*net.TCPConn).CloseWrite() // fails only when the gateway is gone
	rest, err := io.ReadAll(p.br)
	if len(rest) > 0 || err != nil && !isReset(err) {
		p.t.Fatalf("after the close: %.80q, %v", rest, err)
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// frame is a masked frame, as clients send them.
func frame[T string | []byte](op ws.OpCode, fin bool, payload T) []byte {
	f := ws.NewFrame(op, fin, []byte(payload))
	return ws.MustCompileFrame(ws.MaskFrameWith(f, [4]byte{0x12, 0x34, 0x56, 0x78}))
}

func binaryFrame(msg []byte) []byte { return frame(ws.OpBinary, true, msg) }

func closeFrame(code uint16, reason string) []byte {
	return frame(ws.OpClose, true, string(binary.BigEndian.AppendUint16(nil, code))+reason)
}

// readFrame reads one frame. Nothing here sends long ones.
func readFrame(r io.Reader) (ws.Frame, error) {
	header, err := ws.ReadHeader(r)
	if err != nil {
		return ws.Frame{}, err
	}
	if header.Length > 16<<20 {
		return ws.Frame{}, fmt.Errorf("a frame of %d bytes", header.Length)
	}
	payload := make([]byte, header.Length)
	_, err = io.ReadFull(r, payload)
	return ws.Frame{Header: header, Payload: payload}, err
}
