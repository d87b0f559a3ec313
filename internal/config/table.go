package config

import (
	"net/netip"
	"time"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/wire"
)

// setting is one row of the table: everything there is to know of a key.
type setting struct {
	key     string
	initial string // the default, as YAML
	comment string
	kind    kind
}

// table lists every setting in the order of configs/default.yaml, bound to
// the fields of c. It is the only place that knows keys and defaults.
func table(c *Config) []setting {
	var all []setting
	for _, part := range [][]setting{
		generalSettings(c), adminSettings(&c.Admin), processSettings(c), cipherSettings(&c.Cipher), rekeySettings(&c.Cipher.Rekey), resumptionSettings(&c.Resumption), echoSettings(&c.Echo), redisSettings(&c.Redis), redisLoginSettings(&c.Redis), redisTLSSettings(&c.Redis.TLS),
		topicSettings(c), batchSettings(&c.Batch), compressSettings(&c.Compress), fanoutSettings(&c.Fanout), originSettings(c), socketSettings(&c.Socket), limitSettings(&c.Limits), timeSettings(c), authSettings(&c.Auth), auditSettings(&c.Audit), logSettings(&c.Log),
	} {
		all = append(all, part...)
	}
	return all
}

func generalSettings(c *Config) []setting {
	return []setting{
		{"listen", "127.0.0.1:8080",
			"Address for WebSocket clients. An empty host means all interfaces, port 0 any free port.",
			atStart(text(&c.Listen, 300, "HOST:PORT", checkAddress))},
		{"public_url", `""`,
			"Address under which browsers reach the gateway, such as wss://push.example/ws, if that is not listen: behind a proxy, mostly. A page from there may always connect, whatever origins says.",
			text(&c.PublicURL, 2048, "ws://HOST or wss://HOST, with a port and a path if needed", checkPublicURL)},
	}
}

func adminSettings(c *Admin) []setting {
	return []setting{
		{"admin.listen", "127.0.0.1:8081",
			"Address of the admin interface: health, metrics, sessions, topics. Beyond loopback, set a token.",
			atStart(text(&c.Listen, 300, "HOST:PORT", checkAddress))},
		{"admin.token", `""`,
			"Token that every path but /healthz, /readyz and the page's files then wants, as `Authorization: Bearer TOKEN`. Better given as SEALCAST_ADMIN_TOKEN than in a file; never shown or logged. Empty: none is asked for.",
			hidden(&c.Token, 4096)},
		{"admin.pprof", "false",
			"Serve /debug/pprof/: profiles and stacks of the process. A profile costs some speed while it is taken.",
			boolean(&c.Pprof)},
		{"admin.page", "true",
			"Serve the live page at /. Its files want no token; what it shows does.",
			boolean(&c.Page)},
	}
}

// processSettings are those of the gateway as a whole.
func processSettings(c *Config) []setting {
	return []setting{
		{"loops", "0",
			"Event loops. 0 is one per CPU.",
			atStart(whole(&c.Loops, 0, 256))},
		{"key_file", `""`,
			"File with the gateway's X25519 key, written by `sealcast keygen`, readable by its owner alone. Empty: a temporary key is made at each start, and no pin of it lasts.",
			text(&c.KeyFile, 4096, "a path", nil)},
		{"realm", "default",
			"Name that is bound into every handshake, so that gateways which share a key (production, test) cannot be swapped.",
			atStart(text(&c.Realm, 255, "a name of 1 to 255 bytes", checkRealm))},
	}
}

func cipherSettings(c *Cipher) []setting {
	return []setting{
		{"cipher.suites", "[aes-128-gcm, aes-256-gcm, chacha20-poly1305]",
			"Suites that clients may choose, in the gateway's order.",
			suites(&c.Suites)},
		{"cipher.prefer", "auto",
			"Whose order decides. auto: ChaCha20-Poly1305 if this CPU has no AES instructions, else the client's order. server: the order of cipher.suites. client: the client's. A suite's name: that one first.",
			prefer(&c.Prefer)},
		{"cipher.allow_plain", "false",
			"Accept clients that ask for records without encryption. For baseline measurements only.",
			boolean(&c.AllowPlain)},
		{"cipher.post_quantum", "preferred",
			"ML-KEM-768 in the handshake beside X25519. preferred: with clients that offer it. required: refuse others.",
			choice(&c.PostQuantum, PostQuantumOff, PostQuantumPreferred, PostQuantumRequired)},
	}
}

