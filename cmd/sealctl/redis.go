package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/internal/advice"
)

const defaultRedis = "127.0.0.1:6379"

// server is where to publish.
type server struct {
	text string // as given: an address or a URL
}

func (s *server) declare(a *app, f *flags) {
	text := a.getenv("SEALCTL_REDIS")
	if text == "" {
		text = defaultRedis
	}
	f.StringVar(&s.text, "redis", text, "`ADDR` (host:port) or URL (redis://user:password@host:port/db, rediss:// for TLS) of the Redis that the gateway reads: a server, a node of a cluster, or a sentinel, with ?master=NAME if it knows several masters; SEALCTL_REDIS does the same")
	f.Lookup("redis").DefValue = defaultRedis
}

// options reads the address, and which of a sentinel's masters is meant, if any.
// Its errors never quote what may hold a password.
func (s *server) options() (opts *redis.Options, master string, err error) {
	const hint = "give host:port, or redis://user:password@host:port/db"
	if !strings.Contains(s.text, "://") {
		address := s.text
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), "6379")
		}
		return plainOptions(&redis.Options{Addr: address}), "", nil
	}
	u, err := url.Parse(s.text)
	if err != nil {
		return nil, "", advice.Misuse("--redis: not a URL", hint)
	}
	query := u.Query()
	master = query.Get("master")
	query.Del("master")
	u.RawQuery = query.Encode()
	opts, err = redis.ParseURL(u.String())
	if err != nil {
		return nil, "", advice.Misuse("--redis: "+err.Error(), hint)
	}
	return plainOptions(opts), master, nil
}

// plainOptions switches off what a publisher cannot use. Nothing is sent again
// after a failure, because the tick may have been published.
func plainOptions(opts *redis.Options) *redis.Options {
	opts.Protocol = 2
	opts.MaxRetries = -1
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return opts
}

// database is a Redis to publish through, whatever its topology.
type database struct {
	redis.UniversalClient
	address string // as given, for messages
}

// cluster returns the client if the servers are a cluster, else nil.
func (d *database) cluster() *redis.ClusterClient {
	c, _ := d.UniversalClient.(*redis.ClusterClient)
	return c
}

// open finds out what answers there, connects, and makes sure that commands are
// taken. The caller closes the database.
func (s *server) open(ctx context.Context) (*database, error) {
	opts, master, err := s.options()
	if err != nil {
		return nil, err
	}
	settings, err := findTopology(ctx, opts, master)
	if err != nil {
		return nil, err
	}
	db := &database{fanout.NewClient(settings), opts.Addr}
	if err := db.Ping(ctx).Err(); err != nil {
		db.Close()
		return nil, explainOpening(err, opts.Addr)
	}
	return db, nil
}

func explainOpening(err error, address string) error {
	err = explainRedis(err, address)
	if errors.As(err, new(net.Error)) {
		return refused(err, "is Redis running there? --redis names its address; a gateway with built-in Redis prints it at start")
	}
	return err
}

// findTopology asks the server what it is. A sentinel often has no users of its
// own; user and password are then those of the servers that it watches.
func findTopology(ctx context.Context, opts *redis.Options, master string) (fanout.Redis, error) {
	r := fanout.Redis{Addrs: []string{opts.Addr}, Username: opts.Username, Password: opts.Password, DB: opts.DB, Master: master}
	if opts.TLSConfig != nil {
		r.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // no name: other servers' certificates name other hosts
	}
	login := fanout.Login{Username: opts.Username, Password: opts.Password}
	mode, masters, err := introduce(ctx, opts, login)
	if unauthorized(err) && opts.Password != "" {
		var sentinel string
		if sentinel, masters, _ = introduce(ctx, opts, fanout.Login{}); sentinel == "sentinel" {
			mode, login, err = sentinel, fanout.Login{}, nil
		}
	}
	switch {
	case err != nil:
		return r, explainOpening(err, opts.Addr)
	case mode == "sentinel":
		r.Topology, r.Sentinel = fanout.Sentinel, login
		return r, chooseMaster(&r, masters, opts.Addr)
	case master != "":
		return r, advice.Misuse("--redis: "+opts.Addr+" is no sentinel", "leave out ?master=")
	case mode == "cluster" && r.DB != 0:
		return r, advice.Misuse("--redis: a cluster has no database but 0", "leave the number out of the URL")
	case mode == "cluster":
		r.Topology = fanout.Cluster
	}
	return r, nil
}

