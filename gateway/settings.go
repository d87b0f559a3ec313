package gateway

import (
	"math"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
	"github.com/sealcast/sealcast/wire/topic"
)

// Hub is where ticks come from; *fanout.Hub in production.
// Its methods may be called from any loop and never block.
type Hub interface {
	Attach(fanout.Loop) fanout.LoopID
	Acquire(fanout.LoopID, topic.Filter) fanout.Ticket
	Release(fanout.LoopID, topic.Filter)
	Recall(fanout.LoopID, fanout.Recall) fanout.Ticket
}

// Options configure a Gateway. They are read once, by New.
type Options struct {
	Loops   int    // event loops; 0 is one per CPU
	Realm   string // bound into every handshake
	Hub     Hub
	Version string // told to clients in Connected
	Log     *zap.Logger
	Audit   *zap.Logger // who came, asked for what, was refused; nil: nobody wants to know
	// AuditLost is how many of its lines were lost; nil: none.
	AuditLost func() uint64
	Control   Control // nil: this gateway is alone
	// Unsent is how much the kernel may take of a connection before it is sent
	// (TCP_NOTSENT_LOWAT, Linux only), which it hides of a client that does not
	// keep up; 0 is no bound.
	Unsent int
	Settings
}

// Settings are what Reload can change while sessions go on.
type Settings struct {
	Suites    suite.Policy           // which suites are offered and how one is chosen
	Session   *session.GatewayConfig // static key, tickets and handshake rules, shared by all new sessions
	Origins   []string               // allowed values of Origin; empty: any
	OwnPage   []string               // those of the gateway's own page, which may always connect
	Proxy     ProxyOptions
	Echo      EchoOptions
	Limits    Limits
	Slow      SlowOptions
	Heartbeat HeartbeatOptions
	Batch     BatchOptions
	Padding   int // records of push sessions are filled up to a multiple of it; 0: they are not
	Compress  CompressOptions
	Topics    []TopicRule // the first that matches a topic decides
	Auth      AuthOptions
	// GroupSeal: batches are sealed once for all sessions of a loop that follow the
	// same topics in the same way, and whose clients take that.
	GroupSeal bool
	// DrainWindow is the time over which Shutdown spreads its goodbyes, and the
	// clients their coming back.
	DrainWindow time.Duration
}

// EchoOptions rule the endpoint /echo.
type EchoOptions struct {
	Enabled     bool
	Unencrypted bool // serve ordinary WebSocket clients too
	MaxMessage  int  // bytes
}

// Limits bound what clients may use.
type Limits struct {
	Connections          int            // 0: as many as descriptors allow
	ConnectionsPerIP     int            // of one IPv4 address or IPv6 /64; 0: no limit
	ConnectionsPerSecond int            // that are accepted; 0: no limit
	HandshakesPerSecond  int            // of all clients; 0: no limit
	Deny                 []netip.Prefix // networks whose connections are closed at once
	Subscriptions        int            // filters per session
	Message              int            // bytes of plaintext per record on /ws
	Fragments            int            // frames per message
	MessagesPerSecond    int            // records of a push session, with two seconds' worth at once; 0: no limit
	PingsPerSecond       int            // likewise of WebSocket pings
}

// SlowOptions say how long a client that does not keep up is carried.
type SlowOptions struct {
	Queue    int // bytes of ticks that wait for one session
	Total    int // and for all; 0: no bound
	Overflow Overflow
	Timeout  time.Duration // without any progress
}

// Overflow says what happens when more waits for a session than may.
type Overflow uint8

// The ways out.
const (
	OverflowGap   Overflow = iota // ticks are dropped, the client is told which, and goes on
	OverflowClose                 // the session ends with 4413
)

// HeartbeatOptions rule liveness in both directions.
type HeartbeatOptions struct {
	Interval time.Duration // a record at least this often
	Timeout  time.Duration // silence of the client that ends the connection
}

// BatchOptions say when a batch closes: at whatever comes first.
type BatchOptions struct {
	MaxDelay time.Duration // after its first tick; 0: at once
	MaxTicks int
	MaxBytes int
}

// CompressOptions rule the compression of batches.
type CompressOptions struct {
	Codecs     []wire.Codec      // that clients may choose; with CodecZstd and a Dictionary, CodecZstdDict too
	MinBytes   int               // a smaller batch goes out as it is
	Dictionary *codec.Dictionary // nil: none
}

// TopicRule is what holds for the topics that match. Topics without a rule have
// the class DefaultClass.
type TopicRule struct {
	Match    topic.Filter
	Compress string        // class: only topics of one class share a compressed frame; "" is never compressed
	Latest   bool          // ticks may be merged into newer ones; else each is delivered
	MaxRate  float64       // with Latest: ticks a second of each topic, at most; 0: no bound
	Batch    *BatchOptions // nil: as for all topics. A batch closes when one of its topics wants it
}

// DefaultClass is the class of topics that are nobody's secret.
const DefaultClass = "public"

// live is the settings in force, with what is worked out from them. It is
// replaced as a whole and never changed.
type live struct {
	Settings
	rules       *ruleTable
	connections int64        // the effective limit
	push        frame.Limits // of /ws
	echo        frame.Limits // of /echo, sealed
	plain       frame.Limits // of /echo, unencrypted
}

// Reload puts settings into force. Sessions go on: what concerns the upgrade and
// the handshake, the size of a session's messages and its heartbeats, holds for
// new ones only.
func (g *Gateway) Reload(s Settings) {
	fragments := s.Limits.Fragments
	s.Session = g.guardTickets(s.Session)
	setRate(g.admission.handshakes, s.Limits.HandshakesPerSecond)
	setRate(g.admission.arrivals, s.Limits.ConnectionsPerSecond)
	g.live.Store(&live{
		Settings:    s,
		rules:       newRuleTable(s.Topics, s.Batch),
		connections: g.connectionLimit(int64(s.Limits.Connections)),
		push:        frame.Limits{MessageBytes: s.Limits.Message + recordOverhead, Fragments: fragments},
		echo:        frame.Limits{MessageBytes: s.Echo.MaxMessage + recordOverhead, Fragments: fragments},
		plain:       frame.Limits{MessageBytes: s.Echo.MaxMessage, Fragments: fragments, Text: true},
	})
}

// connectionLimit is the setting, or what the descriptor limit leaves.
func (g *Gateway) connectionLimit(set int64) int64 {
	room := max(descriptorLimit()-descriptorReserve, 1)
	if set == 0 {
		set = math.MaxInt64
	} else if before := g.live.Load(); set > room && (before == nil || int64(before.Limits.Connections) != set) {
		g.log.Warn("limits.connections is above what the descriptor limit (ulimit -n) allows",
			zap.Int64("connections", set), zap.Int64("allowed", room))
	}
	return min(set, room)
}

// settings are those in force at the beginning of the loop's turn. They stay the
// same to its end, so that a reload changes nothing halfway.
func (l *loop) settings() *live { return l.live }
