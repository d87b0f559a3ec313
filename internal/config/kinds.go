package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// kind is how the value of one setting is read into its field and shown.
type kind struct {
	// read sets the field, or leaves it alone and says what is wrong.
	read func(n *yaml.Node) []problem
	// show returns the field's value as YAML; a value of several lines begins with a line feed.
	show func() string
	// allowed describes the values, for hints.
	allowed string
	// obvious values are not described in comments.
	obvious bool
	// text marks values that are plain text, which need no quotes in the environment and in flags.
	text bool
	// field points to the field.
	field any
	// atStart values are read when the gateway starts and never again.
	atStart bool
}

// atStart marks a setting that only a restart changes.
func atStart(k kind) kind {
	k.atStart = true
	return k
}

// scalar makes a kind from a parser of one scalar. The parser's error is a
// problem already worded.
func scalar[T any](field *T, allowed string, parse func(n *yaml.Node) (T, error), show func(T) string) kind {
	return kind{
		field:   field,
		allowed: allowed,
		show:    func() string { return show(*field) },
		read: func(n *yaml.Node) []problem {
			v, err := parse(n)
			if err != nil {
				return []problem{newProblem(n, "", err, allowed)}
			}
			*field = v
			return nil
		},
	}
}

// boolean is true or false.
func boolean(field *bool) kind {
	k := scalar(field, "true or false", func(n *yaml.Node) (v bool, err error) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&v) != nil {
			return false, notA(n, "true or false")
		}
		return v, nil
	}, strconv.FormatBool)
	k.obvious = true
	return k
}

// whole is an integer in [low, high].
func whole(field *int, low, high int) kind {
	return scalar(field, between(low, high, strconv.Itoa), func(n *yaml.Node) (v int, err error) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil {
			return 0, notA(n, "a whole number")
		}
		return v, inRange(v, low, high, strconv.Itoa)
	}, strconv.Itoa)
}

// choice is one of a few words.
func choice[T ~string](field *T, words ...T) kind {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	k := scalar(field, strings.Join(names, ", "), func(n *yaml.Node) (T, error) {
		if n.Kind != yaml.ScalarNode {
			return "", notA(n, "a word")
		}
		if !slices.Contains(names, n.Value) {
			return "", hinted{clip(n.Value) + " is not a known value", didYouMean(n.Value, names)}
		}
		return T(n.Value), nil
	}, func(v T) string { return string(v) })
	k.text = true
	return k
}

// text is a string of at most high bytes without control characters, that
// check (if not nil) also accepts.
func text(field *string, high int, allowed string, check func(string) error) kind {
	k := scalar(field, allowed, func(n *yaml.Node) (string, error) {
		s, err := plainText(n, high)
		if err == nil && check != nil {
			err = check(s)
		}
		return s, err
	}, quote)
	k.text, k.obvious = true, true
	return k
}

// hidden is a text that is never shown, not even when it is wrong.
func hidden(field *Secret, high int) kind {
	k := scalar(field, "text", func(n *yaml.Node) (Secret, error) {
		s, err := plainText(n, high)
		return Secret{s}, err
	}, func(s Secret) string { return quote(s.String()) })
	k.text, k.obvious = true, true
	return k
}

// plainText returns a string scalar. Its errors do not show the value.
func plainText(n *yaml.Node, high int) (string, error) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!str":
		return "", hinted{"is " + article(n) + ", not text", "put the value in quotes"}
	case n.Kind != yaml.ScalarNode:
		return "", fmt.Errorf("is %s, not text", article(n))
	case len(n.Value) > high:
		return "", fmt.Errorf("is longer than %d bytes", high)
	case !utf8.ValidString(n.Value) || strings.ContainsFunc(n.Value, unicode.IsControl):
		return "", fmt.Errorf("holds control characters or invalid UTF-8")
	}
	return n.Value, nil
}

// list is a list of scalars without duplicates; a single value is a list of
// one. parse sees each element's text.
func list[T comparable](field *[]T, allowed string, parse func(string) (T, error), show func(T) string) kind {
	return kind{
		field:   field,
		allowed: allowed,
		show: func() string {
			items := make([]string, len(*field))
			for i, v := range *field {
				items[i] = quote(show(v))
			}
			return "[" + strings.Join(items, ", ") + "]"
		},
		read: func(n *yaml.Node) []problem {
			var values []T
			var problems []problem
			for i, item := range elements(n) {
				v, err := element(item, parse)
				if err == nil && slices.Contains(values, v) {
					err = fmt.Errorf("%s is listed twice", clip(item.Value))
				}
				if err != nil {
					problems = append(problems, newProblem(item, index(n, i), err, allowed))
					continue
				}
				values = append(values, v)
			}
			if problems == nil {
				*field = values
			}
			return problems
		},
	}
}

func element[T any](n *yaml.Node, parse func(string) (T, error)) (v T, err error) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return v, notA(n, "text")
	}
	return parse(n.Value)
}

// elements returns the members of a list, or a single value as a list of one.
func elements(n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = follow(item)
	}
	return items
}

// index names an element in a message; a single value needs no index.
func index(n *yaml.Node, i int) string {
	if n.Kind != yaml.SequenceNode {
		return ""
	}
	return "[" + strconv.Itoa(i) + "]"
}

// follow returns what an alias stands for, under the alias's own line.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.AliasNode {
		return n
	}
	target := *n.Alias
	target.Line = n.Line
	return &target
}

func notA(n *yaml.Node, what string) error {
	if n.Kind == yaml.ScalarNode {
		return fmt.Errorf("%s is not %s", clip(n.Value), what)
	}
	return fmt.Errorf("is %s, not %s", article(n), what)
}

// article names the type of a value.
func article(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!bool":
		return "true or false"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "a number"
	case n.Tag == "!!null":
		return "empty"
	}
	return "a value of another type"
}

// clip quotes a value for a message and cuts it to a readable length.
func clip(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}

// quote returns s as a YAML scalar on one line, in quotes where it needs them.
func quote(s string) string {
	out, err := yaml.Marshal(s)
	if err != nil || strings.Count(string(out), "\n") != 1 {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(string(out), "\n")
}