func rekeySettings(c *Rekey) []setting {
	return []setting{
		{"cipher.rekey.records", "1048576",
			"A session's keys change after so many records in one direction. The protocol's maximum is the default, as for the two below.",
			whole(&c.Records, 1, record.MaxRecords)},
		{"cipher.rekey.bytes", "64GiB",
			"They change after so much plaintext in one direction.",
			size(&c.Bytes, 1, record.MaxBytes)},
		{"cipher.rekey.age", "10m",
			"They change after so long in use, counted in whole seconds.",
			duration(&c.Age, time.Second, record.MaxAge)},
	}
}

func resumptionSettings(c *Resumption) []setting {
	return []setting{
		{"resumption.enabled", "true",
			"Give clients tickets, with which they come back without a full handshake.",
			boolean(&c.Enabled)},
		{"resumption.lifetime", "10m",
			"How long a ticket is good. Keep it short: who has the ticket keys can pose as the gateway to clients that hold tickets.",
			duration(&c.Lifetime, time.Second, 24*time.Hour)},
		{"resumption.ticket_key_file", `""`,
			"File with ticket keys, written by `sealcast keygen --ticket`, readable by its owner alone. Gateways with the same file, key_file and realm take each other's tickets. Empty: the gateway makes keys of its own, a new one every lifetime, and no ticket outlives a restart.",
			text(&c.TicketKeyFile, 4096, "a path", nil)},
	}
}

func echoSettings(c *Echo) []setting {
	return []setting{
		{"echo.enabled", "true",
			"Serve /echo, which sends every message back.",
			boolean(&c.Enabled)},
		{"echo.unencrypted", "true",
			"Let ordinary WebSocket clients (without a Sealcast subprotocol) use /echo.",
			boolean(&c.Unencrypted)},
		{"echo.max_message", "1MiB",
			"Longest message on /echo.",
			size(&c.MaxMessage, 1, 16*mib)},
	}
}

func redisSettings(c *Redis) []setting {
	return []setting{
		{"redis.mode", "embedded",
			"Where ticks come from. embedded: a Redis inside the gateway with a demo feed, for trying out. standalone: a Redis server. sentinel: the master that sentinels name. cluster: Redis Cluster.",
			atStart(choice(&c.Mode, RedisEmbedded, RedisStandalone, RedisSentinel, RedisCluster))},
		{"redis.source", "pubsub",
			"How they come. pubsub: by PUBLISH, in every mode. sharded: by SPUBLISH, with mode cluster; clients then subscribe to names only, and losing a node concerns the topics of its slots alone. streams: by XADD with the fields topic and payload; nothing is lost that Redis keeps, and clients go on at any gateway where they stopped. Every mode but embedded has streams; they and sharded need Redis 7.",
			atStart(choice(&c.Source, SourcePubSub, SourceSharded, SourceStreams))},
		{"redis.streams", "[ticks]",
			"Keys of the streams that source streams reads; each may hold many topics, but a topic belongs to one stream, or its order is lost. The same for all gateways.",
			atStart(list(&c.Streams, "names of keys", checkStream, func(s string) string { return s }))},
		{"redis.canary", "2s",
			"The gateway sends messages to itself through Redis. When neither these nor others arrive for this long it connects anew, and its topics are reset.",
			atStart(duration(&c.Canary, 100*time.Millisecond, time.Hour))},
		{"redis.addrs", "[]",
			"Addresses, such as 127.0.0.1:6379, tried in turn: of the one server, of the sentinels, or of some nodes of the cluster. Must be empty with mode embedded. A change takes effect with the next connection.",
			list(&c.Addrs, "HOST:PORT", func(s string) (string, error) { return s, checkAddress(s) }, func(s string) string { return s })},
		{"redis.master", `""`,
			"Name of the master that the sentinels watch. For mode sentinel only.",
			atStart(text(&c.Master, 255, "a name", nil))},
		{"redis.db", "0",
			"Redis database number. Channels are the same in all databases; a cluster has only 0.",
			atStart(whole(&c.DB, 0, 65535))},
	}
}

