package gateway

import (
	"context"
	"net"
	"syscall"
	"time"
)

// SocketOptions are those of a listener.
type SocketOptions struct {
	// SendBuffer is how many bytes the kernel may hold for a connection, sent or
	// not (SO_SNDBUF), which accepted connections have from the listener; 0 leaves
	// it to the kernel.
	SendBuffer int
	// ReusePort lets another process listen on the address at the same time
	// (SO_REUSEPORT), which takes over when this one shuts down. Linux passes on
	// what waits to be accepted then if net.ipv4.tcp_migrate_req is 1.
	ReusePort bool
}

// Listen binds an address for Serve. TCP's own keep-alive stays off: a peer that
// is gone is noticed by the deadlines of each phase and by heartbeats.
func Listen(address string, o SocketOptions) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) error {
		var fault error
		err := raw.Control(func(fd uintptr) { fault = o.set(int(fd)) })
		if err != nil {
			return err
		}
		return fault
	}}
	return config.Listen(context.Background(), "tcp", address)
}

// takeOverTime is how long connections that are on their way in when another
// process takes over have to come into service, before goodbyes begin.
const takeOverTime = 500 * time.Millisecond

// isShared tells whether other processes may listen on the address of ln.
func isShared(ln net.Listener) (shared bool) {
	conn, ok := ln.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { shared = sharesPort(int(fd)) }) // fails when it is closed
	}
	return shared
}
