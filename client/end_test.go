package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

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
		if took := time.Since(start); !errors.Is(err, ErrCut) || took != defaultWriteTimeout {
			t.Errorf("after %v: %v", took, err)
		}
		close(release)
	})
}

func TestViolationsEndWith4400(t *testing.T) {
	tests := map[string]func(*peer){
		"second Connected": func(p *peer) { p.send(connectedFrame(0)) },
		"unknown topic":    func(p *peer) { p.batch(tickItem(9, 1, 0, "x")) },
		"sizes do not fit": func(p *peer) {
			p.send(&wire.ServerFrame{Message: &wire.ServerFrame_Batch{Batch: &wire.Batch{Topics: []uint32{1, 1}, Firsts: []uint64{1, 2}, Sizes: []uint32{5}, Payloads: []byte("x")}}})
		},
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

// Close is not held up by a write that is stuck.
func TestCloseDuringAStuckWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := newFakeGateway(t, func(*peer) { <-release })
		g.pair = inMemory
		echo, err := DialEcho(t.Context(), "ws://gateway.test/echo", g.options())
		if err != nil {
			t.Fatal(err)
		}
		stuck := make(chan error)
		go func() { stuck <- echo.Send(context.Background(), []byte("x")) }()
		synctest.Wait()
		start := time.Now()
		if err := echo.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != lingerTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := <-stuck; !errors.Is(err, ErrClosed) {
			t.Errorf("Send: %v", err)
		}
		close(release)
	})
}
