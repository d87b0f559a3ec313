package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

func load(t *testing.T, s Sources) *Loaded {
	t.Helper()
	l, err := Load(s)
	if err != nil {
		t.Fatal(report(err))
	}
	return l
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, "loops: 2\nrealm: file\nlisten: 127.0.0.1:1\n")
	l := load(t, Sources{
		File:    file,
		Environ: []string{"SEALCAST_REALM=environment", "SEALCAST_LISTEN=127.0.0.1:2", "PATH=/bin"},
		Set:     []string{"listen=127.0.0.1:3", "listen=127.0.0.1:4"},
	})
	c := l.Config
	got := fmt.Sprint(c.Loops, c.Realm, c.Listen, c.Admin.Listen)
	if want := fmt.Sprint(2, "environment", "127.0.0.1:4", "127.0.0.1:8081"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, line := range []string{"loops: 2 # gw.yaml:1\n", "realm: environment # SEALCAST_REALM\n", "listen: 127.0.0.1:4 # --set\n", "  listen: 127.0.0.1:8081\n"} {
		if !strings.Contains(l.Show(), line) {
			t.Errorf("%q is not shown in\n%s", line, l.Show())
		}
	}
}

func TestOverriddenFaultStillCounts(t *testing.T) {
	_, err := Load(Sources{File: writeFile(t, "loops: x"), Set: []string{"loops=1"}})
	if got := report(err); !strings.HasPrefix(got, "gw.yaml:1: loops: ") {
		t.Errorf("got %s", got)
	}
}

func TestValuesOfFlags(t *testing.T) {
	for _, c := range []struct {
		set  []string
		get  func(c *Config) any
		want any
	}{
		{[]string{"listen=[::1]:80"}, func(c *Config) any { return c.Listen }, "[::1]:80"},
		{[]string{`listen=":80"`}, func(c *Config) any { return c.Listen }, ":80"},
		{[]string{"realm=7"}, func(c *Config) any { return c.Realm }, "7"},
		{[]string{"realm=a: b # c"}, func(c *Config) any { return c.Realm }, "a: b # c"},
		{[]string{"realm='it''s'"}, func(c *Config) any { return c.Realm }, "it's"},
		{[]string{"key_file="}, func(c *Config) any { return c.KeyFile }, ""},
		{[]string{"limits.tick=512"}, func(c *Config) any { return c.Limits.Tick }, 512},
		{[]string{"limits.tick=8 KiB"}, func(c *Config) any { return c.Limits.Tick }, 8192},
		{[]string{"drain.timeout=1m30s"}, func(c *Config) any { return c.Drain.Timeout }, 90 * time.Second},
		{[]string{"cipher.suites=sm4-gcm"}, func(c *Config) any { return c.Cipher.Suites }, []suite.ID{suite.SM4GCM}},
		{[]string{"cipher.suites=[]", "cipher.allow_plain=true"}, func(c *Config) any { return len(c.Cipher.Suites) }, 0},
		{[]string{"cipher.prefer=aes-256-gcm"}, func(c *Config) any { return c.Cipher.Prefer.String() }, "aes-256-gcm"},
		{[]string{"cipher.rekey={records: 7, age: 2s}"}, func(c *Config) any { return c.Cipher.Rekey }, Rekey{Records: 7, Bytes: 64 * gib, Age: 2 * time.Second}},
		{[]string{"cipher={rekey: {bytes: 1KiB}}"}, func(c *Config) any { return c.Cipher.Rekey.Bytes }, 1024},
		{[]string{"origins=https://a.example:8443"}, func(c *Config) any { return c.Origins }, []string{"https://a.example:8443"}},
		{[]string{"limits.deny=[10.0.0.0/8, 192.0.2.1, '::1', '::ffff:192.0.2.2', '2001:db8::/32']"}, func(c *Config) any { return fmt.Sprint(c.Limits.Deny) },
			"[10.0.0.0/8 192.0.2.1/32 ::1/128 192.0.2.2/32 2001:db8::/32]"},
		{[]string{"drain.window=0s"}, func(c *Config) any { return c.Drain.Window }, time.Duration(0)},
		{[]string{"cipher.post_quantum=off"}, func(c *Config) any { return c.Cipher.PostQuantum }, PostQuantumOff},
		{[]string{"redis={mode: standalone, addrs: ['a:1', \"[::1]:2\"]}"}, func(c *Config) any { return c.Redis.Addrs }, []string{"a:1", "[::1]:2"}},
		{[]string{"topics={match: 'a:**'}"}, func(c *Config) any { return fmt.Sprint(c.Topics) }, "[{a:** every false  0 0s public 0 {-1ns 0 0}}]"},
		{[]string{"topics=[{match: a, compress: off}, {match: '**', compress: desk-7}]"}, func(c *Config) any { return fmt.Sprint(c.Topics) },
			"[{a every false  0 0s off 0 {-1ns 0 0}} {** every false  0 0s desk-7 0 {-1ns 0 0}}]"},
		{[]string{"topics={match: a, policy: latest, max_rate: 0.5, batch: {max_delay: 0s, max_ticks: 1, max_bytes: 1KiB}}"},
			func(c *Config) any { return fmt.Sprint(c.Topics) }, "[{a latest false  0 0s public 0.5 {0s 1 1024}}]"},
		{[]string{"batch.max_delay=0s"}, func(c *Config) any { return c.Batch.MaxDelay }, time.Duration(0)},
		{[]string{"compress.codecs=snappy"}, func(c *Config) any { return c.Compress.Codecs }, []wire.Codec{wire.CodecSnappy}},
		{[]string{"compress={codecs: [none, zstd], min_bytes: 1KiB, dictionary: /x}"}, func(c *Config) any { return c.Compress },
			Compress{Codecs: []wire.Codec{wire.CodecNone, wire.CodecZstd}, MinBytes: 1024, Dictionary: "/x"}},
		{[]string{"topics=[]"}, func(c *Config) any { return len(c.Topics) }, 0},
	} {
		l := load(t, Sources{Set: c.set})
		if got := c.get(&l.Config); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %v, want %v", c.set, got, c.want)
		}
	}
}

