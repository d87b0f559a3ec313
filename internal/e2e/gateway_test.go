package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/session"
)

// everyTick is the setting under which no tick may be merged.
const everyTick = `topics=[{match: "**", policy: every}]`

// gateway is `sealcast serve` as a process.
type gateway struct {
	*process
	listen, admin string // host:port
}

// launch starts a gateway on free ports and does not wait for it.
func launch(t testing.TB, sets []string, setups ...setup) *gateway {
	t.Helper()
	return launchAt(t, freeAddress(t), freeAddress(t), sets, setups...)
}

func launchAt(t testing.TB, listen, admin string, sets []string, setups ...setup) *gateway {
	t.Helper()
	g := &gateway{listen: listen, admin: admin}
	args := []string{"serve"}
	for _, s := range append([]string{"listen=" + g.listen, "admin.listen=" + g.admin}, sets...) {
		args = append(args, "--set", s)
	}
	g.process = start(t, "sealcast", args, setups...)
	return g
}

// serve starts a gateway and waits until it is ready.
func serve(t testing.TB, sets []string, setups ...setup) *gateway {
	t.Helper()
	g := launch(t, sets, setups...)
	g.awaitReady()
	return g
}

// fromRedis are the settings of a gateway that reads a real Redis.
func fromRedis(r *redistest.Server, sets ...string) []string {
	return append([]string{"redis.mode=standalone", "redis.addrs=" + r.Addr, everyTick}, sets...)
}

// freeAddress is a loopback address where nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (g *gateway) awaitReady() {
	g.t.Helper()
	eventually(g.t, patience, "ready", func() bool {
		select {
		case <-g.ended:
			g.t.Fatalf("the gateway has ended with status %d:\n%s", g.status, g.stderr.String())
		default:
		}
		return g.get("/readyz").status == http.StatusOK
	})
}

// answer is one of the admin interface; status 0: there was none.
type answer struct {
	status int
	body   string
}

func (g *gateway) get(path string) answer {
	resp, err := http.Get("http://" + g.admin + path)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}
	}
	return answer{resp.StatusCode, string(body)}
}

func (g *gateway) url() string { return "ws://" + g.listen + "/ws" }

// pin is the gateway's public key.
func (g *gateway) pin() session.PublicKey {
	g.t.Helper()
	var info struct {
		Key string `json:"public_key"`
	}
	if err := json.Unmarshal([]byte(g.get("/v1/info").body), &info); err != nil {
		g.t.Fatal(err)
	}
	pin, err := session.ParsePin(info.Key)
	if err != nil {
		g.t.Fatal(err)
	}
	return pin
}

// options are those of a client that verifies the gateway.
func (g *gateway) options() client.Options {
	return client.Options{Pins: []session.PublicKey{g.pin()}, DialTimeout: patience}
}

var builtInRedis = regexp.MustCompile(`redis-cli -p (\d+) publish`)

// redis is the address of the built-in Redis, as the gateway tells its user.
func (g *gateway) redis() string {
	g.t.Helper()
	var port []string
	eventually(g.t, patience, "an address of the built-in Redis", func() bool {
		port = builtInRedis.FindStringSubmatch(g.stdout.String())
		return port != nil
	})
	return "127.0.0.1:" + port[1]
}

// tail starts `sealctl tail` and returns once the source r is subscribed to so
// many patterns: every tick from now on arrives.
func (g *gateway) tail(r *redistest.Server, patterns string, args ...string) *process {
	g.t.Helper()
	p := start(g.t, "sealctl", append([]string{"tail", g.url(), "--key", g.pin().String()}, args...))
	c := r.Connect()
	defer c.Close()
	eventually(g.t, patience, "a subscription", func() bool { return c.Do("PUBSUB", "NUMPAT") == patterns })
	return p
}

// jsonLine is one line of `sealctl tail -o json`, a tick or an event.
type jsonLine struct {
	Event, Topic, Cause, Text   string
	Seq, Epoch, Skipped, Merged uint64
	Code                        int
	Payload                     *string
	Base64                      []byte `json:"payload_base64"`
}

func (l jsonLine) payload() string {
	if l.Payload != nil {
		return *l.Payload
	}
	return string(l.Base64)
}

// jsonLines parses all that a tail has printed.
func jsonLines(t testing.TB, out string) []jsonLine {
	t.Helper()
	var all []jsonLine
	for line := range strings.Lines(out) {
		var l jsonLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %.200q", err, line)
		}
		all = append(all, l)
	}
	return all
}
