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

// wordsOnly are standard packages below an impure one that a package of the
// core may import all the same, for names and parsers.
var wordsOnly = map[string][]string{
	"gateway/upgrade": {"net/http", "net/url"}, // names of methods and statuses, the parsers of versions and hosts
}

// doers are what those packages have that opens or waits.
var doers = map[string][]string{
	"net/http": {
		"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "ListenAndServe", "ListenAndServeTLS", "Post", "PostForm",
		"Serve", "ServeTLS", "Server", "Transport",
	},
}

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
		watched := map[string]watch{} // by local name
		for _, spec := range f.syntax.Imports {
			imported := importPath(spec.Path.Value)
			isImpure := slices.ContainsFunc(impurePackages, func(impure string) bool { return within(imported, impure) })
			switch {
			case imported == "time":
				watched[localName(spec, imported)] = watch{"time", clockFunctions, "the package is told the time"}
			case isImpure && slices.Contains(wordsOnly[p.path], imported):
				watched[localName(spec, imported)] = watch{path.Base(imported), doers[imported], "the package is pure"}
			case isImpure:
				faults = append(faults, fmt.Sprintf("%s imports %s, but the package is pure", p.where(spec.Pos()), imported))
			}
		}
		faults = append(faults, impureSyntax(p, f, watched)...)
	}
	return faults
}

func localName(spec *ast.ImportSpec, imported string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(imported)
}

// watch is names of an imported package that the core does without, and why.
type watch struct {
	pkg    string
	banned []string
	reason string
}

// impureSyntax finds go statements and the banned names of imported packages.
func impureSyntax(p *goPackage, f *goFile, watched map[string]watch) []string {
	var faults []string
	if w, ok := watched["."]; ok {
		faults = append(faults, f.name+" imports "+w.pkg+" as \".\", which hides its use")
	}
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			faults = append(faults, p.where(node.Pos())+" starts a goroutine, but the package is pure")
		case *ast.SelectorExpr:
			of, ok := node.X.(*ast.Ident)
			if !ok {
				break
			}
			if w, ok := watched[of.Name]; ok && slices.Contains(w.banned, node.Sel.Name) {
				faults = append(faults, p.where(node.Pos())+" uses "+w.pkg+"."+node.Sel.Name+", but "+w.reason)
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
		{"below net", "gateway/frame", `import "net/http"; var c = http.MethodGet`, []string{"imports net/http"}},
		{"words of HTTP", "gateway/upgrade", `import "net/http"; var c = http.MethodGet`, nil},
		{"a client of HTTP", "gateway/upgrade", `import h "net/http"; var c h.Client`, []string{"uses http.Client"}},
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