func TestFaultsInFlags(t *testing.T) {
	for set, want := range map[string]string{
		"loops":                     "--set: loops: is not of the form KEY=VALUE | for example --set listen=127.0.0.1:9000",
		"redis.password:hunter2":    "--set: redis.password: is not of the form KEY=VALUE | for example --set listen=127.0.0.1:9000",
		"=1":                        "--set: is not of the form KEY=VALUE | for example --set listen=127.0.0.1:9000",
		"loops=":                    `--set: loops: has no value | remove the key for the default, or write "" for an empty text`,
		"loop=1":                    "--set: loop: unknown setting | did you mean loops?",
		"cipher.rekey={recods: 1}":  "--set: cipher.rekey.recods: unknown setting | did you mean cipher.rekey.records?",
		"cipher.rekey=1":            "--set: cipher.rekey: is a section, not a single setting | it has cipher.rekey.records, cipher.rekey.bytes, cipher.rekey.age",
		"cipher.rekey.bytes=65GiB":  "--set: cipher.rekey.bytes: is out of range | allowed: 1B to 64GiB",
		"redis={mod: x}":            "--set: redis.mod: unknown setting | did you mean redis.mode?",
		"redis.addrs=[[::1]:6379]":  `--set: redis.addrs: not YAML: did not find expected node content | put texts in quotes: '["[::1]:6379"]'`,
		"loops=1\n---\n2":           `--set: loops: a second document begins | put texts in quotes: '["[::1]:6379"]'`,
		"redis={password: {a: b}}":  "--set: redis.password: is a mapping, not text | allowed: text",
		"redis={password: hunter2}": "--set: redis.password: has no effect with redis.mode embedded | set redis.mode to standalone, or remove this",
	} {
		_, err := Load(Sources{Set: []string{set}})
		if got := report(err); got != want+"\n" {
			t.Errorf("%q: got\n%swant\n%s", set, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	l := load(t, Sources{Environ: []string{
		"SEALCAST_CIPHER_ALLOW_PLAIN=true", "SEALCAST_CIPHER_POST_QUANTUM=required", "SEALCAST_KEY_FILE=/k",
		"SEALCAST_BATCH_MAX_TICKS=7", "SEALCAST_CIPHER_REKEY_RECORDS=9", "SEALCAST_CIPHER_SUITES=[sm4-gcm, aes-256-gcm]",
		"SEALCAST_SERVICE_HOST=10.0.0.1", "SEALCAST_PORT=tcp://10.0.0.1:8080", "SEALCAST_LOOP=9", "SEALCASTX=1",
	}})
	c := l.Config
	if !c.Cipher.AllowPlain || c.Cipher.PostQuantum != PostQuantumRequired || c.KeyFile != "/k" || c.Batch.MaxTicks != 7 || c.Cipher.Rekey.Records != 9 || len(c.Cipher.Suites) != 2 {
		t.Errorf("got %+v", c)
	}
	want := []string{
		"environment variable SEALCAST_LOOP is no setting and was ignored; did you mean SEALCAST_LOOPS?",
		"environment variable SEALCAST_PORT is no setting and was ignored",
		"environment variable SEALCAST_SERVICE_HOST is no setting and was ignored",
	}
	if !reflect.DeepEqual(l.Warnings, want) {
		t.Errorf("got warnings %q", l.Warnings)
	}
}

// Kubernetes sets NAME_SERVICE_HOST, NAME_PORT and more for a service NAME; no
// setting may have such a name, and no two settings the same.
func TestEnvNamesAreUnambiguous(t *testing.T) {
	injected := regexp.MustCompile(`_PORT(_|$)|_SERVICE_`)
	seen := map[string]string{}
	for _, row := range table(&Config{}) {
		name := envName(row.key)
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s share %s", row.key, other, name)
		}
		if injected.MatchString(name) {
			t.Errorf("%s looks like a variable of Kubernetes", name)
		}
		seen[name] = row.key
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	const secret = "*p: a#ss{"
	l := load(t, Sources{
		Environ: []string{"SEALCAST_REDIS_PASSWORD=" + secret},
		Set:     []string{"redis.mode=standalone", "redis.addrs=a:1"},
	})
	if got := l.Config.Redis.Password.Reveal(); got != secret {
		t.Fatalf("got %q", got)
	}
	asJSON, err := json.Marshal(l.Config)
	if err != nil {
		t.Fatal(err)
	}
	shown := l.Show() + string(asJSON) + fmt.Sprintf("%v %+v %#v %s %q %x", l.Config, l.Config, l.Config, l.Config.Redis.Password, l.Config.Redis.Password, l.Config.Redis.Password)
	if strings.Contains(shown, secret) || strings.Contains(shown, fmt.Sprintf("%x", secret)) {
		t.Errorf("secret shown in %s", shown)
	}
	if !strings.Contains(l.Show(), "password: (hidden) # SEALCAST_REDIS_PASSWORD\n") {
		t.Errorf("no mask in\n%s", l.Show())
	}
	_, err = Load(Sources{File: writeFile(t, "redis:\n  password: 424242\n  username: [424242]\n")})
	if got := report(err); strings.Contains(got, "424242") || !strings.Contains(got, "redis.password: is a number, not text") {
		t.Errorf("got %s", got)
	}
}

func TestFormatsReadBack(t *testing.T) {
	odd := Sources{Set: []string{
		"realm=- a: \"b\" # é", "key_file= ", "limits.tick=1023", "slow.timeout=1m1s", "heartbeat.interval=1h", "heartbeat.timeout=90m",
		`topics=[{match: "a\"{,:*", policy: latest, max_rate: 2.5, batch: {max_delay: 1500us, max_ticks: 7}}, {match: "*", snapshot: true, seed: "la\"st: {{topic}}", batch: {max_bytes: 300B}}]`, "redis.mode=standalone", `redis.addrs=["[::1]:6379"]`,
	}}
	l := load(t, odd)
	again := load(t, Sources{File: writeFile(t, l.Show())})
	if !reflect.DeepEqual(again.Config, l.Config) {
		t.Errorf("got %+v\nwant %+v", again.Config, l.Config)
	}
}

func TestEmptyAndCommentedFiles(t *testing.T) {
	for _, content := range []string{"", "\n# nothing\n", "---\n", "~", "redis:\n  # mode: standalone\n"} {
		l := load(t, Sources{File: writeFile(t, content)})
		if !reflect.DeepEqual(l.Config, Default()) {
			t.Errorf("%q changes the defaults", content)
		}
	}
}

func TestAnchors(t *testing.T) {
	l := load(t, Sources{File: writeFile(t, "slow: {timeout: &t 5s}\ndrain: {timeout: *t}\nlimits: &l {tick: 1KiB}\n")})
	if l.Config.Drain.Timeout != 5*time.Second {
		t.Errorf("got %v", l.Config.Drain)
	}
}

var update = flag.Bool("update", false, "rewrite configs/default.yaml")

func TestDefaultFile(t *testing.T) {
	const path = "../../configs/default.yaml"
	if *update {
		if err := os.WriteFile(path, []byte(DefaultFile()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != DefaultFile() {
		t.Errorf("%s is not what the code says; run go test ./internal/config -run TestDefaultFile -update", path)
	}
	l := load(t, Sources{File: path})
	if !reflect.DeepEqual(l.Config, Default()) {
		t.Errorf("%s does not hold the defaults: %+v", path, l.Config)
	}
	for _, key := range table(&Config{}) {
		if _, ok := l.origins[key.key]; !ok {
			t.Errorf("%s does not hold %s", path, key.key)
		}
	}
}

func TestConfigsLoad(t *testing.T) {
	files, err := os.ReadDir("../../configs")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, err := Load(Sources{File: "../../configs/" + f.Name()}); err != nil {
			t.Errorf("%s", report(err))
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(DefaultFile())
	f.Add("a: &a [*a]\nslow: &s {slow: *s, queue: *a}\n<<: *a")
	f.Add("topics: [{match: '**', match: 1, *x : 3}, &x y, *x]\n? {a: b}\n: c")
	f.Fuzz(func(t *testing.T, content string) {
		l := newLoader()
		if root, p := parseYAML([]byte(content)); p == nil && root != nil {
			l.mapping("", root, origin{name: "fuzz"})
		}
		l.check()
		for _, fault := range l.sorted() {
			if fault.Text == "" || strings.ContainsRune(fault.Error(), '\n') {
				t.Errorf("fault %q", fault)
			}
		}
	})
}
