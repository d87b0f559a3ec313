package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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

func checkStream(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("is empty")
	case len(s) > 512:
		return "", errors.New("is longer than 512 bytes")
	}
	return s, nil
}

func checkRealm(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	return nil
}

// topicForm is what an entry of topics looks like.
const topicForm = "{match: NAME OR PATTERN, policy: latest or every, snapshot: true or false, seed: KEY WITH {topic}, history: 0 to 1000000, history_age: TIME, compress: CLASS or off, max_rate: 0 to 1000, batch: {max_delay, max_ticks, max_bytes}}"

// topics is a list of them.
func topics(field *[]Topic) kind {
	return kind{
		field:   field,
		allowed: "a list of " + topicForm,
		show: func() string {
			var b strings.Builder
			for _, t := range *field {
				fmt.Fprintf(&b, "\n- {match: %s, policy: %s, snapshot: %t, history: %d, compress: %s%s}",
					doubleQuote(t.Match.String()), t.Policy, t.Snapshot, t.History, quote(t.Compress), showSeed(&t)+showAge(&t)+showPace(&t))
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

// showSeed is seed, if it is set.
func showSeed(t *Topic) string {
	if t.Seed == "" {
		return ""
	}
	return ", seed: " + doubleQuote(t.Seed)
}

// seedTopic is what stands for the topic's name in a seed.
const seedTopic = "{topic}"

// checkSeed wants a text of its own before the name: else a client could read any
// key by its choice of a name.
func checkSeed(s string) error {
	switch {
	case strings.Count(s, seedTopic) != 1:
		return hinted{"does not hold {topic} once", `it stands for the topic's name, as in "last:{topic}"`}
	case strings.HasPrefix(s, seedTopic):
		return hinted{"begins with {topic}, so that clients could read any key", `give the keys of first values a prefix, as in "last:{topic}"`}
	}
	return nil
}

// showAge is history_age, if it is set.
func showAge(t *Topic) string {
	if t.HistoryAge == 0 {
		return ""
	}
	return ", history_age: " + formatDuration(t.HistoryAge)
}

// topicEntry reads one entry.
func topicEntry(n *yaml.Node) (Topic, []problem) {
	entry := Topic{Policy: PolicyEvery, Compress: publicClass, Batch: TopicBatch{MaxDelay: -1}}
	problems := mapping(n, topicForm, []string{"match", "policy", "snapshot", "seed", "history", "history_age", "compress", "max_rate", "batch"}, map[string]kind{
		"match":       scalar(&entry.Match, "a topic's name or a pattern", parseMatch, topic.Filter.String),
		"policy":      choice(&entry.Policy, PolicyLatest, PolicyEvery),
		"snapshot":    boolean(&entry.Snapshot),
		"seed":        text(&entry.Seed, 256, "a key with {topic} in it", checkSeed),
		"history":     whole(&entry.History, 0, 1_000_000),
		"history_age": duration(&entry.HistoryAge, 0, 30*24*time.Hour),
		"compress":    text(&entry.Compress, 64, "the name of a class, or off", checkClass),
		"max_rate":    rate(&entry.MaxRate),
		"batch":       topicBatch(&entry.Batch),
	})
	if problems == nil && entry.Match == (topic.Filter{}) {
		problems = []problem{{n, "", "has no match", `add match: "**" for all topics`}}
	}
	if problems == nil && entry.MaxRate != 0 && entry.Policy != PolicyLatest {
		problems = []problem{{n, ".max_rate", "needs policy: latest", "with policy every each tick is delivered"}}
	}
	if problems == nil && entry.Seed != "" && !entry.Snapshot {
		problems = []problem{{n, ".seed", "needs snapshot: true", "a first value is kept where last values are"}}
	}
	return entry, problems
}

// topicBatch is what an entry may say otherwise than the section batch.
func topicBatch(field *TopicBatch) kind {
	const form = "{max_delay: 0s to 10s, max_ticks: 1 to 65536, max_bytes: 256B to 1MiB}"
	return kind{read: func(n *yaml.Node) []problem {
		return mapping(n, form, []string{"max_delay", "max_ticks", "max_bytes"}, map[string]kind{
			"max_delay": maxDelay(&field.MaxDelay), "max_ticks": maxTicks(&field.MaxTicks), "max_bytes": maxBytes(&field.MaxBytes),
		})
	}}
}

// The bounds of a batch are the same in the section and in an entry of topics.
func maxDelay(field *time.Duration) kind { return duration(field, 0, 10*time.Second) }
func maxTicks(field *int) kind           { return whole(field, 1, 65536) }
func maxBytes(field *int) kind           { return size(field, 256, wire.MaxTick) }

// rate is a number of ticks a second; 0 is no bound.
func rate(field *float64) kind {
	const low, high = 0.001, 1000
	show := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return scalar(field, "0 for no bound, or "+between(low, high, show), func(n *yaml.Node) (v float64, err error) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(&v) != nil {
			return 0, notA(n, "a number")
		}
		if v == 0 {
			return 0, nil
		}
		return v, inRange(v, low, high, show)
	}, show)
}

// showPace is how an entry ends that bounds its topics' rate or their batches.
func showPace(t *Topic) string {
	var b strings.Builder
	if t.MaxRate != 0 {
		b.WriteString(", max_rate: " + rate(&t.MaxRate).show())
	}
	var batch []string
	if t.Batch.MaxDelay >= 0 {
		batch = append(batch, "max_delay: "+formatDuration(t.Batch.MaxDelay))
	}
	if t.Batch.MaxTicks != 0 {
		batch = append(batch, "max_ticks: "+strconv.Itoa(t.Batch.MaxTicks))
	}
	if t.Batch.MaxBytes != 0 {
		batch = append(batch, "max_bytes: "+formatSize(t.Batch.MaxBytes))
	}
	if batch != nil {
		b.WriteString(", batch: {" + strings.Join(batch, ", ") + "}")
	}
	return b.String()
}

// mapping reads a small mapping with the same machinery as the whole file.
func mapping(n *yaml.Node, form string, names []string, fields map[string]kind) []problem {
	if n.Kind != yaml.MappingNode {
		return []problem{newProblem(n, "", notA(n, "a mapping"), form)}
	}
	return eachPair(n, func(key, value *yaml.Node) []problem {
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
