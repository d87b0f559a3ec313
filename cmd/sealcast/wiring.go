package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/admin"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/internal/version"
	"github.com/sealcast/sealcast/session"
)

// From settings to the options of each package.

func (s *services) gatewayOptions(f *inForce) gateway.Options {
	return gateway.Options{
		Loops:    f.cfg.Loops,
		Realm:    f.cfg.Realm,
		Hub:      s.hub,
		Version:  version.String(),
		Log:      s.log.Logger,
		Unsent:   f.cfg.Socket.Unsent,
		Settings: s.gatewaySettings(f),
	}
}

// gatewaySettings is what the gateway can also be given later.
func (s *services) gatewaySettings(f *inForce) gateway.Settings {
	c := f.cfg
	return gateway.Settings{
		Suites: suite.Policy{
			Enabled: c.Cipher.Suites, Prefer: c.Cipher.Prefer, AllowPlain: c.Cipher.AllowPlain, Hardware: s.hardware,
		},
		Session:     s.sessionConfig(f),
		Origins:     c.Origins,
		OwnPage:     ownPage(c, s.admin.Addr()),
		Proxy:       gateway.ProxyOptions(c.Proxy),
		Echo:        gateway.EchoOptions(c.Echo),
		Limits:      gatewayLimits(&c.Limits),
		Slow:        slowOptions(&c.Slow),
		Heartbeat:   gateway.HeartbeatOptions(c.Heartbeat),
		Batch:       gateway.BatchOptions{MaxDelay: c.Batch.MaxDelay, MaxTicks: c.Batch.MaxTicks, MaxBytes: c.Batch.MaxBytes},
		Padding:     c.Batch.Padding,
		Compress:    gateway.CompressOptions{Codecs: c.Compress.Codecs, MinBytes: c.Compress.MinBytes, Dictionary: f.dictionary},
		Topics:      topicRules(c.Topics, &c.Batch),
		Auth:        authOptions(f),
		GroupSeal:   c.Fanout.Seal == config.SealGroup,
		DrainWindow: min(c.Drain.Window, c.Drain.Timeout/2),
	}
}

func topicRules(topics []config.Topic, batch *config.Batch) []gateway.TopicRule {
	var rules []gateway.TopicRule
	for _, t := range topics {
		class := t.Compress
		if class == config.CompressOff {
			class = ""
		}
		rules = append(rules, gateway.TopicRule{
			Match: t.Match, Compress: class, Latest: t.Policy == config.PolicyLatest, MaxRate: t.MaxRate, Batch: topicBatch(t.Batch, batch),
		})
	}
	return rules
}

// topicBatch fills up what an entry of topics leaves open; nil: all of it.
func topicBatch(t config.TopicBatch, all *config.Batch) *gateway.BatchOptions {
	if t == (config.TopicBatch{MaxDelay: -1}) {
		return nil
	}
	if t.MaxDelay < 0 {
		t.MaxDelay = all.MaxDelay
	}
	return &gateway.BatchOptions{
		MaxDelay: t.MaxDelay, MaxTicks: cmp.Or(t.MaxTicks, all.MaxTicks), MaxBytes: cmp.Or(t.MaxBytes, all.MaxBytes),
	}
}

func slowOptions(s *config.Slow) gateway.SlowOptions {
	o := gateway.SlowOptions{Queue: s.Queue, Total: s.Total, Timeout: s.Timeout}
	if s.Overflow == config.OverflowClose {
		o.Overflow = gateway.OverflowClose
	}
	return o
}

func gatewayLimits(l *config.Limits) gateway.Limits {
	return gateway.Limits{
		Connections: l.Connections, ConnectionsPerIP: l.ConnectionsPerIP, HandshakesPerSecond: l.HandshakesPerSecond,
		ConnectionsPerSecond: l.ConnectionsPerSecond,
		Deny:                 l.Deny, Subscriptions: l.Subscriptions, Message: l.Message, Fragments: l.Fragments,
		MessagesPerSecond: l.MessagesPerSecond, PingsPerSecond: l.PingsPerSecond,
	}
}

// ownPage lists the origins that the gateway's own page can have: the admin
// interface under each name that leads to it from this machine, and the address
// that clients are told. Other names that lead to it belong into origins.
func ownPage(c *config.Config, bound net.Addr) []string {
	host, _, _ := net.SplitHostPort(c.Admin.Listen) // was listened on, so it is HOST:PORT
	_, port, _ := net.SplitHostPort(bound.String())
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		hosts = append(hosts, host)
	}
	var origins []string
	for _, h := range hosts {
		origins = append(origins, origin("http", h, port), origin("https", h, port))
	}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		origins = append(origins, origin(strings.Replace(u.Scheme, "ws", "http", 1), u.Hostname(), u.Port()))
	}
	return origins
}

// origin is what a browser sends for a page (RFC 6454 section 6.2): without the
// port that the scheme has anyway.
func origin(scheme, host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" || scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + ":" + port
}

func (s *services) sessionConfig(f *inForce) *session.GatewayConfig {
	rekey := f.cfg.Cipher.Rekey
	c := &session.GatewayConfig{
		Key:         f.key,
		PostQuantum: postQuantum(f.cfg.Cipher.PostQuantum),
		HardwareAES: s.hardware.AES,
		Limits:      record.Limits{Records: uint64(rekey.Records), Bytes: uint64(rekey.Bytes), Age: rekey.Age},
	}
	if f.tickets != nil {
		c.Tickets = &session.Tickets{Keys: f.tickets, Lifetime: f.cfg.Resumption.Lifetime, Now: time.Now}
	}
	return c
}

