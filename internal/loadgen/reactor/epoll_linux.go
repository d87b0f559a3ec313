package reactor

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epoll is the backend of Linux. System calls on sockets that never wait are
// made without telling Go's scheduler, which would hand the processor on.
type epoll struct {
	start time.Time
	fd    int
	wake  int   // eventfd
	timer int   // timerfd
	armed int64 // when the timer goes off; Never: it does not

	events []unix.EpollEvent
	ready  []Ready
	age    []int32 // by descriptor: how often it has been used, so that old events are known
}

// NewBackend makes the backend that fits this system best. start is time 0 of its clock.
func NewBackend(start time.Time) (Backend, error) {
	e := &epoll{start: start, armed: Never, fd: -1, wake: -1, timer: -1, events: make([]unix.EpollEvent, 512)}
	if err := e.open(); err != nil {
		e.Shut()
		return nil, fmt.Errorf("event loop: %w", err)
	}
	return e, nil
}

func (e *epoll) open() (err error) {
	if e.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if e.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return err
	}
	if e.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return err
	}
	for _, fd := range []int{e.wake, e.timer} {
		if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	return nil
}

func (e *epoll) Now() int64 { return int64(time.Since(e.start)) }

func (e *epoll) Dial(to netip.AddrPort, from netip.Addr) (int, error) {
	family := unix.AF_INET
	if to.Addr().Is6() && !to.Addr().Is4In6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	if err := e.connect(fd, to, from); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

func (e *epoll) connect(fd int, to netip.AddrPort, from netip.Addr) error {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // only slower without
	if from.IsValid() {
		// The port is chosen when the other end is known, so that addresses share ports.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0))); err != nil {
			return fmt.Errorf("source address %v: %w", from, err)
		}
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return fmt.Errorf("connect: %w", err)
	}
	for len(e.age) <= fd {
		e.age = append(e.age, 0)
	}
	e.age[fd]++
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, e.event(fd, true, true))
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func (e *epoll) event(fd int, read, write bool) *unix.EpollEvent {
	ev := &unix.EpollEvent{Fd: int32(fd), Pad: e.age[fd]}
	if read {
		ev.Events |= unix.EPOLLIN
	}
	if write {
		ev.Events |= unix.EPOLLOUT
	}
	return ev
}

func (e *epoll) Wait(until int64) ([]Ready, error) {
	n, err := e.poll()
	if err == nil && n == 0 && until > e.Now() {
		if err = e.arm(until); err == nil {
			n, err = unix.EpollWait(e.fd, e.events, -1)
		}
	}
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, err
	}
	e.ready = e.ready[:0]
	for _, ev := range e.events[:max(n, 0)] {
		fd := int(ev.Fd)
		if fd == e.wake || fd == e.timer {
			e.drain(fd)
			continue
		}
		if ev.Pad != e.age[fd] {
			continue // of a socket that had this number before
		}
		failed := ev.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0
		e.ready = append(e.ready, Ready{fd, failed || ev.Events&unix.EPOLLIN != 0, failed || ev.Events&unix.EPOLLOUT != 0})
	}
	return e.ready, nil
}

// poll looks what is ready without waiting.
func (e *epoll) poll() (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events[0])), uintptr(len(e.events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// arm makes the timer go off at until.
func (e *epoll) arm(until int64) error {
	if until == e.armed {
		return nil
	}
	e.armed = until
	var at unix.ItimerSpec // zero switches the timer off
	if until != Never {
		at.Value = unix.NsecToTimespec(max(until-e.Now(), 1))
	}
	return unix.TimerfdSettime(e.timer, 0, &at, nil)
}

func (e *epoll) drain(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
	if fd == e.timer {
		e.armed = Never
	}
}

func (e *epoll) Connected(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}

func (e *epoll) Read(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, ErrAgain
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return int(n), nil
}

func (e *epoll) Write(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, ErrAgain
	case errno != 0:
		return 0, errno
	}
	return int(n), nil
}

func (e *epoll) Watch(fd int, read, write bool) error {
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_MOD, fd, e.event(fd, read, write))
}

func (e *epoll) Close(fd int, reset bool) {
	if reset {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	e.age[fd]++
	unix.Close(fd)
}

func (e *epoll) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(e.wake, one[:]) // a full counter wakes as well
}

func (e *epoll) Shut() {
	for _, fd := range []int{e.wake, e.timer, e.fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
