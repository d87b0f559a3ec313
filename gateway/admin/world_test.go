package admin

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/session"
)

// world is a gateway with its hub and a Redis, behind the admin interface.
type world struct {
	t       *testing.T
	redis   *miniredis.Miniredis
	hub     *fanout.Hub
	gateway *gateway.Gateway
	key     *session.StaticKey
	addr    string
	options Options
	http.Handler
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, redis: miniredis.RunT(t)}
	w.hub = fanout.NewHub(fanout.Options{Redis: fanout.Redis{Addrs: []string{w.redis.Addr()}}, WholeSource: true})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.hub.Run(ctx) }()
	w.startGateway()
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if err := w.gateway.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		<-ended
	})
	w.options = options()
	w.options.Parts = func() (Gateway, Hub) { return w.gateway, w.hub }
	w.Handler = Handler(w.options)
	return w
}

func (w *world) startGateway() {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	ticketKey := make([]byte, session.TicketKeySize)
	_, _ = rand.Read(ticketKey)
	keys, err := session.NewTicketKeys(ticketKey)
	if err != nil {
		w.t.Fatal(err)
	}
	w.key = key
	w.gateway, err = gateway.New(gateway.Options{Loops: 2, Realm: "default", Version: "test", Hub: w.hub, Log: zap.NewNop(),
		Settings: gateway.Settings{
			Suites:    suite.Policy{Enabled: []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305}, Hardware: suite.Detect()},
			Session:   &session.GatewayConfig{Key: key, Tickets: &session.Tickets{Keys: keys, Now: time.Now}},
			Echo:      gateway.EchoOptions{Enabled: true, Unencrypted: true, MaxMessage: 1 << 20},
			Limits:    gateway.Limits{Subscriptions: 100, Message: 64 << 10, Fragments: 16},
			Slow:      gateway.SlowOptions{Queue: 4 << 20, Timeout: 10 * time.Second},
			Heartbeat: gateway.HeartbeatOptions{Interval: 25 * time.Second, Timeout: 75 * time.Second},
			Auth:      gateway.AuthOptions{KeepRevoked: time.Hour},
			Batch:     gateway.BatchOptions{MaxTicks: 256, MaxBytes: 16 << 10},
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	go func() { _ = w.gateway.Serve(ln) }()
}

func (w *world) client(name string, id suite.ID) client.Options {
	return client.Options{Suites: []suite.ID{id}, Pins: []session.PublicKey{w.key.Public()}, Name: name}
}

func (w *world) dial(opts client.Options) *client.Conn {
	w.t.Helper()
	c, err := client.Dial(w.t.Context(), "ws://"+w.addr+"/ws", opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) subscribe(c *client.Conn, filters ...string) {
	w.t.Helper()
	if _, err := c.Subscribe(w.t.Context(), filters...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) nextTick(c *client.Conn) *client.Tick {
	w.t.Helper()
	for {
		ev, err := c.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if tick, ok := ev.(*client.Tick); ok {
			return tick
		}
	}
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 10 s: %s", what)
		}
	}
}
