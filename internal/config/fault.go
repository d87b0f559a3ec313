package config

import (
	"errors"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Fault is one thing that is wrong with the settings, in words for the person
// who wrote them. It never holds the value of a secret.
type Fault struct {
	Where string // "gateway.yaml:3", "SEALCAST_LOOPS" or "--set"
	Text  string
	Hint  string // what to do about it; may be empty
}

// Error returns where and what, without the hint.
func (f Fault) Error() string { return f.Where + ": " + f.Text }

// Faults is everything that is wrong with the settings, in the order in which
// they were read.
type Faults []Fault

// Error returns one line per fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// problem is a fault of one value, before its place and key are added.
type problem struct {
	node *yaml.Node // where, for the line
	path string     // within the value, such as "[1].policy"
	text string     // what is wrong: goes on from "key: "
	hint string
}

// hinted is an error with a hint of its own.
type hinted struct{ text, hint string }

func (h hinted) Error() string { return h.text }

// newProblem words err; without a hint of its own, the hint lists what is allowed.
func newProblem(n *yaml.Node, path string, err error, allowed string) problem {
	p := problem{node: n, path: path, text: err.Error(), hint: "allowed: " + allowed}
	if h, ok := errors.AsType[hinted](err); ok && h.hint != "" {
		p.hint = h.hint
	}
	return p
}

// printable returns a name as it is, or quoted and cut if it is no usual name.
func printable(name string) string {
	if len(name) > longestName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return clip(name)
	}
	return name
}

// longestName is above every name of a setting.
const longestName = 64

// closest returns the candidate that name is most likely meant to be, or "".
func closest(name string, candidates []string) string {
	if len(name) > longestName {
		return ""
	}
	best, bestDistance := "", max(2, len(name)/4)+1
	for _, c := range candidates {
		if d := distance(plainForm(name), plainForm(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// plainForm drops what people vary in names: case, dashes, underscores.
func plainForm(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance is the number of single-byte edits (Levenshtein) between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// didYouMean is a hint, or "" if nothing is close.
func didYouMean(name string, candidates []string) string {
	if c := closest(name, candidates); c != "" {
		return "did you mean " + c + "?"
	}
	return ""
}
