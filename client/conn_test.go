package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

const testURL = "ws://gateway.test:8080/ws"

// mustDial connects, and closes at the test's end.
func mustDial(t *testing.T, opts Options) *Conn {
	t.Helper()
	conn, err := Dial(t.Context(), testURL, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// show is an event in a form that can be compared.
func show(e Event) string {
	switch e := e.(type) {
	case *Tick:
		return fmt.Sprintf("tick %s %d/%d -%d m%d %q", e.Topic, e.Epoch, e.Seq, e.Skipped, e.Merged, e.Payload)
	case *Gap:
		cause := ""
		if e.Cause != 0 {
			cause = " " + e.Cause.String()
		}
		return fmt.Sprintf("gap %s %d/%d-%d%s", e.Topic, e.Epoch, e.From, e.To, cause)
	case *Reset:
		return fmt.Sprintf("reset %s %d/%d %v", e.Topic, e.Epoch, e.NextSeq, e.Cause)
	case *TopicsAdded:
		return fmt.Sprintf("topics %v", e.Topics)
	default:
		return fmt.Sprintf("%T %v", e, reflect.ValueOf(e).Elem())
	}
}

func expect(t *testing.T, conn *Conn, want ...string) {
	t.Helper()
	for _, w := range want {
		e, err := conn.Next(t.Context())
		if err != nil {
			t.Fatalf("%v, want %s", err, w)
		}
		if got := show(e); got != w {
			t.Errorf("got  %s\nwant %s", got, w)
		}
	}
}

func TestReceive(t *testing.T) {
	hellos := make(chan *wire.Connect, 1)
	g := newFakeGateway(t, func(p *peer) {
		hellos <- p.connected()
		p.subscribed(state(1, "md:a", 77, 5), state(2, "md:b", 78, 1))
		p.batch(tickItem(1, 5, 0, "five"), tickItem(2, 1, 0, ""), tickItem(1, 6, 0, "six"), tickItem(1, 6, 0, "again"))
		p.batch(tickItem(1, 9, 0, "lost two"), tickItem(1, 12, 2, "merged two"), tickItem(2, 4, 1, "both"))
		p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Topics{Topics: &wire.Topics{Topics: []*wire.TopicState{state(3, "md:c", 79, 1)}}}})
		p.batch(resetItem(1, 90, 1, wire.Cause_CAUSE_SOURCE_LOST), tickItem(1, 1, 0, "anew"), tickItem(3, 1, 0, "\x00\xff"))
		p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{TimeUs: 1_700_000_000_000_000}}})
		p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Error{Error: &wire.Error{Code: 4403, Text: "no longer allowed", Filter: "md:*"}}})
		p.wait()
	})
	opts := g.options()
	opts.Token, opts.Name, opts.Version = "secret", "test", "v9"
	conn := mustDial(t, opts)
	if hello := <-hellos; hello.GetToken() != "secret" || hello.GetClientName() != "test" || hello.GetClientVersion() != "v9" {
		t.Errorf("Connect: %v", hello)
	}
	info := conn.Info()
	if !info.Pinned || info.Key != g.key.Public() || info.Version != "v1.2.3" || info.Session != "7" || !info.GatewayAES ||
		!info.Hybrid || info.MaxMessage != 64<<10 || info.MaxSubscriptions != 1000 || info.Suite != DefaultSuites()[0] {
		t.Errorf("Info: %+v", info)
	}
	got, err := conn.Subscribe(t.Context(), "md:*", "md:*")
	if err != nil || !slices.Equal(got.Filters, []string{"md:*"}) || got.Refused != nil {
		t.Errorf("Subscribe: %+v, %v", got, err)
	}
	expect(t, conn,
		"topics [{md:a 77 5 false} {md:b 78 1 false}]",
		`tick md:a 77/5 -0 m0 "five"`,
		`tick md:b 78/1 -0 m0 ""`,
		`tick md:a 77/6 -0 m0 "six"`,
		"gap md:a 77/7-8",
		`tick md:a 77/9 -0 m0 "lost two"`,
		`tick md:a 77/12 -2 m2 "merged two"`,
		"gap md:b 78/2-2",
		`tick md:b 78/4 -1 m1 "both"`,
		"topics [{md:c 79 1 false}]",
		"reset md:a 90/1 CAUSE_SOURCE_LOST",
		`tick md:a 90/1 -0 m0 "anew"`,
		`tick md:c 79/1 -0 m0 "\x00\xff"`,
		"*client.Heartbeat {"+time.UnixMicro(1_700_000_000_000_000).String()+"}",
		"*client.Refused {md:* 4403 not allowed no longer allowed}",
	)
}

