package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
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
	f.StringVar(&s.text, "redis", text, "`ADDR` (host:port) or URL (redis://user:password@host:port/db, rediss:// for TLS) of the Redis that the gateway reads; SEALCTL_REDIS does the same")
	f.Lookup("redis").DefValue = defaultRedis
}

// options reads the address. Its errors never quote what may hold a password.
func (s *server) options() (*redis.Options, error) {
	const hint = "give host:port, or redis://user:password@host:port/db"
	if !strings.Contains(s.text, "://") {
		address := s.text
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), "6379")
		}
		return plainOptions(&redis.Options{Addr: address}), nil
	}
	if _, err := url.Parse(s.text); err != nil {
		return nil, misuse("--redis: not a URL", hint)
	}
	opts, err := redis.ParseURL(s.text)
	if err != nil {
		return nil, misuse("--redis: "+err.Error(), hint)
	}
	return plainOptions(opts), nil
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

// open connects and makes sure that somebody answers.
func (s *server) open(ctx context.Context) (*redis.Client, error) {
	opts, err := s.options()
	if err != nil {
		return nil, err
	}
	db := redis.NewClient(opts)
	err = db.Ping(ctx).Err()
	if err == nil {
		return db, nil
	}
	db.Close()
	err = explainRedis(err, opts.Addr)
	if errors.As(err, new(net.Error)) {
		return nil, refused(err, "is Redis running there? --redis names its address; a gateway with built-in Redis prints it at start")
	}
	return nil, err
}

// explainRedis says what to do about an error of Redis. A connection that
// breaks is a failure, an answer that forbids is a refusal.
func explainRedis(err error, address string) error {
	text := err.Error()
	wrapped := &redisError{address, err}
	switch {
	case errors.Is(err, context.Canceled):
		return failed(errInterrupted, "")
	case strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR AUTH"):
		return refused(wrapped, "give user and password in the URL: redis://user:password@host:port")
	case strings.HasPrefix(text, "NOPERM"):
		return refused(wrapped, "the Redis user must be allowed to PUBLISH on these channels")
	}
	return failed(wrapped, "")
}

// redisError names the server whose error it is.
type redisError struct {
	address string
	err     error
}

func (e *redisError) Error() string { return "redis " + e.address + ": " + e.err.Error() }
func (e *redisError) Unwrap() error { return e.err }
