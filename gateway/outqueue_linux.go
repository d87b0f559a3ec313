package gateway

import "golang.org/x/sys/unix"

// kernelUnsent is how many bytes the kernel holds for a socket that its peer has
// not acknowledged (tcp(7), SIOCOUTQ).
func kernelUnsent(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil { // the peer is gone; the loop will hear of it
		return 0
	}
	return n
}
