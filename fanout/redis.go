package fanout

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Topology is how the servers of a Redis belong together.
type Topology uint8

// The topologies.
const (
	Standalone Topology = iota // one server, under any of its addresses
	Sentinel                   // a master and its replicas, which sentinels know
	Cluster                    // Redis Cluster
)

// Source is how ticks come out of Redis.
type Source uint8

// The sources.
const (
	PubSub  Source = iota // PUBLISH
	Sharded               // SPUBLISH, with Cluster only; names only
	Streams               // XADD, with the fields topic and payload
)

// Redis says how to reach Redis. It is not changed once a hub or client has it.
type Redis struct {
	Topology Topology
	Master   string // Sentinel: the name that the sentinels know the master by
	Source   Source
	Streams  []string // their keys, for the source of that name; each of its own, none twice

	// Addrs are host:port, tried in turn: of the server, of sentinels, or of some
	// nodes of the cluster; default 127.0.0.1:6379.
	Addrs    []string
	Username string
	Password string
	Sentinel Login
	DB       int         // not with Cluster
	TLS      *tls.Config // nil: no TLS. Without a ServerName each server's own host is expected

	// Current returns the settings as of now. It is called for each new connection,
	// by any goroutine: addresses, users, passwords and TLS may change while the
	// gateway runs. nil: they do not.
	Current func() Redis

	Canary      time.Duration // within which it shows that no messages come through; default 2 s
	DialTimeout time.Duration // for connecting and for each answer while connecting; default 3 s
	PingAfter   time.Duration // silence after which a PING is sent; default 3 s
	PingTimeout time.Duration // silence after the PING that counts as loss; default 5 s
	RetryMin    time.Duration // first wait before connecting again, doubling; default 50 ms
	RetryMax    time.Duration // longest wait; default 1 s
}

// Login is a user of the sentinels. Empty: they ask for none.
type Login struct{ Username, Password string }

func (r Redis) withDefaults() Redis {
	if len(r.Addrs) == 0 {
		r.Addrs = []string{"127.0.0.1:6379"}
	}
	setDefault(&r.Canary, 2*time.Second)
	setDefault(&r.DialTimeout, 3*time.Second)
	setDefault(&r.PingAfter, 3*time.Second)
	setDefault(&r.PingTimeout, 5*time.Second)
	setDefault(&r.RetryMin, 50*time.Millisecond)
	setDefault(&r.RetryMax, time.Second)
	return r
}

// impatient is for links to a server that another one replaces if it fails. It bounds
// how long a link waits for one that is frozen while its successor is there already.
func (r Redis) impatient() Redis {
	if r.Topology != Standalone {
		r.DialTimeout = min(r.DialTimeout, time.Second)
	}
	return r
}

// now returns the settings as of now, as far as they may change.
func (r Redis) now() Redis {
	if r.Current == nil {
		return r
	}
	c := r.Current()
	if len(c.Addrs) > 0 {
		r.Addrs = c.Addrs
	}
	r.Username, r.Password, r.Sentinel, r.TLS = c.Username, c.Password, c.Sentinel, c.TLS
	return r
}

// dial opens a connection, with TLS if the settings say so.
func (r Redis) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	r = r.now()
	plain := &net.Dialer{Timeout: r.DialTimeout, KeepAlive: 30 * time.Second}
	if r.TLS == nil {
		return plain.DialContext(ctx, network, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, r.DialTimeout) // for the handshake, too
	defer cancel()
	return (&tls.Dialer{NetDialer: plain, Config: r.TLS}).DialContext(ctx, network, addr)
}

// login is what a new connection authenticates with.
func (r Redis) login() (username, password string) {
	r = r.now()
	return r.Username, r.Password
}

// NewClient opens a client for commands to this Redis. It finds the master of
// sentinels and the nodes of a cluster, takes addresses and passwords as they
// are when it connects, and repeats no command that failed; only the client of a
// cluster may, up to three times, and its MasterForKey has one that does not. The
// caller closes it.
func NewClient(r Redis) redis.UniversalClient {
	quiet.Do(logging.Disable)
	r = r.withDefaults()
	o := r.universal()
	switch r.Topology {
	case Sentinel:
		return redis.NewFailoverClient(o.Failover())
	case Cluster:
		c := redis.NewClusterClient(o.Cluster())
		c.AddHook(reloading{c})
		return c
	}
	simple := o.Simple()
	simple.Dialer = r.dialInTurn()
	return redis.NewClient(simple)
}

// quiet keeps the library from writing to standard error: its errors are returned, too.
var quiet sync.Once

// reloading is a hook that makes a client of a cluster look for the nodes again
// when one cannot be reached. By itself it does so after ten seconds.
type reloading struct{ c *redis.ClusterClient }

func (h reloading) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h reloading) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.look(ctx, err)
		return err
	}
}

func (h reloading) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		h.look(ctx, err)
		return err
	}
}

func (h reloading) look(ctx context.Context, err error) {
	if errors.As(err, new(net.Error)) {
		h.c.ReloadState(ctx)
	}
}

// universal is what clients of all topologies have in common.
func (r Redis) universal() *redis.UniversalOptions {
	access := r.now()
	return &redis.UniversalOptions{
		Addrs:               access.Addrs,
		MasterName:          r.Master,
		DB:                  r.DB,
		SentinelUsername:    access.Sentinel.Username,
		SentinelPassword:    access.Sentinel.Password,
		CredentialsProvider: r.login,
		Dialer:              r.dial,

		DialTimeout:           r.DialTimeout,
		DialerRetries:         1, // whoever waits decides how often
		ReadTimeout:           r.DialTimeout,
		WriteTimeout:          r.DialTimeout,
		ContextTimeoutEnabled: true,
		Protocol:              2,
		MaxRetries:            -1,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// dialInTurn dials the first of a standalone server's addresses that answers,
// beginning with the one that did so last.
func (r Redis) dialInTurn() func(ctx context.Context, network, addr string) (net.Conn, error) {
	var turn atomic.Uint32
	return func(ctx context.Context, network, _ string) (c net.Conn, err error) {
		addrs := r.now().Addrs
		for range addrs {
			at := turn.Load()
			if c, err = r.dial(ctx, network, addrs[int(at)%len(addrs)]); err == nil {
				return c, nil
			}
			turn.CompareAndSwap(at, at+1)
		}
		return nil, err
	}
}

var errNoMaster = errors.New("no sentinel knows the master")

// findMaster asks the sentinels, in turn, where the master is.
func (r Redis) findMaster(ctx context.Context) (addr string, err error) {
	access := r.now()
	for _, sentinel := range access.Addrs {
		if addr, err = r.askSentinel(ctx, sentinel, access.Sentinel); err == nil {
			return addr, nil
		}
	}
	return "", cmp.Or(err, errNoMaster)
}

func (r Redis) askSentinel(ctx context.Context, sentinel string, user Login) (string, error) {
	o := r.universal().Simple()
	o.Addr, o.DB, o.CredentialsProvider = sentinel, 0, nil
	o.Username, o.Password = user.Username, user.Password
	c := redis.NewSentinelClient(o)
	defer c.Close()
	at, err := c.GetMasterAddrByName(ctx, r.Master).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", errNoMaster
	case err != nil:
		return "", err
	}
	return net.JoinHostPort(at[0], at[1]), nil
}
