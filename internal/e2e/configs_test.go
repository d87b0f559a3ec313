package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

// Every file of configs is what a gateway runs with, changed in nothing but
// addresses and places of files, and does what it is for.
func TestConfigs(t *testing.T) {
	uses := map[string]func(*testing.T, string){
		"default.yaml":     useDefault,
		"low-latency.yaml": useLowLatency,
		"high-fanout.yaml": useHighFanout,
		"market-data.yaml": useMarketData,
		"echo-bench.yaml":  useEchoBench,
	}
	files, err := os.ReadDir(filepath.Join(root, "configs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		use := uses[f.Name()]
		if use == nil {
			t.Errorf("nothing here uses configs/%s", f.Name())
			continue
		}
		t.Run(f.Name(), func(t *testing.T) {
			t.Parallel()
			use(t, "configs/"+f.Name())
		})
	}
	if len(files) != len(uses) {
		t.Errorf("%d files, and %d uses", len(files), len(uses))
	}
}

// connect subscribes one connection.
func connect(t *testing.T, g *gateway, opts client.Options, filters ...string) *client.Conn {
	t.Helper()
	conn, err := client.Dial(t.Context(), g.url(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Subscribe(t.Context(), filters...); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ticksUntil reads ticks up to one that is the last wanted; a loss ends the test.
func ticksUntil(t *testing.T, conn *client.Conn, last func(*client.Tick) bool) (ticks []*client.Tick) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		event, err := conn.Next(ctx)
		if err != nil {
			t.Fatalf("after %d ticks: %v", len(ticks), err)
		}
		switch e := event.(type) {
		case *client.Gap, *client.Reset:
			t.Fatalf("%T %+v", e, e)
		case *client.Tick:
			ticks = append(ticks, e.Clone())
			if last(e) {
				return ticks
			}
		}
	}
}

func isTick(topic, payload string) func(*client.Tick) bool {
	return func(t *client.Tick) bool { return t.Topic == topic && string(t.Payload) == payload }
}

// useDefault: the demo feed, the page, the encrypted and the ordinary echo.
func useDefault(t *testing.T, file string) {
	g := serve(t, nil, settingsFile(t, file))
	conn := connect(t, g, g.options(), "md:demo:**")
	seen := map[string]bool{}
	ticksUntil(t, conn, func(tick *client.Tick) bool {
		seen[tick.Topic] = true
		return len(seen) == 5
	})
	if page := g.get("/"); page.status != http.StatusOK || !strings.Contains(page.body, "<title>Sealcast</title>") {
		t.Errorf("the page: %d %.200s", page.status, page.body)
	}
	sealedEcho(t, g, g.options(), 1<<20)
	plainEcho(t, g, 1000)
}

// sealedEcho sends a message of that size and wants it back.
func sealedEcho(t *testing.T, g *gateway, opts client.Options, size int) {
	t.Helper()
	echo, err := client.DialEcho(t.Context(), "ws://"+g.listen+"/echo", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close(context.Background()) }()
	message := bytes.Repeat([]byte(largest), size/len(largest)+1)[:size]
	sent := make(chan error, 1)
	go func() { sent <- echo.Send(t.Context(), message) }()
	back, err := echo.Receive(t.Context())
	if err != nil || !bytes.Equal(back, message) {
		t.Errorf("%d of %d bytes came back: %v", len(back), size, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// plainEcho is an ordinary WebSocket client.
func plainEcho(t *testing.T, g *gateway, size int) {
	t.Helper()
	conn, _, _, err := ws.Dial(t.Context(), "ws://"+g.listen+"/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	message := bytes.Repeat([]byte("o"), size)
	if err := wsutil.WriteClientBinary(conn, message); err != nil {
		t.Fatal(err)
	}
	if back, err := wsutil.ReadServerBinary(conn); err != nil || !bytes.Equal(back, message) {
		t.Errorf("%d of %d bytes came back: %v", len(back), size, err)
	}
}

// useLowLatency: a tick that comes alone goes alone, uncompressed; who comes late
// gets the last quote; trades are complete.
func useLowLatency(t *testing.T, file string) {
	redis := redistest.Start(t)
	g := serve(t, []string{"redis.mode=standalone", "redis.addrs=" + redis.Addr}, settingsFile(t, file))
	conn := connect(t, g, g.options(), "md:low:*:*")
	if codec := conn.Info().Codec; codec != wire.CodecNone {
		t.Errorf("codec %v", codec)
	}
	const quotes, trades = "md:low:a:ticker", "md:low:a:trade"
	const n = 50
	for i := 1; i <= n; i++ {
		publish(redis, trades, i, i)
		ticksUntil(t, conn, isTick(trades, strconv.Itoa(i)))
	}
	if batches := g.metric("sealcast_batch_ticks_count"); batches != n {
		t.Errorf("%d ticks, one after the other, were %v batches", n, batches)
	}
	publish(redis, trades, n+1, 4*n)
	ticks := ticksUntil(t, conn, isTick(trades, strconv.Itoa(4*n)))
	if len(ticks) != 3*n {
		t.Errorf("%d of %d trades", len(ticks), 3*n)
	}
	publish(redis, quotes, 1, n)
	ticksUntil(t, conn, isTick(quotes, strconv.Itoa(n)))
	expectSnapshot(t, connect(t, g, g.options(), quotes), quotes, strconv.Itoa(n))
}

func expectSnapshot(t *testing.T, conn *client.Conn, topic, payload string) {
	t.Helper()
	for {
		event, err := conn.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := event.(*client.Snapshot); ok {
			if s.Topic != topic || string(s.Payload) != payload || s.Stale {
				t.Errorf("snapshot %+v", s)
			}
			return
		}
	}
}

// useHighFanout: ticks travel together and compressed, quotes are merged to ten a
// second with the newest last, trades are complete, alerts do not wait for company.
func useHighFanout(t *testing.T, file string) {
	redis := redistest.Start(t)
	g := serve(t, []string{"redis.mode=standalone", "redis.addrs=" + redis.Addr}, settingsFile(t, file))
	conn := connect(t, g, g.options(), "md:high:*:*")
	if codec := conn.Info().Codec; codec != wire.CodecZstd {
		t.Errorf("codec %v", codec)
	}
	const quotes, trades, alerts = "md:high:a:ticker", "md:high:a:trade", "md:high:a:alert"
	const n = 3000
	source := redis.Connect()
	pad := strings.Repeat(`,"venue":"wombat"`, 5)
	for i := 1; i <= n; i++ {
		source.Queue("PUBLISH", quotes, strconv.Itoa(i))
		source.Queue("PUBLISH", trades, strconv.Itoa(i)+pad)
	}
	source.Queue("PUBLISH", alerts, "now")
	if _, err := source.Flush(); err != nil {
		t.Fatal(err)
	}
	got, merged := map[string]int{}, 0
	left := map[string]string{quotes: strconv.Itoa(n), trades: strconv.Itoa(n) + pad, alerts: "now"}
	ticksUntil(t, conn, func(tick *client.Tick) bool {
		got[tick.Topic]++
		merged += int(tick.Merged)
		if string(tick.Payload) == left[tick.Topic] {
			delete(left, tick.Topic)
		}
		return len(left) == 0
	})
	if got[trades] != n || got[quotes]+merged != n || got[quotes] > n/10 {
		t.Errorf("of %d each: %d trades, %d quotes that stand for %d", n, got[trades], got[quotes], got[quotes]+merged)
	}
	if ticks, batches := g.metric("sealcast_batch_ticks_sum"), g.metric("sealcast_batch_ticks_count"); batches > ticks/10 {
		t.Errorf("%v ticks in %v batches", ticks, batches)
	}
	before, after := g.metric(`sealcast_compression_bytes_total{stage="before"}`), g.metric(`sealcast_compression_bytes_total{stage="after"}`)
	if before < 1 || after > before/3 {
		t.Errorf("%v bytes became %v", before, after)
	}
}

// useMarketData: tokens of an identity provider, tickets, an audit log, no echo, and
// clients that name the realm.
func useMarketData(t *testing.T, file string) {
	redis := redistest.Start(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	provider := providerOf(t, key)
	dir := t.TempDir()
	start(t, "sealcast", []string{"keygen", "-o", dir + "/gateway.key"}).expect(0)
	start(t, "sealcast", []string{"keygen", "--ticket", "-o", dir + "/tickets.key"}).expect(0)
	g := serve(t, []string{"redis.addrs=" + redis.Addr, "key_file=" + dir + "/gateway.key", "resumption.ticket_key_file=" + dir + "/tickets.key",
		"auth.jwks=" + provider, "audit.file=" + dir + "/audit.log"},
		settingsFile(t, file), environ("SEALCAST_AUTH_CONTROL_SECRET="+tokenSecret))
	opts := g.options()
	opts.Realm = "market-data"
	if _, err := client.Dial(t.Context(), g.url(), opts); !closedWith(err, wire.CloseUnauthenticated) {
		t.Errorf("without a token: %v", err)
	}
	opts.Token = signed(t, key)
	conn := connect(t, g, opts, "md:market:**")
	if _, err := conn.Subscribe(t.Context(), "secret:**"); err == nil {
		t.Error("a topic that the token does not name was given")
	}
	publish(redis, "md:market:a:trade", 1, 100)
	if ticks := ticksUntil(t, conn, isTick("md:market:a:trade", "100")); len(ticks) != 100 {
		t.Errorf("%d of 100 trades", len(ticks))
	}
	opts.Ticket, opts.Token = conn.Ticket(), ""
	if again := connect(t, g, opts, "md:market:**"); !again.Info().Resumed || again.Info().User != "ann" {
		t.Errorf("with a ticket: %+v", again.Info())
	}
	if _, err := client.DialEcho(t.Context(), "ws://"+g.listen+"/echo", opts); err == nil {
		t.Error("there is an echo")
	}
	other := g.options()
	other.Token = opts.Token
	if _, err := client.Dial(t.Context(), g.url(), other); err == nil {
		t.Error("a client of another realm was taken")
	}
	eventually(t, patience, "a login in the audit log", func() bool {
		lines, _ := os.ReadFile(dir + "/audit.log")
		return strings.Contains(string(lines), `"ann"`)
	})
}

func closedWith(err error, code wire.CloseCode) bool {
	closed, ok := errors.AsType[*client.ClosedError](err)
	return ok && closed.Code == code
}

// providerOf publishes a key as identity providers do, and returns where.
func providerOf(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	jwk, err := jwkset.NewJWKFromKey(key.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "1", ALG: jwkset.AlgES256, USE: jwkset.UseSig}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(map[string]any{"keys": []any{jwk.Marshal()}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, bytes.NewReader(set))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// signed is a token as the settings of market-data.yaml want it.
func signed(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": "https://id.example/", "aud": "market-data", "sub": "ann",
		"exp": time.Now().Add(time.Hour).Unix(), "topics": []string{"md:market:**"}})
	token.Header["kid"] = "1"
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// useEchoBench: every suite that the file offers is the one that is measured, and
// large messages come back.
func useEchoBench(t *testing.T, file string) {
	g := serve(t, nil, settingsFile(t, file))
	p, doc := bench(t, "echo", "ws://"+g.listen+"/echo", "--key", g.pin().String(), "--admin", "http://"+g.admin,
		"--suites", "plain,aes-128-gcm,aes-256-gcm,chacha20-poly1305,sm4-gcm,websocket", "--size", "1KiB", "--connections", "4",
		"--load", "saturate", "--for", "100ms", "--warmup", "20ms", "--repeat", "1")
	p.expect(0)
	if len(doc.Results) != 6 {
		t.Errorf("%d results", len(doc.Results))
	}
	for _, r := range doc.Results {
		if r["messages"].(float64) == 0 || r["errors"].(float64) != 0 {
			t.Errorf("%v: %v messages, %v errors", r["suite"], r["messages"], r["errors"])
		}
	}
	sealedEcho(t, g, g.options(), 1<<20) // the largest that the client takes
	plainEcho(t, g, 4<<20)
}
