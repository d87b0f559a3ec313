package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire"
)

const (
	steadyMessages = 1_000_000
	steadyMallocs  = 5_000 // far below one a message; on a busy machine a loop that was held up logs its stack
)

// steady is false where allocating is part of the matter: under the race
// detector, and when every record expands a new key. Fewer messages do then, and
// they are not counted.
var steady = !testenv.Race && rekey.Records == 0

// mallocsDuring counts what the whole process allocates, clients included.
func mallocsDuring(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func TestAMillionEchoesAllocateNothing(t *testing.T) {
	const conns, window = 4, 16
	s := start(t, nil)
	var echoes []*client.Echo
	for i := range conns {
		e, err := client.DialEcho(t.Context(), s.url("/echo"), s.options([]suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305}[i%2]))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(context.Background())
		echoes = append(echoes, e)
	}
	pump := func(n int) func() {
		return func() {
			var wg sync.WaitGroup
			for _, e := range echoes {
				wg.Go(func() { echoMany(t, e, n/conns, window) })
			}
			wg.Wait()
		}
	}
	pump(10_000)()
	n := steadyMessages
	if !steady {
		n /= 10
	}
	if got := mallocsDuring(pump(n)); got >= steadyMallocs && steady {
		t.Fatalf("%d allocations over %d echoes", got, n)
	}
}

// echoMany keeps window messages in flight until n have come back.
func echoMany(t *testing.T, e *client.Echo, n, window int) {
	ctx := context.Background()
	payload := make([]byte, 64)
	sent := 0
	for got := 0; got < n; got++ {
		for ; sent < n && sent-got < window; sent++ {
			if err := e.Send(ctx, payload); err != nil {
				t.Error(err)
				return
			}
		}
		p, err := e.Receive(ctx)
		if err != nil || len(p) != len(payload) {
			t.Errorf("message %d: %d bytes, %v", got, len(p), err)
			return
		}
	}
}

func TestAMillionDeliveriesAllocateNothing(t *testing.T) {
	for name, groups := range map[string]bool{"session": false, "group": true} {
		t.Run(name, func(t *testing.T) { deliverAMillion(t, groups) })
	}
}

func deliverAMillion(t *testing.T, groups bool) {
	subscribers := 1000
	if !steady {
		subscribers /= 10
	}
	const handOvers, ticks = 20, 50
	s := start(t, func(o *gateway.Options) { o.GroupSeal = groups })
	var readers []*frameCounter
	for i := range subscribers {
		readers = append(readers, subscribeRaw(t, s, []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305}[i%2], "md:a"))
	}
	payloads := slices.Repeat([][]byte{make([]byte, 100)}, ticks)
	round := func() func() {
		var prepared []func()
		for range handOvers {
			prepared = append(prepared, s.hub.prepare("md:a", payloads...))
		}
		return func() {
			for _, handOver := range prepared {
				handOver()
				for _, r := range readers {
					r.await(1)
				}
			}
		}
	}
	round()() // buffers grow, ciphers are expanded
	before := s.Stats().Delivered
	got := mallocsDuring(round())
	if delivered := s.Stats().Delivered - before; delivered != uint64(subscribers*handOvers*ticks) {
		t.Fatalf("%d deliveries", delivered)
	}
	if got >= steadyMallocs && steady {
		t.Fatalf("%d allocations over %d deliveries", got, subscribers*handOvers*ticks)
	}
}

// frameCounter counts frames as they arrive, without opening or keeping them.
type frameCounter struct {
	conn net.Conn
	br   *bufio.Reader
	kind wire.Kind // of the records that are counted
	err  error
}

// subscribeRaw connects and subscribes through the client, then reads the
// connection itself, because opening records on the client's side allocates.
func subscribeRaw(t testing.TB, s *server, id suite.ID, filter string, codecs ...wire.Codec) *frameCounter {
	t.Helper()
	f := &frameCounter{kind: wire.KindRecord}
	if s.groups {
		f.kind = wire.KindGroupRecord // of other members there are enough
	}
	opts := s.options(id)
	opts.Codecs = codecs
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		f.conn = c
		return c, err
	}
	c, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), filter); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	f.br = bufio.NewReaderSize(f.conn, 8<<10)
	return f
}

// await reads n records.
func (f *frameCounter) await(n int) {
	for n > 0 && f.err == nil {
		var head []byte
		if head, f.err = f.br.Peek(4); f.err != nil {
			return
		}
		size, length := 2, int(head[1])
		switch length {
		case 126:
			size, length = 4, int(head[2])<<8|int(head[3])
		case 127:
			f.err = errors.New("frame larger than expected")
			return
		}
		if head[0] == 0x82 {
			if head, f.err = f.br.Peek(size + 1); f.err == nil && wire.Kind(head[size]) == f.kind {
				n--
			}
		}
		_, f.err = f.br.Discard(size + length)
	}
}
