package structure

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependenciesPage = "docs/dependencies.md"

// pageRow is one line of the page's table: | `module` | version | reason |.
var pageRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (v[^ ]+) \\| (.*) \\|$")

// goMod is what `go mod edit -json` prints of go.mod.
type goMod struct {
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Tool []struct{ Path string }
}

// direct returns module → version of what our code and our tools come from. Go
// marks a module that only a tool comes from as indirect.
func (m goMod) direct() map[string]string {
	out := map[string]string{}
	for _, r := range m.Require {
		tool := false
		for _, t := range m.Tool {
			tool = tool || within(t.Path, r.Path)
		}
		if !r.Indirect || tool {
			out[r.Path] = r.Version
		}
	}
	return out
}

// checkPage compares the page's table with go.mod.
func checkPage(page string, required map[string]string) []string {
	var faults []string
	documented := map[string]bool{}
	for _, row := range pageRow.FindAllStringSubmatch(page, -1) {
		path, version, reason := row[1], row[2], strings.TrimSpace(row[3])
		switch want, ok := required[path]; {
		case !ok:
			faults = append(faults, path+" is no direct requirement of go.mod")
		case want != version:
			faults = append(faults, fmt.Sprintf("%s is at %s, go.mod has %s", path, version, want))
		case documented[path]:
			faults = append(faults, path+" stands there twice")
		case reason == "":
			faults = append(faults, path+" has no reason")
		}
		documented[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(required)) {
		if !documented[path] {
			faults = append(faults, path+" "+required[path]+" of go.mod is missing")
		}
	}
	return faults
}

// peersSection is where the page turns to the module of bench/peers; peersEnd is what follows.
const peersSection, peersEnd = "\n## bench/peers\n", "\n## npm\n"

// TestDependenciesPage: the page names exactly the direct requirements of both go.mod.
func TestDependenciesPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, dependenciesPage))
	if err != nil {
		t.Fatal(err)
	}
	own, rest, ok := strings.Cut(string(page), peersSection)
	peers, _, closed := strings.Cut(rest, peersEnd)
	if !ok || !closed {
		t.Fatalf("%s has no sections %q and %q", dependenciesPage, peersSection, peersEnd)
	}
	for file, page := range map[string]string{"go.mod": own, "bench/peers/go.mod": peers} {
		if _, err := os.ReadFile(filepath.Join(root, file)); err != nil { // so that a cached result ends with a change of go.mod
			t.Fatal(err)
		}
		var mod goMod
		if err := json.Unmarshal(goTool(t, "mod", "edit", "-json", file), &mod); err != nil {
			t.Fatal(err)
		}
		for _, fault := range checkPage(page, mod.direct()) {
			t.Errorf("%s, %s: %s", dependenciesPage, file, fault)
		}
	}
}

func TestCheckPage(t *testing.T) {
	required := map[string]string{"example.com/a": "v1.0.0", "example.com/b": "v2.0.0"}
	const a, b = "| `example.com/a` | v1.0.0 | a reason |\n", "| `example.com/b` | v2.0.0 | another |\n"
	tests := []struct {
		name, page string
		want       []string
	}{
		{"complete", "# Page\n\n" + a + b, nil},
		{"one missing", a, []string{"example.com/b v2.0.0 of go.mod is missing"}},
		{"one too many", a + b + "| `example.com/c` | v1.0.0 | why |\n", []string{"example.com/c is no direct requirement"}},
		{"old version", a + strings.Replace(b, "v2", "v1", 1), []string{"is at v1.0.0, go.mod has v2.0.0"}},
		{"no reason", a + strings.Replace(b, "another", "", 1), []string{"has no reason"}},
		{"twice", a + a + b, []string{"twice"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expectFaults(t, checkPage(tt.page, required), tt.want...)
		})
	}
}

func TestDirectRequirements(t *testing.T) {
	var mod goMod
	const text = `{"Require": [{"Path": "a.b/direct", "Version": "v1"}, {"Path": "a.b/indirect", "Version": "v2", "Indirect": true},
		{"Path": "a.b/tool", "Version": "v3", "Indirect": true}], "Tool": [{"Path": "a.b/tool/cmd/x"}]}`
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"a.b/direct": "v1", "a.b/tool": "v3"}; !maps.Equal(mod.direct(), want) {
		t.Errorf("direct requirements %v, want %v", mod.direct(), want)
	}
}
