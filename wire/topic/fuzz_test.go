package topic

import (
	"strings"
	"testing"
)

// naiveMatch is the rule of the package comment, written the obvious way.
func naiveMatch(filter, name string) bool {
	f, n := strings.Split(filter, ":"), strings.Split(name, ":")
	last := len(f) - 1
	if f[last] == "**" {
		if len(n) < len(f) {
			return false
		}
		f, n = f[:last], n[:last]
	}
	if len(f) != len(n) {
		return false
	}
	for i := range f {
		if f[i] != "*" && f[i] != n[i] {
			return false
		}
	}
	return true
}

// FuzzMatch compares Match with the naive splitter.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"a:b", "a:b"}, {"*", "a"}, {"**", "a:b"}, {"a:**", "a"}, {"a:**", "a:"}, {"a:*:c", "a::c"},
		{"md:*:*:ticker", "md:coinbase:BTC-USD:ticker"}, {":*", ":"}, {"*:**", "x"}, {"***", "x"}, {"**:a", "x:a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, filter, name string) {
		parsed, err := ParseFilter(filter)
		if err != nil || ValidName(name) != nil {
			return
		}
		if parsed.IsPattern() != (ValidName(filter) != nil) {
			t.Errorf("%q is a pattern: %v", filter, parsed.IsPattern())
		}
		if got, want := parsed.Match(name), naiveMatch(filter, name); got != want {
			t.Errorf("%q matches %q: %v, want %v", filter, name, got, want)
		}
	})
}

// maxSegments is one more than the segments of the filters that are compared, so
// that every relation between two of them shows in a name of sampledNames.
const maxSegments = 5

var sampledNames = buildNames(maxSegments)

func buildNames(segments int) []string {
	names := []string{"", "a", "b"}
	for level := names; segments > 1; segments-- {
		var longer []string
		for _, name := range level {
			longer = append(longer, name+":", name+":a", name+":b")
		}
		names, level = append(names, longer...), longer
	}
	return names
}

// decodeFilter turns fuzz bytes into a filter of at most maxSegments-1 segments from
// the alphabet of sampledNames.
func decodeFilter(b []byte) string {
	b = b[:min(len(b), maxSegments-1)]
	var segments []string
	for i, c := range b {
		pool := []string{"", "a", "b", "*"}
		if i == len(b)-1 {
			pool = append(pool, "**")
		}
		segments = append(segments, pool[int(c)%len(pool)])
	}
	return strings.Join(segments, ":")
}

// FuzzRelations compares Covers and Overlaps with all short names.
func FuzzRelations(f *testing.F) {
	for _, seed := range [][2]string{
		{"\x03", "\x01"}, {"\x04", "\x03"}, {"\x03", "\x04"}, {"\x01\x04", "\x01\x03\x04"}, {"\x01\x03", "\x03\x02"},
		{"\x00\x04", "\x03"}, {"\x03\x03\x03\x04", "\x04"}, {"\x01\x03\x02", "\x01\x00\x02"},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, errX := ParseFilter(decodeFilter(a))
		y, errY := ParseFilter(decodeFilter(b))
		if errX != nil || errY != nil {
			return
		}
		checkRelations(t, x, y)
	})
}

// TestRelations does what FuzzRelations does for every pair of filters.
func TestRelations(t *testing.T) {
	filters := allFilters(t)
	for _, x := range filters {
		for _, y := range filters {
			checkRelations(t, x, y)
		}
	}
}

// allFilters returns every filter of one to three segments that decodeFilter can make.
func allFilters(t *testing.T) []Filter {
	seen := map[string]bool{}
	var filters []Filter
	for i := range 5 * 5 * 5 * 3 {
		digits := []byte{byte(i % 5), byte(i / 5 % 5), byte(i / 25 % 5)}
		s := decodeFilter(digits[:1+i/125])
		if seen[s] || s == "" {
			continue
		}
		seen[s] = true
		filters = append(filters, parse(t, s))
	}
	return filters
}

func checkRelations(t *testing.T, x, y Filter) {
	covers, overlaps := true, false
	for _, name := range sampledNames {
		inX, inY := x.Match(name), y.Match(name)
		covers = covers && (inX || !inY)
		overlaps = overlaps || inX && inY
	}
	if x.Covers(y) != covers {
		t.Errorf("%q covers %q: %v, by names %v", x, y, x.Covers(y), covers)
	}
	if x.Overlaps(y) != overlaps {
		t.Errorf("%q overlaps %q: %v, by names %v", x, y, x.Overlaps(y), overlaps)
	}
}
