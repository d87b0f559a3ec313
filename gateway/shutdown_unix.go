//go:build unix

package gateway

import "syscall"

// shutdownWrite sends FIN; the peer sees the end of the stream while we still read.
func shutdownWrite(fd int) {
	_ = syscall.Shutdown(fd, syscall.SHUT_WR) // fails only when the peer is gone already
}
