package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// v2 is a header of version 2 with everything behind its addresses in rest.
func v2(versionAndCommand, family byte, rest ...byte) []byte {
	b := append([]byte(nil), binarySignature...)
	b = append(b, versionAndCommand, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(rest)))
	return append(b, rest...)
}

var (
	tcp4 = []byte{192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 0x04, 0x1f, 0x90}
	tcp6 = bytes.Join([][]byte{
		{0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, make([]byte, 16), {0, 1, 0xff, 0xff},
	}, nil)
)

// headers are whole headers and the address that each tells; none if empty.
var headers = []struct {
	name, source string
	header       []byte
}{
	{"text, IPv4", "192.0.2.7:56324", []byte("PROXY TCP4 192.0.2.7 10.0.0.1 56324 8080\r\n")},
	{"text, IPv6", "[2001:db8::9]:1", []byte("PROXY TCP6 2001:db8::9 ::1 1 65535\r\n")},
	{"text, mapped address", "192.0.2.7:1", []byte("PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n")},
	{"text, longest", "[ffff:f:f:f:f:f:f:ffff]:65535", []byte("PROXY TCP6 ffff:f:f:f:f:f:f:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n")},
	{"text, unknown", "", []byte("PROXY UNKNOWN\r\n")},
	{"text, unknown with more", "", []byte("PROXY UNKNOWN ffff::1 whatever 0 0\r\n")},
	{"binary, IPv4", "192.0.2.7:56324", v2(0x21, 0x11, tcp4...)},
	{"binary, IPv6", "[2001:db8::9]:1", v2(0x21, 0x21, tcp6...)},
	{"binary, IPv4 and more behind it", "192.0.2.7:56324", v2(0x21, 0x11, append(append([]byte(nil), tcp4...), 4, 0, 3, 1, 2, 3)...)},
	{"binary, local", "", v2(0x20, 0)},
	{"binary, local with addresses", "", v2(0x20, 0x11, tcp4...)},
	{"binary, unspecified", "", v2(0x21, 0)},
	{"binary, UDP", "", v2(0x21, 0x12, tcp4...)},
	{"binary, Unix", "", v2(0x21, 0x31, make([]byte, 216)...)},
	{"binary, longest", "192.0.2.7:56324", v2(0x21, 0x11, append(append([]byte(nil), tcp4...), make([]byte, MaxBytes-28)...)...)},
}

// TestHeaders also cuts each header at every byte, and lets something follow it.
func TestHeaders(t *testing.T) {
	for _, c := range headers {
		for i := range c.header {
			if _, n, err := Parse(c.header[:i]); n != 0 || err != nil {
				t.Fatalf("%s, the first %d bytes: %d, %v", c.name, i, n, err)
			}
		}
		source, n, err := Parse(append(append([]byte(nil), c.header...), "GET / HTTP/1.1\r\n"...))
		if err != nil || n != len(c.header) {
			t.Errorf("%s: %d of %d bytes, %v", c.name, n, len(c.header), err)
		}
		if want, _ := netip.ParseAddrPort(c.source); source != want {
			t.Errorf("%s: %v, want %q", c.name, source, c.source)
		}
	}
}

func TestMalformedHeaders(t *testing.T) {
	for name, header := range map[string][]byte{
		"a request":                []byte("GET /ws HTTP/1.1\r\n"),
		"lower case":               []byte("proxy TCP4 192.0.2.7 10.0.0.1 1 2\r\n"),
		"no family":                []byte("PROXY \r\n"),
		"another family":           []byte("PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n"),
		"family of another case":   []byte("PROXY tcp4 192.0.2.7 10.0.0.1 1 2\r\n"),
		"two spaces":               []byte("PROXY  TCP4 192.0.2.7 10.0.0.1 1 2\r\n"),
		"space at the end":         []byte("PROXY TCP4 192.0.2.7 10.0.0.1 1 2 \r\n"),
		"one port":                 []byte("PROXY TCP4 192.0.2.7 10.0.0.1 1\r\n"),
		"port too large":           []byte("PROXY TCP4 192.0.2.7 10.0.0.1 65536 2\r\n"),
		"port with a zero":         []byte("PROXY TCP4 192.0.2.7 10.0.0.1 01 2\r\n"),
		"port with a sign":         []byte("PROXY TCP4 192.0.2.7 10.0.0.1 +1 2\r\n"),
		"empty port":               []byte("PROXY TCP4 192.0.2.7 10.0.0.1  2\r\n"),
		"destination port":         []byte("PROXY TCP4 192.0.2.7 10.0.0.1 1 x\r\n"),
		"no address":               []byte("PROXY TCP4 localhost 10.0.0.1 1 2\r\n"),
		"address of another kind":  []byte("PROXY TCP4 ::1 10.0.0.1 1 2\r\n"),
		"destination of another":   []byte("PROXY TCP6 ::1 10.0.0.1 1 2\r\n"),
		"address with a zone":      []byte("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"),
		"line feed alone":          []byte("PROXY TCP4 192.0.2.7 10.0.0.1 1 2\n\r\n"),
		"line too long":            []byte("PROXY UNKNOWN " + strings.Repeat("x", 100)),
		"signature with a flaw":    []byte("\r\n\r\n\x00\r\nQUIT\r"),
		"version 1 in binary":      v2(0x11, 0x11, tcp4...),
		"version 3":                v2(0x31, 0x11, tcp4...),
		"unknown command":          v2(0x22, 0x11, tcp4...),
		"unknown family":           v2(0x21, 0x41, tcp4...),
		"unknown transport":        v2(0x21, 0x13, tcp4...),
		"too short for IPv4":       v2(0x21, 0x11, tcp4[:11]...),
		"too short for IPv6":       v2(0x21, 0x21, tcp6[:35]...),
		"too long":                 v2(0x21, 0x11, make([]byte, MaxBytes-15)...),
		"too long, only announced": append(append([]byte(nil), binarySignature...), 0x21, 0x11, 0xff, 0xff),
	} {
		if source, n, err := Parse(header); !errors.Is(err, ErrMalformed) || n != 0 || source.IsValid() {
			t.Errorf("%s: %v, %d bytes, %v", name, source, n, err)
		}
	}
}

// FuzzParse: what is taken is within bounds, comes out the same however it was
// cut, and is what the protocol's own rules say of it.
func FuzzParse(f *testing.F) {
	for _, c := range headers {
		f.Add(c.header)
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		source, n, err := Parse(buf)
		if n < 0 || n > min(len(buf), MaxBytes) || err != nil && (n != 0 || source.IsValid()) {
			t.Fatalf("%v, %d of %d bytes, %v", source, n, len(buf), err)
		}
		if n == 0 && err == nil && len(buf) >= MaxBytes {
			t.Fatal("waits for more than it would take")
		}
		if n == 0 {
			return
		}
		if again, m, err := Parse(buf[:n]); again != source || m != n || err != nil {
			t.Fatalf("without what follows: %v, %d, %v", again, m, err)
		}
		for i := range n {
			if _, m, err := Parse(buf[:i]); m != 0 || err != nil {
				t.Fatalf("the first %d of %d bytes: %d, %v", i, n, m, err)
			}
		}
		if !bytes.HasPrefix(buf, binarySignature) && !bytes.HasSuffix(buf[:n], []byte("\r\n")) {
			t.Fatal("a line without an end")
		}
	})
}
