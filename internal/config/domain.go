package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// The kinds of values that only Sealcast knows: suites, topics, realms.

func suites(field *[]suite.ID) kind {
	names := suiteNames()
	return list(field, strings.Join(names, ", "), func(s string) (suite.ID, error) {
		id, ok := suite.ByName(s)
		switch {
		case id == suite.Plain && ok:
			return 0, hinted{"plain is not listed among the suites", "to allow it, set cipher.allow_plain to true"}
		case !ok:
			return 0, hinted{clip(s) + " is not a suite", didYouMean(s, names)}
		}
		return id, nil
	}, suite.ID.String)
}

// suiteNames lists the suites that protect something.
func suiteNames() []string {
	var names []string
	for _, id := range suite.All() {
		if id != suite.Plain {
			names = append(names, id.String())
		}
	}
	return names
}

func prefer(field *suite.Prefer) kind {
	words := append([]string{"auto", "server", "client"}, suiteNames()...)
	k := scalar(field, strings.Join(words, ", "), func(n *yaml.Node) (suite.Prefer, error) {
		if n.Kind != yaml.ScalarNode {
			return suite.Prefer{}, notA(n, "a word")
		}
		p, err := suite.ParsePrefer(n.Value)
		if err != nil {
			return p, hinted{clip(n.Value) + " is not a known value", didYouMean(n.Value, words)}
		}
		return p, nil
	}, suite.Prefer.String)
	k.text = true
	return k
}

// publicClass is the compression class of topics that name none.
const publicClass = "public"

func checkClass(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return nil
}

// codecs are those that a gateway may choose by itself: the dictionary decides
// over the one with a dictionary.
func codecs(field *[]wire.Codec) kind {
	words := []string{wire.CodecZstd.String(), wire.CodecSnappy.String(), wire.CodecNone.String()}
	return list(field, strings.Join(words, ", "), func(s string) (wire.Codec, error) {
		for _, id := range []wire.Codec{wire.CodecZstd, wire.CodecSnappy, wire.CodecNone} {
			if id.String() == s {
				return id, nil
			}
		}
		return 0, hinted{clip(s) + " is not a codec", didYouMean(s, words)}
	}, wire.Codec.String)
}

func checkRealm(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return nil
}

// topicForm is what an entry of topics looks like.
const topicForm = "{match: NAME OR PATTERN, policy: latest or every, snapshot: true or false, history: 0 to 1000000, compress: CLASS or off}"

// topics is a list of them.
func topics(field *[]Topic) kind {
	return kind{
		field:   field,
		allowed: "a list of " + topicForm,
		show: func() string {
			var b strings.Builder
			for _, t := range *field {
				fmt.Fprintf(&b, "\n- {match: %s, policy: %s, snapshot: %t, history: %d, compress: %s}",
					doubleQuote(t.Match.String()), t.Policy, t.Snapshot, t.History, quote(t.Compress))
			}
			if b.Len() == 0 {
				return "[]"
			}
			return b.String()
		},
		read: func(n *yaml.Node) []problem {
			var entries []Topic
			var problems []problem
			for i, item := range elements(n) {
				entry, found := topicEntry(item)
				for j := range found {
					found[j].path = index(n, i) + found[j].path
				}
				if found == nil {
					found = unreachable(item, index(n, i), entry, entries)
				}
				problems = append(problems, found...)
				entries = append(entries, entry)
			}
			if problems == nil {
				*field = entries
			}
			return problems
		},
	}
}

// topicEntry reads one entry with the same machinery as the whole file.
func topicEntry(n *yaml.Node) (Topic, []problem) {
	entry := Topic{Policy: PolicyEvery, Compress: publicClass}
	if n.Kind != yaml.MappingNode {
		return entry, []problem{newProblem(n, "", notA(n, "a mapping"), topicForm)}
	}
	fields := map[string]kind{
		"match":    scalar(&entry.Match, "a topic's name or a pattern", parseMatch, topic.Filter.String),
		"policy":   choice(&entry.Policy, PolicyLatest, PolicyEvery),
		"snapshot": boolean(&entry.Snapshot),
		"history":  whole(&entry.History, 0, 1_000_000),
		"compress": text(&entry.Compress, 64, "the name of a class, or off", checkClass),
	}
	names := []string{"match", "policy", "snapshot", "history", "compress"}
	problems := eachPair(n, func(key, value *yaml.Node) []problem {
		k, ok := fields[key.Value]
		if !ok {
			return []problem{newProblem(key, "."+key.Value, hinted{"unknown setting", didYouMean(key.Value, names)}, strings.Join(names, ", "))}
		}
		found := k.read(value)
		for i := range found {
			found[i].path = "." + key.Value + found[i].path
		}
		return found
	})
	if problems == nil && entry.Match == (topic.Filter{}) {
		problems = []problem{{n, "", "has no match", `add match: "**" for all topics`}}
	}
	return entry, problems
}

func parseMatch(n *yaml.Node) (topic.Filter, error) {
	s, err := plainText(n, topic.MaxLen)
	if err != nil {
		return topic.Filter{}, err
	}
	f, err := topic.ParseFilter(s)
	if err != nil {
		return f, hinted{err.Error(), "* stands for one whole segment between colons, ** for the rest and only at the end"}
	}
	return f, nil
}

// unreachable finds an entry that an earlier one leaves nothing to decide.
func unreachable(n *yaml.Node, path string, entry Topic, earlier []Topic) []problem {
	for _, e := range earlier {
		if e.Match.Covers(entry.Match) {
			text := fmt.Sprintf("never applies: %q comes first and matches all of %q", e.Match, entry.Match)
			return []problem{{n, path, text, "put the narrower pattern first, or remove it"}}
		}
	}
	return nil
}

func doubleQuote(s string) string {
	out, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: s})
	if err != nil {
		return quote(s)
	}
	return strings.TrimSuffix(string(out), "\n")
}
