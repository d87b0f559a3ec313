package codec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/sealcast/sealcast/wire"
)

// The compressed forms are one encoder's choice; what a decoder makes of them is not.
func TestVectors(t *testing.T) {
	file, err := os.ReadFile("../../testdata/vectors/codec.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Plaintext  string
		Compressed []struct {
			Codec     wire.Codec
			Plaintext string
		}
	}
	if err := json.Unmarshal(file, &vectors); err != nil {
		t.Fatal(err)
	}
	want := unhex(t, vectors.Plaintext)[wire.PlainHeaderSize:]
	if len(vectors.Compressed) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors.Compressed {
		id, body, err := wire.ParsePlain(unhex(t, v.Plaintext))
		if err != nil || id != v.Codec {
			t.Fatalf("codec %d: header says %d, %v", v.Codec, id, err)
		}
		d, err := NewDecoder(id, nil, DefaultLimit)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Decode(make([]byte, 0, len(want)), body)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("codec %d: %x, %v", id, got, err)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
