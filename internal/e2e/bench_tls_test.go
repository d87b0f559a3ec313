package e2e

import (
	"testing"

	"github.com/sealcast/sealcast/internal/redistest"
)

// Load goes through what ends TLS before a gateway, here HAProxy: echo and
// ticks; a certificate that is not trusted is not passed over.
func TestBenchOverTLS(t *testing.T) {
	redis, cert, at := redistest.Start(t), newCertificate(t), freeAddress(t)
	g := serve(t, fromRedis(redis, "cipher.allow_plain=true", "proxy.trusted=127.0.0.1", "proxy.protocol=true"))
	startHAProxy(t, at, g.listen, g.admin, cert)
	awaitTLS(t, at, cert)
	common := []string{"--key", g.pin().String(), "--admin", "http://" + g.admin, "--for", "300ms", "--warmup", "100ms"}

	p, doc := bench(t, append([]string{"echo", "wss://" + at + "/echo", "--ca", cert.cert, "--suites", "plain,aes-256-gcm,websocket",
		"--connections", "20", "--rate", "400", "--load", "rate,saturate", "--size", "2KiB"}, common...)...)
	p.expect(0)
	if len(doc.Results) != 6 {
		t.Errorf("%d results", len(doc.Results))
	}
	for _, r := range doc.Results {
		wantResult(t, r)
		if r["messages"].(float64) == 0 {
			t.Errorf("nothing came back: %v", r)
		}
	}
	p, doc = bench(t, append([]string{"fanout", "wss://" + at + "/ws", "--ca", cert.cert, "--suites", "aes-128-gcm",
		"--subscribers", "10", "--rate", "50", "--redis", redis.Addr}, common...)...)
	p.expect(0)
	wantResult(t, doc.Results[0])

	p, _ = bench(t, append([]string{"echo", "wss://" + at + "/echo", "--suites", "aes-256-gcm"}, common...)...)
	p.expect(3, "certificate", "hint: ")
	p, _ = bench(t, append([]string{"idle", "wss://" + at + "/ws", "--ca", cert.cert, "--processes", "2"}, common...)...)
	p.expect(2, "--processes is for ws://", "hint: ")
}
