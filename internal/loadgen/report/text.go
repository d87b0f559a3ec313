package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// none stands where there is nothing to tell.
const none = "–"

// Name is the case in a few words.
func (c Case) Name() string {
	var b strings.Builder
	b.WriteString(c.Scenario)
	for _, part := range []string{c.Load, c.Suite, c.Variant} {
		if part != "" {
			b.WriteString(" " + part)
		}
	}
	if c.Size > 0 {
		b.WriteString(" " + Bytes(float64(c.Size)))
	}
	if c.Subscribers > 0 {
		fmt.Fprintf(&b, " to %d", c.Subscribers)
	} else {
		fmt.Fprintf(&b, " × %d", c.Connections)
	}
	return b.String()
}

// column of the table of results.
type column struct {
	title string
	left  bool
	cell  func(*Result) string
}

var columns = []column{
	{"scenario", true, func(r *Result) string { return strings.TrimSpace(r.Scenario + " " + r.Load) }},
	{"suite", true, func(r *Result) string { return r.Suite }},
	{"variant", true, func(r *Result) string { return r.Variant }},
	{"size", false, func(r *Result) string { return dash(r.Size > 0, Bytes(float64(r.Size))) }},
	{"conns", false, func(r *Result) string { return Count(float64(r.Connections)) }},
	{"asked/s", false, func(r *Result) string { return dash(r.RateAsked > 0, Count(r.RateAsked)) }},
	{"reached/s", false, func(r *Result) string { return Count(r.RateReached) }},
	{"avg", false, func(r *Result) string { return Micros(r.Latency.Avg) }},
	{"P50", false, func(r *Result) string { return Micros(r.Latency.P50) }},
	{"P95", false, func(r *Result) string { return Micros(r.Latency.P95) }},
	{"P99", false, func(r *Result) string { return Micros(r.Latency.P99) }},
	{"P99.9", false, func(r *Result) string { return Micros(r.Latency.P999) }},
	{"max", false, func(r *Result) string { return Micros(r.Latency.Max) }},
	{"P99/P50", false, func(r *Result) string { return dash(r.Latency.Ratio > 0, fmt.Sprintf("%.1f", r.Latency.Ratio)) }},
	{"gw cores", false, gatewayCell(func(g *GatewayUse) string { return fmt.Sprintf("%.2f", g.Cores) })},
	{"gw µs/msg", false, gatewayCell(func(g *GatewayUse) string { return dash(g.PerMessage > 0, fmt.Sprintf("%.3g", g.PerMessage)) })},
	{"gw RSS", false, gatewayCell(func(g *GatewayUse) string { return Bytes(float64(g.RSSPeak)) })},
	{"GC", false, gatewayCell(func(g *GatewayUse) string { return fmt.Sprintf("%.0f/%.2f ms", g.GCCount, g.GCPauses) })},
	{"seal", false, gatewayCell(func(g *GatewayUse) string { return optional(g.SealAvg) })},
	{"open", false, gatewayCell(func(g *GatewayUse) string { return optional(g.OpenAvg) })},
	{"own cores", false, func(r *Result) string { return fmt.Sprintf("%.2f", r.Generator.Cores) }},
	{"late", false, func(r *Result) string { return dash(r.Generator.Late > 0, Count(float64(r.Generator.Late))) }},
	{"errors", false, func(r *Result) string { return dash(r.Errors > 0, Count(float64(r.Errors))) }},
	{"spread", false, func(r *Result) string { return fmt.Sprintf("±%.0f %%", r.Spread.Rate/2) }},
	{"latency", false, changeCell(func(c *Change) float64 { return c.Latency })},
	{"rate", false, changeCell(func(c *Change) float64 { return c.Throughput })},
	{"CPU", false, changeCell(func(c *Change) float64 { return c.CPU })},
}

func gatewayCell(f func(*GatewayUse) string) func(*Result) string {
	return func(r *Result) string {
		if r.Gateway == nil {
			return none
		}
		return f(r.Gateway)
	}
}

func changeCell(f func(*Change) float64) func(*Result) string {
	return func(r *Result) string {
		if r.Baseline == nil {
			return none
		}
		return Percent(f(r.Baseline))
	}
}

func optional(us *float64) string {
	if us == nil {
		return none
	}
	return Micros(*us)
}

const legend = `
asked, reached   messages a second; latency is counted from the time at which a message was to leave
gw               the gateway's processor time, memory at its peak, collections and their pauses together
seal, open       mean time of the records that the gateway timed
own, late        the generator's processor time; messages that left more than 1 ms late
spread           of the rate: half the distance between extremes, over repeats or over slices of one run
latency, rate, CPU   change of mean latency, of throughput and of the gateway's time for a message, against plain
`

