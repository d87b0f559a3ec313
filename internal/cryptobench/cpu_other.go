//go:build !unix

package cryptobench

import "time"

// processCPU is not known on this system.
func processCPU() (time.Duration, bool) { return 0, false }
