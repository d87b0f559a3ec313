package integration

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// hand is a client whose bytes a test sends itself.
type hand struct {
	conn net.Conn
	br   *bufio.Reader
	sess *session.Session // nil on the unencrypted echo
}

func (s *system) byHand(path string, id suite.ID, mode session.PostQuantum) (*hand, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	h := &hand{conn: conn, br: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil || id == 0 {
		return h, err
	}
	role := session.RolePush
	if path == "/echo" {
		role = session.RoleEcho
	}
	h.sess, err = session.NewClient(&session.ClientConfig{Pins: []session.PublicKey{s.key.Public()}, PostQuantum: mode},
		record.NewPool(2, 0), session.Binding{Role: role, Realm: realm, Offered: []string{id.Protocol()}, Selected: id.Protocol()})
	return h, err
}

// upgradeRequest asks for a path, and for a suite unless that is 0.
func upgradeRequest(path string, id suite.ID) []byte {
	head := "GET " + path + " HTTP/1.1\r\nHost: gateway.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
	if id != 0 {
		head += "Sec-WebSocket-Protocol: " + id.Protocol() + "\r\n"
	}
	return []byte(head + "\r\n")
}

// init makes the frame with HandshakeInit.
func (h *hand) init() ([]byte, error) {
	job, err := h.sess.Start()
	if err != nil {
		return nil, err
	}
	job.Run()
	msg, err := h.sess.Complete(job)
	return masked(ws.OpBinary, true, msg), err
}

// readHead reads the answer to the upgrade request.
func (h *hand) readHead() (string, error) {
	resp, err := http.ReadResponse(h.br, nil)
	if err != nil {
		return "", err
	}
	return resp.Status + " " + resp.Header.Get("Sec-WebSocket-Protocol"), nil
}

// readReply completes the handshake.
func (h *hand) readReply() error {
	frame, err := readFrame(h.br)
	if err != nil {
		return err
	}
	job, err := h.sess.Receive(frame.Payload)
	if err != nil {
		return err
	}
	job.Run()
	_, err = h.sess.Complete(job)
	return err
}

// readRest reads to the end of the stream and tells what came, frame by frame.
func (h *hand) readRest() (told []string, err error) {
	for {
		frame, err := readFrame(h.br)
		if err == io.EOF {
			return told, nil
		}
		if err != nil {
			return told, err
		}
		text, err := h.tell(frame)
		if err != nil {
			return told, err
		}
		told = append(told, text)
	}
}

// tell is a frame in words, opened if it is a record, without what differs from
// connection to connection.
func (h *hand) tell(frame ws.Frame) (string, error) {
	if frame.Header.OpCode != ws.OpBinary || h.sess == nil {
		return fmt.Sprintf("%d %q", frame.Header.OpCode, frame.Payload), nil
	}
	kind, plaintext, err := h.sess.Open(frame.Payload)
	if err != nil {
		return "", err
	}
	f, err := wire.ParseServerFrame(plaintext)
	if connected := f.GetConnected(); err == nil && connected != nil {
		return "Connected " + connected.GetVersion(), nil
	}
	return fmt.Sprintf("kind %#x %q", kind, plaintext), nil
}

func (h *hand) seal(kind wire.Kind, plaintext []byte) []byte {
	return h.sess.Seal(nil, kind, plaintext)
}

func (h *hand) say(f *wire.ClientFrame, padTo int) []byte {
	plaintext, err := wire.AppendClientFrame(nil, f, padTo)
	if err != nil {
		panic(err) // the tests' own messages
	}
	return h.seal(wire.KindRecord, plaintext)
}

func masked[T string | []byte](op ws.OpCode, fin bool, payload T) []byte {
	return ws.MustCompileFrame(ws.MaskFrameWith(ws.NewFrame(op, fin, []byte(payload)), [4]byte{0xa5, 0x5a, 0x0f, 0xf0}))
}

// inFragments is a message in three frames with a ping between.
func inFragments(op ws.OpCode, msg []byte) []byte {
	a, b := len(msg)/3, len(msg)/2
	return bytes.Join([][]byte{masked(op, false, msg[:a]), masked(ws.OpPing, true, "ping"),
		masked(ws.OpContinuation, false, msg[a:b]), masked(ws.OpContinuation, true, msg[b:])}, nil)
}

func closing(code uint16) []byte {
	return masked(ws.OpClose, true, binary.BigEndian.AppendUint16(nil, code))
}

// line joins what came for a comparison.
func line(told ...string) string { return strings.Join(told, "\n") }

// readFrame reads one frame. Nothing here sends long ones.
func readFrame(r io.Reader) (ws.Frame, error) {
	header, err := ws.ReadHeader(r)
	if err != nil {
		return ws.Frame{}, err
	}
	if header.Length > 4<<20 {
		return ws.Frame{}, fmt.Errorf("a frame of %d bytes", header.Length)
	}
	payload := make([]byte, header.Length)
	_, err = io.ReadFull(r, payload)
	return ws.Frame{Header: header, Payload: payload}, err
}
