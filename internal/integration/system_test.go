package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
)

// realm is bound into every handshake.
const realm = "default"

// patience bounds every wait. Nothing here takes that long.
const patience = 30 * time.Second

// sealing are the suites that protect records; plain does not.
var sealing = []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305, suite.SM4GCM}

// system is a gateway with its source.
type system struct {
	*gateway.Gateway
	hub   *fanout.Hub
	redis *miniredis.Miniredis
	key   *session.StaticKey
	rekey record.Limits // of both sides
	addr  string
}

func start(t testing.TB) *system {
	t.Helper()
	return startWith(t, &session.GatewayConfig{Limits: testenv.Rekey()})
}

// startCounted is for tests that address messages by their number: there are no
// key updates between records.
func startCounted(t testing.TB) *system {
	t.Helper()
	return startWith(t, &session.GatewayConfig{})
}

// startWith completes the handshake's settings. The rules say what is kept.
func startWith(t testing.TB, handshake *session.GatewayConfig, rules ...fanout.Rule) *system {
	t.Helper()
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	handshake.Key, handshake.HardwareAES = key, true
	s := &system{redis: miniredis.RunT(t), key: key, rekey: handshake.Limits}
	s.startHub(t, handshake, fanout.Options{Redis: fanout.Redis{Addrs: []string{s.redis.Addr()}}, WholeSource: true, Rules: rules})
	return s
}

// startHub starts the gateway on a hub.
func (s *system) startHub(t testing.TB, handshake *session.GatewayConfig, opt fanout.Options) {
	t.Helper()
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	opt.Log = log
	s.hub = fanout.NewHub(opt)
	var err error
	s.Gateway, err = gateway.New(gateway.Options{
		Loops:   2,
		Realm:   realm,
		Hub:     s.hub,
		Version: "test",
		Log:     log,
		Settings: gateway.Settings{
			Suites:    suite.Policy{Enabled: sealing, AllowPlain: true, Hardware: suite.Hardware{AES: true}},
			Session:   handshake,
			Echo:      gateway.EchoOptions{Enabled: true, Unencrypted: true, MaxMessage: 1 << 20},
			Limits:    gateway.Limits{Subscriptions: 100, Message: 64 << 10, Fragments: 1024},
			Slow:      gateway.SlowOptions{Queue: 4 << 20, Timeout: 10 * time.Second},
			Heartbeat: gateway.HeartbeatOptions{Interval: 25 * time.Second, Timeout: 75 * time.Second},
			Batch:     gateway.BatchOptions{MaxTicks: 256, MaxBytes: 16 << 10},
			GroupSeal: testenv.Groups(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.serve(t)
}

// serve runs hub and gateway until the test ends.
func (s *system) serve(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ln); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	running.Go(func() {
		if err := s.hub.Run(ctx); err != nil {
			t.Errorf("hub: %v", err)
		}
	})
	t.Cleanup(func() {
		draining, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(draining); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		stop()
		running.Wait()
	})
}

// expectBase wants every connection gone, and none of them by a panic.
func (s *system) expectBase(t testing.TB) {
	t.Helper()
	eventually(t, "no connection left", func() bool { return s.Stats().Connections == 0 })
	if n := s.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func (s *system) options(ids ...suite.ID) client.Options {
	return client.Options{Suites: ids, Pins: []session.PublicKey{s.key.Public()}, Name: "integration", PostQuantum: session.PostQuantumOff, Rekey: s.rekey}
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// codeOf is the close code that an error of the client carries; 0: none.
func codeOf(err error) wire.CloseCode {
	var closed *client.ClosedError
	var failed *session.Error
	switch {
	case errors.As(err, &closed):
		return closed.Code
	case errors.As(err, &failed):
		return failed.Code
	}
	return 0
}

// stride is the step of a test that goes through very many positions: each of
// them, but under the race detector, which sees the same code all the time and
// is ten times as slow, every few. SEALCAST_LONG makes it each there too.
func stride(underRace int) int {
	if testenv.Race && os.Getenv("SEALCAST_LONG") == "" {
		return underRace
	}
	return 1
}
