package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sources are the places that settings come from, the weakest first.
type Sources struct {
	File    string   // path of a YAML file; "" for none
	Environ []string // in the form of os.Environ
	Set     []string // "key=value", as given to --set
}

// Loaded is settings that passed every check, with where each came from.
type Loaded struct {
	Config   Config
	Warnings []string // about SEALCAST_ variables that are no setting

	origins map[string]origin
}

// Default returns the settings that hold when nothing is set.
func Default() Config { return newLoader().config }

// Load reads all sources. If anything is wrong the error is Faults with
// everything that is; settings of a faulty source are never used in part.
func Load(s Sources) (*Loaded, error) {
	l := newLoader()
	if s.File != "" {
		l.readFile(s.File)
	}
	l.readEnviron(s.Environ)
	for _, pair := range s.Set {
		l.readFlag(pair)
	}
	l.check()
	if len(l.faults) > 0 {
		return nil, l.sorted()
	}
	return &Loaded{Config: l.config, Warnings: l.warnings, origins: l.origins}, nil
}

// source is a place of settings; the later ones are stronger.
type source int

const (
	fromFile source = iota
	fromEnviron
	fromFlag
)

// origin is the place a value was read from.
type origin struct {
	source source
	name   string // the file, the variable, or --set
	line   int    // 0 if unknown or not in a file
}

func (o origin) String() string {
	if o.line == 0 {
		return o.name
	}
	return o.name + ":" + strconv.Itoa(o.line)
}

// at is the place of a node in the same source.
func (o origin) at(n *yaml.Node) origin {
	if o.source == fromFile && n != nil {
		o.line = n.Line
	}
	return o
}

// loader collects settings and faults from one source after the other.
type loader struct {
	config   Config
	settings map[string]*setting // bound to config
	keys     []string            // in the table's order
	origins  map[string]origin   // of keys that are not at their default
	faulty   map[string]bool     // keys with a fault, which later checks leave alone
	faults   []located
	warnings []string
}

type located struct {
	at    origin
	fault Fault
}

// newLoader returns a loader that holds the defaults.
func newLoader() *loader {
	l := &loader{settings: map[string]*setting{}, origins: map[string]origin{}, faulty: map[string]bool{}}
	rows := table(&l.config)
	for i := range rows {
		row := &rows[i]
		l.settings[row.key] = row
		l.keys = append(l.keys, row.key)
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(row.initial), &n); err != nil {
			panic("config: default of " + row.key + ": " + err.Error())
		}
		if problems := row.kind.read(n.Content[0]); problems != nil {
			panic("config: default of " + row.key + ": " + problems[0].text)
		}
	}
	return l
}

// mapping applies the settings of a mapping whose keys begin with prefix.
func (l *loader) mapping(prefix string, n *yaml.Node, from origin) {
	problems := eachPair(n, func(key, value *yaml.Node) []problem {
		l.apply(prefix+key.Value, key, value, from)
		return nil
	})
	for _, p := range problems {
		key := strings.TrimPrefix(strings.TrimSuffix(prefix, ".")+p.path, ".")
		p.path = ""
		l.fault(from.at(p.node), key, p)
	}
}

// apply sets one key, which may be a section.
func (l *loader) apply(key string, keyNode, value *yaml.Node, from origin) {
	if row, ok := l.settings[key]; ok {
		l.assign(row, value, from)
		return
	}
	within := l.section(key)
	switch {
	case within == nil:
		l.fault(from.at(keyNode), key, problem{text: "unknown setting", hint: l.hintFor(key)})
	case value.Kind == yaml.MappingNode:
		l.mapping(key+".", value, from)
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		// A section whose lines are all commented out sets nothing.
	default:
		l.fault(from.at(value), key, problem{text: "is a section, not a single setting", hint: "it has " + strings.Join(within, ", ")})
	}
}

// section returns the keys below name, nil if it is no section.
func (l *loader) section(name string) []string {
	var within []string
	for _, key := range l.keys {
		if strings.HasPrefix(key, name+".") {
			within = append(within, key)
		}
	}
	return within
}

// assign sets one setting and notes its faults.
func (l *loader) assign(row *setting, value *yaml.Node, from origin) {
	problems := []problem{{node: value, text: "has no value", hint: `remove the key for the default, or write "" for an empty text`}}
	if value.Tag != "!!null" {
		problems = row.kind.read(value)
	}
	for _, p := range problems {
		l.fault(from.at(p.node), row.key, p)
	}
	l.origins[row.key] = from.at(value)
}

func (l *loader) fault(at origin, key string, p problem) {
	l.faulty[key] = true
	text := p.text
	if name := key + p.path; name != "" {
		text = printable(name) + ": " + text
	}
	l.faults = append(l.faults, located{at, Fault{Where: at.String(), Text: text, Hint: p.hint}})
}

// sorted returns the faults in the order in which a person finds them.
func (l *loader) sorted() Faults {
	slices.SortStableFunc(l.faults, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.at.source, b.at.source), cmp.Compare(a.at.line, b.at.line))
	})
	faults := make(Faults, len(l.faults))
	for i, f := range l.faults {
		faults[i] = f.fault
	}
	return faults
}

// hintFor guesses what an unknown key was meant to be.
func (l *loader) hintFor(key string) string {
	if l.settings[strings.ToLower(key)] != nil {
		return "did you mean " + strings.ToLower(key) + "?"
	}
	leaf := key[strings.LastIndexByte(key, '.')+1:]
	for _, known := range l.keys {
		if strings.HasSuffix(known, "."+leaf) {
			return "did you mean " + known + "?"
		}
	}
	candidates := slices.Clone(l.keys)
	if !strings.Contains(key, ".") {
		candidates = append(candidates, l.sections()...)
	}
	if hint := didYouMean(key, candidates); hint != "" {
		return hint
	}
	return "`sealcast config show` lists the settings"
}

func (l *loader) sections() []string {
	var names []string
	for _, key := range l.keys {
		if name, _, ok := strings.Cut(key, "."); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// eachPair calls f for each key of a mapping, aliases followed, and returns
// f's problems and its own: keys that are no text or stand twice.
func eachPair(n *yaml.Node, f func(key, value *yaml.Node) []problem) []problem {
	var problems []problem
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := follow(n.Content[i]), follow(n.Content[i+1])
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			problems = append(problems, problem{key, "", "this kind of key is not supported", "write each setting as NAME: VALUE"})
			continue
		}
		if first, ok := lines[key.Value]; ok {
			text := "is set twice, first in line " + strconv.Itoa(first)
			problems = append(problems, problem{key, "." + key.Value, text, "remove one of the two"})
			continue
		}
		lines[key.Value] = key.Line
		problems = append(problems, f(key, value)...)
	}
	return problems
}
