package upgrade

import (
	"fmt"
	"strings"
	"testing"
)

func TestHeaderSyntax(t *testing.T) {
	for line, words := range map[string]string{
		"X : y":              "white space",
		"X\t: y":             "white space",
		"X y: z":             "white space",
		"Host : h":           "white space",
		" X: y":              "folded",
		"\tX: y":             "folded",
		" folded":            "folded",
		"X: y\r\n folded":    "folded",
		"X: y\r\n\tfolded":   "folded",
		"X: y\r\n ":          "folded",
		"X":                  "no colon",
		": y":                "no name",
		"X(: y":              "not allowed",
		"X\x00: y":           "not allowed",
		"X\x7f: y":           "not allowed",
		"\xc3\x9c: y":        "not allowed",
		"X\"Y: y":            "not allowed",
		"X: y\x00":           "control character",
		"X: y\x7fz":          "control character",
		"X: y\x1b[31m":       "control character",
		"X: y\bz":            "control character",
		"X: y\rz":            "control character",
		"X: y\r":             "control character",
		"X: y\nZ: z":         "CR LF",
		"X: y\n":             "CR LF",
		"X: y\n\nGET / HTTP": "CR LF",
		"X\nY: y":            "not allowed",
		"X\rY: y":            "not allowed",
	} {
		refused(t, sample("/ws", line), 400, words)
		// First of all fields, too.
		refused(t, lines("GET /ws HTTP/1.1", line, "Host: h"), 400, words)
	}
}

func TestBareLineEnds(t *testing.T) {
	whole := sample("/ws", "X: y")
	for i := range whole {
		if whole[i] == '\r' {
			refused(t, whole[:i]+whole[i+1:], 400, "") // LF alone
		}
		if whole[i] == '\n' && i+1 < len(whole) {
			refused(t, whole[:i]+whole[i+1:], 400, "") // CR alone
		}
	}
	refused(t, strings.ReplaceAll(whole, "\r\n", "\n"), 400, "")
	refused(t, strings.ReplaceAll(whole, "\r\n", "\r"), 400, "")
	refused(t, whole[:len(whole)-2]+"\n\n", 400, "")
	refused(t, whole[:len(whole)-2]+"\r\r\n", 400, "")
}

// Nothing but the whole is an answer, and no byte of it can be left out.
func TestBeginningsAreIncomplete(t *testing.T) {
	whole := sample("/ws?q", "X:", "Sec-WebSocket-Protocol: a, b")
	for i := range len(whole) {
		if req, n, err := Parse([]byte(whole[:i])); req != nil || n != 0 || err != nil {
			t.Errorf("%q: %v, %d, %v, want nothing yet", whole[:i], req, n, err)
		}
	}
}

// What cannot become a request is refused with the byte that makes it so.
func TestRefusedEarly(t *testing.T) {
	for input, want := range map[string]int{
		"\x16\x03\x01\x02\x00\x01":              1, // TLS
		"\x00\x00\x00\x00":                      1,
		"\n":                                    1,
		"SSH-2.0-OpenSSH\r\n":                   17,
		"GET /ws HTTP/1.0\r\nHost":              18,
		"GET /ws HTTP/1.1\nHost":                17,
		"GET /ws HTTP/1.1\r\n Host":             19,
		"GET /ws HTTP/1.1\r\nHost : h":          23,
		"GET /ws HTTP/1.1\r\nHost: \x00":        25,
		"GET /ws HTTP/1.1\r\nHost: h\n":         26,
		"GET /ws HTTP/1.1\r\nHost: h\rX":        27,
		"GET /ws HTTP/1.1\r\nA: b\r\nHost h":    29,
		"GET /ws HTTP/1.1\r\nHost: h\r\nhost: ": 0, // the line could still get longer
	} {
		_, _, needed, fault := parse(t, input)
		if needed != want || (fault == nil) != (want == 0) {
			t.Errorf("%q: %v after %d bytes, want refusal after %d", input, fault, needed, want)
		}
	}
}

func TestSizeLimit(t *testing.T) {
	sized := func(n int) string {
		return sample("/ws", "Pad: "+strings.Repeat("x", n-len(sample("/ws", "Pad: "))))
	}
	accepted(t, sized(MaxBytes))
	for name, input := range map[string]string{
		"one more":             sized(MaxBytes + 1),
		"many more":            sized(5 * MaxBytes),
		"a line without end":   "GET /" + strings.Repeat("x", 2*MaxBytes),
		"a name without end":   "GET / HTTP/1.1\r\n" + strings.Repeat("x", 2*MaxBytes),
		"no blank line within": "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", MaxBytes-21) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if needed := refused(t, input, 431, "8 KiB"); needed != MaxBytes {
				t.Errorf("refused after %d bytes, want %d", needed, MaxBytes)
			}
		})
	}
}

func TestFieldLimit(t *testing.T) {
	var fields []string
	for i := range MaxFields - len(sampleFields) {
		fields = append(fields, fmt.Sprintf("X-%d: y", i))
	}
	accepted(t, sample("/ws", fields...))
	refused(t, sample("/ws", append(fields, "X: y")...), 431, "64 header fields")
	refused(t, "GET / HTTP/1.1\r\n"+strings.Repeat("X:\r\n", 65), 431, "64 header fields")
}

func TestProtocolLimit(t *testing.T) {
	var names []string
	for i := range MaxProtocols {
		names = append(names, fmt.Sprintf("p%d", i))
	}
	if got := accepted(t, sample("/ws", "Sec-WebSocket-Protocol: "+strings.Join(names, ","))); len(got.Protocols) != MaxProtocols {
		t.Errorf("%d protocols, want %d", len(got.Protocols), MaxProtocols)
	}
	refused(t, sample("/ws", "Sec-WebSocket-Protocol: "+strings.Join(append(names, "more"), ",")), 400, "more than 64")
}
