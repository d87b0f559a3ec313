// Package structure is the tests that keep the shape of this repository: who
// may import whom, what stays free of input, output and clocks, how large
// things get, what comments and documents must say. It never tests behaviour
// and nothing can import it.
package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// module is the path that go.mod declares.
const module = "github.com/sealcast/sealcast"

// root is the repository, seen from this package's directory.
const root = "../.."

// rule looks at one package and says what is wrong with it, one string a fault.
type rule struct {
	name  string
	check func(*goPackage) []string
}

var rules = []rule{
	{"imports", checkImports},
	{"purity", checkPurity},
	{"sizes", checkSizes},
	{"package comment", checkComment},
}

// TestRepository applies every rule to every package.
func TestRepository(t *testing.T) {
	packages := loadRepository(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, p := range packages {
				for _, fault := range r.check(p) {
					t.Errorf("%s: %s", p.path, fault)
				}
			}
		})
	}
	t.Run("exceptions", func(t *testing.T) {
		for _, fault := range staleExceptions(packages) {
			t.Error(fault)
		}
	})
}

// goPackage is what the rules know of a package: all its files, whatever system
// they are for, and the packages it is built from on this one.
type goPackage struct {
	path  string   // below the module
	deps  []string // import paths of everything that the package is built from, tests not counted
	files []*goFile
	fset  *token.FileSet
}

type goFile struct {
	name      string
	syntax    *ast.File
	lines     int
	test      bool
	generated bool
}

// production returns the files that are not tests.
func (p *goPackage) production() []*goFile {
	var files []*goFile
	for _, f := range p.files {
		if !f.test {
			files = append(files, f)
		}
	}
	return files
}

// where names a position for people.
func (p *goPackage) where(pos token.Pos) string {
	position := p.fset.Position(pos)
	return fmt.Sprintf("%s:%d", filepath.Base(position.Filename), position.Line)
}

// addFile parses one file. The name decides whether it is a test.
func (p *goPackage) addFile(name string, source []byte) error {
	syntax, err := parser.ParseFile(p.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.files = append(p.files, &goFile{
		name:      name,
		syntax:    syntax,
		lines:     bytes.Count(source, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(syntax),
	})
	return nil
}

// loadRepository asks go list for the packages and reads all their files.
func loadRepository(t *testing.T) []*goPackage {
	t.Helper()
	var packages []*goPackage
	for _, listed := range goList(t, "list", "-json=ImportPath,Dir,Deps", "./...") {
		p := &goPackage{
			path: strings.TrimPrefix(listed.ImportPath, module+"/"),
			deps: listed.Deps,
			fset: token.NewFileSet(),
		}
		names, err := filepath.Glob(filepath.Join(listed.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.addFile(filepath.Base(name), source); err != nil {
				t.Fatal(err)
			}
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("go list names no package")
	}
	return packages
}

type listedPackage struct {
	ImportPath string
	Dir        string
	Deps       []string
}

func goList(t *testing.T, args ...string) []listedPackage {
	t.Helper()
	var packages []listedPackage
	decoder := json.NewDecoder(bytes.NewReader(goTool(t, args...)))
	for {
		var p listedPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// goTool runs the go command in the repository and returns what it prints.
func goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// fixture makes a package from sources, by file name, for the tests of the rules.
func fixture(t *testing.T, packagePath string, sources map[string]string) *goPackage {
	t.Helper()
	p := &goPackage{path: packagePath, fset: token.NewFileSet()}
	for name, source := range sources {
		if err := p.addFile(name, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// expectFaults compares what a rule says with words of what it should say, in any order.
func expectFaults(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("faults %q, want %q", got, want)
		return
	}
	all := strings.Join(got, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("faults %q, want one with %q", got, w)
		}
	}
}

func isCommand(p *goPackage) bool { return path.Dir(p.path) == "cmd" }
