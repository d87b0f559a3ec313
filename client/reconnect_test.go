package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// newScriptedGateway runs a script of its own for each connection, the last one
// for all that follow.
func newScriptedGateway(t *testing.T, scripts ...func(*peer)) *fakeGateway {
	t.Helper()
	var n atomic.Int32
	g := newFakeGateway(t, func(p *peer) { scripts[min(int(n.Add(1)), len(scripts))-1](p) })
	g.pair = inMemory
	return g
}

// mustOpen opens a Client, and closes it at the test's end.
func mustOpen(t *testing.T, opts Options) *Client {
	t.Helper()
	c, err := Open(t.Context(), testURL, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// said is an event in a form that can be compared, without times that are random.
func said(e Event) string {
	switch e := e.(type) {
	case *Disconnected:
		var closed *ClosedError
		if errors.As(e.Err, &closed) {
			return fmt.Sprintf("disconnected %d final %v", closed.Code, closed.Final)
		}
		return "disconnected: " + e.Err.Error()
	case *Connected:
		return "connected " + e.Info.Session
	case *Subscribed:
		return fmt.Sprintf("subscribed %v", e.Filters)
	default:
		return show(e)
	}
}

func expectSaid(t *testing.T, c *Client, want ...string) {
	t.Helper()
	for _, w := range want {
		e, err := c.Next(t.Context())
		if err != nil {
			t.Fatalf("%v, want %s", err, w)
		}
		if got := said(e); got != w {
			t.Errorf("got  %s\nwant %s", got, w)
		}
	}
}

// wants reads the client's next Subscribe, and returns it in words.
func (p *peer) wants() (id uint32, words string) {
	m := p.request().GetSubscribe()
	var all []string
	for _, s := range m.GetSubscriptions() {
		all = append(all, fmt.Sprintf("%s@%v/%d", s.GetFilter(), s.GetMaxRate(), s.GetMaxAgeMs()))
	}
	for _, s := range m.GetSince() {
		all = append(all, fmt.Sprintf("since %s %d/%d", s.GetTopic(), s.GetEpoch(), s.GetSeq()))
	}
	if len(m.GetCursor()) > 0 {
		all = append(all, "cursor "+string(m.GetCursor()))
	}
	return m.GetId(), strings.Join(all, ", ")
}

func (p *peer) mustWant(want string) uint32 {
	id, got := p.wants()
	if got != want {
		p.t.Errorf("the client asks for %s\nwant %s", got, want)
	}
	return id
}

func TestClientComesBackToWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			p.send(subscribedFrame(p.mustWant("a@0/0"), []string{"a"}, state(1, "a", 7, 1)))
			p.batch(tickItem(1, 1, 0, "one"), tickItem(1, 2, 0, "two"))
		}, func(p *peer) {
			p.connected()
			back := state(9, "a", 7, 3)
			back.Recovered = true
			p.send(subscribedFrame(p.mustWant("a@0/0, since a 7/2"), []string{"a"}, back))
			p.batch(tickItem(9, 3, 0, "three"))
			p.goodbye(wire.CloseRestart, "")
		}, func(p *peer) {
			p.connected()
			p.send(subscribedFrame(p.mustWant("a@0/0, since a 7/3"), []string{"a"}, state(1, "a", 7, 6)))
			p.close(wire.CloseForbidden, "forged")
		}, func(p *peer) {
			p.connected()
			p.send(subscribedFrame(p.mustWant("a@0/0, since a 7/5"), []string{"a"}, state(1, "a", 8, 1)))
			p.batch(tickItem(1, 1, 0, "anew"))
			p.wait()
		})
		c := mustOpen(t, g.options())
		if err := c.Subscribe("a"); err != nil {
			t.Fatal(err)
		}
		expectSaid(t, c, "subscribed [a]", "topics [{a 7 1 false}]", `tick a 7/1 -0 m0 "one"`, `tick a 7/2 -0 m0 "two"`)
		start := time.Now()
		expectSaid(t, c, "disconnected 0 final false", "connected 7")
		if took := time.Since(start); took < 500*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("back after %v", took)
		}
		expectSaid(t, c, "subscribed [a]", "topics [{a 7 3 true}]", `tick a 7/3 -0 m0 "three"`, "disconnected 1012 final true")
		start = time.Now()
		expectSaid(t, c, "connected 7")
		if took := time.Since(start); took < 1500*time.Millisecond || took > 3*time.Second { // what Goodbye asked for
			t.Errorf("back after %v", took)
		}
		expectSaid(t, c, "subscribed [a]", "topics [{a 7 6 false}]", "gap a 7/4-5",
			"disconnected 4403 final false", "connected 7",
			"subscribed [a]", "topics [{a 8 1 false}]", "reset a 8/1 CAUSE_UNSPECIFIED", `tick a 8/1 -0 m0 "anew"`)
		if got, want := c.Stats(), (Stats{Ticks: 4, Bytes: 15, Gaps: 1, Lost: 2, Resets: 1, Connections: 4}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := c.Positions(); !slices.Equal(got, []Position{{"a", 8, 1}}) {
			t.Errorf("positions %v", got)
		}
	})
}

