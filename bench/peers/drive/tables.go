package drive

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// The lines of a page between which its tables stand.
const (
	beginMark = "<!-- written by make bench-peers: from here -->"
	endMark   = "<!-- written by make bench-peers: to here -->"
)

// UpdatePage writes the tables into a page, in place of those of an earlier
// run. Without a name it does nothing.
func (r *Results) UpdatePage(name string) error {
	if name == "" {
		return nil
	}
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(beginMark+"\n"))
	_, after, closed := bytes.Cut(rest, []byte(endMark+"\n"))
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", name, beginMark, endMark)
	}
	var page bytes.Buffer
	page.Write(before)
	page.WriteString(beginMark + "\n\n")
	if err := r.WriteTables(&page); err != nil {
		return err
	}
	page.WriteString("\n" + endMark + "\n")
	page.Write(after)
	return os.WriteFile(name, page.Bytes(), 0o644)
}

// WriteTables writes the aims and what was found, in Markdown.
func (r *Results) WriteTables(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d rounds; each figure is the median of them, and %s after a warm-up of %s. %s; %s. Beside it: %s.\n\n",
		r.Started[:min(len(r.Started), len(time.DateOnly))], r.Rounds, r.For, r.Warmup, r.Machine, r.Go, strings.Join(r.Modules, ", "))
	r.writeBars(&b)
	b.WriteString("\n")
	r.writeCosts(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Results) writeBars(b *strings.Builder) {
	b.WriteString("| Sealcast's processor time beside | median (95 % interval) | aim, stretch | |\n|---|---|---|---|\n")
	for _, a := range bars() {
		values := a.values(r)
		if len(values) == 0 {
			continue
		}
		low, high := interval(values)
		verdict := "missed"
		switch {
		case a.stretch > 0 && low <= a.stretch:
			verdict = "stretch met"
		case low <= a.most:
			verdict = "met"
		}
		aim := quantity(a.most, a.unit)
		if a.stretch > 0 {
			aim += ", " + quantity(a.stretch, a.unit)
		}
		fmt.Fprintf(b, "| %s | %s (%s–%s) | %s | %s |\n", a.title, quantity(median(values), a.unit), quantity(low, a.unit), quantity(high, a.unit), aim, verdict)
	}
}

// quantity shows three digits.
func quantity(v float64, unit string) string {
	if unit != "" {
		return thousands(int(v+0.5)) + " " + unit
	}
	return fmt.Sprintf("%.3g", v)
}

func (r *Results) writeCosts(b *strings.Builder) {
	for _, w := range r.works {
		if !slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Work == w.Name }) {
			continue
		}
		switch w.Kind {
		case kindIdle:
			r.writeTable(b, w, "bytes a session", []column{{"", func(s Sample) float64 { return s.PerSession }, "%.0f"}, {"RSS, MB", rssOf, "%.0f"}})
		case kindDelay:
			r.writeTable(b, w, "P50, µs", []column{{"", func(s Sample) float64 { return s.P50 / 1e3 }, "%.0f"},
				{"P99, µs", func(s Sample) float64 { return s.P99 / 1e3 }, "%.0f"}})
		case kindBare:
			r.writeTable(b, w, "ns", []column{{"", costOf, "%.0f"}})
		default:
			r.writeTable(b, w, "server ns", []column{{"", costOf, "%.0f"},
				{"a second", func(s Sample) float64 { return s.Rate }, "%.0f"},
				{"server's core", func(s Sample) float64 { return 100 * s.ServerCores }, "%.0f %%"},
				{"generator's core", func(s Sample) float64 { return 100 * s.DriverCores }, "%.0f %%"},
				{"RSS, MB", rssOf, "%.0f"}})
		}
	}
}

func rssOf(s Sample) float64 { return float64(s.RSS) / 1e6 }

// column is one figure of a table.
type column struct {
	title  string
	of     func(Sample) float64
	format string
}

func (r *Results) writeTable(b *strings.Builder, w *Work, first string, columns []column) {
	fmt.Fprintf(b, "\n| %s | %s | lowest–highest |", w.Title, first)
	for _, c := range columns[1:] {
		fmt.Fprintf(b, " %s |", c.title)
	}
	fmt.Fprintf(b, "\n%s\n", strings.Repeat("|---", len(columns)+2)+"|")
	for _, c := range w.Contestants {
		samples := r.of(w.Name, c.Name)
		if len(samples) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", c.Name)
		for i, col := range columns {
			var values []float64
			for _, s := range samples {
				values = append(values, col.of(s))
			}
			fmt.Fprintf(b, " "+col.format+" |", median(values))
			if i == 0 {
				fmt.Fprintf(b, " "+col.format+"–"+col.format+" |", slices.Min(values), slices.Max(values))
			}
		}
		b.WriteString("\n")
	}
}
