package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sealcast/sealcast/session"
)

func TestKeygen(t *testing.T) {
	t.Chdir(t.TempDir())
	got := execute(t, nil, "keygen", "-o", "a.key")
	pin := strings.TrimSpace(got.stdout)
	if _, err := session.ParsePin(pin); got.status != 0 || err != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	key, err := readKey("key_file", "a.key")
	if err != nil || key.Public().String() != pin {
		t.Fatalf("read back: %v", err)
	}
	info, err := os.Stat("a.key")
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if content, _ := os.ReadFile("a.key"); strings.Contains(got.stdout+got.stderr, lastField(string(content))) {
		t.Error("the private key is printed")
	}
}

// lastField is the private key in a key file.
func lastField(s string) string {
	fields := strings.Fields(s)
	return fields[len(fields)-1]
}

func TestKeygenReplacesOnlyByForce(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "sealcast.key", "precious", 0o644)
	got := execute(t, nil, "keygen")
	if got.status != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, "sealcast: error: key file sealcast.key exists already\nhint: ") {
		t.Errorf("got %+v", got)
	}
	if content, _ := os.ReadFile("sealcast.key"); string(content) != "precious" {
		t.Error("file was touched")
	}
	if got := execute(t, nil, "keygen", "--force"); got.status != 0 {
		t.Errorf("got %+v", got)
	}
	if _, err := readKey("key_file", "sealcast.key"); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir("."); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestKeygenCannotWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"keygen", "-o", "none/a.key"}, {"keygen", "-o", "none/a.key", "--force"}} {
		got := execute(t, nil, args...)
		if got.status != 1 || !strings.Contains(got.stderr, "no such file or directory\nhint: name a file in a folder that exists") {
			t.Errorf("got %+v", got)
		}
	}
	if err := os.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, nil, "keygen", "-o", "dir", "--force"); got.status != 1 {
		t.Errorf("got %+v", got)
	}
	if entries, _ := os.ReadDir("."); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestFaultyKeyFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	execute(t, nil, "keygen", "-o", good)
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	wide := write(t, filepath.Join(dir, "wide"), string(content), 0o600)
	if err := os.Chmod(wide, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, text, hint string }{
		{"missing", filepath.Join(dir, "none"), "no such file or directory", "make one with `sealcast keygen -o "},
		{"wide", wide, "has mode 0640", "chmod 600 " + wide},
		{"folder", dir, "is not a regular file", "name the file that"},
		{"empty", write(t, filepath.Join(dir, "empty"), "", 0o600), "holds no key", "as `sealcast keygen` wrote it"},
		{"not a key", write(t, filepath.Join(dir, "other"), "hunter2\n", 0o600), "does not begin with", "as `sealcast keygen` wrote it"},
	} {
		got := execute(t, nil, "serve", "--set", "key_file="+c.path, "--set", "listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0")
		if got.status != 1 || !strings.Contains(got.stderr, "sealcast: error: key_file") ||
			!strings.Contains(got.stderr, c.text) || !strings.Contains(got.stderr, "\nhint: ") || !strings.Contains(got.stderr, c.hint) {
			t.Errorf("%s: got %+v", c.name, got)
		}
		if strings.Contains(got.stderr, "hunter2") {
			t.Errorf("%s: content is shown", c.name)
		}
	}
}

func TestTicketKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	got := execute(t, nil, "keygen", "--ticket")
	if want := (result{0, "", "wrote sealcast-tickets.key (keep it secret): one ticket key\n"}); got != want {
		t.Fatalf("got %+v", got)
	}
	first := ticketKeysOf(t, "sealcast-tickets.key", 1)
	if got := execute(t, nil, "keygen", "--ticket"); got.status != 1 || !strings.Contains(got.stderr, "exists already\nhint: --rotate puts a new key in front") {
		t.Errorf("got %+v", got)
	}
	if got := execute(t, nil, "keygen", "--ticket", "--rotate"); got.status != 0 || got.stdout != "" || !strings.Contains(got.stderr, "SIGHUP") {
		t.Errorf("got %+v", got)
	}
	second := ticketKeysOf(t, "sealcast-tickets.key", 2)
	if bytes.Equal(second[0], first[0]) || !bytes.Equal(second[1], first[0]) {
		t.Error("the key before is not kept behind the new one")
	}
	execute(t, nil, "keygen", "--ticket", "--rotate")
	third := ticketKeysOf(t, "sealcast-tickets.key", 2)
	if bytes.Equal(third[0], second[0]) || !bytes.Equal(third[1], second[0]) {
		t.Error("more than the key before is kept")
	}
	if got := execute(t, nil, "keygen", "--ticket", "--force"); got.status != 0 {
		t.Errorf("got %+v", got)
	}
	if forced := ticketKeysOf(t, "sealcast-tickets.key", 1); bytes.Equal(forced[0], third[0]) {
		t.Error("--force keeps the key")
	}
}

