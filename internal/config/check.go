package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// check looks at settings that must fit each other. A rule whose settings
// have a fault of their own is left out, so that one mistake is one fault.
func (l *loader) check() {
	c := &l.config
	l.rule(sameAddress(c.Listen, c.Admin.Listen), problem{
		text: "is the same address as listen", hint: "give the admin interface a port of its own",
	}, "admin.listen", "listen")
	l.rule(len(c.Cipher.Suites) == 0 && !c.Cipher.AllowPlain, problem{
		text: "no suite is enabled", hint: "list at least one of " + strings.Join(suiteNames(), ", "),
	}, "cipher.suites", "cipher.allow_plain")
	named, isSuite := suite.ByName(c.Cipher.Prefer.String())
	l.rule(isSuite && !slices.Contains(c.Cipher.Suites, named), problem{
		text: fmt.Sprintf("%v is not among cipher.suites", named), hint: fmt.Sprintf("add %v to cipher.suites, or prefer another", named),
	}, "cipher.prefer", "cipher.suites")
	l.rule(!c.Resumption.Enabled && c.Resumption.TicketKeyFile != "", problem{
		text: "has no effect while resumption.enabled is false", hint: "set resumption.enabled to true, or remove this",
	}, "resumption.ticket_key_file", "resumption.enabled")
	l.rule(c.Compress.Dictionary != "" && !slices.Contains(c.Compress.Codecs, wire.CodecZstd), problem{
		text: "has no effect while compress.codecs does not list zstd", hint: "add zstd to compress.codecs, or remove this",
	}, "compress.dictionary", "compress.codecs")
	l.rule(c.Heartbeat.Timeout <= c.Heartbeat.Interval, problem{
		text: "must be longer than heartbeat.interval (" + formatDuration(c.Heartbeat.Interval) + ")", hint: "three intervals are usual",
	}, "heartbeat.timeout", "heartbeat.interval")
	l.checkRedis(&c.Redis)
	l.checkAuth(&c.Auth)
}

func (l *loader) checkRedis(r *Redis) {
	if r.Mode == RedisEmbedded {
		l.checkEmbedded(r)
		return
	}
	l.rule(len(r.Addrs) == 0, problem{
		text: "is empty", hint: "redis.mode " + string(r.Mode) + " needs " + redisAddresses[r.Mode],
	}, "redis.addrs", "redis.mode")
	l.rule(r.Username != "" && r.Password == Secret{}, problem{
		text: "is set without redis.password", hint: "give the user's password in SEALCAST_REDIS_PASSWORD",
	}, "redis.username", "redis.password")
	l.rule(r.Source == SourceSharded && r.Mode != RedisCluster, problem{
		text: "is sharded, which redis.mode " + string(r.Mode) + " has not", hint: "set redis.mode to cluster, or redis.source to pubsub",
	}, "redis.source", "redis.mode")
	l.rule(r.Source == SourceStreams && len(r.Streams) == 0, problem{
		text: "is empty", hint: "name the stream that publishers add to",
	}, "redis.streams", "redis.source")
	l.checkSentinel(r)
	l.rule(r.Mode == RedisCluster && r.DB != 0, problem{
		text: "has no effect with redis.mode cluster", hint: "a cluster has only database 0: remove this",
	}, "redis.db", "redis.mode")
	l.checkRedisTLS(&r.TLS)
}

// redisAddresses says which addresses a mode needs.
var redisAddresses = map[RedisMode]string{
	RedisStandalone: "the server's address, such as 127.0.0.1:6379",
	RedisSentinel:   "the sentinels' addresses, such as 127.0.0.1:26379",
	RedisCluster:    "addresses of some nodes, such as 127.0.0.1:7000",
}

func (l *loader) checkEmbedded(r *Redis) {
	unused := problem{text: "has no effect with redis.mode embedded", hint: "set redis.mode to standalone, or remove this"}
	l.rule(r.Source != SourcePubSub, unused, "redis.source", "redis.mode")
	l.rule(len(r.Addrs) > 0, unused, "redis.addrs", "redis.mode")
	l.rule(r.Master != "", unused, "redis.master", "redis.mode")
	l.rule(r.DB != 0, unused, "redis.db", "redis.mode")
	l.rule(r.Username != "", unused, "redis.username", "redis.mode")
	l.rule(r.Password != Secret{}, unused, "redis.password", "redis.mode")
	l.rule(r.TLS.Enabled, unused, "redis.tls.enabled", "redis.mode")
}

func (l *loader) checkSentinel(r *Redis) {
	if r.Mode == RedisSentinel {
		l.rule(r.Master == "", problem{
			text: "is empty", hint: "redis.mode sentinel needs the name that the sentinels know the master by, often mymaster",
		}, "redis.master", "redis.mode")
		return
	}
	unused := problem{text: "has no effect with redis.mode " + string(r.Mode), hint: "set redis.mode to sentinel, or remove this"}
	l.rule(r.Master != "", unused, "redis.master", "redis.mode")
	l.rule(r.Sentinel.Username != "", unused, "redis.sentinel.username", "redis.mode")
	l.rule(r.Sentinel.Password != Secret{}, unused, "redis.sentinel.password", "redis.mode")
}

func (l *loader) checkRedisTLS(t *RedisTLS) {
	unused := problem{text: "has no effect while redis.tls.enabled is false", hint: "set redis.tls.enabled to true, or remove this"}
	for _, file := range []struct{ key, value string }{
		{"redis.tls.ca", t.CA}, {"redis.tls.cert", t.Cert}, {"redis.tls.key", t.Key}, {"redis.tls.server_name", t.ServerName},
	} {
		l.rule(!t.Enabled && file.value != "", unused, file.key, "redis.tls.enabled")
	}
	l.rule(t.Enabled && t.Cert != "" && t.Key == "", problem{
		text: "is set without redis.tls.key", hint: "name the certificate's key file, too",
	}, "redis.tls.cert", "redis.tls.key")
	l.rule(t.Enabled && t.Key != "" && t.Cert == "", problem{
		text: "is set without redis.tls.cert", hint: "name the certificate file, too",
	}, "redis.tls.key", "redis.tls.cert")
}

// rule notes p when broken. It blames the first of keys, at the place where
// the first of them that was set at all was set.
func (l *loader) rule(broken bool, p problem, keys ...string) {
	if !broken || slices.ContainsFunc(keys, func(k string) bool { return l.faulty[k] }) {
		return
	}
	for _, key := range keys {
		if at, ok := l.origins[key]; ok {
			l.fault(at, keys[0], p)
			return
		}
	}
}

// sameAddress tells whether two listeners cannot have these addresses at once.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || anyHost(hostA) || anyHost(hostB)
}

func anyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}
