package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Comparison is two documents, case by case.
type Comparison struct {
	Before  string       `json:"before"`
	After   string       `json:"after"`
	Cases   []Difference `json:"cases"`
	Only    []string     `json:"only_in_one,omitempty"` // cases that the other document does not hold
	Differs bool         `json:"differs"`               // in at least one case, by more than its spread
}

// Difference is what one case has become.
type Difference struct {
	Case  string `json:"case"`
	Rate  Shift  `json:"rate"`
	P50   Shift  `json:"p50_us"`
	P99   Shift  `json:"p99_us"`
	RSS   *Shift `json:"gateway_rss_bytes,omitempty"`
	Agree bool   `json:"agree"` // all lie within what the runs themselves vary
}

// Shift is one figure of two runs.
type Shift struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Change float64 `json:"change_pct"`
	Spread float64 `json:"spread_pct"` // the larger of the two runs' own
	Agree  bool    `json:"agree"`
}

// shift compares a figure. Two runs agree when they lie no further apart than
// the repeats, or slices, of one of them.
func shift(before, after, spreadBefore, spreadAfter float64) Shift {
	s := Shift{Before: before, After: after, Change: change(after, before), Spread: max(spreadBefore, spreadAfter)}
	s.Agree = math.Abs(s.Change) <= s.Spread || before == after
	return s
}

// CompareDocuments sets two documents side by side.
func CompareDocuments(before, after *Document) *Comparison {
	c := &Comparison{Before: before.Settings.Started, After: after.Settings.Started}
	find := func(list []Result, of Case) int {
		return slices.IndexFunc(list, func(r Result) bool { return r.Case == of })
	}
	for i := range before.Results {
		b := &before.Results[i]
		j := find(after.Results, b.Case)
		if j < 0 {
			c.Only = append(c.Only, b.Name())
			continue
		}
		d := difference(b, &after.Results[j])
		c.Differs = c.Differs || !d.Agree
		c.Cases = append(c.Cases, d)
	}
	for i := range after.Results {
		if find(before.Results, after.Results[i].Case) < 0 {
			c.Only = append(c.Only, after.Results[i].Name())
		}
	}
	return c
}

func difference(b, a *Result) Difference {
	d := Difference{
		Case: b.Name(),
		Rate: shift(b.RateReached, a.RateReached, b.Spread.Rate, a.Spread.Rate),
		P50:  shift(b.Latency.P50, a.Latency.P50, b.Spread.P50, a.Spread.P50),
		P99:  shift(b.Latency.P99, a.Latency.P99, b.Spread.P99, a.Spread.P99),
	}
	d.Agree = d.Rate.Agree && d.P50.Agree && d.P99.Agree
	if b.Gateway != nil && a.Gateway != nil {
		s := shift(float64(b.Gateway.RSSPeak), float64(a.Gateway.RSSPeak), b.Spread.Memory, a.Spread.Memory)
		d.RSS = &s
	}
	return d
}

// WriteText writes the comparison as a table.
func (c *Comparison) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "before: %s, after: %s\n\n", c.Before, c.After)
	rows := [][]string{{"case", "rate", "", "P50", "", "P99", "", "gw RSS", ""}}
	for _, d := range c.Cases {
		row := []string{d.Case, Count(d.Rate.After), d.Rate.text(), Micros(d.P50.After), d.P50.text(), Micros(d.P99.After), d.P99.text(), none, ""}
		if d.RSS != nil {
			row[7], row[8] = Bytes(d.RSS.After), Percent(d.RSS.Change)
		}
		rows = append(rows, row)
	}
	align(&b, rows, func(i int) bool { return i == 0 })
	b.WriteString("\n! marks what has changed by more than the runs vary themselves (over repeats, or over slices of a single run)\n")
	for _, name := range c.Only {
		fmt.Fprintf(&b, "only in one file: %s\n", name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Shift) text() string {
	if s.Agree {
		return Percent(s.Change)
	}
	return Percent(s.Change) + " !"
}

// WriteJSON writes the comparison as JSON.
func (c *Comparison) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// Join makes one document of several: machine and settings of the first, all results.
func Join(docs []*Document) *Document {
	all := *docs[0]
	all.Results = nil
	for _, d := range docs {
		all.Results = append(all.Results, d.Results...)
		if d.Partial != "" {
			all.Partial = d.Partial
		}
	}
	return &all
}
