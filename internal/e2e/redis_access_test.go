package e2e

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sealcast/sealcast/internal/redistest"
)

// guarded are servers of Redis that speak TLS, and want certificates of their clients.
type guarded struct {
	*testing.T
	servers []*redistest.Server
	owner   func(key string) *redistest.Server
	mode    string
}

// The source of a gateway and how a publisher reaches it.
type guardedSource struct {
	name     string
	filter   string // that a client may use beside the name
	publish  string // what the gateway publishes canaries with; empty: it has none
	channels string // lists its channels
	send     func(g *guarded, payload string)
}

var guardedSources = map[string]guardedSource{
	"pubsub": {"pubsub", "md:**", "publish", "CHANNELS", func(g *guarded, payload string) { g.servers[0].Do("PUBLISH", "md:x", payload) }},
	"sharded": {"sharded", "md:x", "spublish", "SHARDCHANNELS", func(g *guarded, payload string) {
		g.owner("md:x").Do("SPUBLISH", "md:x", payload)
	}},
	"streams": {"streams", "md:**", "", "", func(g *guarded, payload string) {
		g.owner("ticks").Do("XADD", "ticks", "*", "topic", "md:x", "payload", payload)
	}},
}

// TestRedisOverTLSWithFewRights: with certificates on both sides, and with the rights
// that docs/operations.md names and no others, ticks arrive, canaries fly, and
// gateways tell each other of revocations.
func TestRedisOverTLSWithFewRights(t *testing.T) {
	cert := newCertificate(t)
	args := []string{"--tls-port", redistest.FreePort, "--tls-auth-clients", "yes",
		"--tls-cert-file", cert.cert, "--tls-key-file", cert.key, "--tls-ca-cert-file", cert.cert}
	settings := []string{"redis.tls.enabled=true", "redis.tls.ca=" + cert.cert, "redis.username=gateway", "redis.password=secret", everyTick}
	identified := append(settings[:len(settings):len(settings)], "redis.tls.cert="+cert.cert, "redis.tls.key="+cert.key)
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, args...)
		g := &guarded{t, []*redistest.Server{s}, func(string) *redistest.Server { return s }, "standalone"}
		stranger := launch(t, g.settings(settings, "pubsub"))
		stranger.awaitReason("certificate required")
		for _, source := range []string{"pubsub", "streams"} {
			g.serves(identified, guardedSources[source])
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, append(args, "--tls-cluster", "yes", "--tls-replication", "yes")...)
		g := &guarded{t, c.Nodes, c.Owner, "cluster"}
		for _, source := range []string{"pubsub", "sharded", "streams"} {
			g.serves(identified, guardedSources[source])
		}
	})
}

// settings are those of a gateway that reads these servers.
func (g *guarded) settings(common []string, source string) []string {
	var addrs []string
	for _, s := range g.servers {
		addrs = append(addrs, "127.0.0.1:"+s.Setting("--tls-port"))
	}
	return append(common[:len(common):len(common)], "redis.mode="+g.mode, "redis.source="+source,
		"redis.addrs=["+strings.Join(addrs, ",")+"]", "redis.canary=1s", "drain.window=0s")
}

// serves has a gateway read one source.
func (g *guarded) serves(common []string, source guardedSource) {
	g.Helper()
	g.each("ACL", "DELUSER", "gateway")
	for _, rules := range append(rightsOf(g.T, "every gateway"), rightsOf(g.T, "source "+source.name)...) {
		g.each(append([]string{"ACL", "SETUSER", "gateway"}, rules...)...)
	}
	if g.mode == "cluster" {
		g.each(append([]string{"ACL", "SETUSER", "gateway"}, rightsOf(g.T, "mode cluster")[0]...)...)
		if source.name == "pubsub" {
			g.each(append([]string{"ACL", "SETUSER", "gateway"}, rightsOf(g.T, "source pubsub, mode cluster")[0]...)...)
		}
	}
	g.each("ACL", "LOG", "RESET")
	gw := serve(g.T, g.settings(common, source.name))
	watch(g.T, gw, "md:x", source.filter).await(func() { source.send(g, "1") }, "1", patience)
	eventually(g, patience, source.name+": gateways hear each other", func() bool {
		return strings.Contains(gw.get("/metrics").body, "\nsealcast_control_connected 1\n")
	})
	resp, err := http.Post("http://"+gw.admin+"/v1/revoke", "application/json", strings.NewReader(`{"user": "`+source.name+`"}`))
	if err != nil || resp.StatusCode >= 300 {
		g.Fatalf("revoke: %v, %+v", err, resp)
	}
	_ = resp.Body.Close()
	const kept = "sealcast:control:default"
	eventually(g, patience, source.name+": the revocation is kept", func() bool {
		return strings.Contains(g.owner(kept).Do("HKEYS", kept), source.name)
	})
	if source.publish != "" {
		g.expectCanaries(source)
	}
	gw.signal(syscall.SIGTERM)
	gw.end()
	for _, s := range g.servers {
		if denied := s.Do("ACL", "LOG"); denied != "" {
			g.Errorf("%s: %s denied: %q", g.mode, source.name, denied)
		}
	}
}

func (g *guarded) each(command ...string) {
	for _, s := range g.servers {
		s.Do(command...)
	}
}

// expectCanaries wants the gateway to listen to a channel of its own and to publish on it.
func (g *guarded) expectCanaries(source guardedSource) {
	g.Helper()
	channels, published := "", regexp.MustCompile(`cmdstat_`+source.publish+`:calls=(\d+)`)
	for _, s := range g.servers {
		channels += s.Do("PUBSUB", source.channels, "sealcast:*:canary:*")
	}
	if channels == "" {
		g.Errorf("%s: no canary is listened for", source.name)
	}
	calls := func() (n int) {
		for _, s := range g.servers {
			if found := published.FindStringSubmatch(s.Do("INFO", "commandstats")); found != nil {
				k, _ := strconv.Atoi(found[1])
				n += k
			}
		}
		return n
	}
	before := calls()
	eventually(g, patience, source.name+": canaries", func() bool { return calls() >= before+3 })
}

// rightsOf are the rules that docs/operations.md gives a user of Redis for one purpose.
func rightsOf(t *testing.T, purpose string) (rules [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^ACL SETUSER gateway (.*?) *# `+purpose+`$`).FindAllStringSubmatch(string(page), -1) {
		rules = append(rules, strings.Fields(strings.ReplaceAll(line[1], "PASSWORD", "secret")))
	}
	if len(rules) == 0 {
		t.Fatalf("docs/operations.md says nothing of %s", purpose)
	}
	return rules
}
