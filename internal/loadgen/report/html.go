package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed page.html
var pageText string

// WriteHTML writes the document as one page that needs nothing from anywhere,
// with the comparison to an earlier one if there is one.
func (d *Document) WriteHTML(w io.Writer, c *Comparison) error {
	page, err := template.New("page").Funcs(template.FuncMap{"micros": Micros, "count": Count, "percent": Percent}).Parse(pageText)
	if err != nil {
		return err
	}
	rows, columns := d.cells()
	return page.Execute(w, map[string]any{
		"Doc": d, "Rows": rows, "Columns": columns, "Charts": d.charts(), "Comparison": c, "Legend": strings.TrimSpace(legend), "Remarks": d.remarkText(),
	})
}

// cells is the table of results, without columns that tell nothing.
func (d *Document) cells() (rows [][]string, titles []string) {
	rows = make([][]string, len(d.Results))
	for _, c := range columns {
		told := false
		for i := range d.Results {
			cell := c.cell(&d.Results[i])
			told = told || cell != none && cell != ""
		}
		if !told {
			continue
		}
		titles = append(titles, c.title)
		for i := range d.Results {
			rows[i] = append(rows[i], c.cell(&d.Results[i]))
		}
	}
	return rows, titles
}

func (d *Document) remarkText() string {
	var b strings.Builder
	d.remarks(&b)
	return strings.TrimSpace(b.String())
}

// topic is what belongs into one chart: results that differ in suite and variant.
type topic struct {
	name string
	of   []*Result
}

func (d *Document) topics(key func(*Result) string) []topic {
	var all []topic
	for i := range d.Results {
		r := &d.Results[i]
		k := key(r)
		found := false
		for j := range all {
			if all[j].name == k {
				all[j].of = append(all[j].of, r)
				found = true
			}
		}
		if !found && k != "" {
			all = append(all, topic{k, []*Result{r}})
		}
	}
	return all
}

// caseless is a result's name without what a line of a chart stands for. The
// steps of a rise have one chart together: see growing.
func caseless(r *Result) string {
	if r.Load == "rise" {
		return ""
	}
	c := r.Case
	c.Suite, c.Variant = "", ""
	return c.Name()
}

func (r *Result) line() string {
	name := strings.TrimSpace(r.Suite + " " + r.Variant)
	if runes := []rune(name); len(runes) > 24 {
		name = string(runes[:23]) + "…"
	}
	return name
}

// charts draws everything that has more than a point.
func (d *Document) charts() []template.HTML {
	var all []template.HTML
	add := func(h template.HTML) {
		if h != "" {
			all = append(all, h)
		}
	}
	for _, t := range d.topics(caseless) {
		add(byPercentile(t))
	}
	for _, t := range d.topics(growing) {
		add(byConnections(t))
	}
	for _, t := range d.topics(caseless) {
		add(overTime("Gateway's cores over time: "+t.name, "cores", func(p *TimePoint) float64 { return p.Cores }, func(v float64) string { return fmt.Sprintf("%.2g", v) }, t))
		add(overTime("Gateway's memory over time: "+t.name, "resident", func(p *TimePoint) float64 { return float64(p.RSS) }, Bytes, t))
	}
	add(d.memoryChart())
	return all
}

// byPercentile has an axis on which each further nine takes the same room.
func byPercentile(t topic) template.HTML {
	var all []series
	for _, r := range t.of {
		s := series{name: r.line()}
		for _, p := range r.Percentiles {
			if p.X < 100 && p.X >= 10 {
				s.points = append(s.points, Point{1 / (1 - p.X/100), p.Y})
			}
		}
		all = append(all, s)
	}
	x := scale{"percentile", true, func(v float64) string {
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.4f", 100-100/v), "0"), ".") + " %"
	}}
	return lines("Latency by percentile: "+t.name, x, scale{"latency", true, Micros}, all)
}

// growing names what results with different numbers of connections share.
func growing(r *Result) string {
	if r.Load != "rise" && r.Load != "saturate" && r.Subscribers == 0 {
		return ""
	}
	c := r.Case
	c.Suite, c.Variant, c.Connections, c.Subscribers, c.Topics = "", "", 0, 0, 0
	return strings.TrimSuffix(c.Name(), " × 0")
}

func byConnections(t topic) template.HTML {
	var all []series
	for _, r := range t.of {
		i := 0
		for ; i < len(all) && all[i].name != r.line(); i++ {
		}
		if i == len(all) {
			all = append(all, series{name: r.line()})
		}
		all[i].points = append(all[i].points, Point{float64(r.Connections), r.RateReached})
	}
	if len(all[0].points) < 2 {
		return ""
	}
	return lines("Throughput by connections: "+t.name, scale{"connections", true, Count}, scale{"messages a second", false, Count}, all)
}

func overTime(title, what string, get func(*TimePoint) float64, label func(float64) string, t topic) template.HTML {
	var all []series
	told := false
	for _, r := range t.of {
		s := series{name: r.line()}
		for i := range r.Timeline {
			v := get(&r.Timeline[i])
			told = told || v > 0
			s.points = append(s.points, Point{r.Timeline[i].Seconds, v})
		}
		all = append(all, s)
	}
	if !told {
		return ""
	}
	return lines(title, scale{"seconds", false, func(v float64) string { return fmt.Sprintf("%.3g", v) }}, scale{what, false, label}, all)
}

func (d *Document) memoryChart() template.HTML {
	var all []series
	for i := range d.Results {
		r := &d.Results[i]
		s := series{name: r.line()}
		for _, m := range r.Memory {
			s.points = append(s.points, Point{float64(m.Connections), math.Max(m.PerConnection, 0)})
		}
		if len(s.points) > 0 {
			all = append(all, s)
		}
	}
	return lines("Memory for each connection", scale{"connections", false, Count}, scale{"bytes", false, Bytes}, all)
}
