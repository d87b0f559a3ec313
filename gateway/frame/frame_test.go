package frame

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/sealcast/sealcast/wire"
)

func TestAppendHeaderIsReadBack(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20, 1 << 40} {
		got := AppendHeader([]byte("x"), ws.OpBinary, n)[1:]
		if len(got) != HeaderSize(n) {
			t.Errorf("%d: header has %d bytes, HeaderSize says %d", n, len(got), HeaderSize(n))
		}
		h, err := ws.ReadHeader(bytes.NewReader(got))
		want := ws.Header{Fin: true, OpCode: ws.OpBinary, Length: int64(n)}
		if err != nil || h != want {
			t.Errorf("%d: read back %+v (%v), want %+v", n, h, err, want)
		}
		if shortest := ws.HeaderSize(want); len(got) != shortest {
			t.Errorf("%d: header has %d bytes, shortest is %d", n, len(got), shortest)
		}
	}
}

func TestAppendClose(t *testing.T) {
	for name, c := range map[string]struct {
		code   wire.CloseCode
		reason string
		want   string
	}{
		"code and reason":     {wire.CloseBadRecord, "bad", "\x88\x05\x11\x30bad"},
		"code alone":          {wire.CloseNormal, "", "\x88\x02\x03\xe8"},
		"no status":           {wire.CloseNoStatus, "dropped", "\x88\x00"},
		"longest reason":      {wire.CloseNormal, strings.Repeat("a", 123), "\x88\x7d\x03\xe8" + strings.Repeat("a", 123)},
		"too long":            {wire.CloseNormal, strings.Repeat("a", 200), "\x88\x7d\x03\xe8" + strings.Repeat("a", 123)},
		"cut at a character":  {wire.CloseNormal, strings.Repeat("€", 60), "\x88\x7d\x03\xe8" + strings.Repeat("€", 41)},
		"cut in a character":  {wire.CloseNormal, "a" + strings.Repeat("€", 60), "\x88\x7b\x03\xe8a" + strings.Repeat("€", 40)},
		"nothing but a stray": {wire.CloseNormal, strings.Repeat("\x80", 200), "\x88\x02\x03\xe8"},
	} {
		if got := AppendClose(nil, c.code, c.reason); string(got) != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestParseClose(t *testing.T) {
	for payload, want := range map[string]struct {
		code   wire.CloseCode
		reason string
		fault  wire.CloseCode
	}{
		"":                 {code: wire.CloseNoStatus},
		"\x03\xe8":         {code: wire.CloseNormal},
		"\x11\x30so sorry": {code: wire.CloseBadRecord, reason: "so sorry"},
		"\x03":             {fault: wire.CloseProtocolError},
		"\x03\xe7":         {fault: wire.CloseProtocolError},
		"\x03\xe8\xc3":     {fault: wire.CloseInvalidUTF8},
		"\x03\xe8\xff":     {fault: wire.CloseInvalidUTF8},
	} {
		code, reason, err := ParseClose([]byte(payload))
		var fault *Error
		if errors.As(err, &fault); (fault != nil) != (want.fault != 0) || fault != nil && fault.Code != want.fault {
			t.Errorf("%q: error %v, want code %d", payload, err, want.fault)
		}
		if code != want.code || reason != want.reason {
			t.Errorf("%q: got %d %q, want %d %q", payload, code, reason, want.code, want.reason)
		}
	}
}

// The codes an endpoint may send, counted out: 1000-1003, 1007-1014, 3000-4999.
func TestValidCloseCodes(t *testing.T) {
	for code := range 1 << 16 {
		want := 1000 <= code && code <= 1003 || 1007 <= code && code <= 1014 || 3000 <= code && code <= 4999
		if got := validCloseCode(uint16(code)); got != want {
			t.Errorf("code %d: valid = %v, want %v", code, got, want)
		}
	}
}

func TestErrorNamesReasonAndCode(t *testing.T) {
	err := protocolError("the mask is missing")
	if got, want := err.Error(), "frame: the mask is missing (close code 1002)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Against the definition: p can begin valid UTF-8 when some continuation of at
// most three bytes makes it valid.
func TestCheckUTF8AgainstDefinition(t *testing.T) {
	endings := []string{"", "\x80", "\xbf", "\x80\x80", "\xbf\xbf", "\x80\x80\x80", "\xbf\xbf\xbf"}
	interesting := []byte{'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
		0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff}
	check := func(p []byte) {
		shortest := -1
		for _, end := range endings {
			if utf8.Valid(append(bytes.Clone(p), end...)) {
				shortest = len(end)
				break
			}
		}
		incomplete, ok := checkUTF8(p)
		if ok != (shortest >= 0) {
			t.Errorf("%x: ok = %v, but completes with %d more bytes", p, ok, shortest)
		}
		if ok && (incomplete > 0) != (shortest > 0) {
			t.Errorf("%x: incomplete = %d, but completes with %d more bytes", p, incomplete, shortest)
		}
		if ok && !utf8.Valid(p[:len(p)-incomplete]) {
			t.Errorf("%x: not valid without the last %d bytes", p, incomplete)
		}
	}
	check(nil)
	for _, a := range interesting {
		check([]byte{a})
		for _, b := range interesting {
			check([]byte{a, b})
			for _, c := range interesting {
				check([]byte{a, b, c})
				for _, d := range interesting {
					check([]byte{a, b, c, d})
				}
			}
		}
	}
}
