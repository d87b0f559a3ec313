package wire

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func ping(id uint64) *ClientFrame {
	return &ClientFrame{Message: &ClientFrame_Ping{Ping: &Ping{Id: id}}}
}
func pong(id uint64) *ServerFrame {
	return &ServerFrame{Message: &ServerFrame_Pong{Pong: &Pong{Id: id}}}
}

// body is a plaintext without padding around a hand-made body.
func body(parts ...[]byte) []byte {
	return append([]byte{0, 0, 0}, bytes.Join(parts, nil)...)
}

// field encodes one length-delimited field.
func field(number protowire.Number, content string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func TestFramesRoundTrip(t *testing.T) {
	for _, v := range clientFrameCases {
		plaintext, err := AppendClientFrame([]byte("kept"), v.frame, v.padTo)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(plaintext, []byte("kept")) || len(plaintext)-4 < v.padTo {
			t.Errorf("%s: %d bytes, padded to %d", v.name, len(plaintext)-4, v.padTo)
		}
		if got, err := ParseClientFrame(plaintext[4:]); err != nil || !proto.Equal(got, v.frame) {
			t.Errorf("%s: parsed %v, %v", v.name, got, err)
		}
	}
	for _, v := range serverFrameCases {
		plaintext, err := AppendServerFrame([]byte("kept"), v.frame)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseServerFrame(plaintext[4:]); err != nil || !proto.Equal(got, v.frame) {
			t.Errorf("%s: parsed %v, %v", v.name, got, err)
		}
	}
}

func TestPadding(t *testing.T) {
	short, err := AppendClientFrame(nil, ping(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	// The buffer is dirty behind its length: padding must overwrite it.
	dirty := bytes.Repeat([]byte{0xee}, 2048)
	for _, padTo := range []int{-1, 0, len(short), len(short) + 1, 1024} {
		got, err := AppendClientFrame(dirty[:0], ping(1), padTo)
		if err != nil || len(got) != max(padTo, len(short)) {
			t.Errorf("padded to %d: %d bytes, %v", padTo, len(got), err)
		}
		if _, err := ParseClientFrame(got); err != nil {
			t.Errorf("padded to %d: %v", padTo, err)
		}
	}
	if _, err := AppendClientFrame(nil, ping(1), len(short)+math.MaxUint16); err != nil {
		t.Errorf("the largest padding: %v", err)
	}
	if _, err := AppendClientFrame(nil, ping(1), len(short)+math.MaxUint16+1); !errors.Is(err, ErrPlaintext) {
		t.Errorf("more than the largest padding: %v", err)
	}
}

func TestAppendRefuses(t *testing.T) {
	dst := []byte("kept")
	bad := &Connect{Token: "\xff"}
	if got, err := AppendClientFrame(dst, &ClientFrame{Message: &ClientFrame_Connect{Connect: bad}}, 0); err == nil || string(got) != "kept" {
		t.Errorf("a token that is not UTF-8: %q, %v", got, err)
	}
	if got, err := AppendClientFrame(dst, &ClientFrame{}, 0); !errors.Is(err, ErrFrame) || string(got) != "kept" {
		t.Errorf("an empty client frame: %q, %v", got, err)
	}
	if got, err := AppendServerFrame(dst, nil); !errors.Is(err, ErrFrame) || string(got) != "kept" {
		t.Errorf("no server frame: %q, %v", got, err)
	}
}

// refusedFrames are plaintexts that neither side takes, with the error's sentinel and a word of its text.
var refusedFrames = []struct {
	name      string
	plaintext []byte
	is        error
	text      string
}{
	{"nothing", nil, ErrPlaintext, "0 bytes"},
	{"header cut off", []byte{0, 0}, ErrPlaintext, "2 bytes"},
	{"padding beyond the start", []byte{0, 0, 1}, ErrPlaintext, "padding of 1"},
	{"padding not zero", []byte{0, 0, 2, 0, 1}, ErrPlaintext, "padding is not zero"},
	{"compressed", append([]byte{1, 0, 0}, field(5, "")...), ErrCodec, "1"},
	{"unknown codec", append([]byte{255, 0, 0}, field(5, "")...), ErrCodec, "255"},
	{"no message", body(), ErrFrame, "no message"},
	{"padding alone", []byte{0, 0, 2, 0, 0}, ErrFrame, "no message"},
	{"unknown message", body(field(14, "")), ErrFrame, "unknown message 14"},
	{"unknown high message", body(field(1000, "x")), ErrFrame, "unknown message 1000"},
	{"message as a number", body([]byte{5 << 3, 1}), ErrFrame, "unknown message 5"},
	{"message as a group", body([]byte{5<<3 | 3, 5<<3 | 4}), ErrFrame, "unknown message 5"},
	{"field number zero", body([]byte{2, 0}), ErrFrame, "no message"},
	{"endless tag", body(bytes.Repeat([]byte{0x80}, 12)), ErrFrame, "no message"},
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range refusedFrames {
		if _, err := ParseClientFrame(tt.plaintext); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: client frame: %v", tt.name, err)
		}
		if _, err := ParseServerFrame(tt.plaintext); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: server frame: %v", tt.name, err)
		}
	}
}

func TestParseRefusesMoreThanOneMessage(t *testing.T) {
	tests := map[string][]byte{
		"two different messages": body(field(5, ""), field(2, "")),
		"the same message twice": body(field(5, "\x08\x01"), field(5, "\x08\x02")),
		"an unknown field after": body(field(5, ""), field(99, "")),
		"an unknown one before":  body(field(99, ""), field(5, "")),
		"trailing zero":          body(field(5, ""), []byte{0}),
		"trailing garbage":       body(field(5, ""), []byte("garbage")),
		"cut off":                body([]byte{5<<3 | 2, 3, 8}),
		"length of 2^64-1":       body([]byte{5<<3 | 2}, protowire.AppendVarint(nil, math.MaxUint64)),
		"malformed inside":       body(field(5, "\x08")),
		"not UTF-8":              body(field(1, "\x0a\x01\xff")),
	}
	for name, plaintext := range tests {
		if f, err := ParseClientFrame(plaintext); !errors.Is(err, ErrFrame) || f != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// TestDirectionsAreDisjoint reflects every frame to its sender.
func TestDirectionsAreDisjoint(t *testing.T) {
	for _, v := range clientFrameCases {
		plaintext, _ := AppendClientFrame(nil, v.frame, 0)
		if _, err := ParseServerFrame(plaintext); !errors.Is(err, ErrFrame) {
			t.Errorf("%s taken from a gateway: %v", v.name, err)
		}
	}
	for _, v := range serverFrameCases {
		plaintext, _ := AppendServerFrame(nil, v.frame)
		if _, err := ParseClientFrame(plaintext); !errors.Is(err, ErrFrame) {
			t.Errorf("%s taken from a client: %v", v.name, err)
		}
	}
}

func TestUnknownFieldsInsideAreIgnored(t *testing.T) {
	plaintext := body(field(29, "\x08\x07"+"\xfa\x07\x03new"))
	f, err := ParseServerFrame(plaintext)
	if err != nil || !proto.Equal(f, pong(7)) {
		t.Errorf("%v, %v", f, err)
	}
}

func TestFrameOwnsItsMemory(t *testing.T) {
	plaintext := AppendBatchFrame(nil, items(batches[1].entries))
	f, err := ParseServerFrame(plaintext)
	if err != nil {
		t.Fatal(err)
	}
	clear(plaintext)
	if !bytes.Equal(f.GetBatch().GetPayloads(), batches[1].entries[0].payload) {
		t.Error("the payload changed with the plaintext")
	}
}

func TestGoodbye(t *testing.T) {
	want := &Goodbye{Code: 1012, Text: "restart", ReconnectAfterMs: 1500}
	plaintext, err := AppendGoodbye(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseGoodbye(plaintext); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, code := range []uint32{0, 999, 1005, 1006, 1015, 5000, 1<<16 + 1000} {
		plaintext, _ := AppendGoodbye(nil, &Goodbye{Code: code})
		if _, err := ParseGoodbye(plaintext); !errors.Is(err, ErrFrame) {
			t.Errorf("code %d: %v", code, err)
		}
	}
	if _, err := ParseGoodbye([]byte{8}); !errors.Is(err, ErrFrame) {
		t.Errorf("cut off: %v", err)
	}
}

func addFrameSeeds(f *testing.F) {
	for _, v := range clientFrameCases {
		plaintext, _ := AppendClientFrame(nil, v.frame, v.padTo)
		f.Add(plaintext)
	}
	for _, v := range serverFrameCases {
		plaintext, _ := AppendServerFrame(nil, v.frame)
		f.Add(plaintext)
	}
	for _, v := range refusedFrames {
		f.Add(v.plaintext)
	}
	for _, v := range batches[:len(batches)-1] {
		f.Add(AppendBatchFrame(nil, items(v.entries)))
	}
}

// FuzzParseClientFrame: what is taken has one message and survives another round.
func FuzzParseClientFrame(f *testing.F) {
	addFrameSeeds(f)
	f.Fuzz(func(t *testing.T, plaintext []byte) {
		frame, err := ParseClientFrame(plaintext)
		if err != nil {
			return
		}
		again, err := AppendClientFrame(nil, frame, 0)
		if err != nil {
			t.Fatalf("%v cannot be sent: %v", frame, err)
		}
		if back, err := ParseClientFrame(again); err != nil || !proto.Equal(back, frame) {
			t.Errorf("%v became %v, %v", frame, back, err)
		}
	})
}

// FuzzParseServerFrame does the same and walks the batches.
func FuzzParseServerFrame(f *testing.F) {
	addFrameSeeds(f)
	f.Fuzz(func(t *testing.T, plaintext []byte) {
		frame, err := ParseServerFrame(plaintext)
		if err != nil {
			return
		}
		again, err := AppendServerFrame(nil, frame)
		if err != nil {
			t.Fatalf("%v cannot be sent: %v", frame, err)
		}
		if back, err := ParseServerFrame(again); err != nil || !proto.Equal(back, frame) {
			t.Errorf("%v became %v, %v", frame, back, err)
		}
		entries, err := new(Splitter).Split(frame.GetBatch())
		walked := 0
		for i := range entries {
			walked += len(entries[i].Payload)
		}
		if err == nil && walked != len(frame.GetBatch().GetPayloads()) {
			t.Errorf("walked %d of %d bytes", walked, len(frame.GetBatch().GetPayloads()))
		}
	})
}

// FuzzParsePlain: what is taken is header, body and zeros.
func FuzzParsePlain(f *testing.F) {
	f.Add([]byte{0, 0, 0})
	f.Add([]byte{2, 0, 3, 'x', 0, 0, 0})
	f.Add([]byte{0, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, plaintext []byte) {
		codec, body, err := ParsePlain(plaintext)
		if err != nil {
			return
		}
		padding := len(plaintext) - PlainHeaderSize - len(body)
		again := append(AppendPlainHeader(nil, codec, uint16(padding)), body...)
		if !bytes.Equal(append(again, make([]byte, padding)...), plaintext) {
			t.Errorf("%x split into codec %d and %x", plaintext, codec, body)
		}
	})
}
