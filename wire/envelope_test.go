package wire

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/sealcast/sealcast/wire/topic"
)

func TestParsePlain(t *testing.T) {
	largest := append([]byte{0, 0xff, 0xff}, make([]byte, math.MaxUint16)...)
	valid := map[string]struct {
		codec Codec
		body  string
	}{
		"\x00\x00\x00":             {0, ""},
		"\x00\x00\x00body":         {0, "body"},
		"\x02\x00\x02body\x00\x00": {2, "body"},
		"\x00\x00\x02\x00\x00":     {0, ""},
		string(largest):            {0, ""},
	}
	for plaintext, want := range valid {
		codec, body, err := ParsePlain([]byte(plaintext))
		if err != nil || codec != want.codec || string(body) != want.body {
			t.Errorf("%.20x: codec %d, body %q, %v", plaintext, codec, body, err)
		}
	}
	for _, plaintext := range []string{"", "\x00", "\x00\x00", "\x00\x00\x01", "\x00\x00\x02\x00", "\x00\x00\x02a\x00\x01", "\x00\x00\x02a\x01\x00", "\x00\xff\xff\x00"} {
		if _, _, err := ParsePlain([]byte(plaintext)); !errors.Is(err, ErrPlaintext) {
			t.Errorf("%x: %v", plaintext, err)
		}
	}
}

func TestParsePlainDoesNotAllocate(t *testing.T) {
	plaintext := append(AppendPlainHeader(nil, CodecNone, 100), bytes.Repeat([]byte{0}, 200)...)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = ParsePlain(plaintext) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTopicLimit: both packages state the limit, since topic imports nothing.
func TestTopicLimit(t *testing.T) {
	if MaxTopicName != topic.MaxLen {
		t.Errorf("MaxTopicName is %d, topic.MaxLen is %d", MaxTopicName, topic.MaxLen)
	}
}
