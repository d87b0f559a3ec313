package auth

import (
	"fmt"

	"github.com/sealcast/sealcast/wire/topic"
)

// maxRights bounds the patterns of one token.
const maxRights = 1000

// Rights are the topics that a session may subscribe to. The zero value allows
// nothing. They are immutable and safe for concurrent use.
type Rights struct{ filters []topic.Filter }

// Everything allows every topic: what holds without authentication.
func Everything() Rights {
	all, err := topic.ParseFilter("**")
	if err != nil {
		panic(err) // it is a pattern
	}
	return Rights{[]topic.Filter{all}}
}

// ParseRights reads names and patterns, each once at most a thousand.
func ParseRights(patterns []string) (Rights, error) {
	if len(patterns) > maxRights {
		return Rights{}, fmt.Errorf("%d topics, at most %d", len(patterns), maxRights)
	}
	r := Rights{make([]topic.Filter, 0, len(patterns))}
	for _, p := range patterns {
		f, err := topic.ParseFilter(p)
		if err != nil {
			return Rights{}, err
		}
		r.filters = append(r.filters, f)
	}
	return r, nil
}

// Allow tells whether one of the rights covers the whole filter. Two that cover
// it only together do not: the answer must not depend on which topics exist.
func (r Rights) Allow(f topic.Filter) bool {
	for _, own := range r.filters {
		if own.Covers(f) {
			return true
		}
	}
	return false
}
