package gateway

import (
	"os"

	"golang.org/x/sys/unix"
)

// boundUnsent bounds what the kernel takes of a connection before it is sent.
// Accepted sockets do not have this from their listener.
func boundUnsent(fd, bytes int) error {
	return os.NewSyscallError("TCP_NOTSENT_LOWAT", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes))
}
