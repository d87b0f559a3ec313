package gateway_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire/topic"
)

// thinConn is a connection from which so many bytes a second can be read.
type thinConn struct {
	net.Conn
	rate atomic.Int64 // 0: any
	got  atomic.Int64 // bytes so far
	free time.Time    // when the next may be read
}

func (c *thinConn) Read(p []byte) (int, error) {
	rate := c.rate.Load()
	if rate > 0 {
		p = p[:min(len(p), 1<<10)]
		time.Sleep(time.Until(c.free))
	}
	n, err := c.Conn.Read(p)
	c.got.Add(int64(n))
	if rate > 0 {
		c.free = time.Now().Add(time.Duration(n) * time.Second / time.Duration(rate))
	}
	return n, err
}

// startLatest is a gateway whose topics all have policy latest.
func startLatest(t *testing.T) *server {
	everything, err := topic.ParseFilter("**")
	fatal(t, err)
	return start(t, func(o *gateway.Options) {
		o.Unsent = 4 << 10
		o.Slow.Queue = 64 << 10
		o.Batch = gateway.BatchOptions{MaxDelay: time.Millisecond, MaxTicks: 16, MaxBytes: 2 << 10}
		o.Topics = []gateway.TopicRule{{Match: everything, Latest: true}}
	})
}

// thinClient subscribes to everything, then reads no more than rate bytes a second.
func thinClient(t *testing.T, s *server, rate int64) (*client.Conn, *thinConn) {
	t.Helper()
	thin := new(thinConn)
	opts := s.options()
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(32 << 10)
		}
		thin.Conn = c
		return thin, err
	}
	c, err := client.Dial(t.Context(), s.url("/ws"), opts)
	fatal(t, err)
	_, err = c.Subscribe(t.Context(), "md:**")
	fatal(t, err)
	thin.rate.Store(rate)
	t.Cleanup(func() {
		thin.rate.Store(0)
		_ = c.Close(context.Background())
	})
	return c, thin
}

// account holds a client's ticks against what was published.
type account struct {
	last   map[string]uint64 // sequence numbers, as received
	merged uint64
}

// next takes the next tick, which has to cover all between the one before and itself.
func (a *account) next(t *testing.T, c *client.Conn) *client.Tick {
	t.Helper()
	for {
		event, err := c.Next(t.Context())
		fatal(t, err)
		switch e := event.(type) {
		case *client.Gap, *client.Reset:
			t.Fatalf("got %#v", e)
		case *client.Tick:
			if e.Seq-e.Skipped != a.last[e.Topic]+1 || binary.BigEndian.Uint64(e.Payload) != e.Seq {
				t.Fatalf("%s: tick %d covers %d, after %d; says it is %d", e.Topic, e.Seq, e.Skipped, a.last[e.Topic], binary.BigEndian.Uint64(e.Payload))
			}
			a.last[e.Topic] = e.Seq
			a.merged += e.Skipped
			return e
		}
	}
}

// stamped is a payload with its number, and with how much the client had read when it was
// published.
func stamped(n uint64, to *thinConn, size int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, size), n)
	return binary.BigEndian.AppendUint64(b, uint64(to.got.Load()))[:size]
}

// A client that reads a small part of what is published stays, and what it reads was
// published no more than 240 KiB ago, as it reads them: twenty-four
// seconds at 10 KB a second. It takes that long to see, so `make test` has it read faster.
func TestThinClientStaysCurrent(t *testing.T) {
	const topics, size, pause, oldest = 20, 1000, 20 * time.Millisecond, 240 << 10
	rate, bytes := int64(100_000), int64(400_000)
	if testenv.Long() {
		rate, bytes = 10_000, 600_000
	}
	s := startLatest(t)
	c, thin := thinClient(t, s, rate)
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for n := uint64(1); ctx.Err() == nil; n++ {
			for i := range topics {
				s.hub.publish(fmt.Sprint("md:", i), stamped(n, thin, size))
			}
			time.Sleep(pause)
		}
	})
	defer publishing.Wait()
	defer stop()
	a := account{last: map[string]uint64{}}
	age := int64(0)
	for began := thin.got.Load(); thin.got.Load() < began+bytes; {
		e := a.next(t, c)
		age = max(age, thin.got.Load()-int64(binary.BigEndian.Uint64(e.Payload[8:])))
	}
	t.Logf("%d ticks merged; the oldest data was published %d bytes ago, %v at this rate", a.merged, age,
		(time.Duration(age) * time.Second / time.Duration(rate)).Round(time.Millisecond))
	if got := s.Stats(); got.TooSlow != 0 || a.merged == 0 || age > oldest {
		t.Errorf("%d sessions ended, %d ticks merged, data of %d bytes ago", got.TooSlow, a.merged, age)
	}
}

// 5 MiB at once for a client behind 1 Mbit/s: it stays, and ends with exactly the newest
// value of each topic.
func TestBurstToThinClient(t *testing.T) {
	const rate, topics, size, rounds = 1_000_000 / 8, 50, 1 << 10, 5 << 20 / (50 << 10)
	s := startLatest(t)
	c, thin := thinClient(t, s, rate)
	for n := range uint64(rounds) {
		for i := range topics {
			s.hub.publish(fmt.Sprint("md:", i), stamped(n+1, thin, size))
		}
	}
	a := account{last: map[string]uint64{}}
	ticks := 0
	for current := 0; current < topics; ticks++ {
		if e := a.next(t, c); e.Seq == rounds {
			current++
		}
	}
	t.Logf("%d ticks for %d", ticks, topics*rounds)
	if got := s.Stats(); got.TooSlow != 0 || a.merged != uint64(topics*rounds-ticks) || a.merged == 0 {
		t.Errorf("%d sessions ended, %d ticks and %d merged of %d", got.TooSlow, ticks, a.merged, topics*rounds)
	}
}
