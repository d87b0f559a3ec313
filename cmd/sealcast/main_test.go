package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// result is what a command left behind.
type result struct {
	status         int
	stdout, stderr string
}

// execute runs a command that ends by itself, in a folder of its own.
func execute(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := app{
		program: "bin/sealcast", environ: environ, stdout: &stdout, stderr: &stderr,
		signals:  func() (stops, hangups <-chan os.Signal) { return nil, nil },
		terminal: func() bool { return false },
	}
	status := a.run(args)
	return result{status, stdout.String(), stderr.String()}
}

func write(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	see := "hint: `sealcast help` shows the commands and their flags\n"
	commands := "hint: one of serve, config, keygen, health, version; `sealcast help` tells more\n"
	for _, c := range []struct {
		args []string
		want result
	}{
		{[]string{"help"}, result{0, usage, ""}},
		{[]string{"--help"}, result{0, usage, ""}},
		{[]string{"serve", "-h"}, result{0, usage, ""}},
		{[]string{"config", "show", "--help"}, result{0, usage, ""}},
		{[]string{"config", "check", "--help"}, result{0, usage, ""}},
		{[]string{"keygen", "--help"}, result{0, usage, ""}},
		{[]string{"version", "--help"}, result{0, usage, ""}},
		{nil, result{2, "", "sealcast: error: no command given\n" + commands}},
		{[]string{"run"}, result{2, "", "sealcast: error: unknown command \"run\"\n" + commands}},
		{[]string{"serve", "--port", "1"}, result{2, "", "sealcast: error: serve: flag provided but not defined: -port\n" + see}},
		{[]string{"serve", "gw.yaml"}, result{2, "", "sealcast: error: serve: unexpected argument \"gw.yaml\"\n" + see}},
		{[]string{"config"}, result{2, "", "sealcast: error: config: unknown command \"\"\nhint: `sealcast config check FILE` or `sealcast config show`\n"}},
		{[]string{"config", "check"}, result{2, "", "sealcast: error: config check: an argument is missing\n" + see}},
		{[]string{"config", "check", "a", "b"}, result{2, "", "sealcast: error: config check: unexpected argument \"b\"\n" + see}},
		{[]string{"config", "show", "a"}, result{2, "", "sealcast: error: config show: unexpected argument \"a\"\n" + see}},
		{[]string{"keygen", "a"}, result{2, "", "sealcast: error: keygen: unexpected argument \"a\"\n" + see}},
		{[]string{"version", "a"}, result{2, "", "sealcast: error: version: unexpected argument \"a\"\n" + see}},
	} {
		if got := execute(t, nil, c.args...); got != c.want {
			t.Errorf("%q: got %+v", c.args, got)
		}
	}
}

func TestVersion(t *testing.T) {
	got := execute(t, nil, "version")
	if got.status != 0 || !strings.HasPrefix(got.stdout, "sealcast ") || !strings.Contains(got.stdout, "(go1.") || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
}

// brokenWriter is a standard output that has gone away.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputFails(t *testing.T) {
	var stderr bytes.Buffer
	a := app{stdout: brokenWriter{}, stderr: &stderr}
	if status := a.run([]string{"version"}); status != 1 || stderr.String() != "sealcast: error: standard output: broken pipe\n" {
		t.Errorf("got %d %q", status, &stderr)
	}
}

func TestConfigCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "good.yaml", "loops: 2\n", 0o600)
	write(t, "bad.yaml", "lops: 2\nlimits:\n  tick: 2MiB\n", 0o600)
	if got, want := execute(t, []string{"SEALCAST_SERVICE_HOST=10.0.0.1"}, "config", "check", "good.yaml"),
		(result{0, "good.yaml: no faults\n", "sealcast: warning: environment variable SEALCAST_SERVICE_HOST is no setting and was ignored\n"}); got != want {
		t.Errorf("got %+v", got)
	}
	want := result{2, "", `sealcast: error: bad.yaml:1: lops: unknown setting
hint: did you mean loops?
sealcast: error: bad.yaml:3: limits.tick: is out of range
hint: allowed: 1B to 1MiB
sealcast: error: SEALCAST_LOOPS: loops: "x" is not a whole number
hint: allowed: 0 to 256
`}
	if got := execute(t, []string{"SEALCAST_LOOPS=x"}, "config", "check", "bad.yaml"); got != want {
		t.Errorf("got %+v", got)
	}
	if got := execute(t, nil, "config", "check", "none.yaml"); got.status != 2 || !strings.HasPrefix(got.stderr, "sealcast: error: none.yaml: no such file or directory\nhint: ") {
		t.Errorf("got %+v", got)
	}
}

func TestConfigShow(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "gw.yaml", "redis: {mode: standalone, addrs: 'r:6379'}\nloops: 3\n", 0o600)
	got := execute(t, []string{"SEALCAST_REDIS_PASSWORD=hunter2", "SEALCAST_X=hunter3"},
		"config", "show", "--config", "gw.yaml", "--set", "loops=4", "-set", "realm=r")
	if got.status != 0 || got.stderr != "sealcast: warning: environment variable SEALCAST_X is no setting and was ignored\n" {
		t.Errorf("got %+v", got)
	}
	for _, line := range []string{"loops: 4 # --set\n", "realm: r # --set\n", "  addrs: [r:6379] # gw.yaml:1\n", "  password: (hidden) # SEALCAST_REDIS_PASSWORD\n", "  db: 0\n"} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("no %q in\n%s", line, got.stdout)
		}
	}
	if strings.Contains(got.stdout+got.stderr, "hunter") {
		t.Error("a secret is shown")
	}
	if got := execute(t, nil, "config", "show", "--set", "loops=-1"); got.status != 2 || got.stdout != "" ||
		got.stderr != "sealcast: error: --set: loops: is out of range\nhint: allowed: 0 to 256\n" {
		t.Errorf("got %+v", got)
	}
}
