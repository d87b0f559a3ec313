package deployment

import (
	"io"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// pages are the files that people and programs read, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "web/sdk/README.md", "examples/python/README.md"} {
		found[path] = read(t, path)
	}
	for _, folder := range []string{"docs", "deploy", "configs"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if d != nil && d.Name() == "secrets" {
					return fs.SkipDir
				}
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err == nil {
				found[rel] = read(t, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// settings are the dotted names of all settings, and of their sections.
func settings(t *testing.T) map[string]bool {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "configs/default.yaml")), &tree); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		if prefix != "" {
			names[prefix] = true
		}
		if m, ok := v.(map[string]any); ok {
			for k, below := range m {
				walk(strings.TrimPrefix(prefix+"."+k, "."), below)
			}
		}
	}
	walk("", tree)
	return names
}

var dotted = regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)+)(?:=[^`]*)?`")

// A page that names a setting names one that exists.
func TestSettingsExist(t *testing.T) {
	known := settings(t)
	checked := 0
	for path, text := range pages(t) {
		for _, m := range dotted.FindAllStringSubmatch(text, -1) {
			section, _, _ := strings.Cut(m[1], ".")
			if !known[section] || strings.HasSuffix(m[1], ".go") {
				continue // no setting: a file, a field
			}
			checked++
			if !known[m[1]] {
				t.Errorf("%s: no setting %s", path, m[1])
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d settings found in the pages: does this test still look where they are?", checked)
	}
}

var variable = regexp.MustCompile(`\bSEALCAST_([A-Z0-9_]+)`)

// Variables that belong to files of ours and not to the gateway's settings.
var otherVariables = []string{"CERT", "TLS_BIND", "UID", "GID", "GATEWAY1", "GATEWAY2", "ADMIN_PORT1", "ADMIN_PORT2",
	"KEY_WITH_UNDERSCORES", "TEST_REKEY", "LONG", "PORT", "TOKEN"}

func TestVariablesExist(t *testing.T) {
	known := map[string]bool{}
	for name := range settings(t) {
		known[strings.ToUpper(strings.ReplaceAll(name, ".", "_"))] = true
	}
	for path, text := range pages(t) {
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] && !slices.Contains(otherVariables, m[1]) {
				t.Errorf("%s: no setting for SEALCAST_%s", path, m[1])
			}
		}
	}
}

// metrics starts a gateway and returns all that it exports: of each name, the
// labels with their values.
func metrics(t *testing.T) map[string]map[string][]string {
	t.Helper()
	admin := freeAddress(t)
	cmd := exec.Command(program(t, "sealcast"), "serve", "--set", "listen="+freeAddress(t), "--set", "admin.listen="+admin)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	names := map[string]map[string][]string{}
	for !strings.Contains(ask(t, "http://"+admin+"/readyz"), "ready") {
		time.Sleep(20 * time.Millisecond)
	}
	for line := range strings.Lines(ask(t, "http://"+admin+"/metrics")) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names[name] = map[string][]string{}
		}
		m := series.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if names[m[1]] == nil {
			names[m[1]] = map[string][]string{}
		}
		for _, l := range selector.FindAllStringSubmatch(m[2], -1) {
			names[m[1]][l[1]] = append(names[m[1]][l[1]], l[3])
		}
	}
	return names
}

var (
	series   = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? `)
	selector = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)\\?"([^"\\]*)\\?"`)
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func ask(t *testing.T, url string) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

var (
	metric = regexp.MustCompile(`\b(?:sealcast|process|go)_[a-z0-9_]*[a-z0-9]\b(?:\{([^}]*)\})?`)
	// Labels that Prometheus or Kubernetes add.
	addedLabels = []string{"instance", "job", "namespace", "pod"}
	plainValues = regexp.MustCompile(`^[a-z0-9_|-]+$`)
)

// Alerts, dashboards and pages name metrics, labels and values that the gateway has.
func TestMetricsExist(t *testing.T) {
	known, used, values := metrics(t), 0, 0
	for path, text := range pages(t) {
		for _, m := range metric.FindAllStringSubmatch(text, -1) {
			name, _, _ := strings.Cut(m[0], "{")
			if word := name[strings.IndexByte(name, '_')+1:]; known[name] == nil && !strings.HasPrefix(name, "sealcast_") && !strings.Contains(word, "_") {
				continue // a word of prose or of a file's name
			}
			used++
			if known[name] == nil {
				t.Errorf("%s: no metric %s", path, name)
				continue
			}
			for _, s := range selector.FindAllStringSubmatch(m[1], -1) {
				values++
				if !slices.Contains(addedLabels, s[1]) && !hasValues(known[name][s[1]], s[3]) {
					t.Errorf("%s: %s has no %s", path, name, s[0])
				}
			}
		}
	}
	if used < 150 || values < 20 {
		t.Errorf("only %d metrics and %d values of labels found: does this test still look where they are?", used, values)
	}
}

// hasValues tells whether a label can have the value, or each of the values a|b;
// of other patterns only that there is the label.
func hasValues(known []string, wanted string) bool {
	if !plainValues.MatchString(wanted) {
		return len(known) > 0
	}
	for value := range strings.SplitSeq(wanted, "|") {
		if !slices.Contains(known, value) {
			return false
		}
	}
	return true
}

var (
	alert   = regexp.MustCompile(`(?m)^\s*- alert: (\w+)`)
	runbook = regexp.MustCompile(`runbook_url: docs/runbook\.md#(\w+)`)
	heading = regexp.MustCompile(`(?m)^## (\w+)$`)
)

// Every alert has its section in the runbook, and the other way round.
func TestRunbook(t *testing.T) {
	var alerts, anchors, sections []string
	for _, m := range alert.FindAllStringSubmatch(read(t, "deploy/prometheus/rules.yaml"), -1) {
		alerts = append(alerts, m[1])
	}
	for _, m := range runbook.FindAllStringSubmatch(read(t, "deploy/prometheus/rules.yaml"), -1) {
		anchors = append(anchors, m[1])
	}
	for _, m := range heading.FindAllStringSubmatch(read(t, "docs/runbook.md"), -1) {
		if strings.HasPrefix(m[1], "Sealcast") {
			sections = append(sections, m[1])
		}
	}
	if !slices.Equal(alerts, sections) || len(alerts) != len(anchors) {
		t.Errorf("alerts %v\nsections %v\nanchors %v", alerts, sections, anchors)
	}
	for i := range min(len(alerts), len(anchors)) {
		if strings.ToLower(alerts[i]) != anchors[i] {
			t.Errorf("%s leads to %s", alerts[i], anchors[i])
		}
	}
}
