package message

import "testing"

func TestMessagesAreChecked(t *testing.T) {
	pattern := Template(1, 100)
	m := Template(1, 100)
	Stamp(m, 5, 77)
	if seq, at, ok := Check(m, pattern); seq != 5 || at != 77 || !ok {
		t.Errorf("Check: %d, %d, %v", seq, at, ok)
	}
	for i := Min; i < len(m); i++ {
		m[i] ^= 1
		if _, _, ok := Check(m, pattern); ok {
			t.Fatalf("a change of byte %d was not seen", i)
		}
		m[i] ^= 1
	}
	if _, _, ok := Check(m[:99], pattern); ok {
		t.Error("a shorter message was not seen")
	}
}