func redisLoginSettings(c *Redis) []setting {
	return []setting{
		{"redis.username", `""`,
			"Redis ACL user. Empty: the default user. Like the password it is used for the next connection after a change; what is connected stays.",
			text(&c.Username, 512, "text", nil)},
		{"redis.password", `""`,
			"Redis password. Better given as SEALCAST_REDIS_PASSWORD than in a file; never shown or logged.",
			hidden(&c.Password, 4096)},
		{"redis.sentinel.username", `""`,
			"ACL user at the sentinels. Empty: their default user.",
			text(&c.Sentinel.Username, 512, "text", nil)},
		{"redis.sentinel.password", `""`,
			"Password of the sentinels. Empty: they ask for none.",
			hidden(&c.Sentinel.Password, 4096)},
	}
}

func redisTLSSettings(c *RedisTLS) []setting {
	return []setting{
		{"redis.tls.enabled", "false",
			"Encrypt connections to Redis and its sentinels. The files below are read at the start and at each reload; new connections use them.",
			atStart(boolean(&c.Enabled))},
		{"redis.tls.ca", `""`,
			"PEM file with the authorities that sign the servers' certificates. Empty: those of the system.",
			text(&c.CA, 4096, "a path", nil)},
		{"redis.tls.cert", `""`,
			"PEM file with the gateway's own certificate, for servers that ask for one.",
			text(&c.Cert, 4096, "a path", nil)},
		{"redis.tls.key", `""`,
			"PEM file with its key.",
			text(&c.Key, 4096, "a path", nil)},
		{"redis.tls.server_name", `""`,
			"Name that every server's certificate must have. Empty: the host of its address.",
			text(&c.ServerName, 255, "a host name", nil)},
	}
}

func topicSettings(c *Config) []setting {
	return []setting{
		{"topics", `[{match: "md:*:*:ticker", policy: latest, snapshot: true, history: 1}, {match: "**", policy: every}]`,
			"What may become of ticks on their way to a client; the first entry that matches a topic decides, and every holds where none does. policy latest: of ticks that wait together, for their batch or for a slow client, only the newest is delivered, and says which others it stands for. every: each tick is delivered, or the client is told of the gap. max_rate: with latest, so many ticks a second of each topic at most, the newest each time; 0: as they come. batch: other bounds than those of the section batch, for batches that hold a tick of these topics. snapshot: the last value is kept, for whoever subscribes later. seed: with snapshot, the key at Redis, with {topic} for the name, of a topic's first value, which stands until the gateway has a tick of the topic; who may subscribe to a topic may read its key. history: so many ticks are kept, for clients that come back; history_age: for so long, 0 is any time; topics with either are subscribed at Redis from the start. compress: a class, or off; ticks of different classes never share a compressed record, so that the length of a record says nothing about a topic of one class to whoever can publish to another. Give topics whose content is a secret a class of their own.",
			topics(&c.Topics)},
	}
}

func batchSettings(c *Batch) []setting {
	return []setting{
		{"batch.max_delay", "5ms",
			"Longest time that a tick waits for others, to travel with them in one record: a batch closes by this, by max_ticks or by max_bytes, whatever comes first. 0s: a tick waits for nothing; those that arrive together still travel together.",
			maxDelay(&c.MaxDelay)},
		{"batch.max_ticks", "256",
			"Most ticks in one encrypted record.",
			maxTicks(&c.MaxTicks)},
		{"batch.max_bytes", "16KiB",
			"A record is closed once it holds this much; a larger tick travels alone.",
			maxBytes(&c.MaxBytes)},
		{"batch.padding", "0B",
			"Records to subscribers are filled up to a multiple of this, so that their lengths say less about what is in them. 0B: they are not.",
			size(&c.Padding, 0, 16*kib)},
	}
}

