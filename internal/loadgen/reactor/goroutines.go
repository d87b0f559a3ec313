package reactor

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// goroutines is the backend of systems without epoll: each socket has one
// goroutine that reads and one that writes, and the loop learns of them through
// a channel. It does the same as the other, and costs more.
type goroutines struct {
	start time.Time
	over  func(net.Conn) (net.Conn, error) // nil: nothing
	found chan Ready
	woken chan struct{}
	gone  chan struct{} // closed by Shut
	mu    sync.Mutex    // guards sockets
	socks map[int]*socket
	next  int
	ready []Ready
}

// socket is one connection between its goroutines and the loop.
type socket struct {
	mu      sync.Mutex // guards the rest
	changed *sync.Cond
	conn    net.Conn // nil while connecting
	tcp     net.Conn // below conn
	err     error    // why nothing more can be read or written
	in      []byte   // read, and not taken by the loop
	out     []byte   // to be written; not empty while a write goes on
	reads   bool     // the loop wants to read
	writes  bool     // and to hear when out is empty
	closed  bool
}

// NewGoroutines makes the backend that runs on every system. over is put over
// each connection, such as TLS; it may wait, and is nil for nothing.
func NewGoroutines(start time.Time, over func(net.Conn) (net.Conn, error)) Backend {
	return &goroutines{
		start: start, over: over, found: make(chan Ready, 1024), woken: make(chan struct{}, 1),
		gone: make(chan struct{}), socks: map[int]*socket{},
	}
}

func (g *goroutines) Now() int64 { return int64(time.Since(g.start)) }

func (g *goroutines) Dial(to netip.AddrPort, from netip.Addr) (int, error) {
	d := net.Dialer{Timeout: time.Minute}
	if from.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: from.AsSlice()}
	}
	s := &socket{reads: true}
	s.changed = sync.NewCond(&s.mu)
	g.mu.Lock()
	g.next++
	id := g.next
	g.socks[id] = s
	g.mu.Unlock()
	go func() {
		tcp, err := d.Dial("tcp", to.String())
		conn := tcp
		if err == nil && g.over != nil {
			if conn, err = g.over(tcp); err != nil {
				tcp.Close()
			}
		}
		s.mu.Lock()
		s.conn, s.tcp, s.err = conn, tcp, err
		closed := s.closed
		s.mu.Unlock()
		switch {
		case closed && tcp != nil:
			tcp.Close()
		case !closed && err == nil:
			go g.reading(id, s)
			go g.writing(id, s)
		}
		g.tell(Ready{Socket: id, Write: true})
	}()
	return id, nil
}

func (g *goroutines) tell(r Ready) {
	select {
	case g.found <- r:
	case <-g.gone:
	}
}

// reading reads ahead by one buffer.
func (g *goroutines) reading(id int, s *socket) {
	b := make([]byte, 64<<10)
	for {
		n, err := s.conn.Read(b)
		s.mu.Lock()
		for len(s.in) > 0 && !s.closed {
			s.changed.Wait()
		}
		if s.in = append(s.in, b[:n]...); err != nil {
			s.err = err
		}
		tell, over := s.reads, s.closed || err != nil
		s.mu.Unlock()
		if tell {
			g.tell(Ready{Socket: id, Read: true})
		}
		if over {
			return
		}
	}
}

// writing writes what the loop leaves.
func (g *goroutines) writing(id int, s *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.out) == 0 && !s.closed {
			s.changed.Wait()
		}
		if s.closed {
			return
		}
		out := s.out
		s.mu.Unlock()
		_, err := s.conn.Write(out)
		s.mu.Lock()
		if s.out = s.out[:0]; err != nil {
			s.err = err
		}
		if s.writes || err != nil {
			s.mu.Unlock()
			g.tell(Ready{Socket: id, Write: true, Read: err != nil})
			s.mu.Lock()
		}
		if err != nil {
			return
		}
	}
}

func (g *goroutines) Wait(until int64) ([]Ready, error) {
	g.ready = g.ready[:0]
	var timer <-chan time.Time
	if until != Never {
		t := time.NewTimer(time.Duration(until - g.Now()))
		defer t.Stop()
		timer = t.C
	}
	select {
	case r := <-g.found:
		g.ready = append(g.ready, r)
	case <-g.woken:
	case <-timer:
	}
	for len(g.found) > 0 && len(g.ready) < cap(g.found) {
		g.ready = append(g.ready, <-g.found)
	}
	return g.ready, nil
}

func (g *goroutines) socket(id int) *socket {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.socks[id]
}

func (g *goroutines) Connected(id int) error {
	s := g.socket(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (g *goroutines) Read(id int, b []byte) (int, error) {
	s := g.socket(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(b, s.in)
	s.in = s.in[:copy(s.in, s.in[n:])]
	switch {
	case len(s.in) > 0 || n > 0 && s.err != nil:
		go g.tell(Ready{Socket: id, Read: true}) // there is more, or the end
	case n == 0 && s.err != nil:
		return 0, s.err
	case n == 0:
		return 0, ErrAgain
	}
	s.changed.Broadcast()
	return n, nil
}

func (g *goroutines) Write(id int, b []byte) (int, error) {
	s := g.socket(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil && s.err != io.EOF:
		return 0, s.err
	case len(s.out) > 0:
		return 0, ErrAgain
	}
	s.out = append(s.out, b...)
	s.changed.Broadcast()
	return len(b), nil
}

func (g *goroutines) Watch(id int, read, write bool) error {
	s := g.socket(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Ready{Socket: id, Read: read && !s.reads && (len(s.in) > 0 || s.err != nil), Write: write && len(s.out) == 0}
	if s.reads, s.writes = read, write; r.Read || r.Write {
		go g.tell(r)
	}
	return nil
}

func (g *goroutines) Close(id int, reset bool) {
	s := g.socket(id)
	g.mu.Lock()
	delete(g.socks, id)
	g.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
	if tcp, ok := s.tcp.(*net.TCPConn); ok {
		if reset {
			_ = tcp.SetLinger(0)
		}
		tcp.Close()
	}
}

func (g *goroutines) Wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

func (g *goroutines) Shut() { close(g.gone) }
