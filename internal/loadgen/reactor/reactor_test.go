package reactor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

const patience = 20 * time.Second

// backends are all that this system has.
func backends(t *testing.T, f func(t *testing.T, l *Loop)) {
	makers := map[string]func(time.Time) (Backend, error){
		"system":     NewBackend,
		"goroutines": func(start time.Time) (Backend, error) { return NewGoroutines(start, nil), nil },
	}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			b, err := make(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			l := New(b)
			go l.Run()
			defer func() {
				if err := l.Stop(); err != nil {
					t.Error(err)
				}
			}()
			f(t, l)
		})
	}
}

// server accepts connections and serves each in a goroutine.
func server(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { defer c.Close(); serve(c) })
		}
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// client is a handler that keeps what comes.
type client struct {
	open   func(*Conn)
	step   int // bytes that Data deals with at a time; 0: all
	got    bytes.Buffer
	want   int
	full   chan struct{}
	closed chan error
}

func newClient(want int, open func(*Conn)) *client {
	return &client{open: open, want: want, full: make(chan struct{}), closed: make(chan error, 1)}
}

func (c *client) Opened(conn *Conn) { c.open(conn) }

func (c *client) Data(_ *Conn, b []byte) int {
	if c.step > 0 {
		if len(b) < c.step {
			return 0
		}
		b = b[:c.step]
	}
	c.got.Write(b)
	if c.got.Len() == c.want {
		close(c.full)
	}
	return len(b)
}

func (c *client) Closed(_ *Conn, err error) { c.closed <- err }

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
	}
	return v
}

func dial(t *testing.T, l *Loop, to netip.AddrPort, c *client) (conn *Conn) {
	t.Helper()
	l.Do(func() {
		var err error
		if conn, err = l.Dial(to, netip.Addr{}, c); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// Far more than sockets hold goes out and comes back, in order, taken in parts
// that do not fit to what a read brings.
func TestBytesComeBack(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef!"), 500_000)
	backends(t, func(t *testing.T, l *Loop) {
		c := newClient(len(sent), func(conn *Conn) { conn.Out = append(conn.Out, sent...) })
		c.step = 17
		dial(t, l, server(t, echo), c)
		await(t, "all bytes", c.full)
		l.Do(func() {
			if !bytes.Equal(c.got.Bytes(), sent) {
				t.Error("what came back differs")
			}
		})
	})
}

func TestEndsAreTold(t *testing.T) {
	backends(t, func(t *testing.T, l *Loop) {
		c := newClient(-1, func(*Conn) {})
		dial(t, l, server(t, func(c net.Conn) {}), c)
		if err := await(t, "the end", c.closed); !errors.Is(err, io.EOF) {
			t.Errorf("end of the server: %v, want EOF", err)
		}
		c = newClient(-1, func(conn *Conn) { conn.Close(true) })
		dial(t, l, server(t, echo), c)
		if err := await(t, "the end", c.closed); err != nil {
			t.Errorf("own end: %v, want nil", err)
		}
		refused := newClient(-1, func(*Conn) { t.Error("a connection to nobody") })
		free := server(t, echo)
		dial(t, l, netip.AddrPortFrom(free.Addr(), 1), refused)
		if err := await(t, "the refusal", refused.closed); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("connection to nobody: %v", err)
		}
	})
}

func TestSourceAddress(t *testing.T) {
	backends(t, func(t *testing.T, l *Loop) {
		seen := make(chan string, 1)
		to := server(t, func(c net.Conn) {
			seen <- c.RemoteAddr().(*net.TCPAddr).IP.String()
			_, _ = io.ReadAll(c)
		})
		c := newClient(-1, func(*Conn) {})
		l.Do(func() {
			if _, err := l.Dial(to, netip.MustParseAddr("127.0.0.1"), c); err != nil {
				t.Error(err)
			}
		})
		if from := await(t, "a connection", seen); from != "127.0.0.1" {
			t.Errorf("connected from %s", from)
		}
	})
}

// A connection that is paused takes nothing, and then everything.
func TestPause(t *testing.T) {
	backends(t, func(t *testing.T, l *Loop) {
		c := newClient(5, func(conn *Conn) {
			conn.Pause(true)
			conn.Out = append(conn.Out, "hello"...)
		})
		wrote := make(chan struct{})
		conn := dial(t, l, server(t, func(s net.Conn) {
			b := make([]byte, 5)
			_, _ = io.ReadFull(s, b)
			_, _ = s.Write(b)
			close(wrote)
			_, _ = io.ReadAll(s)
		}), c)
		await(t, "an answer", wrote)
		for range 20 {
			l.Do(func() {
				if c.got.Len() > 0 {
					t.Error("a paused connection has read")
				}
			})
		}
		l.Do(func() { conn.Pause(false) })
		await(t, "the bytes", c.full)
	})
}

// pacer notes when it was asked.
type pacer struct {
	times []int64
	next  int64
	seen  chan struct{}
}

func (p *pacer) Due(now int64) int64 {
	if now < p.next {
		return p.next
	}
	if p.times = append(p.times, now); len(p.times) == 20 {
		close(p.seen)
		return Never
	}
	p.next += int64(2 * time.Millisecond)
	return p.next
}

// The pacer is asked again when it wants to be, never long before.
func TestPacerIsAskedInTime(t *testing.T) {
	backends(t, func(t *testing.T, l *Loop) {
		p := &pacer{seen: make(chan struct{})}
		l.Do(func() { p.next = l.Now(); l.Pace(p) })
		await(t, "twenty times", p.seen)
		l.Do(func() {
			l.Pace(nil)
			if took := p.times[19] - p.times[0]; took < int64(36*time.Millisecond) {
				t.Errorf("twenty times, 2 ms apart, within %v", time.Duration(took))
			}
		})
	})
}
