package capacity

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes the plan for people: what is needed, how that came about,
// and the constants behind it.
func (p *Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	p.summary(&b)
	for _, part := range p.Parts {
		fmt.Fprintf(&b, "\n%s\n", part.Title)
		for i := range part.Steps {
			s := &part.Steps[i]
			fmt.Fprintf(&b, "  %-26s %16s  = %s\n", s.Name, s, s.How)
		}
	}
	b.WriteString("\nNotes\n")
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "  - %s\n", note)
	}
	b.WriteString("\nMeasured constants\n")
	for _, c := range p.Measured {
		if p.uses(c.Name) {
			fmt.Fprintf(&b, "  %-30s %10s %-8s %s\n  %-50s %s; %s\n", c.Name, amount(c.Value), c.Unit, c.What, "", c.Source, c.Page)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary is what is needed, in a few lines.
func (p *Plan) summary(b *strings.Builder) {
	g, t, m := &p.Gateway, &p.Total, &p.Inputs.Machine
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	line("gateways", "%d (%d to spare), bound by %s", p.Gateways, p.Inputs.Spare, p.Bound)
	line("cores", "%s in all; %s of %d of each gateway", amount(t.Cores), amount(g.Cores), m.Cores)
	line("memory", "%sB in all; %sB of %sB of each gateway, %sB of it the kernel's", binary(t.MemoryBytes), binary(g.MemoryBytes+g.KernelBytes), binary(m.MemoryBytes), binary(g.KernelBytes))
	line("bandwidth", "%sbit/s to clients; %sbit/s of %sbit/s of each gateway", scaled(t.OutBits), scaled(g.OutBits), scaled(m.LinkBits))
	line("descriptors", "%s of %s of each gateway", amount(g.Descriptors), amount(float64(m.Descriptors)))
	line("Redis", "%s; %s cores, %sbit/s to gateways", counted(p.Redis.Shards, "server", "shards"), amount(p.Redis.Cores), scaled(p.Redis.OutBits))
	line("deliveries", "%s/s", amount(t.Deliveries))
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// uses tells whether a constant belongs to this plan: of suites and codecs only
// those that were chosen do.
func (p *Plan) uses(name string) bool {
	kind, of, _ := strings.Cut(name, ".")
	switch kind {
	case "seal":
		return strings.HasPrefix(of, p.Inputs.Suite+".")
	case "key":
		return strings.HasPrefix(p.Inputs.Suite, "aes-")
	case "codec":
		return of == p.Inputs.Codec
	case "ratio":
		return strings.HasPrefix(of, p.Inputs.Codec+".") && p.Inputs.Ratio == 0
	}
	return true
}
