package integration

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/wire"
)

// edit is what somebody in the middle does to the binary messages of one
// direction: it gets the number of a message, from 0, and the message, and
// returns what goes on in its place.
type edit func(n int, msg []byte) [][]byte

// middle stands between one client and the gateway. It understands just enough
// HTTP and WebSocket to change what both say. The zero value changes nothing.
type middle struct {
	request, response   func(head string) string
	toGateway, toClient edit

	mu      sync.Mutex
	seen    [2][][]byte // binary messages as they came, by direction
	closes  [2][]byte   // payload of the close frame; nil: none came
	running sync.WaitGroup
}

// Directions.
const (
	up   = 0 // to the gateway
	down = 1 // to the client
)

// dial is a client.Options.NetDial: a connection to the middle, which has one to
// the gateway. Both are TCP over loopback.
func (m *middle) dial(ctx context.Context, network, gateway string) (net.Conn, error) {
	ln, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	client, err := (&net.Dialer{}).DialContext(ctx, network, ln.Addr().String())
	if err != nil {
		return nil, err
	}
	ours, err := ln.Accept()
	if err != nil {
		return nil, err
	}
	theirs, err := (&net.Dialer{}).DialContext(ctx, network, gateway)
	if err != nil {
		return nil, err
	}
	m.running.Go(func() { m.relay(ours, theirs) })
	return client, nil
}

// relay runs both directions until both have ended.
func (m *middle) relay(client, gateway net.Conn) {
	defer client.Close()
	defer gateway.Close()
	var both sync.WaitGroup
	both.Go(func() { m.pass(up, client, gateway, m.request, m.toGateway) })
	both.Go(func() { m.pass(down, gateway, client, m.response, m.toClient) })
	both.Wait()
}

// pass relays one direction, and its end. When the receiver does not take
// anything any more, the sender learns that too.
func (m *middle) pass(direction int, from, to net.Conn, head func(string) string, change edit) {
	in := bufio.NewReader(from)
	if m.passHead(in, to, head) == nil {
		for n := 0; m.passFrame(direction, &n, in, to, change) == nil; {
		}
	}
	_ = to.(*net.TCPConn).CloseWrite() // fails only when the receiver is gone
	_, _ = io.Copy(io.Discard, in)     // so that the sender is not reset while it closes
}

func (m *middle) passHead(in *bufio.Reader, to io.Writer, change func(string) string) error {
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		head.WriteString(line)
	}
	text := head.String()
	if change != nil {
		text = change(text)
	}
	_, err := io.WriteString(to, text)
	return err
}

func (m *middle) passFrame(direction int, n *int, in io.Reader, to io.Writer, change edit) error {
	frame, err := readFrame(in)
	if err != nil {
		return err
	}
	if frame.Header.Masked {
		frame = ws.UnmaskFrameInPlace(frame)
	}
	m.note(direction, frame)
	out := [][]byte{frame.Payload}
	if frame.Header.OpCode == ws.OpBinary && change != nil {
		out = change(*n, frame.Payload)
	}
	if frame.Header.OpCode == ws.OpBinary {
		*n++
	}
	for _, payload := range out {
		next := ws.NewFrame(frame.Header.OpCode, true, payload)
		if direction == up {
			next = ws.MaskFrame(next)
		}
		if err := ws.WriteFrame(to, next); err != nil {
			return err
		}
	}
	return nil
}

// note keeps what came, unchanged.
func (m *middle) note(direction int, frame ws.Frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch frame.Header.OpCode {
	case ws.OpBinary:
		m.seen[direction] = append(m.seen[direction], slices.Clone(frame.Payload))
	case ws.OpClose:
		m.closes[direction] = append([]byte{}, frame.Payload...)
	}
}

// messages are those that came so far in a direction.
func (m *middle) messages(direction int) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen[direction])
}

// end waits until both connections are closed and returns the code and reason
// that one side gave to the other.
func (m *middle) end(direction int) (wire.CloseCode, string) {
	m.running.Wait()
	payload := m.closes[direction]
	if len(payload) < 2 {
		return 0, ""
	}
	return wire.CloseCode(binary.BigEndian.Uint16(payload)), string(payload[2:])
}

// sentRecords reports whether the client has sent anything but its handshake.
func (m *middle) sentRecords() bool {
	for _, msg := range m.messages(up) {
		if len(msg) == 0 || wire.Kind(msg[0]) >= wire.KindRecord {
			return true
		}
	}
	return false
}
