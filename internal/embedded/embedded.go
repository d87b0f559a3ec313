// Package embedded is the Redis that the gateway brings along, and the demo
// feed in it, so that a first try needs nothing else. The server is miniredis:
// one lock, no persistence, no authentication, pub/sub that gives a message
// through only one of several patterns that match. It is for demonstrations
// and tests, never for production.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/sealcast/sealcast/internal/feed"
)

var (
	// ErrNotLoopback refuses an address that others could reach: there is no authentication.
	ErrNotLoopback = errors.New("the built-in Redis has no authentication and listens on a loopback address only")
	// ErrInUse says that the address is taken.
	ErrInUse = errors.New("address already in use")
)

// Redis is a running built-in server.
type Redis struct {
	server *miniredis.Miniredis
	addr   string
}

// Start listens on addr, a loopback address with a port (0: any free one), such
// as 127.0.0.1:6379. It fails with ErrNotLoopback or ErrInUse.
func Start(addr string) (*Redis, error) {
	if err := checkLoopback(addr); err != nil {
		return nil, err
	}
	m := miniredis.NewMiniRedis()
	switch err := m.StartAddr(addr); {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("built-in Redis on %s: %w", addr, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("built-in Redis on %s: %w", addr, err)
	}
	return &Redis{server: m, addr: m.Addr()}, nil
}

func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("built-in Redis: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("built-in Redis on %s: %w", addr, ErrNotLoopback)
	}
	return nil
}

// Addr is the address that clients connect to, with the port that was chosen.
func (r *Redis) Addr() string { return r.addr }

// Close ends the server and its connections. It may be called more than once.
func (r *Redis) Close() { r.server.Close() }

// Feed publishes the demo market in the Redis at addr, about rate ticks a
// second, at irregular intervals as trading makes them, until ctx ends; then it
// returns nil. Everything follows from the seed but the moments of publishing.
// It returns an error when Redis does not take a tick.
func Feed(ctx context.Context, addr string, rate float64, seed uint64) error {
	client := redis.NewClient(&redis.Options{
		Addr:     addr,
		Protocol: 2,

		MaxRetries:    -1, // the server is ours: what fails once has gone
		DialerRetries: 1,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	market := feed.NewDemo(seed)
	pauses := rand.New(rand.NewPCG(seed, 1))
	next := time.Now()
	for {
		next = next.Add(time.Duration(pauses.ExpFloat64() / rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
		name, payload := market.Next()
		if err := client.Publish(ctx, name, payload).Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("demo feed: %w", err)
		}
	}
}
