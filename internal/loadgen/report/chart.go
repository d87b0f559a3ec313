package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// series is one line of a chart.
type series struct {
	name   string
	points []Point
}

// scale says how an axis is drawn and labelled.
type scale struct {
	title string
	log   bool
	label func(float64) string
}

// The size of charts and of the margins for labels, in pixels.
const (
	chartWidth, chartHeight = 620, 300
	left, right, top, below = 74, 150, 14, 44
)

// colours of lines: distinct for most people who do not tell colours apart.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#a6761d"}

// axis maps values to pixels.
type axis struct {
	scale
	min, max float64
	from, to float64 // pixels
}

func newAxis(s scale, values []float64, from, to float64) axis {
	a := axis{scale: s, min: math.Inf(1), max: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		if s.log && v <= 0 {
			continue
		}
		a.min, a.max = min(a.min, v), max(a.max, v)
	}
	if a.min > a.max {
		a.min, a.max = 1, 10
	}
	if s.log {
		a.min, a.max = math.Pow(10, math.Floor(math.Log10(a.min))), math.Pow(10, math.Ceil(math.Log10(a.max)))
	} else {
		a.min = min(a.min, 0)
	}
	if a.max <= a.min {
		a.max = a.min + 1
	}
	return a
}

func (a *axis) at(v float64) float64 {
	share := (v - a.min) / (a.max - a.min)
	if a.log {
		share = math.Log10(max(v, a.min)/a.min) / math.Log10(a.max/a.min)
	}
	return a.from + share*(a.to-a.from)
}

// ticks are the values that get a label.
func (a *axis) ticks() []float64 {
	var all []float64
	if a.log {
		for v := a.min; v <= a.max*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.max-a.min)))
	for _, divide := range []float64{1, 2, 5} {
		if (a.max-a.min)/(step/divide) >= 4 {
			step /= divide
			break
		}
	}
	for v := math.Ceil(a.min/step) * step; v <= a.max*1.0001; v += step {
		all = append(all, v)
	}
	return all
}

// lines draws a chart; nothing without points.
func lines(title string, x, y scale, all []series) template.HTML {
	var xs, ys []float64
	for _, s := range all {
		for _, p := range s.points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	if len(xs) == 0 {
		return ""
	}
	ax, ay := newAxis(x, xs, left, chartWidth-right), newAxis(y, ys, chartHeight-below, top)
	var b strings.Builder
	fmt.Fprintf(&b, `<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		html.EscapeString(title), chartWidth, chartHeight, chartWidth, chartHeight, html.EscapeString(title))
	grid(&b, &ax, &ay)
	for i, s := range all {
		curve(&b, i, &s, &ax, &ay)
	}
	b.WriteString("</svg></figure>")
	return template.HTML(b.String()) // every text in it was escaped
}

func grid(b *strings.Builder, x, y *axis) {
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text class="label" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, at, chartWidth-right, at, left-6, at+4, html.EscapeString(y.label(v)))
	}
	for _, v := range x.ticks() {
		at := x.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text class="label" x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			at, top, at, chartHeight-below, at, chartHeight-below+16, html.EscapeString(x.label(v)))
	}
	fmt.Fprintf(b, `<text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`, (left+chartWidth-right)/2, chartHeight-8, html.EscapeString(x.title))
}

func curve(b *strings.Builder, i int, s *series, x, y *axis) {
	colour := colours[i%len(colours)]
	dash := ""
	if i >= len(colours) {
		dash = ` stroke-dasharray="5 3"`
	}
	var path strings.Builder
	for k, p := range s.points {
		fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[k == 0], x.at(p.X), y.at(p.Y))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"><title>%s: %s, %s</title></circle>`,
			x.at(p.X), y.at(p.Y), colour, html.EscapeString(s.name), html.EscapeString(x.label(p.X)), html.EscapeString(y.label(p.Y)))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.8"%s/>`, path.String(), colour, dash)
	at := top + 8 + 16*i
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"%s/><text class="label" x="%d" y="%d">%s</text>`,
		chartWidth-right+8, at, chartWidth-right+26, at, colour, dash, chartWidth-right+31, at+4, html.EscapeString(s.name))
}
