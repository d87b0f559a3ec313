package suite

import "golang.org/x/sys/cpu"

// features are those that crypto/aes wants before it uses its assembly for GCM.
func features() []feature {
	return []feature{
		{"AES", cpu.X86.HasAES},
		{"PCLMULQDQ", cpu.X86.HasPCLMULQDQ},
		{"SSE4.1", cpu.X86.HasSSE41},
		{"SSSE3", cpu.X86.HasSSSE3},
	}
}
