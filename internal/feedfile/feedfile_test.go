package feedfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/wire/topic"
)

type recorded struct {
	at      time.Duration
	topic   string
	payload string
}

func readAll(t testing.TB, next func() (Tick, error)) ([]recorded, error) {
	t.Helper()
	var all []recorded
	for {
		tick, err := next()
		if err != nil {
			return all, err
		}
		all = append(all, recorded{tick.At, tick.Topic, string(tick.Payload)})
	}
}

func TestReaderTakesPayloadsByteForByte(t *testing.T) {
	long := strings.Repeat("x", 3<<20) + "\t\x00\xff\r"
	in := "0\ta:b\t{}\n5\ta:b\t\n5\tc\ttab\there\r\n7000000\ta:b\t" + long + "\n9000000\tc\tno line feed"
	got, err := readAll(t, NewReader(strings.NewReader(in)).Next)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	want := []recorded{
		{0, "a:b", "{}"},
		{5 * time.Microsecond, "a:b", ""},
		{5 * time.Microsecond, "c", "tab\there\r"},
		{7 * time.Second, "a:b", long},
		{9 * time.Second, "c", "no line feed"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d ticks, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("tick %d: %.60v, want %.60v", i, got[i], want[i])
		}
	}
}

func TestReaderNamesTheFault(t *testing.T) {
	tests := []struct {
		in   string
		want error
		text string
	}{
		{"0\ta\tx\nnonsense\n", ErrFormat, "line 2"},
		{"0\ta\n", ErrFormat, "line 1"},
		{"\n", ErrFormat, "line 1"},
		{"-1\ta\tx\n", ErrFormat, "time"},
		{"9223372036854775807\ta\tx\n", ErrFormat, "time"},
		{"9\ta\tx\n8\ta\tx\n", ErrFormat, "goes back"},
		{"0\ta:*\tx\n", topic.ErrInvalid, "line 1"},
		{"0\t\tx\n", topic.ErrInvalid, "line 1"},
		{"0\ta\t" + strings.Repeat("x", MaxLine), nil, "longer than 16 MiB"},
	}
	for _, tt := range tests {
		_, err := readAll(t, NewReader(strings.NewReader(tt.in)).Next)
		if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%.40q: %v, want %q in it", tt.in, err, tt.text)
		}
		if tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%.40q: %v is not %v", tt.in, err, tt.want)
		}
	}
}

func zipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOpenReadsPlainAndZippedTwice(t *testing.T) {
	text := "0\ta\tone\n10\tb\ttwo\n"
	for name, content := range map[string][]byte{"plain.tsv": []byte(text), "zipped.tsv.gz": zipped(t, text), "zipped-by-another-name": zipped(t, text)} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			got, err := readAll(t, f.Next)
			if !errors.Is(err, io.EOF) || len(got) != 2 || got[1].payload != "two" {
				t.Errorf("%s, round %d: %v, %v", name, round, got, err)
			}
			if err := f.Rewind(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenReportsDamage(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	whole := zipped(t, strings.Repeat("0\ta\tsome payload\n", 1000))
	path := filepath.Join(t.TempDir(), "cut.gz")
	if err := os.WriteFile(path, whole[:len(whole)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := readAll(t, f.Next); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut gzip file: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{"0\ta:b\t{}\n5\ta:b\t\n", "x", "1\ta\tb\n0\ta\tb", "\t\t\n", "0\ta\t\x00\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ticks, err := readAll(t, NewReader(bytes.NewReader(in)).Next)
		if err == nil {
			t.Fatal("a reader without an end")
		}
		for _, tick := range ticks {
			if topic.ValidName(tick.topic) != nil || strings.Contains(tick.payload, "\n") || tick.at < 0 {
				t.Errorf("accepted %+v", tick)
			}
		}
	})
}
