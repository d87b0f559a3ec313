package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/session"
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
		return fmt.Sprintf("gap %s %d/%d-%d", e.Topic, e.Epoch, e.From, e.To)
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
		"topics [{md:a 77 5} {md:b 78 1}]",
		`tick md:a 77/5 -0 m0 "five"`,
		`tick md:b 78/1 -0 m0 ""`,
		`tick md:a 77/6 -0 m0 "six"`,
		"gap md:a 77/7-8",
		`tick md:a 77/9 -0 m0 "lost two"`,
		`tick md:a 77/12 -2 m2 "merged two"`,
		"gap md:b 78/2-2",
		`tick md:b 78/4 -1 m1 "both"`,
		"topics [{md:c 79 1}]",
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
	expect(t, conn, "topics [{a 7 1}]")
	first, err := conn.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := first.(*Tick).Clone()
	expect(t, conn, `tick a 7/2 -0 m0 "two"`)
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
	expect(t, conn, "topics [{a 7 1}]")
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
	expect(t, conn, "topics [{a 7 1}]", `tick a 7/1 -0 m0 "one"`)
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
	expect(t, conn, "topics [{a 7 1}]")
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

func TestOnlyGoodbyeIsFinal(t *testing.T) {
	tests := []struct {
		name  string
		end   func(*peer)
		final bool
		code  wire.CloseCode
		wait  time.Duration
	}{
		{"goodbye", func(p *peer) { p.goodbye(wire.CloseRestart, "draining") }, true, wire.CloseRestart, 1500 * time.Millisecond},
		{"goodbye without a close", func(p *peer) {
			plaintext, _ := wire.AppendGoodbye(nil, &wire.Goodbye{Code: 4401, Text: "who are you"})
			p.record(wire.KindGoodbye, plaintext)
		}, true, wire.CloseUnauthenticated, 0},
		{"close only", func(p *peer) { p.close(wire.CloseUnauthenticated, "forged") }, false, wire.CloseUnauthenticated, 0},
		{"close without a code", func(p *peer) { _ = p.raw([]byte{0x88, 0}); p.wait() }, false, wire.CloseNoStatus, 0},
		{"end of stream", func(*peer) {}, false, 0, 0},
		{"cut inside a frame", func(p *peer) { _ = p.raw([]byte{0x82, 100, 1, 2, 3}) }, false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			closing := make(chan []byte, 1)
			g := newFakeGateway(t, func(p *peer) {
				p.connected()
				tt.end(p)
				closing <- p.closing
			})
			conn := mustDial(t, g.options())
			_, err := conn.Next(t.Context())
			var closed *ClosedError
			if !errors.As(err, &closed) || closed.Final != tt.final || closed.Code != tt.code || closed.ReconnectAfter != tt.wait || errors.Is(err, ErrCut) == tt.final {
				t.Fatalf("%v: %+v", err, closed)
			}
			if _, again := conn.Next(t.Context()); again != err {
				t.Errorf("second time: %v", again)
			}
			if _, err := conn.Ping(t.Context()); !errors.As(err, &closed) {
				t.Errorf("Ping: %v", err)
			}
			if got := <-closing; tt.code != 0 && tt.code != wire.CloseNoStatus && got != nil {
				if code := wire.CloseCode(binary.BigEndian.Uint16(got)); code != tt.code {
					t.Errorf("close answered with %v", code)
				}
			}
		})
	}
}

func TestSilenceIsACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(t, func(p *peer) {
			p.request()
			p.send(connectedFrame(75_000))
			time.Sleep(74 * time.Second)
			p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{TimeUs: 1}}})
			for range 10 { // pings prove nothing
				time.Sleep(30 * time.Second)
				_ = p.raw(ws.MustCompileFrame(ws.NewPingFrame(nil)))
				if _, err := ws.ReadHeader(p.conn); err != nil {
					return
				}
				_, _ = io.CopyN(io.Discard, p.conn, 0)
			}
		})
		g.pair = inMemory
		conn := mustDial(t, g.options())
		if _, err := conn.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := conn.Next(t.Context())
		if took := time.Since(start); !errors.Is(err, ErrSilent) || !errors.Is(err, ErrCut) || took < 75*time.Second || took > 80*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The time in which the program does not listen is not the gateway's silence.
func TestSlowProgramIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(t, func(p *peer) {
			p.request()
			p.send(connectedFrame(1000))
			p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{TimeUs: 1}}})
			p.wait()
		})
		g.pair = inMemory
		conn := mustDial(t, g.options())
		time.Sleep(time.Hour)
		if _, err := conn.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStuckWriteEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := newFakeGateway(t, func(p *peer) {
			p.connected()
			<-release
		})
		g.pair = inMemory
		conn := mustDial(t, g.options())
		start := time.Now()
		_, err := conn.Ping(t.Context())
		if took := time.Since(start); !errors.Is(err, ErrCut) || took != DefaultWriteTimeout {
			t.Errorf("after %v: %v", took, err)
		}
		close(release)
	})
}

