package config

import (
	"slices"
	"strings"
)

// fileHead stands at the top of configs/default.yaml.
const fileHead = `# Settings of the Sealcast gateway: every key with its default.
# A file of your own needs only what differs. Each key may also be given in the environment
# (SEALCAST_LIMITS_TICK=512KiB) and as a flag (--set limits.tick=512KiB); a flag beats the environment,
# the environment beats the file. Sizes have the units B, KiB, MiB, GiB; durations ms, s, m, h.
# SIGHUP makes a running gateway read its file again; what then still waits for a restart says so here.
`

// commentWidth is where comments are wrapped.
const commentWidth = 110

// DefaultFile is the content of configs/default.yaml.
func DefaultFile() string {
	c := Default()
	return fileHead + render(table(&c), commentAbove, nothing)
}

// Show returns the settings in force as YAML, with where each came from;
// secrets are masked.
func (l *Loaded) Show() string {
	c := l.Config
	origins := func(row setting, _ string) string {
		if at, ok := l.origins[row.key]; ok {
			return " # " + at.String()
		}
		return ""
	}
	return render(table(&c), nothing, origins)
}

// decoration is text around a setting's line.
type decoration func(row setting, indent string) string

func nothing(setting, string) string { return "" }

// commentAbove is what a setting means, as comment lines.
func commentAbove(row setting, indent string) string {
	text := row.comment
	if !row.kind.obvious {
		text += " Allowed: " + row.kind.allowed + "."
	}
	if row.kind.atStart {
		text += " Needs a restart."
	}
	return wrap(text, indent+"# ")
}

// render returns rows as nested YAML, with something above and behind each.
func render(rows []setting, above, behind decoration) string {
	var b strings.Builder
	var open []string // the sections that the row before stands in
	for i, row := range rows {
		names := strings.Split(row.key, ".")
		within, leaf := names[:len(names)-1], names[len(names)-1]
		indent := strings.Repeat("  ", len(within))
		comment := above(row, indent)
		if comment != "" || i > 0 && !slices.Equal(firstOf(open), firstOf(within)) {
			b.WriteString("\n")
		}
		for depth := shared(open, within); depth < len(within); depth++ {
			b.WriteString(strings.Repeat("  ", depth) + within[depth] + ":\n")
		}
		open = within
		value, lines, _ := strings.Cut(row.kind.show(), "\n")
		b.WriteString(comment + strings.TrimRight(indent+leaf+": "+value, " ") + behind(row, indent) + "\n")
		for line := range strings.Lines(lines) {
			b.WriteString(indent + "  " + line)
		}
		if lines != "" {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// firstOf is the outermost of nested sections, if there is any.
func firstOf(sections []string) []string { return sections[:min(1, len(sections))] }

// shared is how many sections, from the outermost on, are the same.
func shared(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// wrap breaks text into lines that begin with lead.
func wrap(text, lead string) string {
	var b strings.Builder
	line := lead
	for _, word := range strings.Fields(text) {
		if len(line) > len(lead) && len(line)+len(word) > commentWidth {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = lead
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}
