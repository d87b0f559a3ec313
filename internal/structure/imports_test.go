package structure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The libraries that only some packages may touch. Others are free.
var watched = map[string]string{ // name in the table → path of the module
	"gnet":       "github.com/panjf2000/gnet",
	"go-redis":   "github.com/redis/go-redis",
	"prometheus": "github.com/prometheus",
	"compress":   "github.com/klauspost/compress",
	"gmsm":       "github.com/emmansun/gmsm",
	"miniredis":  "github.com/alicebob/miniredis",
}

// importTable says what each package may import of our own packages and of the
// watched libraries. docs/architecture.md explains it. A row may stand before
// its package is written.
var importTable = map[string][]string{
	"wire":          {},
	"wire/topic":    {},
	"wire/codec":    {"wire", "compress"},
	"crypto/suite":  {"gmsm"},
	"crypto/record": {"crypto/suite"},
	"session":       {"wire", "crypto/suite", "crypto/record"},

	"fanout":             {"wire", "wire/codec", "wire/topic", "go-redis"},
	"gateway/auth":       {"wire/topic"},
	"gateway/upgrade":    {},
	"gateway/proxyproto": {},
	"gateway/frame":      {"wire"},
	"gateway": {
		"session", "crypto/suite", "crypto/record", "fanout", "wire", "wire/codec", "wire/topic",
		"gateway/auth", "gateway/upgrade", "gateway/proxyproto", "gateway/frame", "gnet",
	},
	"gateway/admin": {"gateway", "gateway/auth", "fanout", "crypto/suite", "prometheus"},

	"client": {"session", "crypto/suite", "crypto/record", "wire", "wire/codec", "wire/topic"},

	"internal/advice":      {},
	"internal/capacity":    {},
	"internal/config":      {"crypto/record", "crypto/suite", "gateway/auth", "wire", "wire/topic"},
	"internal/cryptobench": {"wire", "crypto/suite", "crypto/record"},
	"internal/e2e":         {}, // tests only
	"internal/deployment":  {}, // tests only
	"internal/embedded":    {"wire/topic", "internal/feed", "miniredis", "go-redis"},
	"internal/feed":        {"wire/topic"},
	"internal/feedfile":    {"wire/topic"},
	"internal/knownhosts":  {"session"},
	"internal/loadgen": {
		"session", "crypto/suite", "wire",
		"internal/loadgen/measure", "internal/loadgen/message", "internal/loadgen/peer", "internal/loadgen/reactor", "internal/loadgen/report", "internal/loadgen/target",
	},
	"internal/loadgen/measure": {},
	"internal/loadgen/message": {},
	"internal/loadgen/peer":    {"session", "crypto/record", "crypto/suite", "wire", "wire/codec"}, // as package client, without its waiting
	"internal/loadgen/reactor": {},
	"internal/loadgen/report":  {},
	"internal/loadgen/target":  {},
	"internal/integration":     {},           // tests only
	"internal/redistest":       {"go-redis"}, // starts a redis-server for tests
	"internal/testnet":         {},
	"internal/testenv":         {"crypto/record"},
	"internal/structure":       {}, // tests only
	"internal/version":         {},

	"cmd/sealcast": {
		"gateway", "gateway/admin", "gateway/auth", "fanout", "session", "crypto/suite", "crypto/record", "wire", "wire/codec", "wire/topic",
		"internal/advice", "internal/config", "internal/embedded", "internal/version",
	},
	"cmd/sealctl": {
		"client", "session", "crypto/suite", "wire", "wire/codec", "wire/topic", "internal/advice", "internal/capacity", "internal/cryptobench",
		"fanout", // its clients of Redis: one way to find masters and nodes
		"internal/loadgen", "internal/loadgen/report", "internal/loadgen/target", "internal/feed", "internal/feedfile", "internal/knownhosts", "internal/version", "go-redis",
	},
}

// testLibraries are watched libraries that tests may use anywhere.
var testLibraries = []string{"go-redis", "miniredis"}

// forbiddenDeps are watched libraries that must not be in what a package is built from.
var forbiddenDeps = map[string][]string{
	"client":     {"gnet", "go-redis", "prometheus"},
	"session":    {"gnet", "go-redis", "prometheus"},
	"fanout":     {"gnet", "prometheus"},
	"wire/topic": {"gnet", "go-redis", "prometheus", "compress", "gmsm", "miniredis"},
}