func unauthorized(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "WRONGPASS") || strings.HasPrefix(err.Error(), "ERR AUTH"))
}

// chooseMaster checks the name of the master that is meant, or takes the only one.
func chooseMaster(r *fanout.Redis, masters []string, address string) error {
	hint := "the sentinel knows: " + strings.Join(masters, ", ")
	switch {
	case len(masters) == 0:
		return refused(fmt.Errorf("the sentinel %s watches no master", address), "")
	case r.Master == "" && len(masters) > 1:
		return advice.Misuse("--redis: "+address+" is a sentinel of several masters", hint+"; add ?master=NAME to the URL")
	case r.Master == "":
		r.Master = masters[0]
	case !slices.Contains(masters, r.Master):
		return advice.Misuse(fmt.Sprintf("--redis: the sentinel %s knows no master %q", address, r.Master), hint)
	}
	return nil
}

// introduce asks a server for its mode (every user may: HELLO is part of logging
// in) and, if it is a sentinel, for the names of its masters. A server that does
// not know HELLO is taken for one that stands alone.
func introduce(ctx context.Context, opts *redis.Options, login fanout.Login) (mode string, masters []string, err error) {
	probe := plainOptions(&redis.Options{
		Addr: opts.Addr, TLSConfig: opts.TLSConfig, DialTimeout: opts.DialTimeout,
		Username: login.Username, Password: login.Password,
	})
	db := redis.NewClient(probe)
	defer db.Close()
	hello, err := db.Do(ctx, "HELLO", 2).Slice()
	if err != nil {
		if strings.HasPrefix(err.Error(), "ERR unknown command") {
			return "standalone", nil, nil
		}
		return "", nil, err
	}
	mode = field(hello, "mode")
	if mode != "sentinel" {
		return mode, nil, nil
	}
	all, err := db.Do(ctx, "SENTINEL", "MASTERS").Slice()
	if err != nil {
		return "", nil, err
	}
	for _, one := range all {
		if fields, ok := one.([]any); ok {
			masters = append(masters, field(fields, "name"))
		}
	}
	return mode, masters, nil
}

// field finds a text in a flat list of names and values.
func field(list []any, name string) string {
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			text, _ := list[i+1].(string)
			return text
		}
	}
	return ""
}

// explainRedis says what to do about an error of Redis. A connection that
// breaks is a failure, an answer that forbids is a refusal.
func explainRedis(err error, address string) error {
	text := err.Error()
	wrapped := &redisError{address, err}
	switch {
	case errors.Is(err, context.Canceled):
		return advice.Failed(errInterrupted, "")
	case unauthorized(err):
		return refused(wrapped, "give user and password in the URL: redis://user:password@host:port")
	case strings.HasPrefix(text, "NOPERM"):
		return refused(wrapped, "the Redis user must be allowed to PUBLISH (SPUBLISH, XADD) on these channels or this stream")
	case strings.HasPrefix(text, "MOVED "), strings.HasPrefix(text, "ASK "):
		return advice.Failed(wrapped, "the slot of a topic has moved to another node of the cluster meanwhile; start again")
	}
	return advice.Failed(wrapped, "")
}

// redisError names the server whose error it is.
type redisError struct {
	address string
	err     error
}

func (e *redisError) Error() string { return "redis " + e.address + ": " + e.err.Error() }
func (e *redisError) Unwrap() error { return e.err }