// WriteText writes the document as tables for a terminal.
func (d *Document) WriteText(w io.Writer) error {
	var b strings.Builder
	d.head(&b)
	d.table(&b)
	d.memory(&b)
	d.remarks(&b)
	d.outcomes(&b)
	if r := d.Recommendation; r != nil {
		fmt.Fprintf(&b, "\nRecommendation: %s\n", orNone(r.Suite))
		for _, because := range r.Because {
			fmt.Fprintf(&b, "  - %s\n", because)
		}
		fmt.Fprintf(&b, "  Rule: %s\n", r.Rule)
	}
	if d.Partial != "" {
		fmt.Fprintf(&b, "\nPARTIAL: %s\n", d.Partial)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (d *Document) head(b *strings.Builder) {
	m, s := &d.Machine, &d.Settings
	aes := map[bool]string{true: "in hardware", false: "in software"}
	fmt.Fprintf(b, "%s, %d cores, %s/%s, %s; sealctl %s\n", m.CPU, m.Cores, m.GOOS, m.GOARCH, m.Go, m.Sealctl)
	fmt.Fprintf(b, "gateway %s (%s), AES here %s, there %s%s\n", s.Gateway, orNone(strings.Join(m.Gateways, ", ")), aes[m.AES], aes[m.GatewayAES],
		map[bool]string{true: "; gateway and generator share this machine", false: ""}[m.Same])
	fmt.Fprintf(b, "%s, measured for %s after %s of warm-up, %d time(s), seed %d, %d event loop(s) here\n\n",
		s.Command, s.For, s.Warmup, s.Repeat, s.Seed, s.Loops)
}

// table writes the results; a column that tells nothing is left out.
func (d *Document) table(b *strings.Builder) {
	var shown []column
	var rows [][]string
	for _, c := range columns {
		for i := range d.Results {
			if cell := c.cell(&d.Results[i]); cell != none && cell != "" {
				shown = append(shown, c)
				break
			}
		}
	}
	header := make([]string, len(shown))
	for i, c := range shown {
		header[i] = c.title
	}
	rows = append(rows, header)
	for i := range d.Results {
		row := make([]string, len(shown))
		for j, c := range shown {
			row[j] = c.cell(&d.Results[i])
		}
		rows = append(rows, row)
	}
	align(b, rows, func(i int) bool { return shown[i].left })
	b.WriteString(legend)
}

// align writes rows as a table.
func align(b *strings.Builder, rows [][]string, left func(column int) bool) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left(i) {
				line.WriteString(cell + blanks + "  ")
			} else {
				line.WriteString(blanks + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func (d *Document) memory(b *strings.Builder) {
	for i := range d.Results {
		r := &d.Results[i]
		if len(r.Memory) == 0 {
			continue
		}
		rows := [][]string{{"connections", "gateway RSS", "per connection", "connected after"}}
		for _, m := range r.Memory {
			rows = append(rows, []string{Count(float64(m.Connections)), Bytes(float64(m.RSS)), Bytes(m.PerConnection), fmt.Sprintf("%.1f s", m.Seconds)})
		}
		fmt.Fprintf(b, "\nMemory, %s\n", r.Name())
		align(b, rows, func(int) bool { return false })
	}
}

// remarks writes what stands in no column.
func (d *Document) remarks(b *strings.Builder) {
	for i := range d.Results {
		r := &d.Results[i]
		var lines []string
		if r.Partial != "" {
			lines = append(lines, "PARTIAL: "+r.Partial)
		}
		if r.Generator.Bottleneck != "" {
			lines = append(lines, "the generator may have been what was measured: "+r.Generator.Bottleneck)
		}
		if len(r.ByKind) > 0 {
			lines = append(lines, "errors: "+counts(r.ByKind))
		}
		if len(r.Counts) > 0 {
			lines = append(lines, counts(r.Counts))
		}
		lines = append(lines, r.Notes...)
		if len(lines) > 0 {
			fmt.Fprintf(b, "\n%s\n  %s\n", r.Name(), strings.Join(lines, "\n  "))
		}
	}
}

func (d *Document) outcomes(b *strings.Builder) {
	if len(d.Thresholds) == 0 {
		return
	}
	b.WriteString("\nThresholds\n")
	for _, o := range d.Thresholds {
		fmt.Fprintf(b, "  %s  %s: %.6g in %s\n", map[bool]string{true: "met   ", false: "MISSED"}[o.Met], o.Threshold, o.Value, o.Case)
	}
}

func dash(known bool, text string) string {
	if known {
		return text
	}
	return none
}

// Micros shows microseconds with three digits and a fitting unit.
func Micros(us float64) string {
	switch {
	case us <= 0:
		return none
	case us < 999.5:
		return threeDigits(us) + " µs"
	case us < 999.5e3:
		return threeDigits(us/1e3) + " ms"
	}
	return threeDigits(us/1e6) + " s"
}

// Bytes shows a size with a fitting unit.
func Bytes(n float64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%.0f B", n)
	case n < 1<<20:
		return trimZero(threeDigits(n/(1<<10))) + " KiB"
	case n < 1<<30:
		return trimZero(threeDigits(n/(1<<20))) + " MiB"
	}
	return trimZero(threeDigits(n/(1<<30))) + " GiB"
}

func trimZero(s string) string {
	if strings.Contains(s, ".") {
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Percent shows a change with its sign.
func Percent(v float64) string { return fmt.Sprintf("%+.1f %%", v) }

func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Count shows a number in groups of three digits.
func Count(v float64) string {
	if v != math.Trunc(v) && v < 1000 {
		return threeDigits(v)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// counts lists numbers by name, in order.
func counts(m map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, Count(float64(m[name]))+" "+name)
	}
	return strings.Join(parts, ", ")
}
