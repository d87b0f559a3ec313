package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/testnet"
	"github.com/sealcast/sealcast/wire/topic"
)

// stand is where a client stands in a topic. The payloads are the numbers under
// which the ticks were published.
type stand struct {
	epoch, seq uint64
	payload    uint64 // of the last tick
	anew       bool   // no tick of this epoch has come yet
}

// account holds a client's events against what was published: ticks come in
// order, and what does not come is told by a gap of exactly that size or by a reset.
type account struct {
	stands              map[string]*stand
	ticks, gaps, resets int
	lost                map[string]uint64
	cuts, resumed       int
}

func (a *account) see(e client.Event) error {
	switch e := e.(type) {
	case *client.TopicsAdded:
		for _, s := range e.Topics {
			if a.stands[s.Topic] == nil {
				a.stands[s.Topic] = &stand{epoch: s.Epoch, seq: s.NextSeq - 1, anew: true}
			}
		}
	case *client.Tick:
		a.ticks++
		return a.tick(e)
	case *client.Gap:
		a.gaps++
		s := a.stands[e.Topic]
		if s.epoch != e.Epoch || s.seq+1 != e.From || e.To < e.From {
			return fmt.Errorf("%+v after %+v", e, s)
		}
		a.lost[e.Topic] += e.To - e.From + 1
		s.payload += e.To - e.From + 1
		s.seq = e.To
	case *client.Reset:
		a.resets++
		s := a.stands[e.Topic]
		s.epoch, s.seq, s.anew = e.Epoch, e.NextSeq-1, true
	case *client.Disconnected:
		a.cuts++
	case *client.Connected:
		if e.Info.Resumed {
			a.resumed++
		}
	}
	return nil
}

func (a *account) tick(e *client.Tick) error {
	s := a.stands[e.Topic]
	n, err := strconv.ParseUint(string(e.Payload), 10, 64)
	switch {
	case err != nil:
		return err
	case s.epoch != e.Epoch || s.seq+1 != e.Seq:
		return fmt.Errorf("%s: after %+v comes %d/%d", e.Topic, s, e.Epoch, e.Seq)
	case s.anew && n <= s.payload, !s.anew && n != s.payload+1:
		return fmt.Errorf("%s %d/%d: after %d comes %d", e.Topic, e.Epoch, e.Seq, s.payload, n)
	}
	s.seq, s.payload, s.anew = e.Seq, n, false
	return nil
}

// Connections that are cut at random bytes, while ticks of three kinds of topics
// come: of one everything is kept, of one the last few ticks, of one nothing.
// Everything is explained; of what is kept nothing is lost.
func TestClientUnderCuts(t *testing.T) {
	const last = 1200
	filter := func(s string) topic.Filter {
		f, err := topic.ParseFilter(s)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	s := startWithTickets(t, fanout.Rule{Match: filter("kept"), History: 10_000}, fanout.Rule{Match: filter("short"), History: 4})
	schedule := rand.New(rand.NewPCG(1, 2))
	var calm atomic.Bool
	opts := s.options()
	opts.Backoff = client.Backoff{Min: 2 * time.Millisecond, Max: 10 * time.Millisecond}
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if calm.Load() || err != nil {
			return conn, err
		}
		return &testnet.Cut{Conn: conn, Left: 400 + schedule.IntN(3000)}, nil
	}
	ctx := limited(t)
	var c *client.Client
	eventually(t, "the first connection", func() (ok bool) {
		var err error
		c, err = client.Open(ctx, "ws://"+s.addr+"/ws", opts)
		return err == nil
	})
	defer c.Close(context.WithoutCancel(ctx))
	if err := c.Subscribe("kept", "short", "none"); err != nil {
		t.Fatal(err)
	}
	a := &account{stands: map[string]*stand{}, lost: map[string]uint64{}}
	next := func() {
		e, err := c.Next(ctx)
		if err == nil {
			err = a.see(e)
		}
		if err != nil {
			t.Fatalf("%v after %+v", err, a)
		}
	}
	for len(a.stands) < 3 {
		next()
	}
	ctx, enough := context.WithCancel(ctx)
	var publishing sync.WaitGroup
	defer publishing.Wait()
	defer enough()
	publishing.Go(func() {
		for n := 1; n <= last; n++ {
			for _, name := range strings.Fields("kept short none") {
				s.redis.Publish(name, strconv.Itoa(n))
			}
			time.Sleep(time.Millisecond)
		}
		calm.Store(true)
		for n := last + 1; ctx.Err() == nil; n++ { // until the client has seen enough
			for _, name := range strings.Fields("kept short none") {
				s.redis.Publish(name, strconv.Itoa(n))
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	for a.stands["kept"].payload <= last || a.stands["short"].payload <= last || a.stands["none"].payload <= last {
		next()
	}
	if a.lost["kept"] > 0 {
		t.Errorf("%d ticks lost of which all were kept", a.lost["kept"])
	}
	if a.cuts < 20 || a.resumed == 0 || a.gaps+a.resets == 0 {
		t.Errorf("%+v: that proves little", a)
	}
	t.Logf("%+v", a)
}
