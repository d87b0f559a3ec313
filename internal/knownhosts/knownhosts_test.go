package knownhosts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/session"
)

func TestAddAndLookup(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "new", "known_gateways")}
	if keys, err := f.Lookup("a:80"); keys != nil || err != nil {
		t.Fatalf("no file: %v, %v", keys, err)
	}
	one, two := session.PublicKey{1}, session.PublicKey{2}
	for _, add := range []struct {
		address string
		key     session.PublicKey
	}{{"a:80", one}, {"b:443", two}, {"a:80", two}} {
		if err := f.Add(add.address, add.key); err != nil {
			t.Fatal(err)
		}
	}
	for address, want := range map[string][]session.PublicKey{"a:80": {one, two}, "b:443": {two}, "a:8": nil, "A:80": nil} {
		if got, err := f.Lookup(address); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func write(t *testing.T, text string) File {
	t.Helper()
	f := File{Path: filepath.Join(t.TempDir(), "known")}
	if err := os.WriteFile(f.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilesWrittenByHand(t *testing.T) {
	key := session.PublicKey{7}
	f := write(t, "# gateways\n\n  a:80\t"+key.String()+"  \r\n#a:80 x\nb:80 "+key.String())
	if err := f.Add("c:80", key); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"a:80", "b:80", "c:80"} {
		if got, err := f.Lookup(address); !slices.Equal(got, []session.PublicKey{key}) || err != nil {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	key := session.PublicKey{7}.String()
	for _, line := range []string{"a:80", "a:80 " + key + " x", "a:80 short", "a:80 " + key[1:]} {
		_, err := write(t, "b:80 "+key+"\n"+line+"\n").Lookup("b:80")
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "known:2:") {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := write(t, strings.Repeat("#", maxSize+1)).Lookup("a:80"); err == nil {
		t.Error("a file without end was read")
	}
	if _, err := (File{Path: t.TempDir()}).Lookup("a:80"); err == nil {
		t.Error("a directory was read")
	}
}
