package structure

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// ban finds the words by which a package comment says what the package leaves to others.
var ban = regexp.MustCompile(`(?i)\b(never|no|not|nothing|neither)\b`)

// checkComment wants one comment per package, which says its job and its ban.
func checkComment(p *goPackage) []string {
	subject := "Package " + path.Base(p.path) + " "
	if isCommand(p) {
		subject = "Command " + path.Base(p.path) + " "
	}
	var faults, where []string
	for _, f := range p.files {
		if f.syntax.Doc == nil {
			continue
		}
		where = append(where, f.name)
		text := f.syntax.Doc.Text()
		if !strings.HasPrefix(text, subject) {
			faults = append(faults, fmt.Sprintf("%s: the package comment must begin with %q", f.name, subject))
		}
		if !ban.MatchString(text) {
			faults = append(faults, f.name+": the package comment must also say what the package never does")
		}
	}
	switch len(where) {
	case 0:
		faults = append(faults, "has no package comment")
	case 1:
	default:
		faults = append(faults, "has more than one package comment: "+strings.Join(where, ", "))
	}
	return faults
}

func TestCheckComment(t *testing.T) {
	const good = "// Package x is an example. It never does anything.\npackage x\n"
	tests := []struct {
		name, path string
		sources    map[string]string
		want       []string
	}{
		{"good", "x", map[string]string{"a.go": good, "b.go": "// +build note\n\npackage x\n"}, nil},
		{"none", "x", map[string]string{"a.go": "package x\n"}, []string{"no package comment"}},
		{"detached", "x", map[string]string{"a.go": strings.Replace(good, "\npackage", "\n\npackage", 1)}, []string{"no package comment"}},
		{"two", "x", map[string]string{"a.go": good, "b.go": good}, []string{"more than one"}},
		{"other name", "y", map[string]string{"a.go": good}, []string{`begin with "Package y "`}},
		{"longer name", "exam", map[string]string{"a.go": "// Package example never ends.\npackage exam\n"}, []string{"begin with"}},
		{"no ban", "x", map[string]string{"a.go": "// Package x is an example for nevermore.\npackage x\n"}, []string{"never does"}},
		{"command", "cmd/x", map[string]string{"a.go": "// Command x runs, and never stops.\npackage main\n"}, nil},
		{"command as a package", "cmd/x", map[string]string{"a.go": good}, []string{`begin with "Command x "`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expectFaults(t, checkComment(fixture(t, tt.path, tt.sources)), tt.want...)
		})
	}
}
