package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

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
