//go:build unix

package gateway

import (
	"math"
	"syscall"
)

// descriptorLimit is how many descriptors this process may have. The Go runtime
// has raised the soft limit to the hard one at start.
func descriptorLimit() int64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || uint64(r.Cur) > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(r.Cur)
}
