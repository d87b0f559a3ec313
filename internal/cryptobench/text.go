package cryptobench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// headings say what each group is.
var headings = map[Group]string{
	GroupRecords:   "Records: sealed and opened in place, cipher in the pool (beside the first suite)",
	GroupMixed:     "Mixed load: two directions of one session (beside the first suite)",
	GroupMessages:  "Messages: one tick of that many bytes, encoded as protobuf and sealed; opened and decoded (beside plain)",
	GroupPublicKey: "Public-key operations",
	GroupResponses: "Whole responses: a session key, a key wrapped by RSA for each, RSA alone (beside the session key)",
	GroupMisuse:    "Misuse: what each habit costs (beside the right way)",
	GroupOthers:    "For comparison, never offered as suites (beside AES-256-GCM)",
}

// columns of every table; the first two are text.
var columns = []string{
	"operation", "suite", "size", "ops/s", "GB/s", "P50", "P99", "CPU", "allocs", "B/op", "spread", "cost",
}

// WriteText writes the report as tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	r.Machine.text(&b)
	r.Settings.text(&b)
	for _, group := range Groups() {
		r.groupText(&b, group)
	}
	b.WriteString(legend)
	_, err := io.WriteString(w, b.String())
	return err
}

const legend = `
ops/s, P50, P99  medians over the repeats; P50 and P99 are of operations timed one by one
CPU              cores kept busy: above 1 the garbage collector ran beside, below 1 other programs had the core
allocs, B/op     allocations of one operation and their bytes
spread           largest minus smallest throughput of the repeats that count, in per cent of the median
cost             processor time of one operation, the garbage collector's too, divided by that of the one named
                 behind it, in the same run and for the same size
`

func (m Machine) text(b *strings.Builder) {
	aes := "AES in hardware (" + strings.Join(m.AES.Found, ", ") + ")"
	if !m.AES.Hardware {
		aes = "AES in software (missing " + strings.Join(m.AES.Missing, ", ") + ")"
	}
	fmt.Fprintf(b, "%s, %d cores, %s/%s, %s\n%s", m.CPU, m.Cores, m.GOOS, m.GOARCH, m.Go, aes)
	if m.Sealcast != "" {
		fmt.Fprintf(b, "; Sealcast %s", m.Sealcast)
	}
	b.WriteByte('\n')
}

func (s Settings) text(b *strings.Builder) {
	fmt.Fprintf(b, "%d repeats of %s, %d of them count; warm-up %s; seed %d; %d ns of clock subtracted from each time\n",
		s.Repeat, s.For, s.Kept, s.Warmup, s.Seed, s.ClockCost)
}

func (r *Report) groupText(b *strings.Builder, group Group) {
	rows := [][]string{columns}
	for i := range r.Results {
		if r.Results[i].Group == group {
			rows = append(rows, r.Results[i].row())
		}
	}
	if len(rows) > 1 {
		fmt.Fprintf(b, "\n%s\n", headings[group])
		writeTable(b, rows)
	}
}

func (r *Result) row() []string {
	return []string{
		r.Operation, r.Suite, dash(r.Size > 0, formatSize(r.Size)),
		formatCount(r.PerSecond), dash(r.Gigabytes > 0, fmt.Sprintf("%.3g", r.Gigabytes)),
		formatTime(r.Latency.P50), formatTime(r.Latency.P99),
		formatShare(r.CPUShare), formatCount(r.Allocs), formatCount(r.AllocBytes),
		fmt.Sprintf("%.0f %%", r.SpreadPct), r.Baseline.text(r.Suite),
	}
}

// text names the baseline by what is different about it.
func (c *Comparison) text(suite string) string {
	if c == nil {
		return ""
	}
	ratio, name := c.TimeRatio, c.Operation
	if c.CPURatio != nil {
		ratio = *c.CPURatio
	}
	if suite != "" && c.Suite != "" && c.Suite != suite {
		name = c.Suite
	}
	return fmt.Sprintf("%s × %s", formatRatio(ratio), name)
}

// none stands where there is nothing to tell.
const none = "–"

func dash(known bool, text string) string {
	if known {
		return text
	}
	return none
}

func formatShare(share *float64) string {
	if share == nil {
		return none
	}
	return fmt.Sprintf("%.2f", *share)
}

func formatSize(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// formatTime shows nanoseconds with three digits and a fitting unit.
func formatTime(ns float64) string {
	switch {
	case ns < 999.5:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 999.5e3:
		return threeDigits(ns/1e3) + " µs"
	case ns < 999.5e6:
		return threeDigits(ns/1e6) + " ms"
	}
	return threeDigits(ns/1e9) + " s"
}

func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func formatRatio(v float64) string {
	if v < 999.5 {
		return threeDigits(v)
	}
	return formatCount(v)
}

// formatCount shows three significant digits, in groups of three from 1000 on.
func formatCount(v float64) string {
	if v < 10 {
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	}
	if v >= 1000 {
		unit := math.Pow10(int(math.Log10(v)) - 2)
		v = math.Round(v/unit) * unit
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// leftAligned are the columns of words; the others are numbers.
var leftAligned = map[string]bool{"operation": true, "suite": true, "cost": true}

// writeTable aligns the cells of the rows, of which the first is the headings.
// A column without anything to tell is left out.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for i := range widths {
		widths[i] = columnWidth(rows, i)
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			blanks := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0))
			switch {
			case widths[i] == 0:
			case leftAligned[rows[0][i]]:
				line.WriteString(cell + blanks + "  ")
			default:
				line.WriteString(blanks + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// columnWidth is the width of a column, in characters; 0 if it tells nothing.
func columnWidth(rows [][]string, i int) int {
	width, told := utf8.RuneCountInString(rows[0][i]), false
	for _, row := range rows[1:] {
		width = max(width, utf8.RuneCountInString(row[i]))
		told = told || row[i] != "" && row[i] != none
	}
	if !told {
		return 0
	}
	return width
}
