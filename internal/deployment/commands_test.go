package deployment

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	command = regexp.MustCompile(`\b(?:bin/|/)?(sealcast|sealctl) ((?:bench |config |dict )?[a-z]+)\b([^\n]*)`)
	option  = regexp.MustCompile(`(?:^|[\s\[])(--[a-z][a-z0-9-]*)`)
	setting = regexp.MustCompile(`--set '?([a-z_.]+)=`)
	inCode  = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```|`([^`\n]+)`")
	yamlIn  = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// codeOf is what a page shows as code, a command that goes on in the next line in one.
func codeOf(text string) (code []string) {
	for _, m := range inCode.FindAllStringSubmatch(text, -1) {
		code = append(code, strings.ReplaceAll(m[1]+m[2], "\\\n", " "))
	}
	return code
}

// Commands in code that pages show are commands that the programs have, with
// flags that these have, and settings that there are.
func TestCommandsExist(t *testing.T) {
	used, flags, help, known := 0, 0, map[string]string{}, settings(t)
	for path, text := range pages(t) {
		for _, code := range codeOf(text) {
			for _, m := range command.FindAllStringSubmatch(code, -1) {
				if m[2] == "help" {
					continue
				}
				used++
				words := m[1] + " " + m[2]
				if help[words] == "" {
					help[words] = run(t, nil, program(t, m[1]), append(strings.Fields(m[2]), "-h")...)
				}
				for _, f := range option.FindAllStringSubmatch(ownArguments(m[3]), -1) {
					flags++
					if !regexp.MustCompile(regexp.QuoteMeta(f[1]) + `\b`).MatchString(help[words]) {
						t.Errorf("%s: %s has no flag %s", path, words, f[1])
					}
				}
			}
			for _, m := range setting.FindAllStringSubmatch(code, -1) {
				if !known[m[1]] {
					t.Errorf("%s: no setting %s", path, m[1])
				}
			}
		}
	}
	if used < 60 || flags < 60 {
		t.Errorf("only %d commands and %d flags found: does this test still look where they are?", used, flags)
	}
}

// ownArguments are the arguments of the first command of a line.
func ownArguments(line string) string {
	quoted := regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(line, "''")
	if end := strings.IndexAny(quoted, "|;&#>)"); end >= 0 {
		return quoted[:end]
	}
	return quoted
}

// Settings that pages show as YAML are taken by the gateway.
func TestYAMLOfPages(t *testing.T) {
	found := 0
	for path, text := range pages(t) {
		if filepath.Ext(path) != ".md" {
			continue
		}
		for _, m := range yamlIn.FindAllStringSubmatch(text, -1) {
			found++
			t.Log(path)
			run(t, nil, program(t, "sealcast"), "config", "check", write(t, "page.yaml", m[1]))
		}
	}
	if found < 3 {
		t.Errorf("only %d found", found)
	}
}

var (
	target   = regexp.MustCompile(`\bmake ([a-z][a-z-]+)`)
	ofMake   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	goTest   = regexp.MustCompile(`\bgo test [^\n]*`)
	pattern  = regexp.MustCompile(`-(run|bench) '?([A-Za-z|^$]+)'?`)
	folder   = regexp.MustCompile(` \./([a-z0-9/]+)`)
	function = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
)

// Targets of make, and tests and benchmarks, that pages name as code exist.
func TestTargetsAndTestsExist(t *testing.T) {
	targets, made, tested := map[string]bool{}, 0, 0
	for _, m := range ofMake.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for path, text := range pages(t) {
		if filepath.Ext(path) != ".md" || strings.HasPrefix(path, "docs/api/") { // prose of comments
			continue
		}
		for _, code := range codeOf(text) {
			for _, m := range target.FindAllStringSubmatch(code, -1) {
				made++
				if !targets[m[1]] {
					t.Errorf("%s: there is no `make %s`", path, m[1])
				}
			}
			for _, line := range goTest.FindAllString(code, -1) {
				tested++
				checkGoTest(t, path, line)
			}
		}
	}
	if made < 20 || tested < 10 {
		t.Errorf("only %d targets and %d tests found: does this test still look where they are?", made, tested)
	}
}

// checkGoTest looks whether each pattern of a command names something in one of its packages.
func checkGoTest(t *testing.T, path, line string) {
	t.Helper()
	var names []string
	for _, f := range folder.FindAllStringSubmatch(line, -1) {
		if f[1] == "the/package" {
			continue // to be filled in
		}
		files, err := filepath.Glob(filepath.Join(root, f[1], "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %q: there are no tests in %s", path, line, f[1])
		}
		for _, file := range files {
			rel, _ := filepath.Rel(root, file)
			for _, m := range function.FindAllStringSubmatch(read(t, rel), -1) {
				names = append(names, m[1])
			}
		}
	}
	for _, m := range pattern.FindAllStringSubmatch(line, -1) {
		if m[2] == "^$" || len(names) == 0 {
			continue // none, or of every package
		}
		kind, one := map[string]string{"run": "Test", "bench": "Benchmark"}[m[1]], false
		for _, name := range names {
			one = one || strings.HasPrefix(name, kind) && regexp.MustCompile(m[2]).MatchString(name)
		}
		if !one {
			t.Errorf("%s: %q: no %s matches %s", path, line, kind, m[2])
		}
	}
}
