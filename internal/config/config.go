// Package config is the gateway's settings: their names, defaults and limits,
// read from a YAML file, the environment and --set flags. It reports every
// fault at once. It opens no file but the one it is given, and no socket.
package config

import (
	"net/netip"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// Config holds all settings. The table in table.go gives each its name,
// default, limits and meaning; a Config that Load returned keeps to them.
// It is not changed after Load, so goroutines may share it.
type Config struct {
	Listen     string
	PublicURL  string // empty: Listen is what clients can reach
	Admin      Admin
	Loops      int // 0: one per CPU
	KeyFile    string
	Realm      string
	Cipher     Cipher
	Resumption Resumption
	Echo       Echo
	Redis      Redis
	Topics     []Topic
	Batch      Batch
	Compress   Compress
	Fanout     Fanout
	Origins    []string // empty: any
	Proxy      Proxy
	Socket     Socket
	Limits     Limits
	Slow       Slow
	Heartbeat  Heartbeat
	Auth       Auth
	Audit      Audit
	Drain      Drain
	Log        Log
}

// Admin is the section admin.
type Admin struct {
	Listen string
	Token  Secret
	Pprof  bool
	Page   bool
}

// Cipher is the section cipher. Suites never holds plain; AllowPlain stands
// for it.
type Cipher struct {
	Suites      []suite.ID
	Prefer      suite.Prefer
	AllowPlain  bool
	PostQuantum PostQuantum
	Rekey       Rekey
}

// Rekey is the section cipher.rekey.
type Rekey struct {
	Records int
	Bytes   int
	Age     time.Duration
}

// Resumption is the section resumption.
type Resumption struct {
	Enabled       bool
	Lifetime      time.Duration
	TicketKeyFile string // empty: keys of the process's own
}

// PostQuantum says whether handshakes also use ML-KEM-768.
type PostQuantum string

// The modes of cipher.post_quantum.
const (
	PostQuantumOff       PostQuantum = "off"
	PostQuantumPreferred PostQuantum = "preferred"
	PostQuantumRequired  PostQuantum = "required"
)

// Echo is the section echo.
type Echo struct {
	Enabled     bool
	Unencrypted bool
	MaxMessage  int // bytes
}

// Redis is the section redis.
type Redis struct {
	Mode     RedisMode
	Source   RedisSource
	Addrs    []string // host:port; empty if Mode is RedisEmbedded
	Master   string   // with RedisSentinel
	Username string
	Password Secret
	Sentinel RedisLogin
	DB       int
	Streams  []string
	Canary   time.Duration
	TLS      RedisTLS
}

// RedisMode says where ticks come from.
type RedisMode string

// The modes of redis.mode.
const (
	RedisEmbedded   RedisMode = "embedded"
	RedisStandalone RedisMode = "standalone"
	RedisSentinel   RedisMode = "sentinel"
	RedisCluster    RedisMode = "cluster"
)

// RedisSource says how ticks come out of Redis.
type RedisSource string

// The sources of redis.source.
const (
	SourcePubSub  RedisSource = "pubsub"
	SourceSharded RedisSource = "sharded"
	SourceStreams RedisSource = "streams"
)

// RedisLogin is the section redis.sentinel.
type RedisLogin struct {
	Username string
	Password Secret
}

// RedisTLS is the section redis.tls. CA, Cert and Key are files.
type RedisTLS struct {
	Enabled    bool
	CA         string // empty: the system's
	Cert, Key  string // of the gateway; empty: none
	ServerName string // empty: each server's own host
}

// Topic is one entry of topics. The first entry whose Match fits a topic's
// name decides.
type Topic struct {
	Match      topic.Filter
	Policy     Policy
	Snapshot   bool          // keep the last value
	Seed       string        // with Snapshot: key at Redis of the first value, with {topic} for the name; empty: none
	History    int           // keep so many ticks
	HistoryAge time.Duration // of the history; 0: any
	Compress   string        // class; CompressOff: never compressed
	MaxRate    float64       // ticks a second, with PolicyLatest; 0: no bound
	Batch      TopicBatch
}

// TopicBatch is what an entry of topics wants of batches that hold its ticks.
type TopicBatch struct {
	MaxDelay time.Duration // below 0: as Batch says
	MaxTicks int           // 0: as Batch says
	MaxBytes int           // 0: as Batch says
}

// Policy says what may become of a topic's ticks when a client is slow.
type Policy string

// The policies of topics.
const (
	PolicyLatest Policy = "latest" // older ticks may be merged into the latest
	PolicyEvery  Policy = "every"  // each tick counts
)

// Batch is the section batch.
type Batch struct {
	MaxDelay time.Duration
	MaxTicks int
	MaxBytes int
	Padding  int // bytes; 0: none
}

// CompressOff stands for no class in a Topic: never compressed.
const CompressOff = "off"

// Compress is the section compress.
type Compress struct {
	Codecs     []wire.Codec
	MinBytes   int
	Dictionary string // a file; empty: none
}

// Proxy is the section proxy.
type Proxy struct {
	Trusted  []netip.Prefix
	Protocol bool
}

// Socket is the section socket.
type Socket struct {
	SendBuffer int // bytes; 0: the kernel decides
	Unsent     int // bytes; 0: no bound
	ReusePort  bool
}

// Fanout is the section fanout.
type Fanout struct{ Seal Seal }

// Seal says for whom a record with ticks is sealed.
type Seal string

// The values of fanout.seal.
const (
	SealSession Seal = "session" // for each client
	SealGroup   Seal = "group"   // once for clients that follow the same topics in the same way
)

// Limits is the section limits.
type Limits struct {
	Connections          int // 0: as many as the descriptor limit allows
	ConnectionsPerIP     int // 0: no limit
	ConnectionsPerSecond int // 0: no limit
	HandshakesPerSecond  int // 0: no limit
	Deny                 []netip.Prefix
	Subscriptions        int
	Message              int // bytes
	Fragments            int
	MessagesPerSecond    int // 0: no limit
	PingsPerSecond       int
	Tick                 int // bytes
	Topics               int // 0: no limit
	TopicIdle            time.Duration
	HistoryBytes         int
}

// Slow is the section slow.
type Slow struct {
	Queue    int // bytes
	Total    int // bytes; 0: no bound
	Overflow Overflow
	Timeout  time.Duration
}

// Overflow says what becomes of a client for which more waits than may.
type Overflow string

// The values of slow.overflow.
const (
	OverflowGap   Overflow = "gap"   // ticks are dropped, the client is told which
	OverflowClose Overflow = "close" // the client is closed
)

// Heartbeat is the section heartbeat.
type Heartbeat struct {
	Interval time.Duration
	Timeout  time.Duration
}

// Drain is the section drain.
type Drain struct {
	Window  time.Duration
	Timeout time.Duration
}

// Log is the section log.
type Log struct {
	Level  LogLevel
	Format LogFormat
}

// LogLevel is the lowest level that is logged.
type LogLevel string

// The levels of log.level.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is how a log line is written.
type LogFormat string

// The formats of log.format.
const (
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)
