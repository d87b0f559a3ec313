//go:build !unix

package measure

import "time"

// ProcessCPU is not known on this system.
func ProcessCPU() time.Duration { return 0 }

// DescriptorLimit is not known on this system, which has no such limit.
func DescriptorLimit() int { return 1 << 30 }
