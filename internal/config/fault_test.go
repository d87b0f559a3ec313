package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeFile puts content into gw.yaml of a directory of its own, and goes there.
func writeFile(t *testing.T, content string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("gw.yaml", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return "gw.yaml"
}

// report is all faults as a person sees them.
func report(err error) string {
	faults, ok := errors.AsType[Faults](err)
	if !ok {
		return fmt.Sprint(err)
	}
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "%v | %s\n", f, f.Hint)
	}
	return b.String()
}

func TestFaultsInFile(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"unknown key", "lisen: 1",
			"gw.yaml:1: lisen: unknown setting | did you mean listen?"},
		{"unknown key in section", "limits:\n  mesage: 1KiB",
			"gw.yaml:2: limits.mesage: unknown setting | did you mean limits.message?"},
		{"key of another section", "max_message: 1KiB",
			"gw.yaml:1: max_message: unknown setting | did you mean echo.max_message?"},
		{"key in other case", "heartbeat: {Interval: 1s}",
			"gw.yaml:1: heartbeat.Interval: unknown setting | did you mean heartbeat.interval?"},
		{"section misspelt", "hartbeat: {interval: 1s}",
			"gw.yaml:1: hartbeat: unknown setting | did you mean heartbeat?"},
		{"nothing close", "zzzzzzzz: 1",
			"gw.yaml:1: zzzzzzzz: unknown setting | `sealcast config show` lists the settings"},
		{"a later version's key", "sinks: {kafka: true}",
			"gw.yaml:1: sinks: unknown setting | `sealcast config show` lists the settings"},
		{"not a codec", "compress: {codecs: [zstd, gzip]}",
			"gw.yaml:1: compress.codecs[1]: \"gzip\" is not a codec | allowed: zstd, snappy, none"},
		{"dictionary without zstd", "compress:\n  codecs: [snappy]\n  dictionary: d",
			"gw.yaml:3: compress.dictionary: has no effect while compress.codecs does not list zstd | add zstd to compress.codecs, or remove this"},
		{"not an origin", "origins: [https://a.example, 'b.example', 'https://u@c.example']",
			`gw.yaml:1: origins[1]: "b.example" is not an origin | write scheme and host, such as https://app.example` + "\n" +
				`gw.yaml:1: origins[2]: "https://u@c.example" is not an origin | write scheme and host, such as https://app.example`},
		{"more than an origin", "origins: https://a.example:8443/",
			`gw.yaml:1: origins: "https://a.example:8443/" has more than scheme, host and port | write https://a.example:8443`},
		{"not a network", "limits: {deny: [10.0.0.0/33]}",
			`gw.yaml:1: limits.deny[0]: "10.0.0.0/33" is not an address or a network | allowed: addresses and networks such as 192.0.2.1, 192.0.2.0/24, 2001:db8::/32`},
		{"bits behind the length", "limits: {deny: 10.0.0.1/8}",
			`gw.yaml:1: limits.deny: "10.0.0.1/8" has bits behind its length | write 10.0.0.0/8`},
		{"IPv4 in IPv6", "limits: {deny: '::ffff:10.0.0.0/104'}",
			`gw.yaml:1: limits.deny: "::ffff:10.0.0.0/104" is not an address or a network | allowed: addresses and networks such as 192.0.2.1, 192.0.2.0/24, 2001:db8::/32`},
		{"page for a WebSocket", "public_url: https://push.example",
			`gw.yaml:1: public_url: "https://push.example" is not the address of a WebSocket | write one such as wss://push.example/ws`},
		{"more than an address", "public_url: wss://push.example/ws?token=x",
			`gw.yaml:1: public_url: "wss://push.example/ws?token=x" has more than scheme, host, port and path | write wss://push.example/ws`},
		{"no limit of pings", "limits: {pings_per_second: 0}",
			"gw.yaml:1: limits.pings_per_second: is out of range | allowed: 1 to 1000000"},
		{"scalar for a section", "slow: 5s",
			"gw.yaml:1: slow: is a section, not a single setting | it has slow.queue, slow.total, slow.overflow, slow.timeout"},
		{"duplicate key", "loops: 1\nrealm: a\nloops: 2",
			"gw.yaml:3: loops: is set twice, first in line 1 | remove one of the two"},
		{"duplicate section", "log: {level: info}\nlog: {format: text}",
			"gw.yaml:2: log: is set twice, first in line 1 | remove one of the two"},
		{"no value", "\nloops:",
			`gw.yaml:2: loops: has no value | remove the key for the default, or write "" for an empty text`},
		{"not a whole number", "loops: many",
			`gw.yaml:1: loops: "many" is not a whole number | allowed: 0 to 256`},
		{"a fraction", "loops: 1.5",
			`gw.yaml:1: loops: "1.5" is not a whole number | allowed: 0 to 256`},
		{"too large for any integer", "loops: 99999999999999999999",
			`gw.yaml:1: loops: "99999999999999999999" is not a whole number | allowed: 0 to 256`},
		{"number out of range", "loops: -1",
			"gw.yaml:1: loops: is out of range | allowed: 0 to 256"},
		{"list for a number", "loops: [1]",
			"gw.yaml:1: loops: is a list, not a whole number | allowed: 0 to 256"},
		{"not a boolean", "echo: {enabled: yes}",
			`gw.yaml:1: echo.enabled: "yes" is not true or false | allowed: true or false`},
		{"quoted boolean", `echo: {enabled: "true"}`,
			`gw.yaml:1: echo.enabled: "true" is not true or false | allowed: true or false`},
		{"decimal unit", "limits: {tick: 64KB}",
			`gw.yaml:1: limits.tick: "64KB" is not a size: write a whole number with B, KiB, MiB or GiB | allowed: 1B to 1MiB`},
		{"size out of range", "limits: {tick: 2MiB}",
			"gw.yaml:1: limits.tick: is out of range | allowed: 1B to 1MiB"},
		{"size above 64 bits", "limits: {tick: 99999999999GiB}",
			"gw.yaml:1: limits.tick: is out of range | allowed: 1B to 1MiB"},
		{"negative size", "limits: {tick: -1KiB}",
			`gw.yaml:1: limits.tick: "-1KiB" is not a size: write a whole number with B, KiB, MiB or GiB | allowed: 1B to 1MiB`},
		{"mapping for a size", "limits: {tick: {a: b}}",
			"gw.yaml:1: limits.tick: is a mapping, not a size: write a whole number with B, KiB, MiB or GiB | allowed: 1B to 1MiB"},
		{"duration without unit", "slow: {timeout: 10}",
			`gw.yaml:1: slow.timeout: "10" is not a duration: write a number with ms, s, m or h | allowed: 10ms to 1h`},
		{"duration out of range", "slow: {timeout: 2h}",
			"gw.yaml:1: slow.timeout: is out of range | allowed: 10ms to 1h"},
		{"list for a duration", "slow: {timeout: [1s]}",
			"gw.yaml:1: slow.timeout: is a list, not a duration | allowed: 10ms to 1h"},
		{"misspelt choice", "log: {level: inf}",
			`gw.yaml:1: log.level: "inf" is not a known value | did you mean info?`},
		{"unknown choice", "redis: {mode: clusters}",
			`gw.yaml:1: redis.mode: "clusters" is not a known value | did you mean cluster?`},
		{"list for a choice", "log: {level: [info]}",
			"gw.yaml:1: log.level: is a list, not a word | allowed: debug, info, warn, error"},
		{"number for text", "realm: 7",
			"gw.yaml:1: realm: is a number, not text | put the value in quotes"},
		{"boolean for text", "realm: true",
			"gw.yaml:1: realm: is true or false, not text | put the value in quotes"},
		{"list for text", "realm: [a]",
			"gw.yaml:1: realm: is a list, not text | allowed: a name of 1 to 255 bytes"},
		{"empty realm", `realm: ""`,
			"gw.yaml:1: realm: is empty | allowed: a name of 1 to 255 bytes"},
		{"control character", `realm: "a\0b"`,
			"gw.yaml:1: realm: holds control characters or invalid UTF-8 | allowed: a name of 1 to 255 bytes"},
		{"text too long", "realm: " + strings.Repeat("x", 256),
			"gw.yaml:1: realm: is longer than 255 bytes | allowed: a name of 1 to 255 bytes"},
		{"address without port", "listen: localhost",
			`gw.yaml:1: listen: "localhost" is not an address HOST:PORT | allowed: HOST:PORT`},
		{"port out of range", "listen: localhost:65536",
			`gw.yaml:1: listen: "localhost:65536" is not an address HOST:PORT | allowed: HOST:PORT`},
		{"url for an address", "redis: {mode: standalone, addrs: ['redis://localhost:6379']}",
			`gw.yaml:1: redis.addrs[0]: "redis://localhost:6379" is not an address HOST:PORT | allowed: HOST:PORT`},
		{"elements of a list", "redis:\n  mode: standalone\n  addrs:\n  - a:1\n  - 7\n  - a:1\n  - [b]",
			`gw.yaml:5: redis.addrs[1]: "7" is not text | allowed: HOST:PORT` + "\n" +
				`gw.yaml:6: redis.addrs[2]: "a:1" is listed twice | allowed: HOST:PORT` + "\n" +
				"gw.yaml:7: redis.addrs[3]: is a list, not text | allowed: HOST:PORT"},
		{"unknown suite", "cipher: {suites: [aes-128-gmc]}",
			`gw.yaml:1: cipher.suites[0]: "aes-128-gmc" is not a suite | did you mean aes-128-gcm?`},
		{"plain among suites", "cipher: {suites: [aes-128-gcm, plain]}",
			"gw.yaml:1: cipher.suites[1]: plain is not listed among the suites | to allow it, set cipher.allow_plain to true"},
		{"unknown preference", "cipher: {prefer: plain}",
			`gw.yaml:1: cipher.prefer: "plain" is not a known value | allowed: auto, server, client, aes-128-gcm, aes-256-gcm, chacha20-poly1305, sm4-gcm`},
		{"list for a preference", "cipher: {prefer: [auto]}",
			"gw.yaml:1: cipher.prefer: is a list, not a word | allowed: auto, server, client, aes-128-gcm, aes-256-gcm, chacha20-poly1305, sm4-gcm"},
		{"odd key", `"a\nb": 1`,
			`gw.yaml:1: "a\nb": unknown setting | ` + "`sealcast config show` lists the settings"},
		{"endless key", strings.Repeat("k", 100) + ": 1",
			`gw.yaml:1: "` + strings.Repeat("k", 40) + `…": unknown setting | ` + "`sealcast config show` lists the settings"},
		{"key that is no text", "? [a, b]\n: 1",
			"gw.yaml:1: this kind of key is not supported | write each setting as NAME: VALUE"},
		{"merge key", "log: {<<: {level: info}}",
			"gw.yaml:1: log: this kind of key is not supported | write each setting as NAME: VALUE"},
		{"alias that contains itself", "slow: &a\n  slow: *a",
			"gw.yaml:2: slow.slow: unknown setting | `sealcast config show` lists the settings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Sources{File: writeFile(t, c.file)})
			if got := report(err); got != c.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestFaultsInTopics(t *testing.T) {
	rule := "* stands for one whole segment between colons, ** for the rest and only at the end"
	for _, c := range []struct{ name, file, want string }{
		{"no list", "topics: all",
			`gw.yaml:1: topics: "all" is not a mapping | allowed: {match: NAME OR PATTERN, policy: latest or every, snapshot: true or false, seed: KEY WITH {topic}, history: 0 to 1000000, history_age: TIME, compress: CLASS or off, max_rate: 0 to 1000, batch: {max_delay, max_ticks, max_bytes}}`},
		{"no match", "topics: [{policy: every}]",
			`gw.yaml:1: topics[0]: has no match | add match: "**" for all topics`},
		{"unknown key", "topics:\n- match: a\n  polcy: every",
			"gw.yaml:3: topics[0].polcy: unknown setting | did you mean policy?"},
		{"duplicate key", "topics:\n- match: a\n  match: b",
			"gw.yaml:3: topics[0].match: is set twice, first in line 2 | remove one of the two"},
		{"unknown policy", "topics:\n- {match: a}\n- {match: b, policy: last}",
			`gw.yaml:3: topics[1].policy: "last" is not a known value | did you mean latest?`},
		{"number as match", "topics: [{match: 7}]",
			"gw.yaml:1: topics[0].match: is a number, not text | put the value in quotes"},
		{"bad pattern", `topics: [{match: "a*"}]`,
			"gw.yaml:1: topics[0].match: invalid topic \"a*\": "},
		{"rate for every", "topics: [{match: a, max_rate: 2}]",
			"gw.yaml:1: topics[0].max_rate: needs policy: latest | with policy every each tick is delivered"},
		{"rate without bounds", "topics: [{match: a, policy: latest, max_rate: .inf}]",
			"gw.yaml:1: topics[0].max_rate: is out of range | allowed: 0 for no bound, or 0.001 to 1000"},
		{"rate that is no number", "topics: [{match: a, policy: latest, max_rate: .nan}]",
			"gw.yaml:1: topics[0].max_rate: is out of range | allowed: 0 for no bound, or 0.001 to 1000"},
		{"bad batch", "topics: [{match: a, batch: {max_delay: 1h, max_tick: 1}}]",
			"gw.yaml:1: topics[0].batch.max_delay: is out of range | allowed: 0s to 10s\n" +
				"gw.yaml:1: topics[0].batch.max_tick: unknown setting | did you mean max_ticks?"},
		{"seed without snapshot", "topics: [{match: a, seed: 'last:{topic}'}]",
			"gw.yaml:1: topics[0].seed: needs snapshot: true | a first value is kept where last values are"},
		{"seed without name", "topics: [{match: a, snapshot: true, seed: last}]",
			`gw.yaml:1: topics[0].seed: does not hold {topic} once | it stands for the topic's name, as in "last:{topic}"`},
		{"seed of any key", "topics: [{match: a, snapshot: true, seed: '{topic}:x'}]",
			`gw.yaml:1: topics[0].seed: begins with {topic}, so that clients could read any key | give the keys of first values a prefix, as in "last:{topic}"`},
		{"empty class", "topics: [{match: a, compress: ''}]",
			"gw.yaml:1: topics[0].compress: is empty | allowed: the name of a class, or off"},
		{"unreachable", "topics:\n- {match: '**'}\n- {match: 'md:*'}",
			`gw.yaml:3: topics[1]: never applies: "**" comes first and matches all of "md:*" | put the narrower pattern first, or remove it`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Sources{File: writeFile(t, c.file)})
			got := report(err)
			if c.name == "bad pattern" {
				if !strings.HasPrefix(got, c.want) || !strings.HasSuffix(got, " | "+rule+"\n") {
					t.Errorf("got %q", got)
				}
				return
			}
			if got != c.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestFaultsBetweenSettings(t *testing.T) {
	notSentinel := "has no effect with redis.mode cluster | set redis.mode to sentinel, or remove this"
	embedded := "has no effect with redis.mode embedded | set redis.mode to standalone, or remove this"
	for _, c := range []struct{ name, file, want string }{
		{"same address", "listen: :9000\nadmin: {listen: '127.0.0.1:9000'}",
			"gw.yaml:2: admin.listen: is the same address as listen | give the admin interface a port of its own"},
		{"same address, admin at its default", "listen: 127.0.0.1:8081",
			"gw.yaml:1: admin.listen: is the same address as listen | give the admin interface a port of its own"},
		{"no suite", "cipher: {suites: []}",
			"gw.yaml:1: cipher.suites: no suite is enabled | list at least one of aes-128-gcm, aes-256-gcm, chacha20-poly1305, sm4-gcm"},
		{"preferred but not enabled", "cipher: {prefer: sm4-gcm}",
			"gw.yaml:1: cipher.prefer: sm4-gcm is not among cipher.suites | add sm4-gcm to cipher.suites, or prefer another"},
		{"ticket keys without tickets", "resumption:\n  enabled: false\n  ticket_key_file: /t",
			"gw.yaml:3: resumption.ticket_key_file: has no effect while resumption.enabled is false | set resumption.enabled to true, or remove this"},
		{"timeout not above interval", "heartbeat:\n  interval: 75s",
			"gw.yaml:2: heartbeat.timeout: must be longer than heartbeat.interval (75s) | three intervals are usual"},
		{"embedded with a server's settings", "redis:\n  addrs: a:1\n  username: u\n  password: p\n  db: 1",
			"gw.yaml:2: redis.addrs: " + embedded + "\ngw.yaml:3: redis.username: " + embedded +
				"\ngw.yaml:4: redis.password: " + embedded + "\ngw.yaml:5: redis.db: " + embedded},
		{"standalone without address", "redis: {mode: standalone}",
			"gw.yaml:1: redis.addrs: is empty | redis.mode standalone needs the server's address, such as 127.0.0.1:6379"},
		{"sharded without cluster", "redis: {mode: standalone, addrs: a:1, source: sharded}",
			"gw.yaml:1: redis.source: is sharded, which redis.mode standalone has not | set redis.mode to cluster, or redis.source to pubsub"},
		{"streams without streams", "redis: {mode: standalone, addrs: a:1, source: streams, streams: []}",
			"gw.yaml:1: redis.streams: is empty | name the stream that publishers add to"},
		{"nameless stream", "redis: {mode: standalone, addrs: a:1, source: streams, streams: ['']}",
			"gw.yaml:1: redis.streams[0]: is empty | allowed: names of keys"},
		{"sentinel without master", "redis: {mode: sentinel, addrs: a:1, db: 1}",
			"gw.yaml:1: redis.master: is empty | redis.mode sentinel needs the name that the sentinels know the master by, often mymaster"},
		{"sentinel's settings elsewhere", "redis:\n  mode: cluster\n  master: m\n  db: 1\n  sentinel: {username: u, password: p}",
			"gw.yaml:2: redis.addrs: is empty | redis.mode cluster needs addresses of some nodes, such as 127.0.0.1:7000\n" +
				"gw.yaml:3: redis.master: " + notSentinel + "\n" +
				"gw.yaml:4: redis.db: has no effect with redis.mode cluster | a cluster has only database 0: remove this\n" +
				"gw.yaml:5: redis.sentinel.username: " + notSentinel + "\ngw.yaml:5: redis.sentinel.password: " + notSentinel},
		{"files without TLS", "redis: {mode: standalone, addrs: a:1, tls: {ca: x}}",
			"gw.yaml:1: redis.tls.ca: has no effect while redis.tls.enabled is false | set redis.tls.enabled to true, or remove this"},
		{"certificate without key", "redis: {mode: standalone, addrs: a:1, tls: {enabled: true, cert: x}}",
			"gw.yaml:1: redis.tls.cert: is set without redis.tls.key | name the certificate's key file, too"},
		{"key without certificate", "redis: {mode: standalone, addrs: a:1, tls: {enabled: true, key: x}}",
			"gw.yaml:1: redis.tls.key: is set without redis.tls.cert | name the certificate file, too"},
		{"user without password", "redis: {mode: standalone, addrs: a:1, username: u}",
			"gw.yaml:1: redis.username: is set without redis.password | give the user's password in SEALCAST_REDIS_PASSWORD"},
		{"no second fault from a faulty value", "heartbeat: {interval: 1d, timeout: 1s}",
			`gw.yaml:1: heartbeat.interval: "1d" is not a duration: write a number with ms, s, m or h | allowed: 10ms to 1h`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Sources{File: writeFile(t, c.file)})
			if got := report(err); got != c.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestUnreadableFiles(t *testing.T) {
	syntax := "check indentation (spaces, no tabs), colons and quotes near this line"
	for _, c := range []struct{ name, file, want string }{
		{"tab", "log:\n\tlevel: info", "gw.yaml:2: not YAML: found character that cannot start any token | " + syntax},
		{"first line", "a: @x", "gw.yaml:1: not YAML: found character that cannot start any token | " + syntax},
		{"unquoted password", "redis:\n  password: *hunter2",
			"gw.yaml:2: not YAML: an alias (*NAME) without an anchor | put a text that begins with * in quotes"},
		{"a list", "- a", "gw.yaml:1: the file is not a mapping of settings | write lines such as `listen: 127.0.0.1:8080`"},
		{"two documents", "loops: 1\n---\nloops: 2", "gw.yaml:2: a second document begins | remove the line ---"},
		{"broken second document", "loops: 1\n---\n@", "gw.yaml:3: not YAML: found character that cannot start any token | " + syntax},
		{"too large", "#" + strings.Repeat("x", maxFile), "gw.yaml: is larger than 1MiB | name a settings file that can be read; configs/default.yaml is an example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Sources{File: writeFile(t, c.file)})
			if got := report(err); got != c.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		_, err := Load(Sources{File: filepath.Join(t.TempDir(), "none.yaml")})
		if got := report(err); !strings.Contains(got, "none.yaml: no such file or directory | ") {
			t.Errorf("got %s", got)
		}
	})
}

func TestAllFaultsAtOnceInOrder(t *testing.T) {
	file := writeFile(t, "loops: x\nlisten: y\nloops: 1\nheartbeat: {interval: 2m}\nfoo: 1\n")
	_, err := Load(Sources{
		File:    file,
		Environ: []string{"SEALCAST_LOG_LEVEL=loud", "SEALCAST_DRAIN_TIMEOUT=soon"},
		Set:     []string{"slow.queue=9", "nonsense"},
	})
	var where []string
	for line := range strings.Lines(err.Error()) {
		where = append(where, strings.SplitN(line, ": ", 3)[0]+" "+strings.SplitN(line, ": ", 3)[1])
	}
	want := "gw.yaml:1 loops, gw.yaml:2 listen, gw.yaml:3 loops, gw.yaml:4 heartbeat.timeout, gw.yaml:5 foo, " +
		"SEALCAST_DRAIN_TIMEOUT drain.timeout, SEALCAST_LOG_LEVEL log.level, --set slow.queue, --set nonsense"
	if got := strings.Join(where, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