func postQuantum(mode config.PostQuantum) session.PostQuantum {
	switch mode {
	case config.PostQuantumOff:
		return session.PostQuantumOff
	case config.PostQuantumRequired:
		return session.PostQuantumRequired
	default:
		return session.PostQuantumPreferred
	}
}

func (s *services) hubOptions() fanout.Options {
	c := s.settings()
	options := fanout.Options{
		Redis:        s.redisOptions(),
		Rules:        hubRules(c.Topics),
		MaxTick:      c.Limits.Tick,
		MaxTopics:    c.Limits.Topics,
		TopicIdle:    c.Limits.TopicIdle,
		HistoryBytes: c.Limits.HistoryBytes,
		Log:          s.log.Logger,
	}
	options.WholeSource = s.redis != nil
	return options
}

// redisOptions is how to reach Redis, now and for each new connection later.
func (s *services) redisOptions() fanout.Redis {
	if s.redis != nil {
		return fanout.Redis{Addrs: []string{s.redis.Addr()}}
	}
	options := s.live.Load().redis()
	options.Current = func() fanout.Redis { return s.live.Load().redis() }
	return options
}

var topologies = map[config.RedisMode]fanout.Topology{
	config.RedisStandalone: fanout.Standalone,
	config.RedisSentinel:   fanout.Sentinel,
	config.RedisCluster:    fanout.Cluster,
}

var sources = map[config.RedisSource]fanout.Source{
	config.SourcePubSub:  fanout.PubSub,
	config.SourceSharded: fanout.Sharded,
	config.SourceStreams: fanout.Streams,
}

func (f *inForce) redis() fanout.Redis {
	c := &f.cfg.Redis
	return fanout.Redis{
		Topology: topologies[c.Mode],
		Master:   c.Master,
		Source:   sources[c.Source],
		Streams:  c.Streams,
		Canary:   c.Canary,
		Addrs:    c.Addrs,
		Username: c.Username,
		Password: c.Password.Reveal(),
		Sentinel: fanout.Login{Username: c.Sentinel.Username, Password: c.Sentinel.Password.Reveal()},
		DB:       c.DB,
		TLS:      f.redisTLS,
	}
}

func (s *services) adminOptions() admin.Options {
	return admin.Options{Ready: s.notReady, Info: s.info, Access: s.access, Page: s.page, Parts: s.parts, Log: s.log.Logger,
		ReusePort: s.settings().Socket.ReusePort}
}

func (s *services) access() admin.Access {
	c := &s.settings().Admin
	return admin.Access{Token: c.Token.Reveal(), Pprof: c.Pprof}
}

func (s *services) page() admin.Page {
	c := s.settings()
	return admin.Page{Served: c.Admin.Page, PublicURL: c.PublicURL, Listen: s.listener.Addr()}
}

// parts may be asked from the start on; gateway and hub are there once it is over.
func (s *services) parts() (admin.Gateway, admin.Hub) {
	if phase(s.phase.Load()) != starting && s.gateway != nil {
		return s.gateway, s.hub
	}
	return nil, nil
}

// hubRules is what the hub can also be given later.
func hubRules(topics []config.Topic) []fanout.Rule {
	var rules []fanout.Rule
	for _, t := range topics {
		rules = append(rules, fanout.Rule{Match: t.Match, Snapshot: t.Snapshot, Seed: t.Seed, History: t.History, MaxAge: t.HistoryAge})
	}
	return rules
}

func (s *services) info() admin.Info {
	f := s.live.Load()
	return admin.Info{
		Version:      version.String(),
		Realm:        f.cfg.Realm,
		PublicKey:    f.key.Public().String(),
		TemporaryKey: f.cfg.KeyFile == "",
		Suites:       f.suiteNames(),
		PostQuantum:  string(f.cfg.Cipher.PostQuantum),
		HardwareAES:  s.hardware.AES,
	}
}

// welcome tells a person who tries the gateway out where everything is.
// program is how this binary was called; sealctl is taken to lie beside it.
func (s *services) welcome(program string) string {
	sealctl := "sealctl"
	if dir := filepath.Dir(program); strings.ContainsRune(program, filepath.Separator) {
		sealctl = filepath.Join(dir, sealctl)
	}
	f := s.live.Load()
	at, pin := reachable(s.listener.Addr()), f.key.Public()
	_, redisPort, _ := net.SplitHostPort(s.redis.Addr()) // always HOST:PORT
	lasting := ""
	if f.cfg.KeyFile == "" {
		lasting = "  (temporary)"
	}
	return fmt.Sprintf(`
Sealcast %s with its built-in Redis and demo feed

  WebSocket   ws://%s/ws
  Admin page  http://%s/
  Public key  %s%s

Watch the ticks:
  %s tail ws://%[2]s/ws --key %[4]s --topics 'md:**'
Publish one:
  redis-cli -p %[7]s publish md:demo:HELLO:ticker '{"last":"1.00"}'

`, version.String(), at, reachable(s.admin.Addr()), pin, lasting, sealctl, redisPort)
}

// reachable is an address that a client on this machine can use, also if the
// listener takes all interfaces.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && (tcp.IP == nil || tcp.IP.IsUnspecified()) {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return addr.String()
}
