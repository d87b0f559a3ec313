package advice

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		hint   string
		status int
	}{
		{Misuse("no such flag", "see help"), "see help", 2},
		{Failed(io.EOF, "try again"), "try again", 1},
		{fmt.Errorf("reading: %w", Failed(io.EOF, "try again")), "try again", 1},
		{io.EOF, "", 1},
	} {
		if got := Of(c.err); got.Hint != c.hint || got.Status != c.status {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
	if err := Failed(io.EOF, ""); err.Error() != "EOF" || !errors.Is(err, io.EOF) {
		t.Errorf("%v hides its cause", err)
	}
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	Write(&b, "sealctl", "no such file", "name another")
	Write(&b, "sealcast", "gone", "")
	if want := "sealctl: error: no such file\nhint: name another\nsealcast: error: gone\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
