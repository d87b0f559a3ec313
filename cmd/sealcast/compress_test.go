package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

func dictionaryFile(t *testing.T) string {
	t.Helper()
	var samples [][]byte
	for i := range 300 {
		samples = append(samples, fmt.Appendf(nil, `{"symbol":"SYM-%d","bid":"%d.5","ask":"%d.7"}`, i%9, i%31, i%29))
	}
	d, err := codec.Train(samples, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "dict"), string(d.Bytes()), 0o644)
}

// TestCompressSettings: each client gets the codec that settings and its own
// list agree on, and ticks arrive.
func TestCompressSettings(t *testing.T) {
	key, dictionary := keyFile(t), dictionaryFile(t)
	r := serveFile(t, "key_file: "+key+"\ncompress: {codecs: [zstd, none], min_bytes: 64, dictionary: "+dictionary+"}\n")
	for _, tt := range []struct {
		offers []wire.Codec
		want   wire.Codec
	}{
		{nil, wire.CodecZstd},
		{[]wire.Codec{wire.CodecSnappy, wire.CodecNone, wire.CodecZstd}, wire.CodecNone},
		{[]wire.Codec{wire.CodecZstdDict, wire.CodecZstd}, wire.CodecZstdDict},
		{[]wire.Codec{wire.CodecSnappy}, wire.CodecNone},
	} {
		conn := subscribed(t, r.ready, client.Options{Pins: []session.PublicKey{pinOf(t, key)}, Codecs: tt.offers})
		if got := conn.Info().Codec; got != tt.want {
			t.Errorf("%v offered: %v, want %v", tt.offers, got, tt.want)
		}
		ticks := 0
		for ticks < 5 {
			event, err := conn.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := event.(*client.Tick); ok {
				ticks++
			}
		}
	}
}

func TestDictionaryFaults(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, filepath.Join(dir, "bad"), "this is no dictionary, whatever its name", 0o644)
	for path, want := range map[string]string{
		bad:           "not a Zstandard dictionary",
		dir + "/none": "no such file",
		dir:           "is not a file of at most",
		os.DevNull:    "is not a file of at most",
	} {
		got := execute(t, nil, "serve", "--set", "compress.dictionary="+path)
		if got.status != 1 || !strings.Contains(got.stderr, "compress.dictionary") || !strings.Contains(got.stderr, want) ||
			!strings.Contains(got.stderr, "sealctl dict train") {
			t.Errorf("%s: status %d, %s", path, got.status, got.stderr)
		}
	}
}

// TestTheSameDictionaryStays: so that old and new sessions share batches.
func TestTheSameDictionaryStays(t *testing.T) {
	path := dictionaryFile(t)
	s, _ := startServices(t, "compress.dictionary="+path)
	before := s.live.Load()
	after, err := newInForce(before.cfg, before)
	if err != nil || before.dictionary == nil || after.dictionary != before.dictionary {
		t.Errorf("%p, then %p, %v", before.dictionary, after.dictionary, err)
	}
}
