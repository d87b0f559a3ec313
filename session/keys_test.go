package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestPinText(t *testing.T) {
	pin := testKey(t, 3).Public()
	got, err := ParsePin(pin.String())
	if err != nil || got != pin || len(pin.String()) != 43 {
		t.Errorf("%v from %q, %v", got, pin.String(), err)
	}
	text := pin.String()
	for _, bad := range []string{"", text + "=", text[1:], text + "A", " " + text, strings.Repeat("!", 43), text[:42] + "/"} {
		if _, err := ParsePin(bad); err == nil {
			t.Errorf("%q is a pin", bad)
		}
	}
}

// TestKnownPublicKey is RFC 7748 section 6.1, Alice's key pair.
func TestKnownPublicKey(t *testing.T) {
	private := unhex(t, "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
	k, err := GenerateStaticKey(bytes.NewReader(private))
	must(t, err)
	same(t, "public key", k.public[:], "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
}

func TestKeyFile(t *testing.T) {
	k := testKey(t, 4)
	file := k.EncodeFile()
	if !strings.Contains(string(file), k.Public().String()) {
		t.Error("the file does not name the pin")
	}
	got, err := ParseStaticKey(file)
	must(t, err)
	if got.private != k.private || got.public != k.public {
		t.Error("the key differs")
	}
	got, err = ParseStaticKey(append([]byte("\r\n# more\r\n"), bytes.ReplaceAll(file, []byte("\n"), []byte("\r\n"))...))
	must(t, err)
	if got.private != k.private {
		t.Error("the key differs with other line ends")
	}
}

// TestKeyFileErrorsTellNothing: no error quotes what may be a private key.
func TestKeyFileErrorsTellNothing(t *testing.T) {
	file := string(testKey(t, 5).EncodeFile())
	line := file[strings.LastIndex(strings.TrimSpace(file), "\n")+1:]
	secret := strings.TrimSpace(strings.TrimPrefix(line, keyFileTag))
	for name, bad := range map[string]string{
		"empty":     "",
		"comments":  "# nothing\n\n",
		"no tag":    secret + "\n",
		"two keys":  line + line,
		"short":     keyFileTag + secret[1:] + "\n",
		"long":      keyFileTag + secret + "AAAA\n",
		"padded":    keyFileTag + secret + "=\n",
		"other tag": strings.Replace(line, "v1", "v2", 1),
		"garbage":   line + "more\n",
	} {
		k, err := ParseStaticKey([]byte(bad))
		if err == nil {
			t.Errorf("%s: read %v", name, k)
			continue
		}
		if strings.Contains(err.Error(), secret[1:20]) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

func TestStaticKeyPrintsRedacted(t *testing.T) {
	k := testKey(t, 6)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, got := range []string{fmt.Sprintf(format, k), fmt.Sprintf(format, *k)} {
			if got != "redacted" {
				t.Errorf("%s prints %s", format, got)
			}
		}
	}
	text, err := json.Marshal(k)
	if err != nil || string(text) != `"redacted"` {
		t.Errorf("JSON: %s, %v", text, err)
	}
	k.Clear()
	if k.private != [keySize]byte{} {
		t.Error("Clear left the private key")
	}
}

func TestGenerateStaticKeyFails(t *testing.T) {
	if _, err := GenerateStaticKey(bytes.NewReader(make([]byte, keySize-1))); err == nil {
		t.Error("a key from too little randomness")
	}
}

func TestPostQuantumSetting(t *testing.T) {
	for _, p := range []PostQuantum{PostQuantumOff, PostQuantumPreferred, PostQuantumRequired} {
		if got, err := ParsePostQuantum(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"", "on", "Required"} {
		if _, err := ParsePostQuantum(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