// checkImports holds a package against the table.
func checkImports(p *goPackage) []string {
	allowed, ok := importTable[p.path]
	if !ok {
		return []string{"has no row in importTable of internal/structure: add it with what it may import, and to docs/architecture.md"}
	}
	var faults []string
	for _, f := range p.files {
		for _, spec := range f.syntax.Imports {
			subject := importSubject(importPath(spec.Path.Value))
			if subject == "" || slices.Contains(allowed, subject) || f.test && allowedInTests(p, subject) {
				continue
			}
			faults = append(faults, fmt.Sprintf("%s imports %s, which importTable does not allow", p.where(spec.Pos()), subject))
		}
	}
	return append(faults, checkDeps(p)...)
}

// allowedInTests: a test may use any package of ours, to drive what it tests.
func allowedInTests(p *goPackage, subject string) bool {
	_, library := watched[subject]
	return !library || slices.Contains(testLibraries, subject)
}

func checkDeps(p *goPackage) []string {
	var faults []string
	for _, library := range forbiddenDeps[p.path] {
		for _, dep := range p.deps {
			if within(dep, watched[library]) {
				faults = append(faults, fmt.Sprintf("is built from %s (%s), if only indirectly", library, dep))
				break
			}
		}
	}
	return faults
}

// importSubject is the name in the table of an imported package of ours or of a
// watched library; empty for everything else.
func importSubject(path string) string {
	if ours, ok := strings.CutPrefix(path, module+"/"); ok {
		return ours
	}
	for name, modulePath := range watched {
		if within(path, modulePath) {
			return name
		}
	}
	return ""
}

func within(path, modulePath string) bool {
	return path == modulePath || strings.HasPrefix(path, modulePath+"/")
}

func importPath(literal string) string {
	path, err := strconv.Unquote(literal)
	if err != nil {
		panic(err) // the parser has accepted it
	}
	return path
}

func TestCheckImports(t *testing.T) {
	const ours = `"` + module + `/`
	tests := []struct {
		name, path, file, imports string
		want                      []string
	}{
		{"allowed", "session", "a.go", ours + `wire"; import "github.com/flynn/noise"; import "fmt"`, nil},
		{"not in the row", "session", "a.go", ours + `fanout"`, []string{"a.go:1 imports fanout"}},
		{"watched library", "gateway/frame", "a.go", `"github.com/panjf2000/gnet/v2/pkg/logging"`, []string{"imports gnet"}},
		{"its owner", "gateway", "a.go", `"github.com/panjf2000/gnet/v2"`, nil},
		{"similar name", "wire", "a.go", `"github.com/redis/go-redisx"`, nil},
		{"other system", "client", "a_windows.go", `"github.com/redis/go-redis/v9"`, []string{"a_windows.go:1 imports go-redis"}},
		{"own package in a test", "session", "a_test.go", ours + `client"`, nil},
		{"Redis in a test", "fanout", "a_test.go", `"github.com/alicebob/miniredis/v2"`, nil},
		{"gnet in a test", "session", "a_test.go", `"github.com/panjf2000/gnet/v2"`, []string{"imports gnet"}},
		{"code where only tests belong", "internal/integration", "a.go", ours + `client"`, []string{"imports client"}},
		{"unknown package", "internal/other", "a.go", `"fmt"`, []string{"no row"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fixture(t, tt.path, map[string]string{tt.file: "package x; import " + tt.imports})
			expectFaults(t, checkImports(p), tt.want...)
		})
	}
}

func TestCheckDeps(t *testing.T) {
	p := fixture(t, "client", nil)
	p.deps = []string{"fmt", "github.com/redis/go-redis/v9/internal/pool", "github.com/redis/go-redis/v9", module + "/wire"}
	expectFaults(t, checkImports(p), "is built from go-redis")
	p.deps = []string{"fmt", "github.com/klauspost/compress/zstd"}
	expectFaults(t, checkImports(p))
}

// TestTableIsClosed: every name in the table is a row of it or a watched library.
func TestTableIsClosed(t *testing.T) {
	for path, allowed := range importTable {
		for _, subject := range allowed {
			_, own := importTable[subject]
			_, library := watched[subject]
			if !own && !library {
				t.Errorf("the row of %s allows %q, which is nothing", path, subject)
			}
		}
	}
}
