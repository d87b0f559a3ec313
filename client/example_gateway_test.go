package client_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire/topic"
)

// exampleGateway is a gateway with a Redis, in this process, for the examples.
type exampleGateway struct {
	URL string
	Key session.PublicKey // which its operator gives to clients

	gateway *gateway.Gateway
	redis   *miniredis.Miniredis
	stop    func()
}

// startGateway starts a gateway that keeps the last ticks of every topic. It
// panics when that fails, as an example has nobody to tell.
func startGateway() *exampleGateway {
	key, err := session.GenerateStaticKey(rand.Reader)
	must(err)
	redis, err := miniredis.Run()
	must(err)
	everything, err := topic.ParseFilter("**")
	must(err)
	hub := fanout.NewHub(fanout.Options{Redis: fanout.Redis{Addrs: []string{redis.Addr()}}, WholeSource: true,
		Rules: []fanout.Rule{{Match: everything, Snapshot: true, History: 100}}})
	var o gateway.Options
	o.Loops, o.Realm, o.Version, o.Hub, o.Log = 1, "default", "example", hub, zap.NewNop()
	o.Suites = suite.Policy{Enabled: []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305}, Hardware: suite.Detect()}
	o.Session = &session.GatewayConfig{Key: key}
	o.Limits = gateway.Limits{Subscriptions: 100, Message: 64 << 10, Fragments: 1024}
	o.Slow = gateway.SlowOptions{Queue: 4 << 20, Timeout: 10 * time.Second}
	o.Heartbeat = gateway.HeartbeatOptions{Interval: 25 * time.Second, Timeout: 75 * time.Second}
	o.Batch = gateway.BatchOptions{MaxTicks: 256, MaxBytes: 16 << 10}
	gw, err := gateway.New(o)
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = hub.Run(ctx) })
	running.Go(func() { _ = gw.Serve(listener) })
	return &exampleGateway{URL: "ws://" + listener.Addr().String() + "/ws", Key: key.Public(), gateway: gw, redis: redis, stop: func() {
		limit, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		_ = gw.Shutdown(limit)
		cancel()
		running.Wait()
		redis.Close()
	}}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (g *exampleGateway) Close() { g.stop() }

// Publish is what `redis-cli publish` does.
func (g *exampleGateway) Publish(topic, payload string) { g.redis.Publish(topic, payload) }

// SendAway ends all sessions, as a restart of the gateway does.
func (g *exampleGateway) SendAway(ctx context.Context) {
	sessions, _, err := g.gateway.Sessions(ctx, 0, 100, "")
	must(err)
	for _, s := range sessions {
		_, err = g.gateway.EndSession(ctx, s.ID, true)
		must(err)
	}
}

// options pin the gateway's key.
func (g *exampleGateway) options() client.Options {
	return client.Options{Pins: []session.PublicKey{g.Key}, Backoff: client.Backoff{Min: 50 * time.Millisecond}}
}

// waitFor passes over events until one of a kind comes.
func waitFor[E client.Event](ctx context.Context, c *client.Client) E {
	for {
		event, err := c.Next(ctx)
		if err != nil {
			panic(fmt.Sprint("waiting for an event: ", err))
		}
		if wanted, ok := event.(E); ok {
			return wanted
		}
	}
}
