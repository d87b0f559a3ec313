package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollServer is the echo as near to the kernel as Go comes: one goroutine, one
// epoll set, for each ready socket one read and one write, both made without
// telling Go's scheduler. It is what all others are held against, and no more:
// no deadlines, no limits, no order at the end.
type epollServer struct {
	fd     int
	listen int
	wake   int
	conns  map[int32]*epollConn
	in     []byte
	out    []byte
}

// epollConn is one connection.
type epollConn struct {
	fd       int
	upgraded bool
	held     []byte // of a message that is not complete
	unsent   []byte // that the socket did not take
	waiting  bool   // for room in the socket, and reads nothing meanwhile
}

func serveEpoll(ctx context.Context, l net.Listener, _ Options) error {
	defer l.Close()
	s := &epollServer{fd: -1, listen: -1, wake: -1, conns: map[int32]*epollConn{}, in: make([]byte, 64<<10)}
	defer s.close()
	if err := s.open(l); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) })()
	events := make([]unix.EpollEvent, 512)
	for ctx.Err() == nil {
		n, err := s.wait(events)
		if err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range events[:n] {
			s.ready(e)
		}
	}
	return nil
}

func (s *epollServer) open(l net.Listener) error {
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer f.Close()
	if s.listen, err = unix.Dup(int(f.Fd())); err != nil {
		return err
	}
	if err := unix.SetNonblock(s.listen, true); err != nil {
		return err
	}
	if s.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	return errors.Join(s.watch(unix.EPOLL_CTL_ADD, s.listen, unix.EPOLLIN), s.watch(unix.EPOLL_CTL_ADD, s.wake, unix.EPOLLIN))
}

func (s *epollServer) watch(op, fd int, events uint32) error {
	return unix.EpollCtl(s.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// wait looks first without telling the scheduler, which is right while there is work.
func (s *epollServer) wait(events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.fd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno == 0 && n > 0 {
		return int(n), nil
	}
	m, err := unix.EpollWait(s.fd, events, -1)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return m, err
}

func (s *epollServer) ready(e unix.EpollEvent) {
	if int(e.Fd) == s.listen {
		s.accept()
		return
	}
	c := s.conns[e.Fd]
	if c == nil {
		return
	}
	if c.waiting {
		s.write(c, c.unsent)
	} else {
		s.read(c)
	}
}

func (s *epollServer) accept() {
	for {
		fd, _, err := unix.Accept4(s.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // only slower without
		c := &epollConn{fd: fd}
		if s.conns[int32(fd)] = c; s.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) != nil {
			s.drop(c)
		}
	}
}

func (s *epollServer) read(c *epollConn) {
	held := copy(s.in, c.held)
	room := s.in[held:]
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(room))), uintptr(len(room)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return
	case errno != 0 || n == 0:
		s.drop(c)
		return
	}
	b := s.in[:held+int(n)]
	out, took, err := serveBytes(&c.upgraded, s.out[:0], b)
	s.out = out
	if err != nil {
		s.drop(c)
		return
	}
	if b = b[took:]; len(b) == len(s.in) {
		s.in = make([]byte, 2*len(b)) // a message larger than the room
	}
	c.held = append(c.held[:0], b...)
	s.write(c, out)
}

func (s *epollServer) write(c *epollConn, b []byte) {
	if len(b) == 0 {
		return
	}
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		n = 0
	case errno != 0:
		s.drop(c)
		return
	}
	c.unsent = append([]byte(nil), b[n:]...) // nil when nothing is left
	waited := c.waiting
	if c.waiting = len(c.unsent) > 0; c.waiting == waited {
		return
	}
	events := uint32(unix.EPOLLIN)
	if c.waiting {
		events = unix.EPOLLOUT
	}
	if s.watch(unix.EPOLL_CTL_MOD, c.fd, events) != nil {
		s.drop(c)
	}
}

func (s *epollServer) drop(c *epollConn) {
	delete(s.conns, int32(c.fd))
	unix.Close(c.fd)
}

func (s *epollServer) close() {
	for _, c := range s.conns {
		unix.Close(c.fd)
	}
	for _, fd := range []int{s.listen, s.wake, s.fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