func compressSettings(c *Compress) []setting {
	return []setting{
		{"compress.codecs", "[zstd, snappy, none]",
			"How batches of ticks may be compressed; each client gets the first of its own list that stands here. zstd makes them smaller, snappy costs less. A client that knows none of these gets them uncompressed.",
			codecs(&c.Codecs)},
		{"compress.min_bytes", "256",
			"A batch that is smaller goes out as it is. With a dictionary, single ticks shrink too: then 64 or less.",
			size(&c.MinBytes, 0, wire.MaxTick)},
		{"compress.dictionary", `""`,
			"File with a Zstandard dictionary, written by `sealctl dict train`, for clients that can use one; they are given its content. Empty: none.",
			text(&c.Dictionary, 4096, "a path", nil)},
	}
}

func originSettings(c *Config) []setting {
	return []setting{
		{"origins", "[]",
			"Pages that may connect, by their origin, such as https://app.example. Empty: any page. Programs, which name no origin, always may, and so may pages from admin.listen and public_url.",
			list(&c.Origins, "SCHEME://HOST or SCHEME://HOST:PORT", parseOrigin, func(s string) string { return s })},
		{"proxy.trusted", "[]",
			"Networks of proxies whose word about a client's address counts, such as 10.0.0.0/8: X-Forwarded-For, of which the last address that is not trusted is the client's, and the PROXY protocol. Limits, the deny list, logs and /v1/sessions then go by clients. Name only proxies that set these themselves.",
			list(&c.Proxy.Trusted, "addresses and networks such as 192.0.2.1, 192.0.2.0/24, 2001:db8::/32", parseNetwork, netip.Prefix.String)},
		{"proxy.protocol", "false",
			"Connections from proxy.trusted begin with a header of the PROXY protocol, version 1 or 2, and are closed if they do not.",
			boolean(&c.Proxy.Protocol)},
	}
}

func socketSettings(s *Socket) []setting {
	return []setting{
		{"socket.send_buffer", "0",
			"What the kernel may hold for one connection, until the client has acknowledged it (SO_SNDBUF). A small one also slows down clients that are far away. 0: the kernel decides.",
			atStart(size(&s.SendBuffer, 0, gib))},
		{"socket.unsent", "128KiB",
			"What of that the kernel may hold before it is sent (TCP_NOTSENT_LOWAT, on Linux). Without a bound the kernel takes megabytes for a client that does not keep up: ticks go on to be sealed for it, grow old there, and cannot be merged. 0: no bound.",
			atStart(size(&s.Unsent, 0, gib))},
		{"socket.reuseport", "false",
			"Let a second gateway of the same user listen on the same addresses (SO_REUSEPORT), so that it is there before this one stops and no client is refused during a restart.",
			atStart(boolean(&s.ReusePort))},
	}
}

func fanoutSettings(c *Fanout) []setting {
	return []setting{
		{"fanout.seal", "session",
			"session: every record is sealed for one client alone. group: a record with ticks is sealed once for all clients of an event loop that follow the same topics in the same way, and the same bytes go to each; they share a key until the next mark, at the latest a heartbeat (docs/security.md). For clients that take it; worth it for large batches, and where the cipher is slow.",
			choice(&c.Seal, SealSession, SealGroup)},
	}
}

