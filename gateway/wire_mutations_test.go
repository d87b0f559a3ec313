package gateway_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire"
)

// mutants is how many mutated streams are thrown at the gateway.
func mutants() int {
	n := 20_000
	if testenv.Race { // five times as slow
		n = 5_000
	}
	if testenv.Long() {
		n *= 5
	}
	return n
}

// sameBytes is randomness that repeats itself: every ephemeral key of the gateway
// is the same, so that what one client has sent is valid when it is sent again.
type sameBytes struct{}

func (sameBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x5a
	}
	return len(p), nil
}

// recording is a valid stream of a client: what it sends at once, how much it
// reads before it goes on, and what it sends then.
type recording struct {
	first  []byte
	answer int
	then   []byte
}

// recorded runs a sealed conversation up to the handshake and seals what say makes.
func recorded(t *testing.T, s *server, path string, id suite.ID, say func(*peer) [][]byte) recording {
	t.Helper()
	p := knock(t, s)
	defer p.conn.Close()
	p.sess = newClientSession(t, s, path, id)
	var r recording
	r.first = append([]byte(request(path, offer(id))), binaryFrame(p.init())...)
	p.send(r.first)
	before := p.count()
	p.response()
	p.takeReply()
	r.answer = *before
	r.then = bytes.Join(say(p), nil)
	return r
}

// count counts what the peer reads from here on.
func (p *peer) count() *int {
	n := new(int)
	p.br.Reset(readerFunc(func(b []byte) (int, error) {
		m, err := p.conn.Read(b)
		*n += m
		return m, err
	}))
	return n
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func recordings(t *testing.T, s *server) []recording {
	t.Helper()
	goodbye, err := wire.AppendGoodbye(nil, &wire.Goodbye{Code: 1000})
	if err != nil {
		t.Fatal(err)
	}
	end := func(p *peer) []byte { return append(p.seal(wire.KindGoodbye, goodbye), closeFrame(1000, "")...) }
	unsubscribe := &wire.ClientFrame{Message: &wire.ClientFrame_Unsubscribe{Unsubscribe: &wire.Unsubscribe{Id: 3, Filters: []string{"md:b"}}}}
	return []recording{
		{first: bytes.Join([][]byte{[]byte(request("/echo")), frame(ws.OpText, true, "héllo"), frame(ws.OpPing, true, "p"),
			binaryParts("a", "b", "", "c"), frame(ws.OpBinary, true, make([]byte, 200)), frame(ws.OpPong, true, ""), closeFrame(1000, "bye")}, nil)},
		recorded(t, s, "/echo", suite.AES128GCM, func(p *peer) [][]byte {
			return [][]byte{p.seal(wire.KindRecord, []byte("one")), frame(ws.OpPing, true, "p"), p.seal(wire.KindRecord, make([]byte, 300)),
				binaryFrame(p.sess.AppendKeyUpdate(nil, 0)), p.seal(wire.KindRecord, nil), end(p)}
		}),
		recorded(t, s, "/ws", suite.ChaCha20Poly1305, func(p *peer) [][]byte {
			return [][]byte{p.say(connectMessage()), p.say(subscribeMessage(1, "md:a", "md:b")), p.say(pingMessage(2)),
				p.say(subscribeMessage(2, "md:*", "x:**")), p.say(unsubscribe), end(p)}
		}),
		recorded(t, s, "/ws", suite.Plain, func(p *peer) [][]byte { // mutations get through to the messages
			return [][]byte{p.say(connectMessage()), p.say(subscribeMessage(1, "md:a", "md:b")), p.say(pingMessage(2)),
				p.say(subscribeMessage(2, "md:*", "x:**")), p.say(unsubscribe), end(p)}
		}),
	}
}

// mutate changes a stream in one to four places. other is what may be spliced in.
func mutate(r *rand.Rand, stream, other []byte) []byte {
	b := slices.Clone(stream)
	for range 1 + r.IntN(4) {
		if len(b) == 0 {
			return b
		}
		at := r.IntN(len(b))
		end := min(at+1+r.IntN(16), len(b))
		switch r.IntN(8) {
		case 0, 1:
			b[at] ^= 1 << r.IntN(8)
		case 2:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xfe, 0xff}[r.IntN(6)]
		case 3:
			b = slices.Delete(b, at, end)
		case 4:
			b = slices.Insert(b, at, b[at:end]...)
		case 5:
			b = slices.Insert(b, at, binary.BigEndian.AppendUint64(nil, r.Uint64())[:1+r.IntN(8)]...)
		case 6:
			b = append(b[:at], other[r.IntN(len(other)+1):]...)
		case 7:
			b = b[:at]
		}
	}
	return b
}

