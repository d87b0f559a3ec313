package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sealcast/sealcast/crypto/suite"
)

// scrape is an answer of /metrics.
type scrape struct {
	types  map[string]string  // by name
	series map[string]float64 // by name and labels, as written
}

func scrapeMetrics(t *testing.T, h http.Handler) scrape {
	t.Helper()
	w := ask(h, "GET", "/metrics")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s := scrape{map[string]string{}, map[string]float64{}}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			s.types[name] = kind
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s.series[line[:at]] = value
	}
	return s
}

// ours are the names of the series that are not the runtime's.
func (s scrape) ours() []string {
	var names []string
	for name := range s.series {
		if strings.HasPrefix(name, "sealcast_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// traffic does a bit of everything.
func (w *world) traffic() {
	aes := w.dial(w.client("aes", suite.AES128GCM))
	chacha := w.dial(w.client("chacha", suite.ChaCha20Poly1305))
	w.subscribe(aes, "md:*:ticker", "md:a:ticker")
	w.subscribe(chacha, "md:a:ticker")
	const ticks = 300
	for i := range ticks {
		w.redis.Publish("md:a:ticker", strconv.Itoa(i))
		w.nextTick(aes)
		w.nextTick(chacha)
	}
	resumed := w.client("again", suite.AES128GCM)
	resumed.Ticket = aes.Ticket()
	_ = w.dial(resumed).Close(context.Background())
	w.echoes()
	w.hostile()
}

func (w *world) echoes() {
	w.t.Helper()
	c, _, _, err := ws.Dial(w.t.Context(), "ws://"+w.addr+"/echo")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := wsutil.WriteClientText(c, []byte("hello")); err != nil {
		w.t.Fatal(err)
	}
	if _, err := wsutil.ReadServerText(c); err != nil {
		w.t.Fatal(err)
	}
	_ = c.Close() // without a close: 1006
}

// hostile sends what could make new label values: odd close codes, names of
// clients and topics, and a handshake of nonsense.
func (w *world) hostile() {
	w.t.Helper()
	for code := 3000; code < 3020; code++ {
		c, _, _, err := ws.Dial(w.t.Context(), "ws://"+w.addr+"/echo")
		if err != nil {
			w.t.Fatal(err)
		}
		_ = ws.WriteFrame(c, ws.MaskFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusCode(code), ""))))
		_ = c.Close()
	}
	d := ws.Dialer{Protocols: []string{suite.AES128GCM.Protocol()}}
	c, _, _, err := d.Dial(w.t.Context(), "ws://"+w.addr+"/ws")
	if err != nil {
		w.t.Fatal(err)
	}
	_ = wsutil.WriteClientBinary(c, []byte("nonsense"))
	w.eventually("handshake failed", func() bool { return w.gateway.Stats().Handshakes[suite.AES128GCM].Failed == 1 })
	_ = c.Close()
	named := w.dial(w.client(strings.Repeat("N", 500), suite.AES128GCM))
	w.subscribe(named, "x:1", "x:2")
	w.eventually("closes counted", func() bool {
		closes := w.gateway.Stats().Closes
		return closes[len(closes)-1].ByClient == 20
	})
}

func TestMetricsAfterTraffic(t *testing.T) {
	w := newWorld(t)
	before := scrapeMetrics(t, w)
	w.traffic()
	w.eventually("pools told, all closed", func() bool {
		s := w.gateway.Stats()
		return s.Ciphers.Hits > 0 && s.Ciphers.Kept > 0 && s.Connections == 3
	})
	after := scrapeMetrics(t, w)
	for _, f := range families() {
		if got := after.types[f.name]; got != string(f.kind) {
			t.Errorf("%s is a %q, want %s", f.name, got, f.kind)
		}
	}
	// Whatever clients do, there are no more series than at the start.
	if !slices.Equal(before.ours(), after.ours()) {
		t.Errorf("%d series before, %d after", len(before.ours()), len(after.ours()))
	}
	if n := len(after.ours()); n > 300 {
		t.Errorf("%d series", n)
	}
	w.checkValues(after)
	if _, ok := after.types["go_goroutines"]; !ok {
		t.Error("nothing of the Go runtime")
	}
}

