// Package topic is the grammar of topic names and of the patterns that match
// them. It compares strings; it never keeps state, and never decides who may
// subscribe to what.
//
// A name is a sequence of segments between separators, such as
// "md:coinbase:BTC-USD:ticker". A filter is a name, or a pattern in which a
// segment "*" stands for exactly one segment, whatever it holds (also
// nothing), and a last segment "**" for one or more.
package topic

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Separator stands between the segments of a name.
const Separator = ':'

// MaxLen is the length of the longest name or filter, in bytes.
const MaxLen = 255

// ErrInvalid is wrapped by every error of this package; the text around it
// quotes the string and names the rule that it breaks.
var ErrInvalid = errors.New("invalid topic")

const (
	one  = "*"  // exactly one segment
	rest = "**" // one or more segments, up to the end
)

// ValidName returns nil if s can be the name of a topic: 1 to 255 bytes of
// valid UTF-8 without control characters and without '*'. It does not allocate
// unless it fails.
func ValidName(s string) error {
	if rule := brokenRule(s); rule != "" {
		return invalid(s, rule)
	}
	if strings.Contains(s, one) {
		return invalid(s, "'*' stands only in patterns")
	}
	return nil
}

// brokenRule names the rule for names and filters alike that s breaks, or is empty.
func brokenRule(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > MaxLen:
		return fmt.Sprintf("%d bytes are more than %d", len(s), MaxLen)
	case !utf8.ValidString(s):
		return "it is not valid UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "it holds a control character"
	}
	return ""
}

func invalid(s, rule string) error {
	return fmt.Errorf("%w %.80q: %s", ErrInvalid, s, rule)
}

// Filter is a valid topic name or pattern. Filters are comparable: equal means
// the same text. The zero Filter matches nothing. It is safe for concurrent use.
type Filter struct {
	text    string
	pattern bool
}

// ParseFilter checks a name or pattern as a client or a settings file wrote it.
// The Filter keeps s.
func ParseFilter(s string) (Filter, error) {
	if rule := brokenRule(s); rule != "" {
		return Filter{}, invalid(s, rule)
	}
	f := Filter{text: s}
	for tail, more := s, true; more; {
		var segment string
		segment, tail, more = next(tail)
		switch {
		case !strings.Contains(segment, one):
			continue
		case segment == rest && more:
			return Filter{}, invalid(s, "'**' must be the last segment")
		case segment != one && segment != rest:
			return Filter{}, invalid(s, "'*' must be a whole segment, as in md:*:ticker, and '**' the whole last one, as in md:**")
		}
		f.pattern = true
	}
	return f, nil
}

// next splits the first segment off; more is false when nothing follows it.
func next(s string) (segment, tail string, more bool) {
	if i := strings.IndexByte(s, Separator); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// String is the filter as it was parsed.
func (f Filter) String() string { return f.text }

// IsPattern tells a pattern from the name of one topic.
func (f Filter) IsPattern() bool { return f.pattern }

// Match tells whether the filter matches the topic of this valid name. It does
// not allocate.
func (f Filter) Match(name string) bool {
	if !f.pattern {
		return f.text == name && name != ""
	}
	return covers(f.text, name)
}

// Covers tells whether f matches every name that g matches.
func (f Filter) Covers(g Filter) bool {
	if f.text == "" || g.text == "" {
		return g.text == ""
	}
	return covers(f.text, g.text)
}

// covers holds for names, too: a name is the filter that matches only itself.
func covers(f, g string) bool {
	for {
		fs, ft, fMore := next(f)
		gs, gt, gMore := next(g)
		switch {
		case fs == rest:
			return true
		case gs == rest:
			return false // g goes on for longer than f can
		case fs != one && fs != gs:
			return false
		case !fMore || !gMore:
			return fMore == gMore
		}
		f, g = ft, gt
	}
}

// Overlaps tells whether there is a name that both filters match. It looks at
// segments only: two filters whose common names would all be longer than
// MaxLen count as overlapping.
func (f Filter) Overlaps(g Filter) bool {
	if f.text == "" || g.text == "" {
		return false
	}
	return overlaps(f.text, g.text)
}

func overlaps(f, g string) bool {
	for {
		fs, ft, fMore := next(f)
		gs, gt, gMore := next(g)
		switch {
		case fs == rest || gs == rest:
			return true
		case fs != one && gs != one && fs != gs:
			return false
		case !fMore || !gMore:
			return fMore == gMore
		}
		f, g = ft, gt
	}
}