// throw sends one mutant and reads until the gateway has closed.
func throw(addr string, r *rand.Rand, all []recording) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	victim, other := all[0], all[r.IntN(len(all))]
	if r.IntN(2) == 0 { // the others cost a handshake
		victim = all[1+r.IntN(len(all)-1)]
	}
	first, then := victim.first, victim.then
	if len(then) > 0 && r.IntN(2) == 0 {
		then = mutate(r, then, other.then[:len(other.then):len(other.then)])
	} else {
		first, then = mutate(r, first, other.first), nil
	}
	if _, err := conn.Write(first); err != nil && !isReset(err) {
		return err
	}
	if len(then) > 0 {
		if _, err := io.CopyN(io.Discard, conn, int64(victim.answer)); err != nil {
			return fmt.Errorf("no reply to a valid handshake: %w", err)
		}
		if _, err := conn.Write(then); err != nil && !isReset(err) {
			return err
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite() // fails only when the gateway is gone
	if _, err := io.Copy(io.Discard, conn); err != nil && !isReset(err) {
		return fmt.Errorf("the gateway does not close: %w", err)
	}
	return nil
}

// TestNeighbourOfMutants: a client on the same loop gets all its ticks in order
// while others throw mutations of valid streams at the gateway. Afterwards
// everything is as before.
func TestNeighbourOfMutants(t *testing.T) {
	s := start(t, func(o *gateway.Options) { o.Loops, o.Session.Rand = 1, sameBytes{} })
	c := s.dial(t)
	if _, err := c.Subscribe(t.Context(), "md:neighbour"); err != nil {
		t.Fatal(err)
	}
	all := recordings(t, s)
	checkRecordings(t, s, all)
	eventually(t, "the neighbour alone", func() bool { return s.Stats().Connections == 1 })
	goroutines := runtime.NumGoroutine()

	const throwers = 4
	var wg sync.WaitGroup
	for i := range throwers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range mutants() / throwers {
				if err := throw(s.addr, r, all); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	ticks, slowest := keepTicking(t, s, c, done)
	t.Logf("%d ticks beside %d mutants, the slowest took %v", ticks, mutants(), slowest)

	eventually(t, "the neighbour alone again", func() bool { return s.Stats().Connections == 1 })
	eventually(t, "goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := s.hub.heldFilters(); n != 1 {
		t.Errorf("%d filters are held, want the neighbour's", n)
	}
	if st := s.Stats(); st.Panics != 0 || st.EnrollFailed != 0 {
		t.Errorf("%+v", st)
	}
}

// checkRecordings: unchanged, they are valid whenever they are sent.
func checkRecordings(t *testing.T, s *server, all []recording) {
	t.Helper()
	for i, r := range all {
		before := s.Stats().RecordsOpened
		p := knock(t, s)
		p.send(r.first)
		if _, err := io.CopyN(io.Discard, p.br, int64(r.answer)); err != nil {
			t.Fatal(err)
		}
		p.send(r.then)
		end, err := io.ReadAll(p.br)
		if err != nil || !bytes.HasSuffix(end, binary.BigEndian.AppendUint16([]byte{0x88, 2}, 1000)) && !bytes.HasSuffix(end, []byte("goodbye")) {
			t.Fatalf("recording %d ends with %q, %v", i, end[max(0, len(end)-20):], err)
		}
		if r.then != nil && s.Stats().RecordsOpened-before < 5 {
			t.Fatalf("recording %d: %d records opened", i, s.Stats().RecordsOpened-before)
		}
	}
}

// keepTicking publishes a tick and waits for it, again and again.
func keepTicking(t *testing.T, s *server, c *client.Conn, done chan struct{}) (n int, slowest time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for {
		select {
		case <-done:
			return n, slowest
		case <-time.After(time.Millisecond):
		}
		n++
		began := time.Now()
		s.hub.publish("md:neighbour", fmt.Append(nil, n))
		for {
			ev, err := c.Next(ctx)
			if err != nil {
				t.Fatalf("tick %d: %v", n, err)
			}
			if _, ok := ev.(*client.Heartbeat); ok {
				continue
			}
			tick, ok := ev.(*client.Tick)
			if !ok && n == 1 { // the topics of the subscription
				continue
			}
			if !ok || tick.Seq != uint64(n) || string(tick.Payload) != fmt.Sprint(n) {
				t.Fatalf("tick %d: %#v", n, ev)
			}
			break
		}
		slowest = max(slowest, time.Since(began))
	}
}
