package suite

import "golang.org/x/sys/cpu"

// features are those that crypto/aes wants before it uses its assembly for GCM.
func features() []feature {
	return []feature{
		{"AES", cpu.ARM64.HasAES},
		{"PMULL", cpu.ARM64.HasPMULL},
	}
}
