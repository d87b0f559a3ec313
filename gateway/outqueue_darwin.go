package gateway

import "golang.org/x/sys/unix"

// soNWrite is SO_NWRITE of <sys/socket.h>.
const soNWrite = 0x1024

// kernelUnsent is how many bytes the kernel holds for a socket that are not sent.
func kernelUnsent(fd int) int {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, soNWrite)
	if err != nil { // the peer is gone; the loop will hear of it
		return 0
	}
	return n
}
