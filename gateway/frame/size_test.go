package frame

import (
	"testing"
	"unsafe"
)

// Every connection carries a decoder, so its size counts thousands of times.
func TestDecoderIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Decoder{}); size > 96 {
		t.Errorf("a decoder takes %d bytes, want at most 96", size)
	}
}