func TestViolationsEndWith4400(t *testing.T) {
	tests := map[string]func(*peer){
		"second Connected":  func(p *peer) { p.send(connectedFrame(0)) },
		"unknown topic":     func(p *peer) { p.batch(tickItem(9, 1, 0, "x")) },
		"sizes do not fit":  func(p *peer) { p.batch(wire.BatchItem{Head: wire.AppendHead(nil, 1, 1, 5), Payload: []byte("x")}) },
		"not a message":     func(p *peer) { p.record(wire.KindRecord, []byte{0, 0, 0}) },
		"unknown codec":     func(p *peer) { p.record(wire.KindRecord, []byte{9, 0, 0, 1}) },
		"bad goodbye":       func(p *peer) { p.record(wire.KindGoodbye, nil) },
		"unknown kind":      func(p *peer) { _ = p.raw(framed(ws.OpBinary, true, "\x7fxx")) },
		"empty message":     func(p *peer) { _ = p.raw(framed(ws.OpBinary, true, "")) },
		"handshake message": func(p *peer) { _ = p.raw(framed(ws.OpBinary, true, "\x02"+strings.Repeat("x", 100))) },
		"forged record":     func(p *peer) { _ = p.raw(framed(ws.OpBinary, true, "\x10"+strings.Repeat("x", 100))) },
		"record twice": func(p *peer) {
			b := p.sealed(wire.KindRecord, p.plain(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{}}}))
			_ = p.raw(slices.Concat(b, b))
		},
		"record lost": func(p *peer) {
			p.sealed(wire.KindRecord, nil)
			p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Heartbeat{Heartbeat: &wire.Heartbeat{}}})
		},
	}
	for name, violate := range tests {
		t.Run(name, func(t *testing.T) {
			closing := make(chan []byte, 1)
			g := newFakeGateway(t, func(p *peer) {
				p.connected()
				p.subscribed(state(1, "a", 7, 1))
				violate(p)
				p.wait()
				closing <- p.closing
			})
			conn := mustDial(t, g.options())
			if _, err := conn.Subscribe(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			var err error
			for err == nil {
				_, err = conn.Next(t.Context())
			}
			var closed *ClosedError
			if !errors.As(err, &closed) || closed.Code != wire.CloseBadRecord || closed.Final || !errors.Is(err, ErrCut) {
				t.Errorf("%v", err)
			}
			if got := <-closing; len(got) < 2 || wire.CloseCode(binary.BigEndian.Uint16(got)) != wire.CloseBadRecord {
				t.Errorf("close frame %x", got)
			}
		})
	}
}

// flipped changes one byte of what the gateway sends.
type flipped struct {
	net.Conn
	at   *int // counts down
	mask byte
}

func (f flipped) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p[:min(len(p), 512)])
	if *f.at >= 0 && *f.at < n {
		p[*f.at] ^= f.mask
	}
	*f.at -= n
	return n, err
}

// Whatever single byte somebody changes on the way, no tick comes out wrong.
func TestEveryByteCounts(t *testing.T) {
	script := func(p *peer) {
		p.connected()
		p.subscribed(state(1, "a", 7, 1))
		p.batch(tickItem(1, 1, 0, "one"))
		p.goodbye(wire.CloseNormal, "")
	}
	run := func(at int) (events []string, err error) {
		g := newFakeGateway(t, script)
		g.tamper = func(conn net.Conn) net.Conn { return flipped{conn, &at, 0x40} }
		opts := g.options()
		opts.DialTimeout = 200 * time.Millisecond // a changed length makes both sides wait
		opts.PostQuantum = session.PostQuantumOff
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		conn, err := Dial(ctx, testURL, opts)
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx)
		if _, err := conn.Subscribe(ctx, "a"); err != nil {
			return nil, err
		}
		for {
			e, err := conn.Next(ctx)
			if err != nil {
				return events, err
			}
			events = append(events, show(e))
		}
	}
	want, err := run(-1)
	var closed *ClosedError
	if len(want) != 2 || !errors.As(err, &closed) || !closed.Final {
		t.Fatalf("untouched: %q, %v", want, err)
	}
	for at := 0; at < 700; at += 7 {
		got, err := run(at)
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("byte %d: %q", at, got)
		}
		if err == nil {
			t.Errorf("byte %d: no error", at)
		}
	}
}

