package gateway

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSocketOptions: connections have them on the duplicate that the event loop
// works with.
func TestSocketOptions(t *testing.T) {
	g, url := startEchoOn(t, SocketOptions{SendBuffer: 64 << 10}, 32<<10)
	if err := echoes(dialEcho(t, url)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ level, option, want int }{
		"SO_SNDBUF":         {unix.SOL_SOCKET, unix.SO_SNDBUF, 128 << 10}, // the kernel doubles it, for what it adds
		"TCP_NOTSENT_LOWAT": {unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, 32 << 10},
		"TCP_NODELAY":       {unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		"SO_KEEPALIVE":      {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0},
	} {
		got, err := -1, error(nil)
		for _, l := range *g.loops.Load() {
			if e := g.ask(t.Context(), l, func() {
				got, err = unix.GetsockoptInt(l.index.conns.all()[0].gc.Fd(), c.level, c.option)
			}); e != nil {
				t.Fatal(e)
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%s is %d, %v, want %d", name, got, err, c.want)
		}
	}
}

// TestUnsentIsBounded: with a bound, the kernel hides little of a client that does
// not read; the rest shows in the gateway's own buffer.
func TestUnsentIsBounded(t *testing.T) {
	const unsent, taken = 64 << 10, 16 << 20
	g, url := startEchoOn(t, SocketOptions{}, unsent)
	quiet := dialEcho(t, url)
	if err := quiet.(interface{ SetReadBuffer(int) error }).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	if err := echoes(quiet); err != nil {
		t.Fatal(err)
	}
	for _, l := range *g.loops.Load() {
		hidden := 0
		if err := g.ask(t.Context(), l, func() {
			c := l.index.conns.all()[0]
			_, _ = c.gc.Write(make([]byte, taken))
			hidden = taken - c.gc.OutboundBuffered()
		}); err != nil {
			t.Fatal(err)
		}
		// Beside what is unsent there is what the client's kernel takes.
		if hidden > 512<<10 {
			t.Errorf("the kernel has taken %d bytes", hidden)
		}
	}
}

func TestAddressIsSharedOnlyIfBothSay(t *testing.T) {
	first, err := Listen("127.0.0.1:0", SocketOptions{ReusePort: true})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if second, err := Listen(first.Addr().String(), SocketOptions{}); err == nil {
		_ = second.Close()
		t.Error("one that does not share has the address too")
	}
	second, err := Listen(first.Addr().String(), SocketOptions{ReusePort: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}
