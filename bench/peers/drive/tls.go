package drive

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sealcast/sealcast/internal/loadgen/reactor"
)

// secure is TLS between a connection of the event loop and its client. The
// standard library wants to wait for bytes: during the handshake it may, in a
// goroutine of its own; after that a read without bytes fails as a timeout,
// which it takes for no failure of the connection.
type secure struct {
	client *client
	conn   *tls.Conn
	pipe   *pipe
	out    []byte // plaintext to be sent
	in     []byte // plaintext that has come and is not dealt with
	open   bool   // the handshake is over
}

func newSecure(c *client) *secure {
	s := &secure{client: c, pipe: newPipe()}
	s.conn = tls.Client(s.pipe, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	return s
}

// Opened implements reactor.Handler.
func (s *secure) Opened(c *reactor.Conn) {
	loop := c.Loop()
	s.pipe.send = func(b []byte) {
		b = append([]byte(nil), b...)
		loop.Call(func() {
			c.Room()
			c.Out = append(c.Out, b...)
			c.Flush()
		})
	}
	go func() {
		err := s.conn.Handshake()
		loop.Call(func() { s.begin(c, err) })
	}()
}

// begin goes on, on the loop, where the handshake has ended.
func (s *secure) begin(c *reactor.Conn, err error) {
	if err != nil {
		s.client.m.fail(fmt.Errorf("TLS: %w", err))
		return
	}
	s.open = true
	s.pipe.send = func(b []byte) { c.Out = append(c.Out, b...) }
	s.pipe.wait = false
	c.Room()
	s.client.Opened(c)
	s.take(c)
	s.seal()
	c.Flush()
}

// Data implements reactor.Handler.
func (s *secure) Data(c *reactor.Conn, b []byte) int {
	s.pipe.feed(b)
	if s.open {
		s.take(c)
		s.seal()
	}
	return len(b)
}

// take hands over all plaintext that is there.
func (s *secure) take(c *reactor.Conn) {
	for {
		if cap(s.in)-len(s.in) < 32<<10 {
			s.in = append(make([]byte, 0, 2*len(s.in)+64<<10), s.in...)
		}
		n, err := s.conn.Read(s.in[len(s.in):cap(s.in)])
		s.in = s.in[:len(s.in)+n]
		if n > 0 {
			took := s.client.Data(c, s.in)
			s.in = s.in[:copy(s.in, s.in[took:])]
		}
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				s.client.m.fail(fmt.Errorf("TLS: %w", err))
			}
			return
		}
	}
}

// seal turns what is to be sent into records.
func (s *secure) seal() {
	if len(s.out) == 0 {
		return
	}
	if _, err := s.conn.Write(s.out); err != nil {
		s.client.m.fail(fmt.Errorf("TLS: %w", err))
	}
	s.out = s.out[:0]
}

// Closed implements reactor.Handler.
func (s *secure) Closed(c *reactor.Conn, err error) {
	s.pipe.end()
	s.client.Closed(c, err)
}

// pipe is the connection that TLS sees. wait and send change once, between the
// end of the handshake's goroutine and what the loop does then.
type pipe struct {
	send func([]byte)
	wait bool // for bytes; else it says that there are none

	mu   sync.Mutex // guards what follows
	come *sync.Cond
	in   []byte
	over bool
}

func newPipe() *pipe {
	p := &pipe{wait: true}
	p.come = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) feed(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in = append(p.in, b...)
	p.come.Signal()
}

func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.come.Signal()
}

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.in) == 0 {
		switch {
		case p.over:
			return 0, net.ErrClosed
		case !p.wait:
			return 0, os.ErrDeadlineExceeded
		}
		p.come.Wait()
	}
	n := copy(b, p.in)
	p.in = p.in[:copy(p.in, p.in[n:])]
	return n, nil
}

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) {
	p.send(b)
	return len(b), nil
}

// Close implements net.Conn.
func (p *pipe) Close() error { return nil }

// LocalAddr implements net.Conn.
func (p *pipe) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn; there are none.
func (p *pipe) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (p *pipe) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
