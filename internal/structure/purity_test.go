package structure

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// pure are the packages of the core: bytes in, bytes out. They open nothing,
// start nothing, and are told the time.
var pure = []string{
	"wire", "wire/topic", "wire/codec", "crypto/suite", "crypto/record", "session", "gateway/upgrade", "gateway/frame",
}

// impurePackages are standard packages, with all below them, that the core does not import.
var impurePackages = []string{"net", "os", "syscall", "io/ioutil", "log"}

// clockFunctions of package time read the clock or wait for it.
var clockFunctions = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// checkPurity keeps input, output, goroutines and the clock out of the core.
func checkPurity(p *goPackage) []string {
	if !slices.Contains(pure, p.path) {
		return nil
	}
	var faults []string
	for _, f := range p.production() {
		clock := ""
		for _, spec := range f.syntax.Imports {
			imported := importPath(spec.Path.Value)
			for _, impure := range impurePackages {
				if within(imported, impure) {
					faults = append(faults, fmt.Sprintf("%s imports %s, but the package is pure", p.where(spec.Pos()), imported))
				}
			}
			if imported == "time" {
				clock = localName(spec, imported)
			}
		}
		faults = append(faults, impureSyntax(p, f, clock)...)
	}
	return faults
}

func localName(spec *ast.ImportSpec, imported string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(imported)
}

// impureSyntax finds go statements and functions of the clock; clock is the
// name of package time in the file.
func impureSyntax(p *goPackage, f *goFile, clock string) []string {
	var faults []string
	if clock == "." {
		faults = append(faults, f.name+" imports time as \".\", which hides its use")
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			faults = append(faults, p.where(node.Pos())+" starts a goroutine, but the package is pure")
		case *ast.SelectorExpr:
			of, ok := node.X.(*ast.Ident)
			if ok && clock != "" && of.Name == clock && slices.Contains(clockFunctions, node.Sel.Name) {
				faults = append(faults, p.where(node.Pos())+" uses time."+node.Sel.Name+", but the package is told the time")
			}
		}
		return true
	})
	return faults
}

func TestCheckPurity(t *testing.T) {
	tests := []struct {
		name, path, source string
		want               []string
	}{
		{"durations", "session", `import "time"; const d = time.Second; func f(t time.Time) bool { return t.After(t) }`, nil},
		{"the clock", "session", `import "time"; var t = time.Now()`, []string{"time.Now"}},
		{"the clock as a value", "wire", `import "time"; var now = time.Now`, []string{"time.Now"}},
		{"a timer under another name", "crypto/record", `import clock "time"; var t = clock.NewTimer(1)`, []string{"time.NewTimer"}},
		{"dot import", "wire", `import . "time"; var t = Now()`, []string{`as "."`}},
		{"another Now", "wire", `var time struct{ Now int }; var t = time.Now`, nil},
		{"net", "crypto/suite", `import "net"; var c net.Conn`, []string{"imports net"}},
		{"below net", "gateway/upgrade", `import "net/http"; var c http.Client`, []string{"imports net/http"}},
		{"os", "wire/topic", `import "os"; var a = os.Args`, []string{"imports os"}},
		{"similar name", "wire", `import "nettle"; var a = nettle.A`, nil},
		{"goroutine", "gateway/frame", `func f() { go f() }`, []string{"goroutine"}},
		{"elsewhere", "client", `import ("net"; "time"); func f() { go f(); time.Now(); net.Dial("", "") }`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fixture(t, tt.path, map[string]string{
				"a.go":      "package x\n" + tt.source,
				"a_test.go": "package x\nimport \"os\"\nvar _ = os.Args",
			})
			expectFaults(t, checkPurity(p), tt.want...)
		})
	}
}

// TestPurePackagesAreInTheTable catches a misspelt name, which would check nothing.
func TestPurePackagesAreInTheTable(t *testing.T) {
	for _, name := range append(slices.Clone(pure), strings.Fields("client session fanout")...) {
		if _, ok := importTable[name]; !ok {
			t.Errorf("%s is in no row of importTable", name)
		}
	}
	for name := range forbiddenDeps {
		if _, ok := importTable[name]; !ok {
			t.Errorf("forbiddenDeps: %s is in no row of importTable", name)
		}
	}
}
