package deployment

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logLine is a line that the gateway may write: its section of docs/logs.md and its message.
type logLine struct{ section, message string }

// logCode is what the code can write: the fields of every line, as far as they
// stand in the call, and the fields of all lines.
type logCode struct {
	lines  map[logLine][]string
	fields map[string]bool
	other  []string // calls whose message does not stand in the call
}

// sectionsByCall are the functions that write a line, and where docs/logs.md has it.
var sectionsByCall = map[string]string{
	"Error": "Error", "DPanic": "Error", "Warn": "Warn", "Info": "Info", "Debug": "Debug", "audit": "Audit", "logFull": "Warn",
}

// spokenElsewhere are functions that write a message which does not stand in their call.
var spokenElsewhere = []string{"logFull", "serve"} // callers have it; a warning about a variable

func readLogCode(t *testing.T) *logCode {
	t.Helper()
	code := &logCode{lines: map[logLine][]string{}, fields: map[string]bool{}}
	for _, folder := range []string{"gateway", "fanout", "cmd/sealcast"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				code.add(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code
}

func (c *logCode) add(file *ast.File) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				c.call(f.Name.Name, call)
			}
			return true
		})
	}
}

func (c *logCode) call(in string, call *ast.CallExpr) {
	if field := fieldOf(call); field != "" {
		c.fields[field] = true
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	section := sectionsByCall[f.Sel.Name]
	if section == "" || len(f.Sel.Name) > 0 && ast.IsExported(f.Sel.Name) && !isLogger(f.X) {
		return
	}
	line := logLine{section: section}
	var fields []string
	for _, arg := range call.Args {
		if text := literal(arg); text != "" && line.message == "" {
			line.message = text
			continue
		}
		ast.Inspect(arg, func(n ast.Node) bool {
			if inner, ok := n.(*ast.CallExpr); ok && fieldOf(inner) != "" {
				fields = append(fields, fieldOf(inner))
			}
			return true
		})
	}
	switch {
	case line.message != "":
		if section == "Info" && lastName(f.X) == "Audit" {
			line.section = "Audit"
		}
		c.lines[line] = append(c.lines[line], fields...)
	case !slices.Contains(spokenElsewhere, in):
		c.other = append(c.other, in)
	}
}

// isLogger goes by the names that loggers have here.
func isLogger(x ast.Expr) bool {
	return slices.Contains([]string{"log", "Log", "Audit", "Logger"}, lastName(x))
}

func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func literal(x ast.Expr) string {
	if l, ok := x.(*ast.BasicLit); ok && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value) // the parser has accepted it
		return text
	}
	return ""
}

// fieldOf is the key of a zap field.
func fieldOf(call *ast.CallExpr) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || lastName(f.X) != "zap" || len(call.Args) == 0 {
		return ""
	}
	if f.Sel.Name == "Error" {
		return "error"
	}
	if len(call.Args) < 2 {
		return ""
	}
	return literal(call.Args[0])
}

var (
	logSection = regexp.MustCompile(`(?m)^## (.+)$`)
	logRow     = regexp.MustCompile(`(?m)^\|([^|]*)\|([^|]*)\|[^|]*\|$`)
	fieldRow   = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\|$")
	inTicks    = regexp.MustCompile("`([a-z_]+)`")
)

// readLogPage reads docs/logs.md: the fields of every line, and the fields explained.
func readLogPage(t *testing.T) (lines map[logLine][]string, fields map[string]bool) {
	t.Helper()
	text := read(t, "docs/logs.md")
	lines, fields = map[logLine][]string{}, map[string]bool{}
	heads := logSection.FindAllStringSubmatchIndex(text, -1)
	for i, head := range heads {
		section, end := text[head[2]:head[3]], len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		if section == "Fields" {
			for _, m := range fieldRow.FindAllStringSubmatch(text[head[1]:end], -1) {
				fields[m[1]] = true
			}
			continue
		}
		for _, m := range logRow.FindAllStringSubmatch(text[head[1]:end], -1) {
			message := strings.TrimSpace(m[1])
			if message == "message" || strings.HasPrefix(message, "---") {
				continue
			}
			named := []string{}
			for _, f := range inTicks.FindAllStringSubmatch(m[2], -1) {
				named = append(named, f[1])
			}
			lines[logLine{section, message}] = named
		}
	}
	return lines, fields
}

// docs/logs.md has every line that the gateway can write, and every field, and nothing else.
func TestLogsPage(t *testing.T) {
	code := readLogCode(t)
	lines, fields := readLogPage(t)
	for _, in := range code.other {
		t.Errorf("%s writes a line whose message this test cannot see", in)
	}
	for line, of := range code.lines {
		row, ok := lines[line]
		if !ok {
			t.Errorf("docs/logs.md, %s: no row for\n| %s | %s | |", line.section, line.message, ticked(of))
		}
		for _, f := range of {
			if ok && !slices.Contains(row, f) {
				t.Errorf("docs/logs.md, %s, %q: the field `%s` is missing", line.section, line.message, f)
			}
		}
		delete(lines, line)
	}
	for line, of := range lines {
		t.Errorf("docs/logs.md, %s: nothing writes %q with %v", line.section, line.message, of)
	}
	if want := slices.Sorted(maps.Keys(code.fields)); !slices.Equal(want, slices.Sorted(maps.Keys(fields))) {
		t.Errorf("docs/logs.md explains the fields\n%v, the code writes\n%v", slices.Sorted(maps.Keys(fields)), want)
	}
	if len(code.lines) < 60 {
		t.Errorf("only %d lines found in the code: does this test still look where they are?", len(code.lines))
	}
}

func ticked(fields []string) string {
	var all []string
	for _, f := range fields {
		all = append(all, fmt.Sprintf("`%s`", f))
	}
	return strings.Join(all, ", ")
}