func limitSettings(c *Limits) []setting {
	return []setting{
		{"limits.connections", "0",
			"Most connections at once. 0: as many as the process's limit on open files allows.",
			whole(&c.Connections, 0, 10_000_000)},
		{"limits.connections_per_ip", "0",
			"Most connections of one IPv4 address, or of one IPv6 network of 64 bits. 0: any number. Behind a proxy all clients share its address, unless it is in proxy.trusted.",
			whole(&c.ConnectionsPerIP, 0, 10_000_000)},
		{"limits.connections_per_second", "0",
			"Most new connections that are taken in a second; further ones are told 503. 0: any number.",
			whole(&c.ConnectionsPerSecond, 0, 1_000_000)},
		{"limits.handshakes_per_second", "0",
			"Most handshakes that begin in a second, of all clients together. 0: any number.",
			whole(&c.HandshakesPerSecond, 0, 1_000_000)},
		{"limits.deny", "[]",
			"Networks whose connections are closed at once, such as 192.0.2.0/24.",
			list(&c.Deny, "addresses and networks such as 192.0.2.1, 192.0.2.0/24, 2001:db8::/32", parseNetwork, netip.Prefix.String)},
		{"limits.subscriptions", "1000",
			"Most names and patterns that one session may be subscribed to.",
			whole(&c.Subscriptions, 1, 1_000_000)},
		{"limits.message", "64KiB",
			"Longest message that a client may send on /ws.",
			size(&c.Message, 2*kib, 16*mib)},
		{"limits.fragments", "1024",
			"Most frames that one message of a client may come in.",
			whole(&c.Fragments, 1, 1_000_000)},
		{"limits.messages_per_second", "50",
			"Most messages that a client may send on /ws in a second, over two seconds. Whoever sends more is closed (4429). Clients are told. 0: any number.",
			whole(&c.MessagesPerSecond, 0, 1_000_000)},
		{"limits.pings_per_second", "20",
			"Most WebSocket pings that a client may send on /ws in a second, over two seconds, or it is closed (4429).",
			whole(&c.PingsPerSecond, 1, 1_000_000)},
		{"limits.tick", "1MiB",
			"Longest payload of a tick. A longer one from Redis is dropped, and its subscribers are told that the topic begins anew.",
			atStart(size(&c.Tick, 1, wire.MaxTick))},
		{"limits.topics", "200000",
			"Most topics that publishers may bring into being under patterns, and as many again that clients may by subscribing to names. Ticks of further ones are dropped, subscriptions to further names refused; both are counted and logged. 0: any number, which lets every client fill the memory.",
			atStart(whole(&c.Topics, 0, 100_000_000))},
		{"limits.topic_idle", "1h",
			"A topic that has had no tick for this long is forgotten if nobody is subscribed to it by name and nothing of it is kept. It comes back with its next tick, and nobody takes its silence for a loss.",
			atStart(duration(&c.TopicIdle, time.Second, 30*24*time.Hour))},
		{"limits.history_bytes", "256MiB",
			"Memory for last values and history of all topics together. Beyond it the oldest go, which is counted.",
			atStart(size(&c.HistoryBytes, kib, 1024*gib))},
	}
}

func timeSettings(c *Config) []setting {
	return []setting{
		{"slow.queue", "4MiB",
			"Ticks that may wait for one client that does not keep up. A tick larger than this is taken when nothing waits.",
			size(&c.Slow.Queue, kib, gib)},
		{"slow.total", "1GiB",
			"Ticks that may wait for all clients together, each client's counted for itself; an event loop has its equal share. Beyond it the client that most waits for overflows. 0B: no bound.",
			size(&c.Slow.Total, 0, 1024*gib)},
		{"slow.overflow", "gap",
			"What happens when more waits for a client than may. gap: ticks that wait are dropped, first those of topics with policy every, the client is told which, and gets the last values that are kept once it has caught up. close: the client is closed (4413).",
			choice(&c.Slow.Overflow, OverflowGap, OverflowClose)},
		{"slow.timeout", "10s",
			"A client that takes nothing for this long, while something waits for it, is closed (4413).",
			duration(&c.Slow.Timeout, 10*time.Millisecond, time.Hour)},
		{"heartbeat.interval", "25s",
			"A client gets a record at least this often. Connected clients keep to the timeout that they were told: a reload that makes the interval longer than that cuts off those that get nothing else.",
			duration(&c.Heartbeat.Interval, 10*time.Millisecond, time.Hour)},
		{"heartbeat.timeout", "75s",
			"A client that sends nothing, not even a pong, for this long is closed (4410). Must be longer than the interval.",
			duration(&c.Heartbeat.Timeout, 20*time.Millisecond, 24*time.Hour)},
		{"drain.window", "5s",
			"Time over which a gateway that stops spreads its goodbyes, and clients their coming back, so that they do not come all at once. At most half of drain.timeout is used.",
			duration(&c.Drain.Window, 0, time.Hour)},
		{"drain.timeout", "30s",
			"Longest time from a signal to stop until the process ends.",
			duration(&c.Drain.Timeout, 10*time.Millisecond, time.Hour)},
	}
}

func logSettings(c *Log) []setting {
	return []setting{
		{"log.level", "info",
			"Lowest level that is logged.",
			choice(&c.Level, LogDebug, LogInfo, LogWarn, LogError)},
		{"log.format", "json",
			"json: one object a line. text: for people.",
			atStart(choice(&c.Format, LogJSON, LogText))},
	}
}