// ticketKeysOf reads a file that must be private and hold so many keys.
func ticketKeysOf(t *testing.T, path string, count int) [][]byte {
	t.Helper()
	keys, err := readTicketKeys("ticket key file", path)
	if err != nil || len(keys) != count {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	return keys
}

func TestTicketKeysMisuse(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"keygen", "--rotate"}, 2, "sealcast: error: keygen: --rotate is for ticket keys\nhint: add --ticket"},
		{[]string{"keygen", "--ticket", "--rotate", "--force"}, 2, "sealcast: error: keygen: --rotate and --force exclude each other\nhint: "},
		{[]string{"keygen", "--ticket", "--rotate"}, 1, "sealcast: error: ticket key file: open sealcast-tickets.key: no such file or directory\nhint: make one with `sealcast keygen --ticket -o sealcast-tickets.key`\n"},
	} {
		if got := execute(t, nil, c.args...); got.status != c.status || got.stdout != "" || !strings.HasPrefix(got.stderr, c.want) {
			t.Errorf("%q: got %+v", c.args, got)
		}
	}
	if entries, _ := os.ReadDir("."); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A file that cannot be used is an error with advice, and is never quoted.
func TestFaultyTicketKeyFiles(t *testing.T) {
	dir := t.TempDir()
	key := strings.Repeat("A", 43)
	for name, c := range map[string]struct{ content, text string }{
		"empty":      {"# nothing\n\n", "holds no key"},
		"not base64": {"# a\n" + key + "\nhunter2\n", "line 3 is not a key of 32 bytes in base64url"},
		"too short":  {key[:42] + "\n", "line 1 is not a key"},
		"not strict": {key[:42] + "B\n", "line 1 is not a key"},
		"static key": {"sealcast-x25519-v1 " + key + "\n", "line 1 is not a key"},
		"too long":   {strings.Repeat("#", maxKeyFile+1), "is longer than 4096 bytes"},
	} {
		path := write(t, filepath.Join(dir, "keys"), c.content, 0o600)
		_, err := readTicketKeys("resumption.ticket_key_file", path)
		list, status := explain(err)
		if status != 1 || len(list) != 1 || !strings.HasPrefix(list[0].text, "resumption.ticket_key_file "+path) ||
			!strings.Contains(list[0].text, c.text) || !strings.Contains(list[0].hint, "`sealcast keygen --ticket`") || strings.Contains(list[0].text, "hunter2") {
			t.Errorf("%s: got %+v", name, list)
		}
	}
	good := write(t, filepath.Join(dir, "good"), "  "+key+" \r\n#\n"+key, 0o600)
	ticketKeysOf(t, good, 2)
}

// Both key files are judged before either stops the start.
func TestFaultyKeyFilesAtOnce(t *testing.T) {
	dir := t.TempDir()
	wide := write(t, filepath.Join(dir, "wide"), "", 0o644)
	got := execute(t, nil, "serve", "--set", "key_file="+dir+"/none", "--set", "resumption.ticket_key_file="+wide,
		"--set", "listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0")
	want := "sealcast: error: key_file: open " + dir + "/none: no such file or directory\nhint: make one with `sealcast keygen -o " + dir + "/none`\n" +
		"sealcast: error: resumption.ticket_key_file " + wide + " has mode 0644: others than its owner may use it\nhint: chmod 600 " + wide + "\n"
	if got != (result{1, "", want}) {
		t.Errorf("got %+v", got)
	}
}

// Root may renew the key of a gateway that runs as somebody else.
func TestReplaceKeepsTheOwner(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "keys"), "old", 0o600)
	fresh := write(t, filepath.Join(dir, "fresh"), "new", 0o600)
	other := os.Geteuid()
	if other == 0 { // others may not give files away
		other = 12345
		if err := os.Chown(path, other, other); err != nil {
			t.Fatal(err)
		}
	}
	if err := replace(path, fresh); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != other || info.Mode() != 0o600 {
		t.Errorf("got %+v, %v", info, err)
	}
	if content, _ := os.ReadFile(path); string(content) != "new" {
		t.Errorf("got %q", content)
	}
}

// A group may read a key file only if that is how this process reads it.
func TestKeyFileOfAnotherOwner(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "key"), "", 0o600)
	const own, other, root = 1000, 1001, 0
	if os.Geteuid() == root {
		if err := os.Chown(path, own, own); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		mode    os.FileMode
		user    int
		exposed bool
	}{
		{0o600, own, false}, {0o640, own, true}, {0o644, own, true},
		{0o440, other, false}, {0o640, other, false}, {0o660, other, true}, {0o444, other, true},
		{0o640, root, true},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		user := c.user
		if owner := int(info.Sys().(*syscall.Stat_t).Uid); user == own {
			user = owner // whoever runs the test
		} else if user == other {
			user = owner + 1
		}
		if exposed(info, user) != c.exposed {
			t.Errorf("mode %04o, user %d: exposed is %v", c.mode, user, !c.exposed)
		}
	}
}