func (w *world) checkValues(s scrape) {
	w.t.Helper()
	exact := map[string]float64{
		`sealcast_build_info{version="v1"}`:                                1,
		`sealcast_connections`:                                             3,
		`sealcast_connections_accepted_total`:                              26,
		`sealcast_connections_refused_total{reason="limit"}`:               0,
		`sealcast_handshakes_total{result="ok",suite="aes-128-gcm"}`:       2,
		`sealcast_handshakes_total{result="ok",suite="chacha20-poly1305"}`: 1,
		`sealcast_handshakes_total{result="resumed",suite="aes-128-gcm"}`:  1,
		`sealcast_handshakes_total{result="failed",suite="aes-128-gcm"}`:   1,
		`sealcast_handshakes_total{result="ok",suite="sm4-gcm"}`:           0,
		`sealcast_closes_total{by="client",code="other"}`:                  20,
		`sealcast_closes_total{by="gateway",code="4400"}`:                  1,
		`sealcast_closes_total{by="client",code="1006"}`:                   1,
		`sealcast_ticks_received_total`:                                    300,
		`sealcast_ticks_received_bytes_total`:                              10 + 2*90 + 3*200,
		`sealcast_ticks_delivered_total`:                                   600,
		`sealcast_ticks_dropped_total{reason="queue_full"}`:                0,
		`sealcast_source_ready`:                                            1,
		`sealcast_source_connections_lost_total`:                           0,
		`sealcast_topics`:                                                  3,
		`sealcast_panics_total`:                                            0,
		`sealcast_slow_sessions`:                                           0,
		`sealcast_batch_ticks_sum`:                                         600, // the two are no cohort
	}
	for name, want := range exact {
		if got, ok := s.series[name]; !ok || got != want {
			w.t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{
		`sealcast_records_total{direction="in"}`, `sealcast_records_total{direction="out"}`,
		`sealcast_socket_bytes_total{direction="in"}`, `sealcast_socket_bytes_total{direction="out"}`,
		`sealcast_batch_bytes_count`, `sealcast_batch_delay_seconds_count`, `sealcast_seal_seconds_count`, `sealcast_seal_seconds_sum`,
		`sealcast_loop_lag_seconds_count`, `sealcast_cipher_lookups_total{result="hit"}`, `sealcast_cipher_lookups_total{result="miss"}`,
		`sealcast_ciphers`, `sealcast_filters`, `sealcast_source_subscriptions`,
	} {
		if s.series[name] <= 0 {
			w.t.Errorf("%s is %v", name, s.series[name])
		}
	}
	for _, f := range families() {
		if f.kind == histogram && s.series[f.name+`_bucket{le="+Inf"}`] != s.series[f.name+"_count"] {
			w.t.Errorf("%s: the last bucket is not the count", f.name)
		}
	}
}

// TestMetricsFollowConventions holds them against the linter behind promtool.
func TestMetricsFollowConventions(t *testing.T) {
	w := newWorld(t)
	problems, err := testutil.GatherAndLint(newRegistry(w.options))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsWithoutRedis(t *testing.T) {
	w := newWorld(t)
	w.eventually("Redis there", func() bool { return w.hub.Ready() == nil })
	w.redis.Close()
	w.eventually("Redis lost", func() bool {
		s := scrapeMetrics(t, w).series
		return s["sealcast_source_ready"] == 0 && s["sealcast_source_connections_lost_total"] == 1
	})
}

func TestMetricsWhileStarting(t *testing.T) {
	s := scrapeMetrics(t, Handler(options()))
	if len(s.ours()) != 0 || s.types["go_goroutines"] != "gauge" {
		t.Errorf("got %v", s.types)
	}
}
