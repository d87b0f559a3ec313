package fanout

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/wire/topic"
)

// The tree finds exactly what Match and Covers say.
func TestTreeAgreesWithFilters(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	segments := []string{"a", "b", "", "*", "**"}
	for range 300 {
		root := new(node)
		var filters []topic.Filter
		for range 12 {
			var parts []string
			for range 1 + random.IntN(4) {
				parts = append(parts, segments[random.IntN(len(segments))])
			}
			f, err := topic.ParseFilter(strings.Join(parts, ":"))
			if err != nil {
				continue
			}
			n := root.grow(f.String())
			if n.want == nil {
				n.want = &want{filter: f, node: n}
				filters = append(filters, f)
			}
		}
		for _, f := range filters {
			compare(t, "above", f, root.above(nil, f.String()), filters, func(g topic.Filter) bool { return g.Covers(f) })
			compare(t, "below", f, root.below(nil, f.String()), filters, f.Covers)
			if root.find(f.String()) != root.grow(f.String()) {
				t.Errorf("find and grow differ for %s", f)
			}
		}
		for _, f := range filters {
			n := root.find(f.String())
			n.want = nil
			n.prune()
		}
		if len(root.children) != 0 {
			t.Fatalf("%d branches are left", len(root.children))
		}
	}
}

func compare(t *testing.T, what string, f topic.Filter, nodes []*node, filters []topic.Filter, rule func(topic.Filter) bool) {
	t.Helper()
	var got, want []string
	for _, n := range nodes {
		got = append(got, n.want.filter.String())
	}
	for _, g := range filters {
		if rule(g) {
			want = append(want, g.String())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s %s: %q, want %q", what, f, got, want)
	}
}

func TestTreeFindsNothing(t *testing.T) {
	root := new(node)
	root.grow("a:b").want = &want{}
	for _, path := range []string{"a", "a:c", "a:b:c", "x:y:z"} {
		if n := root.find(path); n != nil && !n.empty() {
			t.Errorf("found %s", path)
		}
	}
}

func TestGlob(t *testing.T) {
	for in, want := range map[string]string{
		"a:b":           "a:b",
		`na?me[x]^\`:    `na?me[x]^\`, // SUBSCRIBE takes names as they are
		"a:*":           "a:*",
		"a:**":          "a:*",
		"**":            "*",
		"*:*:x":         "*:*:x",
		`a?[b]^\c:*`:    `a\?\[b\]\^\\c:*`,
		"*:" + `\E.:**`: `*:\\E.:*`,
	} {
		if got := glob(filter(in)); got != want {
			t.Errorf("glob(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestWidest(t *testing.T) {
	c := newCover(new(node), false)
	long := strings.Repeat("n", 253) + ":*"
	for in, want := range map[string]string{
		"a": "a", "a:*": "a:**", "*": "**", "**": "**", "*:a": "*:a", "a*": "", long: long,
	} {
		f, err := topic.ParseFilter(in)
		if err != nil {
			continue
		}
		if got := c.widest(f).String(); got != want {
			t.Errorf("widest(%s) = %s, want %s", in, got, want)
		}
	}
}
