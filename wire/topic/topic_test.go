package topic

import (
	"errors"
	"strings"
	"testing"
)

func parse(t testing.TB, s string) Filter {
	t.Helper()
	f, err := ParseFilter(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestValidName(t *testing.T) {
	valid := []string{
		"a", "md:coinbase:BTC-USD:ticker", ":", "::", "a:", ":a", "a::b", "mit leerzeichen", "報價:茅台", "\u2028",
		strings.Repeat("x", MaxLen), "?[a]\\",
	}
	for _, name := range valid {
		if err := ValidName(name); err != nil {
			t.Errorf("ValidName(%q) = %v", name, err)
		}
	}
	invalid := map[string]string{
		"":                              "empty",
		strings.Repeat("x", MaxLen+1):   "256 bytes are more than 255",
		"a\xff":                         "UTF-8",
		"\xed\xa0\x80":                  "UTF-8",
		"a\nb":                          "control character",
		"a\x00":                         "control character",
		"\x7f":                          "control character",
		"a\u0085b":                      "control character",
		"md:*":                          "only in patterns",
		"a*b":                           "only in patterns",
		strings.Repeat("é", MaxLen/2+1): "256 bytes",
	}
	for name, rule := range invalid {
		err := ValidName(name)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("ValidName(%q) = %v, want the rule %q", name, err, rule)
		}
	}
}

func TestParseFilter(t *testing.T) {
	valid := map[string]bool{ // filter → is a pattern
		"a": false, "a:b": false, ":": false,
		"*": true, "**": true, "*:*": true, "a:*": true, "*:a": true, "a:*:b": true, "a:**": true, "*:**": true, ":*": true, ":**": true,
	}
	for s, pattern := range valid {
		f, err := ParseFilter(s)
		if err != nil || f.IsPattern() != pattern || f.String() != s {
			t.Errorf("ParseFilter(%q) = %q, pattern %v, %v", s, f, f.IsPattern(), err)
		}
	}
	invalid := map[string]string{
		"":                               "empty",
		"a*":                             "whole segment",
		"*a":                             "whole segment",
		"a:b*:c":                         "whole segment",
		"***":                            "whole segment",
		"a:***":                          "whole segment",
		"a**":                            "whole segment",
		"** ":                            "whole segment",
		"**:a":                           "last segment",
		"**:":                            "last segment",
		"a:**:**":                        "last segment",
		"*\t":                            "control character",
		"*\xc0":                          "UTF-8",
		strings.Repeat("*:", 127) + "**": "256 bytes",
	}
	for s, rule := range invalid {
		f, err := ParseFilter(s)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), rule) || f != (Filter{}) {
			t.Errorf("ParseFilter(%q) = %q, %v, want the rule %q", s, f, err, rule)
		}
	}
}

func TestErrorIsBounded(t *testing.T) {
	_, err := ParseFilter(strings.Repeat("x", 1<<20))
	if len(err.Error()) > 200 {
		t.Errorf("the error quotes %d bytes", len(err.Error()))
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		filter  string
		yes, no []string
	}{
		{"a:b", []string{"a:b"}, []string{"a", "a:b:c", "a:B", "a:b:", ":a:b", "b"}},
		{"*", []string{"a", "a b", "é"}, []string{"a:b", ":", "a:"}},
		{"**", []string{"a", "a:b", "a:b:c", ":", "::"}, nil},
		{"a:*", []string{"a:b", "a:"}, []string{"a", "a:b:c", "b:a", "a::", "ab:c"}},
		{"a:**", []string{"a:b", "a:b:c", "a:", "a::"}, []string{"a", "b:c", "ab:c"}},
		{"*:b", []string{"a:b", ":b"}, []string{"b", "a:b:c", "a:c"}},
		{"a:*:c", []string{"a:b:c", "a::c"}, []string{"a:c", "a:b:b:c", "a:b:c:d"}},
		{"*:**", []string{"a:b", "a:b:c", ":"}, []string{"a"}},
		{"md:*:*:ticker", []string{"md:coinbase:BTC-USD:ticker"}, []string{"md:coinbase:BTC-USD:trade", "md:coinbase:ticker"}},
		{"[ab]:?", []string{"[ab]:?"}, []string{"a:x"}},
	}
	for _, tt := range tests {
		f := parse(t, tt.filter)
		for _, name := range tt.yes {
			if !f.Match(name) {
				t.Errorf("%q does not match %q", tt.filter, name)
			}
		}
		for _, name := range tt.no {
			if f.Match(name) {
				t.Errorf("%q matches %q", tt.filter, name)
			}
		}
	}
}

func TestCoversAndOverlaps(t *testing.T) {
	tests := []struct {
		f, g                string
		covers, overlapping bool
	}{
		{"a", "a", true, true},
		{"a", "b", false, false},
		{"*", "a", true, true},
		{"a", "*", false, true},
		{"*", "*", true, true},
		{"**", "*", true, true},
		{"*", "**", false, true},
		{"**", "**", true, true},
		{"**", "a:b:c", true, true},
		{"a:**", "a", false, false},
		{"a", "a:**", false, false},
		{"a:**", "a:*", true, true},
		{"a:*", "a:**", false, true},
		{"a:**", "a:*:**", true, true},
		{"a:*:**", "a:**", false, true},
		{"a:*", "*:b", false, true},
		{"a:*", "b:*", false, false},
		{"a:*:c", "a:b:*", false, true},
		{"*:*", "a:b", true, true},
		{"*:*", "a:b:c", false, false},
		{"a:**", "*:b", false, true},
		{"a:**", "*:b:c", false, true},
		{"a:**", "*", false, false},
		{"a:b:**", "a:*:c", false, true},
		{"a:b:**", "a:c:**", false, false},
		{"", "a", false, false},
		{"**", "", true, false},
		{"", "", true, false},
	}
	for _, tt := range tests {
		f, g := filterOrZero(t, tt.f), filterOrZero(t, tt.g)
		if got := f.Covers(g); got != tt.covers {
			t.Errorf("%q covers %q: %v", tt.f, tt.g, got)
		}
		if f.Overlaps(g) != tt.overlapping || g.Overlaps(f) != tt.overlapping {
			t.Errorf("%q overlaps %q: %v, the other way %v", tt.f, tt.g, f.Overlaps(g), g.Overlaps(f))
		}
	}
}

func filterOrZero(t *testing.T, s string) Filter {
	if s == "" {
		return Filter{}
	}
	return parse(t, s)
}

func TestZeroFilterMatchesNothing(t *testing.T) {
	var f Filter
	if f.Match("") || f.Match("a") || f.IsPattern() || f.String() != "" {
		t.Error("the zero Filter matches or is a pattern")
	}
}

func TestNoAllocations(t *testing.T) {
	f, g := parse(t, "md:*:*:**"), parse(t, "md:coinbase:*:ticker")
	name := "md:coinbase:BTC-USD:ticker"
	var ok bool
	n := testing.AllocsPerRun(100, func() {
		ok = f.Match(name) && g.Match(name) && f.Covers(g) && f.Overlaps(g) && ValidName(name) == nil
	})
	if n != 0 || !ok {
		t.Errorf("%v allocations, result %v", n, ok)
	}
}
