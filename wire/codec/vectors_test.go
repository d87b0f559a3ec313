package codec

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"

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
	want, err := wire.ParseServerFrame(unhex(t, vectors.Plaintext))
	if err != nil || len(vectors.Compressed) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, v := range vectors.Compressed {
		id, f, err := wire.ParsePacked(unhex(t, v.Plaintext))
		if err != nil || id != v.Codec {
			t.Fatalf("codec %d: header says %d, %v", v.Codec, id, err)
		}
		d, err := NewDecoder(id, nil, DefaultLimit)
		if err != nil {
			t.Fatal(err)
		}
		batch := f.GetBatch()
		if batch.Payloads, err = d.Decode(nil, batch.Payloads); err != nil || !proto.Equal(f, want) {
			t.Errorf("codec %d: %v, %v", id, f, err)
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