func TestTickCloneAndTime(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		p.subscribed(state(1, "a", 7, 1))
		p.batch(tickItem(1, 1, 0, "one"), tickItem(1, 2, 0, "two"))
		p.wait()
	})
	conn := mustDial(t, g.options())
	if _, err := conn.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	expect(t, conn, "topics [{a 7 1 false}]")
	first, err := conn.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := first.(*Tick).Clone()
	if !conn.Ready() {
		t.Error("the second tick of a batch is not ready")
	}
	expect(t, conn, `tick a 7/2 -0 m0 "two"`)
	if conn.Ready() {
		t.Error("ready, but the batch is done")
	}
	if want := time.UnixMicro(1_700_000_000_000_001); string(kept.Payload) != "one" || !kept.Time.Equal(want) {
		t.Errorf("kept %s of %v, want %v", kept.Payload, kept.Time, want)
	}
}

func TestSubscribeRefused(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		refuse := func(id uint32, filter string) {
			p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Error{Error: &wire.Error{Id: id, Code: 4403, Text: "not\x1byours", Filter: filter}}})
		}
		m := p.request().GetSubscribe()
		refuse(m.GetId(), "b")
		p.send(subscribedFrame(m.GetId(), []string{"a"}))
		m = p.request().GetSubscribe()
		refuse(m.GetId(), "b")
		p.send(subscribedFrame(m.GetId(), nil))
		refuse(p.request().GetSubscribe().GetId(), "")
		u := p.request().GetUnsubscribe()
		refuse(u.GetId(), "c")
		p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Unsubscribed{Unsubscribed: &wire.Unsubscribed{Id: u.GetId(), Filters: []string{"a"}}}})
		p.wait()
	})
	conn := mustDial(t, g.options())
	got, err := conn.Subscribe(t.Context(), "a", "b")
	if err != nil || !slices.Equal(got.Filters, []string{"a"}) || len(got.Refused) != 1 || got.Refused[0] != (Refused{"b", 4403, "notyours"}) {
		t.Errorf("one of two: %+v, %v", got, err)
	}
	var refused *RequestError
	if _, err := conn.Subscribe(t.Context(), "b"); !errors.As(err, &refused) || refused.Code != wire.CloseForbidden || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("the only one: %v", err)
	}
	if _, err := conn.Subscribe(t.Context(), "a"); !errors.Is(err, ErrRequest) {
		t.Errorf("whole request: %v", err)
	}
	if err := conn.Unsubscribe(t.Context(), "a", "c"); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("Unsubscribe: %v", err)
	}
	if _, err := conn.Subscribe(t.Context(), "a:***"); !errors.Is(err, topic.ErrInvalid) {
		t.Errorf("invalid filter: %v", err)
	}
}

func TestSubscribeManyInParts(t *testing.T) {
	const n = 700
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		for {
			plaintext := p.receive()
			if plaintext == nil {
				return
			}
			if len(plaintext) > 64<<10 {
				t.Errorf("message of %d bytes", len(plaintext))
			}
			f, err := wire.ParseClientFrame(plaintext)
			if err != nil {
				t.Error(err)
				return
			}
			var filters []string
			for _, s := range f.GetSubscribe().GetSubscriptions() {
				filters = append(filters, s.GetFilter())
			}
			p.send(subscribedFrame(f.GetSubscribe().GetId(), filters))
		}
	})
	conn := mustDial(t, g.options())
	var filters []string
	for i := range n {
		filters = append(filters, fmt.Sprintf("%s:%d", strings.Repeat("x", 240), i))
	}
	got, err := conn.Subscribe(t.Context(), filters...)
	if err != nil || !slices.Equal(got.Filters, filters) {
		t.Errorf("%d of %d confirmed, %v", len(got.Filters), n, err)
	}
}

