package admin

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// sections are the families in the order of the page.
var sections = []struct {
	title    string
	families []family
}{
	{"Connections", connectionFamilies()},
	{"Logins and revocations", loginFamilies()},
	{"Records and batches", trafficFamilies()},
	{"Ticks and topics", tickFamilies()},
	{"Redis", sourceFamilies()},
	{"Event loops and queues", loopFamilies()},
}

const pageBegin = `# Metrics

All that ` + "`/metrics`" + ` of the admin interface tells, made from the code by ` + "`make metrics`" + `. What to watch, and what it
means, is in [operations.md](operations.md#metrics); alerts are in [runbook.md](runbook.md).

The unit is that of a sample's value: of a histogram, that of its bounds and its sum. A counter starts at 0 with the
process. Labels have the values in brackets and no others, whatever clients do; all series of ours are there once the
gateway has started. A histogram ` + "`NAME`" + ` has the series ` + "`NAME_bucket`" + `, ` + "`NAME_sum`" + ` and ` + "`NAME_count`" + `.
`

// TestMetricsPage: docs/metrics.md is what the code says.
func TestMetricsPage(t *testing.T) {
	const path = "../../docs/metrics.md"
	want := reference(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/metrics.md is not what the code says: run make metrics")
	}
}

// reference is the page.
func reference(t *testing.T) string {
	w := newWorld(t)
	s := &sample{version: "VERSION", gateway: w.gateway.Stats(), hub: w.hub.Stats()}
	var b strings.Builder
	b.WriteString(pageBegin)
	named := map[string]bool{}
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | unit | labels | what |\n|---|---|---|---|---|\n", section.title)
		for _, f := range section.families {
			named[f.name] = true
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, unit(f.name), labels(&f, s), f.help)
		}
	}
	for _, f := range families() {
		if !named[f.name] {
			t.Errorf("%s is in none of the page's sections", f.name)
		}
	}
	b.WriteString("\n## The Go runtime and the process\n\nThey come from the Prometheus client library; those of the process are of Linux.\n\n" +
		"| metric | type | unit | what |\n|---|---|---|---|\n")
	for _, row := range libraryRows(t) {
		b.WriteString(row)
	}
	return b.String()
}

// unit follows from the name, by Prometheus's conventions.
func unit(name string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	}
	return "number"
}

// labels names each label with its values.
func labels(f *family, s *sample) string {
	if f.values == nil {
		if f.spread == nil {
			return ""
		}
		bounds := f.spread(s).Bounds
		return fmt.Sprintf("le (%d from %s to %s, +Inf)", len(bounds), decimal(bounds[0]), decimal(bounds[len(bounds)-1]))
	}
	values := make([][]string, len(f.labels))
	f.values(s, func(_ float64, labels ...string) {
		for i, v := range labels {
			if !slices.Contains(values[i], v) {
				values[i] = append(values[i], v)
			}
		}
	})
	var all []string
	for i, name := range f.labels {
		all = append(all, fmt.Sprintf("%s (%s)", name, strings.Join(values[i], ", ")))
	}
	return strings.Join(all, "; ")
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// libraryRows are the metrics that are not ours, by name.
func libraryRows(t *testing.T) (rows []string) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	found, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		kind := strings.ToLower(f.GetType().String())
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), kind, unit(f.GetName()), strings.ReplaceAll(f.GetHelp(), "|", "\\|")))
	}
	return rows
}
