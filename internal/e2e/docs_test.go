package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Go program of docs/getting-started.md compiles, and prints the demo
// feed's ticks.
func TestGettingStartedInGo(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "getting-started.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("the page has no program")
	}
	g := serve(t, []string{everyTick})
	source := strings.Replace(string(found[1]), "ws://127.0.0.1:8080/ws", g.url(), 1)
	folder := t.TempDir()
	file, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.Command("go", "build", "-o", binary, file)
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var out output
	program := exec.CommandContext(t.Context(), binary, g.pin().String())
	program.Stdout, program.Stderr = &out, &out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	tick := regexp.MustCompile(`(?m)^md:demo:[^:]+:ticker \d+ \{`)
	eventually(t, patience, "a tick", func() bool { return tick.MatchString(out.String()) })
	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}