// Next in one goroutine, requests in others: each gets its own answer.
func TestConcurrentRequests(t *testing.T) {
	const requests, ticks = 40, 400
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		p.subscribed(state(1, "a", 7, 1))
		var seq uint64
		for {
			for range ticks / requests {
				seq++
				p.batch(tickItem(1, seq, 0, "x"))
			}
			f := p.request()
			if f == nil {
				return
			}
			if m := f.GetSubscribe(); m != nil {
				p.send(subscribedFrame(m.GetId(), []string{m.GetSubscriptions()[0].GetFilter()}))
			} else {
				p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Pong{Pong: &wire.Pong{Id: f.GetPing().GetId()}}})
			}
		}
	})
	conn := mustDial(t, g.options())
	if _, err := conn.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	expect(t, conn, "topics [{a 7 1 false}]")
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			if i%2 == 0 {
				if _, err := conn.Ping(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			filter := fmt.Sprintf("f%d", i)
			if got, err := conn.Subscribe(t.Context(), filter); err != nil || !slices.Equal(got.Filters, []string{filter}) {
				t.Errorf("%s: %v, %v", filter, got, err)
			}
		})
	}
	for seq := 1; seq <= ticks; seq++ {
		expect(t, conn, fmt.Sprintf(`tick a 7/%d -0 m0 "x"`, seq))
	}
	group.Wait()
}

func TestContextInterruptsAndLeavesTheConnection(t *testing.T) {
	goOn := make(chan struct{})
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		first := p.request().GetSubscribe()
		<-goOn
		// Half a record is there when the call is interrupted.
		sealed := p.sealed(wire.KindRecord, p.plain(subscribedFrame(first.GetId(), []string{"a"}, state(1, "a", 7, 1))))
		_ = p.raw(sealed[:20])
		<-goOn
		_ = p.raw(sealed[20:])
		p.batch(tickItem(1, 1, 0, "one"))
		p.wait()
	})
	conn := mustDial(t, g.options())
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { _, err := conn.Subscribe(ctx, "a"); result <- err }()
	goOn <- struct{}{}
	time.Sleep(10 * time.Millisecond)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Subscribe: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if e, err := conn.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next: %v, %v", e, err)
	}
	goOn <- struct{}{}
	expect(t, conn, "*client.Subscribed {[a]}", "topics [{a 7 1 false}]", `tick a 7/1 -0 m0 "one"`)
}

func TestFragmentedMessages(t *testing.T) {
	payload := strings.Repeat("tick ", 200)
	pongs := make(chan []string, 1)
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		p.subscribed(state(1, "a", 7, 1))
		for seq, n := range []int{1, 7, 100, 5000} {
			plaintext := wire.AppendBatchFrame(nil, []wire.BatchItem{tickItem(1, uint64(seq)+1, 0, payload)})
			if err := p.raw(fragmented(p.sess.Seal(nil, wire.KindRecord, plaintext), max(n, 2))); err != nil {
				t.Error(err)
			}
		}
		p.wait()
		pongs <- p.pongs
	})
	conn := mustDial(t, g.options())
	if _, err := conn.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	expect(t, conn, "topics [{a 7 1 false}]")
	for seq := 1; seq <= 4; seq++ {
		expect(t, conn, fmt.Sprintf("tick a 7/%d -0 m0 %q", seq, payload))
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	got := <-pongs
	if len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s != "between" }) {
		t.Errorf("pongs %q", got)
	}
}

func TestBacklogIsBounded(t *testing.T) {
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		p.subscribed(state(1, "a", 7, 1))
		p.request()
		for seq := uint64(1); p.raw(p.sealed(wire.KindRecord, wire.AppendBatchFrame(nil,
			[]wire.BatchItem{tickItem(1, seq, 0, strings.Repeat("x", 1000))}))) == nil; seq++ {
		}
	})
	conn := mustDial(t, g.options())
	conn.maxBacklog = 50_000
	if _, err := conn.Subscribe(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Ping(t.Context()); !errors.Is(err, ErrBacklog) {
		t.Errorf("Ping: %v", err)
	}
	expect(t, conn, "topics [{a 7 1 false}]")
	for range 100 { // what waited, and more
		if e, err := conn.Next(t.Context()); err != nil {
			t.Fatalf("%v, %v", e, err)
		}
	}
	if conn.backlog != 0 {
		t.Errorf("%d bytes still waiting", conn.backlog)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var err error
	for range 100 { // what one record holds is still returned
		if _, err = conn.Next(over); err != nil {
			break
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Next after its context: %v", err)
	}
	start := time.Now()
	if err := conn.Close(t.Context()); err != nil || time.Since(start) > 10*lingerTimeout {
		t.Errorf("Close: %v after %v, although the gateway goes on sending", err, time.Since(start))
	}
}
