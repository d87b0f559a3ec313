//go:build unix

package gateway

import (
	"os"

	"golang.org/x/sys/unix"
)

// set is called before the socket listens.
func (o *SocketOptions) set(fd int) error {
	if o.SendBuffer > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer); err != nil {
			return os.NewSyscallError("SO_SNDBUF", err)
		}
	}
	if o.ReusePort {
		return os.NewSyscallError("SO_REUSEPORT", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	}
	return nil
}

func sharesPort(fd int) bool {
	shared, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT)
	return err == nil && shared != 0
}
