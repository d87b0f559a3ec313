package loadgen

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/gateway/upgrade"
	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/message"
	"github.com/sealcast/sealcast/internal/loadgen/peer"
	"github.com/sealcast/sealcast/internal/loadgen/reactor"
	"github.com/sealcast/sealcast/internal/loadgen/report"
)

// simnet is a backend whose network, server and clock are made up: a message
// comes back exactly when the test wants it to, and no time passes meanwhile.
type simnet struct {
	now     int64
	socks   map[int]*simsock
	next    int
	queue   arrivals
	answers func(socket int, at int64) int64 // when a message that came at a time is answered
	stretch func(until int64) int64          // nil, or how late the loop wakes up
	ready   []reactor.Ready
	fresh   []int // sockets whose connection was not told yet
}

// simsock is one socket with the ordinary WebSocket server at its other end.
type simsock struct {
	in       bytes.Buffer // for the client
	request  []byte       // of the client, until the upgrade
	frames   []byte
	upgraded bool
	last     int64
}

// arrival is an answer on its way.
type arrival struct {
	at     int64
	order  int
	socket int
	bytes  []byte
}

type arrivals []arrival

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func (n *simnet) Now() int64 { return n.now }

func (n *simnet) Dial(netip.AddrPort, netip.Addr) (int, error) {
	n.next++
	n.socks[n.next] = &simsock{}
	n.fresh = append(n.fresh, n.next)
	return n.next, nil
}

func (n *simnet) Connected(int) error         { return nil }
func (n *simnet) Watch(int, bool, bool) error { return nil }
func (n *simnet) Close(socket int, _ bool)    { delete(n.socks, socket) }
func (n *simnet) Wake()                       {}
func (n *simnet) Shut()                       {}
func (n *simnet) later(a arrival)             { n.next++; a.order = n.next; heap.Push(&n.queue, a) }
func (n *simnet) Write(id int, b []byte) (int, error) {
	n.serve(id, n.socks[id], b)
	return len(b), nil
}

func (n *simnet) Read(id int, b []byte) (int, error) {
	if n.socks[id].in.Len() == 0 {
		return 0, reactor.ErrAgain
	}
	return n.socks[id].in.Read(b)
}

// Wait lets time pass until something happens.
func (n *simnet) Wait(until int64) ([]reactor.Ready, error) {
	n.ready = n.ready[:0]
	if len(n.fresh) > 0 {
		for _, id := range n.fresh {
			n.ready = append(n.ready, reactor.Ready{Socket: id, Write: true})
		}
		n.fresh = nil
		return n.ready, nil
	}
	if n.queue.Len() == 0 && until == reactor.Never {
		return nil, io.ErrUnexpectedEOF // nothing will ever happen: a mistake of the test
	}
	if n.queue.Len() == 0 || n.queue[0].at > until {
		n.now = max(n.now, until)
		if n.stretch != nil {
			n.now = max(n.now, n.stretch(n.now))
		}
		return nil, nil
	}
	a := heap.Pop(&n.queue).(arrival)
	n.now = max(n.now, a.at)
	if s := n.socks[a.socket]; s != nil {
		s.in.Write(a.bytes)
		n.ready = append(n.ready, reactor.Ready{Socket: a.socket, Read: true})
	}
	return n.ready, nil
}

// serve is the server: an upgrade at once, then every message back when the test says.
func (n *simnet) serve(id int, s *simsock, b []byte) {
	if !s.upgraded {
		s.request = append(s.request, b...)
		req, took, err := upgrade.Parse(s.request)
		if err != nil || took == 0 {
			return
		}
		s.upgraded = true
		n.later(arrival{at: n.now, socket: id, bytes: upgrade.AppendAccept(nil, req.Key, "")})
		b = s.request[took:]
	}
	s.frames = append(s.frames, b...)
	for {
		header, payload, rest := clientFrame(s.frames)
		if payload == nil {
			return
		}
		s.frames = rest
		s.last = max(s.last, n.answers(id, n.now))
		n.later(arrival{at: s.last, socket: id, bytes: append(header, payload...)})
	}
}

// clientFrame takes a masked frame of less than 64 KiB and makes the header of its answer.
func clientFrame(b []byte) (header, payload, rest []byte) {
	if len(b) < 8 {
		return nil, nil, b
	}
	size, head := int(b[1]&0x7f), 2
	header = []byte{b[0], byte(size)}
	if size == 126 {
		size, head = int(binary.BigEndian.Uint16(b[2:])), 4
		header = append(header, b[2:4]...)
	}
	if len(b) < head+4+size {
		return nil, nil, b
	}
	payload = bytes.Clone(b[head+4 : head+4+size])
	ws.Cipher(payload, [4]byte(b[head:]), 0)
	return header, payload, b[head+4+size:]
}

const ms = int64(time.Millisecond)

// simulate drives an open loop of so many connections for a minute of made-up
// time, of which ten seconds are warm-up.
func simulate(t *testing.T, net *simnet, connections int, rate float64) (*measure.Figures, map[peer.Kind]uint64) {
	t.Helper()
	net.socks = map[int]*simsock{}
	env := &Env{Seed: 7, Gateways: []*Gateway{{Host: "simulated"}}}
	e := Echo{Of: report.Case{Suite: WebSocket, Size: 200, Connections: connections}, Rate: rate}
	cfg, err := e.config(env, env.Gateways[0])
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{}
	s := c.add(reactor.New(net), connections, connections)
	pattern := message.Template(env.Seed, e.Of.Size)
	var clients []*echoClient
	for i := range connections {
		client := &echoClient{pattern: pattern, message: bytes.Clone(pattern), window: e.window()}
		client.peer, client.role = peer.New(cfg, s.shared, env.mask(i)), client
		clients = append(clients, client)
		s.waiting = append(s.waiting, func(s *station) (*reactor.Conn, error) { return client.dial(s, env.Gateways[0], netip.Addr{}) })
	}
	turn := func() {
		if err := s.loop.Turn(); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; int(c.ready.Load()) < connections; n++ {
		if turn(); n > 100*connections {
			t.Fatalf("%d of %d connections after %d turns", c.ready.Load(), connections, n)
		}
	}
	begin := net.now
	s.rec = measure.NewRecorder(measure.Window{From: begin + 10_000*ms, To: begin + 60_000*ms, Slices: slicesOf})
	s.pacers = append(s.pacers, newCycle(clients, rate, begin, s.rec.To, env.Seed))
	for net.now < s.rec.To+5000*ms {
		turn()
	}
	return measure.Merge([]*measure.Recorder{s.rec}), s.errors
}

// near wants a time in nanoseconds within a per cent, which is more than a histogram's resolution.
func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got < want*99/100 || got > want*101/100 {
		t.Errorf("%s: %v, want about %v", what, time.Duration(got), time.Duration(want))
	}
}
