package client

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
)

// chooses answers Connect with a codec, and returns the offer.
func (p *peer) chooses(id wire.Codec, dictionary []byte) []uint32 {
	f := p.request()
	answer := connectedFrame(0)
	answer.GetConnected().Codec, answer.GetConnected().Dictionary = uint32(id), dictionary
	p.send(answer)
	return f.GetConnect().GetCodecs()
}

// packed is the plaintext of a batch after compression.
func (p *peer) packed(id wire.Codec, dictionary *codec.Dictionary, item wire.BatchItem) []byte {
	e, err := codec.NewEncoder(id, dictionary)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	plaintext, head := new(wire.Joiner).AppendFrame(nil, []wire.BatchItem{item})
	out := e.Compress(plaintext, 0, head)
	if wire.Codec(out[0]) != id {
		p.t.Errorf("%d bytes do not shrink with %v", len(plaintext), id)
	}
	return out
}

func trained(t *testing.T) *codec.Dictionary {
	t.Helper()
	var samples [][]byte
	for i := range 50 {
		samples = append(samples, bytes.Repeat([]byte{'a' + byte(i%3), 'b', 'c', 'd', 'e'}, 20))
	}
	d, err := codec.Train(samples, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var longPayload = strings.Repeat("a long payload ", 100)

func TestCompressedBatches(t *testing.T) {
	dictionary := trained(t)
	for _, id := range []wire.Codec{wire.CodecNone, wire.CodecSnappy, wire.CodecZstd, wire.CodecZstdDict} {
		t.Run(id.String(), func(t *testing.T) {
			offered := make(chan []uint32, 1)
			g := newFakeGateway(t, func(p *peer) {
				offered <- p.chooses(id, dictionary.Bytes())
				p.subscribed(state(1, "a", 7, 1))
				for seq := uint64(1); seq <= 6; seq += 2 {
					item := tickItem(1, seq, 0, longPayload)
					batch := wire.AppendBatchFrame(nil, []wire.BatchItem{item})
					if id != wire.CodecNone {
						batch = p.packed(id, dictionary, item)
					}
					p.record(wire.KindRecord, batch)
					p.batch(tickItem(1, seq+1, 0, "as it is")) // what does not shrink comes uncompressed
				}
				p.wait()
			})
			opts := g.options()
			if id == wire.CodecZstdDict {
				opts.Codecs = []wire.Codec{id}
			}
			conn := mustDial(t, opts)
			want := []uint32{2, 1, 0}
			if id == wire.CodecZstdDict {
				want = []uint32{3}
			}
			if got := <-offered; !slices.Equal(got, want) {
				t.Errorf("offered %v, want %v", got, want)
			}
			if conn.Info().Codec != id {
				t.Errorf("codec %v", conn.Info().Codec)
			}
			if _, err := conn.Subscribe(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			for seq := uint64(1); seq <= 6; {
				event, err := conn.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				tick, ok := event.(*Tick)
				if !ok {
					continue
				}
				if want := []string{"as it is", longPayload}[seq%2]; tick.Seq != seq || string(tick.Payload) != want {
					t.Fatalf("tick %d: %d, %d bytes", seq, tick.Seq, len(tick.Payload))
				}
				seq++
			}
		})
	}
}

func TestCodecsThatTheClientDidNotChoose(t *testing.T) {
	notADictionary := []byte("certainly no dictionary at all, only text")
	tests := []struct {
		name       string
		codecs     []wire.Codec
		id         wire.Codec
		dictionary []byte
		want       error
	}{
		{"not offered by default", nil, wire.CodecZstdDict, notADictionary, wire.ErrCodec},
		{"none offered", []wire.Codec{}, wire.CodecSnappy, nil, wire.ErrCodec},
		{"another offered", []wire.Codec{wire.CodecZstd, wire.CodecNone}, wire.CodecSnappy, nil, wire.ErrCodec},
		{"unknown", nil, 77, nil, wire.ErrCodec},
		{"bad dictionary", []wire.Codec{wire.CodecZstdDict}, wire.CodecZstdDict, notADictionary, codec.ErrDictionary},
		{"no dictionary", []wire.Codec{wire.CodecZstdDict}, wire.CodecZstdDict, nil, codec.ErrDictionary},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newFakeGateway(t, func(p *peer) { p.chooses(tt.id, tt.dictionary); p.wait() })
			opts := g.options()
			opts.Codecs = tt.codecs
			if _, err := Dial(t.Context(), testURL, opts); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

func TestHostileCompression(t *testing.T) {
	under := func(id wire.Codec, frame []byte) []byte {
		frame[0] = byte(id)
		return frame
	}
	batch := func(payload string) []byte {
		return under(wire.CodecZstd, wire.AppendBatchFrame(nil, []wire.BatchItem{tickItem(1, 1, 0, payload)}))
	}
	tests := map[string]struct {
		send func(p *peer) []byte
		want error
	}{
		"another codec than the agreed one": {func(p *peer) []byte { return p.packed(wire.CodecSnappy, nil, tickItem(1, 1, 0, longPayload)) }, wire.ErrCodec},
		"garbage":                           {func(*peer) []byte { return batch("garbage") }, codec.ErrCorrupt},
		"nothing":                           {func(*peer) []byte { return batch("") }, codec.ErrCorrupt},
		"larger than the limit": {func(p *peer) []byte {
			return p.packed(wire.CodecZstd, nil, tickItem(1, 1, 0, strings.Repeat("x", 100_000)))
		}, codec.ErrTooLarge},
		"no Batch": {func(p *peer) []byte {
			return under(wire.CodecZstd, p.plain(&wire.ServerFrame{Message: &wire.ServerFrame_Error{Error: &wire.Error{Text: longPayload}}}))
		}, wire.ErrFrame},
		"two messages": {func(p *peer) []byte {
			packed := p.packed(wire.CodecZstd, nil, tickItem(1, 1, 0, longPayload))
			return append(packed, packed[wire.PlainHeaderSize:]...)
		}, wire.ErrFrame},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := newFakeGateway(t, func(p *peer) {
				p.chooses(wire.CodecZstd, nil)
				p.record(wire.KindRecord, tt.send(p))
				p.wait()
			})
			opts := g.options()
			opts.MaxBatch = 50_000
			conn := mustDial(t, opts)
			var err error
			for err == nil {
				_, err = conn.Next(t.Context())
			}
			var closed *ClosedError
			if !errors.As(err, &closed) || closed.Code != wire.CloseBadRecord || !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}
