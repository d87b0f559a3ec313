package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Part is a part of an estimate.
type Part struct {
	Title string `json:"title"`
	Steps []Step `json:"steps"`
}

// Step is one figure, and how it came about.
type Step struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	How   string  `json:"how"`
}

// String is the value as people read it.
func (s *Step) String() string {
	switch s.Unit {
	case "bytes":
		return binary(s.Value) + "B"
	case "bit/s":
		return scaled(s.Value) + "bit/s"
	case "":
		return amount(s.Value)
	case "/s":
		return amount(s.Value) + "/s"
	}
	return amount(s.Value) + " " + s.Unit
}

type parts []Part

// begin begins a part. The steps are its own until the next begins.
func (p *parts) begin(title string) *steps {
	*p = append(*p, Part{Title: title})
	return &steps{&(*p)[len(*p)-1]}
}

// steps collects the steps of a part, or of none.
type steps struct{ part *Part }

// add notes a step and returns its value.
func (s *steps) add(name string, value float64, unit, how string, args ...any) float64 {
	if s.part != nil {
		s.part.Steps = append(s.part.Steps, Step{name, value, unit, fmt.Sprintf(how, args...)})
	}
	return value
}

// amount writes a number with three digits that count, or whole ones with all, in groups of three.
func amount(x float64) string {
	digits := 0
	if x != math.Trunc(x) && math.Abs(x) < 100 {
		digits = max(2-int(math.Floor(math.Log10(math.Abs(x)))), 0)
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return whole + rest
}

// scaled is in thousands, such as "1.2 M".
func scaled(x float64) string { return prefixed(x, 1000, "", "k", "M", "G", "T", "P") }

// binary is in steps of 1024, such as "1.2 Gi".
func binary(x float64) string { return prefixed(x, 1024, "", "Ki", "Mi", "Gi", "Ti", "Pi") }

func prefixed(x, step float64, prefixes ...string) string {
	i := 0
	for ; x >= step && i < len(prefixes)-1; i++ {
		x /= step
	}
	return amount(x) + " " + prefixes[i]
}