// Wishes of any time hold on every connection, with their options, and what was
// given back does not come again.
func TestWishesOutliveConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			// A pipe has no room: the gateway speaks when the client has said everything.
			first, second := p.mustWant("a@0/0, b:*@0/0, since b:x 3/4, cursor old"), p.mustWant("c@2/100")
			m := p.request().GetUnsubscribe()
			if !slices.Equal(m.GetFilters(), []string{"b:*"}) {
				t.Errorf("given back: %v", m.GetFilters())
			}
			p.send(subscribedFrame(first, []string{"a", "b:*"}, state(1, "a", 7, 1), state(2, "b:x", 3, 5)))
			p.send(errorFrame(second, wire.CloseForbidden, "no", "c"))
			p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Unsubscribed{Unsubscribed: &wire.Unsubscribed{Id: m.GetId(), Filters: m.GetFilters()}}})
			f := batchFrame(t, tickItem(1, 1, 0, "x"))
			f.GetBatch().Cursor = []byte("new")
			p.send(f)
			<-proceed
		}, func(p *peer) {
			p.connected()
			first, second := p.mustWant("a@0/0, d@0/0, since a 7/1, cursor new"), p.mustWant("c@2/100, cursor new")
			p.send(subscribedFrame(first, []string{"a", "d"}, state(5, "a", 7, 2), state(6, "d", 1, 1)))
			p.send(subscribedFrame(second, []string{"c"}, state(7, "c", 1, 1)))
			p.wait()
		})
		c := mustOpen(t, g.options())
		opts := SubscribeOptions{Since: []Position{{"b:x", 3, 4}}, Cursor: []byte("old")}
		if err := c.SubscribeWith(opts, "a", "b:*", "a"); err != nil {
			t.Fatal(err)
		}
		if err := c.SubscribeWith(SubscribeOptions{MaxRate: 2, MaxAge: 100 * time.Millisecond}, "c"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Unsubscribe("b:*", "never"), c.Unsubscribe("never")); err != nil {
			t.Fatal(err)
		}
		expectSaid(t, c, "subscribed [a b:*]", "topics [{a 7 1 false} {b:x 3 5 false}]",
			"*client.Refused {c 4403 not allowed no}", `tick a 7/1 -0 m0 "x"`)
		if string(c.Cursor()) != "new" {
			t.Errorf("cursor %q", c.Cursor())
		}
		close(proceed)
		expectSaid(t, c, "disconnected 0 final false")
		if err := c.Subscribe("d"); err != nil { // while there is no connection
			t.Fatal(err)
		}
		expectSaid(t, c, "connected 7", "subscribed [a d]", "topics [{a 7 2 false} {d 1 1 false}]", "subscribed [c]", "topics [{c 1 1 false}]")
		if err := c.Subscribe("***"); !errors.Is(err, topic.ErrInvalid) {
			t.Errorf("%v", err)
		}
		if err := c.SubscribeWith(SubscribeOptions{MaxRate: -1}, "x"); !errors.Is(err, ErrOptions) {
			t.Errorf("%v", err)
		}
	})
}

func TestOnlySomeGoodbyesAreFinal(t *testing.T) {
	c := &Client{backoff: Backoff{}.withDefaults()}
	bye := func(code wire.CloseCode, after time.Duration) error {
		return &ClosedError{Code: code, Final: true, ReconnectAfter: after}
	}
	tests := []struct {
		cause  error
		again  bool
		wanted time.Duration
	}{
		{bye(wire.CloseNormal, 0), false, 0},
		{bye(wire.CloseReplaced, 0), false, 0},
		{bye(wire.CloseForbidden, 0), false, 0},
		{bye(wire.CloseUnauthenticated, 0), false, 0},
		{bye(wire.CloseRestart, 0), true, 0},
		{bye(wire.CloseRestart, 4*time.Second), true, 4 * time.Second},
		{bye(wire.CloseTooSlow, 0), true, 500 * time.Millisecond},
		{bye(wire.CloseTryLater, 0), true, 10 * time.Second},
		{&ClosedError{Code: wire.CloseNormal}, true, 500 * time.Millisecond}, // anybody can say that
		{&ClosedError{Code: wire.CloseUnauthenticated}, true, 500 * time.Millisecond},
		{&ClosedError{Code: wire.CloseTryLater}, true, 10 * time.Second},
		{&ClosedError{Err: io.EOF}, true, 500 * time.Millisecond},
		{fmt.Errorf("%w: x", ErrUnreachable), true, 500 * time.Millisecond},
		{&HTTPError{Status: 503}, true, 10 * time.Second},
		{&HTTPError{Status: 404}, true, 500 * time.Millisecond},
		{&session.PinError{}, true, 500 * time.Millisecond},
		{fmt.Errorf("%w: x", ErrToken), true, 500 * time.Millisecond},
	}
	for _, tt := range tests {
		if again, wanted := c.verdict(tt.cause); again != tt.again || wanted != tt.wanted {
			t.Errorf("%v: %v, %v; want %v, %v", tt.cause, again, wanted, tt.again, tt.wanted)
		}
	}
}

func TestFinalGoodbyeEndsTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			p.goodbye(wire.CloseReplaced, "by another")
		})
		c := mustOpen(t, g.options())
		for range 2 {
			var closed *ClosedError
			if _, err := c.Next(t.Context()); !errors.As(err, &closed) || !closed.Final || closed.Code != wire.CloseReplaced {
				t.Errorf("%v", err)
			}
		}
		if err := c.Subscribe("a"); err == nil {
			t.Error("subscribed after the end")
		}
	})
}

// Delays double up to the bound, each with a random time on top, and a
// connection that holds makes them short again.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScriptedGateway(t, func(p *peer) {
			p.connected()
			time.Sleep(time.Minute)
		})
		down := false
		opts := g.options()
		opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down {
				return nil, io.ErrClosedPipe
			}
			return g.dial(ctx, network, addr)
		}
		c := mustOpen(t, opts)
		down = true
		wantWait := func(least, most time.Duration) {
			t.Helper()
			e, err := c.Next(t.Context())
			d, ok := e.(*Disconnected)
			if err != nil || !ok || d.RetryIn < least || d.RetryIn > most {
				t.Errorf("%v, %v; want a wait from %v to %v", e, err, least, most)
			}
		}
		wantWait(500*time.Millisecond, 1500*time.Millisecond)
		for _, s := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			start := time.Now()
			wantWait(s*time.Second, 2*s*time.Second)
			if time.Since(start) < s/2*time.Second {
				t.Errorf("tried again after %v", time.Since(start))
			}
		}
		down = false
		expectSaid(t, c, "connected 7")
		down = true
		wantWait(500*time.Millisecond, 1500*time.Millisecond)
	})
}

// Connections that break at once are no reason to hammer the gateway.
func TestShortConnectionsBackOffToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScriptedGateway(t, func(p *peer) { p.connected() })
		c := mustOpen(t, g.options())
		start := time.Now()
		for range 6 {
			expectSaid(t, c, "disconnected 0 final false", "connected 7")
		}
		if took := time.Since(start); took < 31*time.Second { // 0.5 + 1 + 2 + 4 + 8 + 16
			t.Errorf("7 connections in %v", took)
		}
	})
}

// Whatever a Client is doing, Close ends it, and nothing of it is left: a bubble
// ends only when every goroutine in it has.
func TestCloseInEveryState(t *testing.T) {
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	tests := map[string]struct {
		dial  func(context.Context, string, string) (net.Conn, error) // after the first connection
		sleep time.Duration
	}{
		"connected":         {nil, 0},
		"waiting to retry":  {nil, 100 * time.Millisecond},
		"connecting":        {hang, 3 * time.Second},
		"connected, unread": {nil, 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cut := make(chan struct{})
				g := newScriptedGateway(t, func(p *peer) {
					p.connected()
					if tt.sleep == 0 {
						p.wait()
						return
					}
					<-cut
				}, func(p *peer) { p.connected(); p.wait() })
				opts := g.options()
				c, err := Open(t.Context(), testURL, opts)
				if err != nil {
					t.Fatal(err)
				}
				if tt.dial != nil {
					c.opts.NetDial = tt.dial
				}
				if tt.sleep > 0 {
					close(cut)
					expectSaid(t, c, "disconnected 0 final false")
					time.Sleep(tt.sleep)
				}
				result := make(chan error)
				go func() {
					for {
						if _, err := c.Next(context.Background()); err != nil {
							result <- err
							return
						}
					}
				}()
				synctest.Wait()
				for range 2 {
					if err := c.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if err := <-result; !errors.Is(err, ErrClosed) {
					t.Errorf("Next: %v", err)
				}
				if err := c.Subscribe("a"); !errors.Is(err, ErrClosed) {
					t.Errorf("Subscribe: %v", err)
				}
			})
		})
	}
}

func TestNextOfAClientCanBeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := make(chan struct{})
		g := newScriptedGateway(t, func(p *peer) { p.connected(); <-cut }, func(p *peer) { p.connected(); p.wait() })
		c := mustOpen(t, g.options())
		interrupted := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if e, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, %v", e, err)
			}
		}
		interrupted()
		close(cut)
		expectSaid(t, c, "disconnected 0 final false")
		for range 10 { // a program that looks in often does not keep it from connecting
			interrupted()
		}
		expectSaid(t, c, "connected 7")
	})
}

func TestOpenFailsAsDialDoes(t *testing.T) {
	opts := Options{Insecure: true, NetDial: func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe }}
	if _, err := Open(t.Context(), testURL, opts); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), "http://x", opts); !errors.Is(err, ErrOptions) {
		t.Errorf("%v", err)
	}
	opts.Rand = strings.NewReader("")
	if _, err := Open(t.Context(), testURL, opts); err == nil {
		t.Error("opened without randomness")
	}
}
