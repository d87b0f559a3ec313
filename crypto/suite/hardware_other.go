//go:build !amd64 && !arm64

package suite

// features claims no AES: on other architectures the safe assumption is that
// AES-GCM runs in software, and an automatic choice then favours ChaCha20.
func features() []feature {
	return []feature{{"AES", false}}
}
