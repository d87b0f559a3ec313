package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/gateway/admin"
	"github.com/sealcast/sealcast/internal/version"
	"github.com/sealcast/sealcast/session"
)

// From settings to the options of each package.

func (s *services) gatewayOptions() (gateway.Options, error) {
	c := s.cfg
	postQuantum, err := session.ParsePostQuantum(string(c.Cipher.PostQuantum))
	if err != nil {
		return gateway.Options{}, fmt.Errorf("cipher.post_quantum: %w", err)
	}
	return gateway.Options{
		Loops:   c.Loops,
		Realm:   c.Realm,
		Hub:     s.hub,
		Version: version.String(),
		Log:     s.log,
		Settings: gateway.Settings{
			Suites: suite.Policy{
				Enabled: c.Cipher.Suites, Prefer: c.Cipher.Prefer, AllowPlain: c.Cipher.AllowPlain, Hardware: s.hardware,
			},
			Session:   &session.GatewayConfig{Key: s.key, PostQuantum: postQuantum, HardwareAES: s.hardware.AES},
			Echo:      gateway.EchoOptions(c.Echo),
			Limits:    gateway.Limits{Connections: c.Limits.Connections, Subscriptions: c.Limits.Subscriptions, Message: c.Limits.Message, Fragments: c.Limits.Fragments},
			Slow:      gateway.SlowOptions(c.Slow),
			Heartbeat: gateway.HeartbeatOptions(c.Heartbeat),
			Batch:     gateway.BatchOptions(c.Batch),
		},
	}, nil
}

func (s *services) hubOptions() fanout.Options {
	c := s.cfg
	options := fanout.Options{
		Redis: fanout.Redis{
			Addrs: c.Redis.Addrs, Username: c.Redis.Username, Password: c.Redis.Password.Reveal(), DB: c.Redis.DB,
		},
		MaxTick: c.Limits.Tick,
		Log:     s.log,
	}
	if s.redis != nil {
		options.Redis.Addrs = []string{s.redis.Addr()}
		options.WholeSource = true
	}
	return options
}

func (s *services) info() admin.Info {
	return admin.Info{
		Version:      version.String(),
		Realm:        s.cfg.Realm,
		PublicKey:    s.key.Public().String(),
		TemporaryKey: s.cfg.KeyFile == "",
		Suites:       s.suiteNames(),
		PostQuantum:  string(s.cfg.Cipher.PostQuantum),
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
	at, pin := reachable(s.listener.Addr()), s.key.Public()
	_, redisPort, _ := net.SplitHostPort(s.redis.Addr()) // always HOST:PORT
	lasting := ""
	if s.cfg.KeyFile == "" {
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
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return addr.String()
}
