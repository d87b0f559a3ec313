package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a settings file, in bytes.
const maxFile = 1 << 20

// envPrefix begins the name of every environment variable that is a setting.
const envPrefix = "SEALCAST_"

// readFile applies the settings of a YAML file.
func (l *loader) readFile(path string) {
	from := origin{source: fromFile, name: path}
	raw, err := readBounded(path)
	if err != nil {
		l.fault(from, "", problem{text: err.Error(), hint: "name a settings file that can be read; configs/default.yaml is an example"})
		return
	}
	root, p := parseYAML(raw)
	switch {
	case p != nil:
		l.fault(from.at(p.node), "", *p)
	case root == nil:
		// An empty file sets nothing.
	case root.Kind != yaml.MappingNode:
		l.fault(from.at(root), "", problem{text: "the file is not a mapping of settings", hint: "write lines such as `listen: 127.0.0.1:8080`"})
	default:
		l.mapping("", root, from)
	}
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err // Where names the path already
		}
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case len(raw) > maxFile:
		return nil, fmt.Errorf("is larger than %s", formatSize(maxFile))
	}
	return raw, nil
}

// parseYAML returns the root of a single document, nil if it is empty.
func parseYAML(raw []byte) (*yaml.Node, *problem) {
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(raw)))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, syntaxProblem(err, string(raw))
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, syntaxProblem(err, string(raw))
		}
		return nil, &problem{node: &more, text: "a second document begins", hint: "remove the line ---"}
	}
	root := follow(doc.Content[0])
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

var (
	yamlLine      = regexp.MustCompile(`^yaml: line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^yaml: unknown anchor '(.*)' referenced$`)
)

// syntaxProblem words an error of the YAML library. It does not repeat an
// unknown anchor's name, which may well be an unquoted password.
func syntaxProblem(err error, raw string) *problem {
	text := err.Error()
	if m := unknownAnchor.FindStringSubmatch(text); m != nil {
		before, _, _ := strings.Cut(raw, "*"+m[1])
		return &problem{
			node: &yaml.Node{Line: 1 + strings.Count(before, "\n")},
			text: "not YAML: an alias (*NAME) without an anchor", hint: "put a text that begins with * in quotes",
		}
	}
	line := 1 // the library names no line when it is the first
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	return &problem{
		node: &yaml.Node{Line: line},
		text: "not YAML: " + text,
		hint: "check indentation (spaces, no tabs), colons and quotes near this line",
	}
}

// readEnviron applies SEALCAST_ variables in the order of their names. One
// that is no setting only warns: Kubernetes makes such for its services.
func (l *loader) readEnviron(environ []string) {
	byName := map[string]string{}
	names := make([]string, 0, len(l.keys))
	for _, key := range l.keys {
		byName[envName(key)] = key
		names = append(names, envName(key))
	}
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		key, ok := byName[name]
		if !ok {
			l.warnings = append(l.warnings, unknownVariable(name, names))
			continue
		}
		from := origin{source: fromEnviron, name: name}
		if node, p := parseValue(value, l.settings[key].kind.text); p != nil {
			l.fault(from, key, *p)
		} else {
			l.assign(l.settings[key], node, from)
		}
	}
}

func unknownVariable(name string, names []string) string {
	text := "environment variable " + printable(name) + " is no setting and was ignored"
	bare := make([]string, len(names))
	for i, n := range names {
		bare[i] = strings.TrimPrefix(n, envPrefix)
	}
	if c := closest(strings.TrimPrefix(name, envPrefix), bare); c != "" {
		text += "; did you mean " + envPrefix + c + "?"
	}
	return text
}

// envName is the environment variable of a key: redis.max_x is
// SEALCAST_REDIS_MAX_X. No two keys share one.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// plainKey is what may be repeated from a --set that has no "=".
var plainKey = regexp.MustCompile(`^[a-z0-9_.]*`)

// readFlag applies one key=value.
func (l *loader) readFlag(pair string) {
	from := origin{source: fromFlag, name: "--set"}
	key, value, ok := strings.Cut(pair, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		l.fault(from, plainKey.FindString(pair), problem{text: "is not of the form KEY=VALUE", hint: "for example --set listen=127.0.0.1:9000"})
		return
	}
	row := l.settings[key]
	node, p := parseValue(value, row != nil && row.kind.text)
	if p != nil {
		l.fault(from, key, *p)
		return
	}
	l.apply(key, node, node, from)
}

// parseValue reads the value of a variable or a flag as YAML. Where text is
// expected, anything but a quoted string stands for itself, so that a
// password may hold any character.
func parseValue(raw string, text bool) (*yaml.Node, *problem) {
	root, p := parseYAML([]byte(raw))
	if text {
		if p == nil && root != nil && root.Kind == yaml.ScalarNode && root.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return root, nil
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(raw)}, nil
	}
	if p != nil {
		p.hint = `put texts in quotes: '["[::1]:6379"]'`
		return nil, p
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return root, nil
}