func TestClose(t *testing.T) {
	farewell := make(chan *peer, 1)
	g := newFakeGateway(t, func(p *peer) {
		p.connected()
		p.wait()
		farewell <- p
	})
	conn := mustDial(t, g.options())
	result := make(chan error)
	go func() { _, err := conn.Next(context.Background()); result <- err }()
	for range 2 {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("Next: %v", err)
	}
	if _, err := conn.Subscribe(t.Context(), "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("Subscribe: %v", err)
	}
	p := <-farewell
	if p.farewell.GetCode() != 1000 || !bytes.Equal(p.closing, []byte{3, 0xe8}) {
		t.Errorf("the gateway got %v and %x", p.farewell, p.closing)
	}
}

func TestCloseDoesNotWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := newFakeGateway(t, func(p *peer) {
			p.connected()
			for p.receive() != nil { // reads, but never answers
			}
			<-release
		})
		g.pair = inMemory
		conn := mustDial(t, g.options())
		start := time.Now()
		if err := conn.Close(t.Context()); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(release)
	})
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
	expect(t, conn, "topics [{a 7 1}]")
	for range 100 { // what waited, and more
		if e, err := conn.Next(t.Context()); err != nil {
			t.Fatalf("%v, %v", e, err)
		}
	}
	if conn.backlog != 0 {
		t.Errorf("%d bytes still waiting", conn.backlog)
	}
}

func TestEchoWithEachSuiteAndKeyChanges(t *testing.T) {
	for _, id := range []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305, suite.Plain} {
		t.Run(id.String(), func(t *testing.T) {
			g := newFakeGateway(t, func(p *peer) {
				for {
					plaintext := p.receive()
					if plaintext == nil {
						p.wait()
						return
					}
					p.record(wire.KindRecord, plaintext)
				}
			})
			opts := g.options()
			opts.Suites = []suite.ID{id}
			opts.Rekey = record.Limits{Records: 1}
			echo, err := DialEcho(t.Context(), "ws://gateway.test", opts)
			if err != nil {
				t.Fatal(err)
			}
			if info := echo.Info(); info.Suite != id || !info.Pinned {
				t.Errorf("%+v", info)
			}
			for _, size := range []int{0, 1, 1000, 70_000, 1 << 20} {
				payload := bytes.Repeat([]byte{byte(size), 'x'}, size/2)
				if err := echo.Send(t.Context(), payload); err != nil {
					t.Fatal(err)
				}
				if got, err := echo.Receive(t.Context()); err != nil || !bytes.Equal(got, payload) {
					t.Fatalf("%d bytes came back for %d: %v", len(got), len(payload), err)
				}
			}
			if err := echo.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := echo.Receive(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// replay is a connection that plays what was recorded, and swallows what is sent.
type replay struct {
	net.Conn
	in *bytes.Buffer
}

func (r replay) Read(p []byte) (int, error)       { return r.in.Read(p) }
func (r replay) Write(p []byte) (int, error)      { return len(p), nil }
func (r replay) SetReadDeadline(time.Time) error  { return nil }
func (r replay) SetWriteDeadline(time.Time) error { return nil }

func TestEchoDoesNotAllocate(t *testing.T) {
	const runs = 200
	peers := make(chan *peer)
	g := newFakeGateway(t, func(p *peer) { peers <- p; <-peers })
	echo, err := DialEcho(t.Context(), "ws://gateway.test/echo", g.options())
	if err != nil {
		t.Fatal(err)
	}
	p := <-peers
	payload := make([]byte, 1000)
	var in bytes.Buffer
	for range runs + 1 {
		in.Write(p.sealed(wire.KindRecord, payload))
	}
	real := echo.conn
	echo.conn = replay{real, &in}
	echo.frames.from = echo.conn
	ctx := context.Background()
	if n := testing.AllocsPerRun(runs, func() {
		if err := echo.Send(ctx, payload); err != nil {
			t.Fatal(err)
		}
		if _, err := echo.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each message there and back", n)
	}
	close(peers)
	real.Close()
}

// A bubble ends only when every goroutine in it has: none stays after an
// interrupted call, a cut, or a Conn that is simply forgotten.
func TestNoGoroutineIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := make(chan struct{})
		g := newFakeGateway(t, func(p *peer) {
			p.connected()
			p.request()
			<-cut
		})
		g.pair = inMemory
		conn, err := Dial(t.Context(), testURL, g.options())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := conn.Subscribe(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Subscribe: %v", err)
		}
		close(cut)
		if _, err := conn.Next(context.WithoutCancel(ctx)); !errors.Is(err, ErrCut) {
			t.Errorf("Next: %v", err)
		}
	})
}
