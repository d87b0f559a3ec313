package structure

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// Aims for sizes. The numbers are the first that are too large.
const (
	fileLines     = 500
	functionLines = 60
	structFields  = 18
	exportedNames = 40
)

// exception allows one thing to be larger, for a reason.
type exception struct {
	subject string // package/file.go, package.Type, package.Function, or package for its exported names
	limit   int    // the first size that is too large for it
	reason  string
}

var exceptions = []exception{
	{"wire", 65, "19 close codes and 9 kinds are two tables that stand in one place"},
	{"client", 60, "11 kinds of events and 12 errors to branch on are what an application reads of it"},
	{"fanout", 55, "each event and each topology, source and setting of Redis is a name of its own"},
	{"internal/config", 70, "one type for each section of the settings, one constant for each word that they allow"},
	{"internal/config.Config", 28, "one field for each section of the settings"},
	{"client.Options", 22, "a list of choices, one a line with its meaning and default"},
	{"gateway.conn", 25, "one connection with its clocks; what only push sessions need is subscriber's already"},
}

// limitFor is the limit for a subject, and whether an exception sets it.
func limitFor(list []exception, subject string, aim int) (limit int, excepted bool) {
	for _, e := range list {
		if e.subject == subject {
			return e.limit, true
		}
	}
	return aim, false
}

// size is one measured thing.
type size struct {
	subject, unit string
	got, aim      int
}

// checkSizes measures what people read: generated code is left out, and in
// tests a long table is no harm, so that only their files are measured.
func checkSizes(p *goPackage) []string {
	var faults []string
	for _, s := range measure(p) {
		if limit, _ := limitFor(exceptions, s.subject, s.aim); s.got >= limit {
			faults = append(faults, fmt.Sprintf("%s has %d %s, the aim is below %d", s.subject, s.got, s.unit, limit))
		}
	}
	return faults
}

func measure(p *goPackage) []size {
	var sizes []size
	exported := 0
	for _, f := range p.files {
		if f.generated {
			continue
		}
		sizes = append(sizes, size{p.path + "/" + f.name, "lines", f.lines, fileLines})
		if f.test {
			continue
		}
		exported += countExported(f.syntax)
		sizes = append(sizes, measureDecls(p, f)...)
	}
	return append(sizes, size{p.path, "exported names", exported, exportedNames})
}

func measureDecls(p *goPackage, f *goFile) []size {
	var sizes []size
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			lines := p.fset.Position(node.End()).Line - p.fset.Position(node.Pos()).Line + 1
			sizes = append(sizes, size{p.path + "." + functionName(node), "lines", lines, functionLines})
		case *ast.TypeSpec:
			if s, ok := node.Type.(*ast.StructType); ok {
				sizes = append(sizes, size{p.path + "." + node.Name.Name, "fields", s.Fields.NumFields(), structFields})
			}
		}
		return true
	})
	return sizes
}

// functionName is Name, or Type.Name for a method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// countExported counts a file's exported names at package level; methods belong to their types.
func countExported(f *ast.File) int {
	n := 0
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				count(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					count(spec.Names...)
				case *ast.TypeSpec:
					count(spec.Name)
				}
			}
		}
	}
	return n
}

// staleExceptions finds exceptions without a reason and those that nothing needs.
func staleExceptions(packages []*goPackage) []string {
	needed := map[string]bool{}
	for _, p := range packages {
		for _, s := range measure(p) {
			if s.got >= s.aim {
				needed[s.subject] = true
			}
		}
	}
	var faults []string
	for _, e := range exceptions {
		switch {
		case e.reason == "":
			faults = append(faults, e.subject+": an exception without a reason")
		case !needed[e.subject]:
			faults = append(faults, e.subject+": the exception is not needed any more")
		}
	}
	return faults
}

func TestCheckSizes(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("\n", n) }
	fields := func(n int) string { return strings.Repeat("a, ", n-1) + "z int" }
	var names strings.Builder
	for i := range exportedNames - 3 {
		fmt.Fprintf(&names, "const A%d = 1\n", i)
	}
	tests := []struct {
		name, file, source string
		want               []string
	}{
		{"small", "a.go", "func f() {}", nil},
		{"file below the aim", "a.go", lines(fileLines - 2), nil},
		{"file", "a.go", lines(fileLines - 1), []string{"x/a.go has 500 lines"}},
		{"test file", "a_test.go", lines(fileLines - 1), []string{"x/a_test.go has 500 lines"}},
		{"function below the aim", "a.go", "func f() {" + lines(functionLines-2) + "}", nil},
		{"function", "a.go", "func f() {" + lines(functionLines-1) + "}", []string{"x.f has 60 lines"}},
		{"method", "a.go", "type t[A any] int\nfunc (t *t[A]) f() {" + lines(functionLines-1) + "}", []string{"x.t.f has 60 lines"}},
		{"function of a test", "a_test.go", "func f() {" + lines(functionLines-1) + "}", nil},
		{"struct below the aim", "a.go", "type s struct { " + fields(structFields-1) + " }", nil},
		{"struct", "a.go", "type s struct { " + fields(structFields-1) + "; int }", []string{"x.s has 18 fields"}},
		{"struct inside a function", "a.go", "func f() { type s struct { " + fields(structFields) + " } }", []string{"x.s has 18 fields"}},
		{"exported names below the aim", "a.go", names.String() + "type B int; func C() {}; func (B) D() {}; func e() {}", nil},
		{"exported names", "a.go", names.String() + "type B int; func C() {}; var D, e int", []string{"x has 40 exported names"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fixture(t, "x", map[string]string{tt.file: "package x\n" + tt.source})
			expectFaults(t, checkSizes(p), tt.want...)
		})
	}
}

func TestGeneratedCodeIsNotMeasured(t *testing.T) {
	source := "// Code generated by a test. DO NOT EDIT.\n\npackage x" + strings.Repeat("\n", fileLines)
	expectFaults(t, checkSizes(fixture(t, "x", map[string]string{"a.pb.go": source})))
}

func TestExceptions(t *testing.T) {
	list := []exception{{"x.f", 100, "a reason"}}
	if limit, ok := limitFor(list, "x.f", functionLines); limit != 100 || !ok {
		t.Errorf("x.f: %d, %v", limit, ok)
	}
	if limit, ok := limitFor(list, "x.g", functionLines); limit != functionLines || ok {
		t.Errorf("x.g: %d, %v", limit, ok)
	}
	if faults := staleExceptions(nil); len(faults) != len(exceptions) {
		t.Errorf("without packages every exception is stale, but: %q", faults)
	}
}
