package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/redistest"
)

// terminator is a real HAProxy or nginx with the file of deploy, which ends TLS
// before a gateway. What it says to the gateway in plaintext is on a tap.
type terminator struct {
	name    string
	start   func(t *testing.T, at, gateway, admin string, cert certificate) *tool
	gateway []string // settings behind it
}

var terminators = []terminator{
	{"haproxy", startHAProxy, []string{"proxy.trusted=127.0.0.1", "proxy.protocol=true"}},
	{"nginx", startNginx, []string{"proxy.trusted=127.0.0.1"}},
}

// Silence that the shortened files of these tests put up with: without
// heartbeats an idle session would not survive it.
const (
	tunnelTimeout = "2s"
	heartbeat     = "500ms"
)

func startHAProxy(t *testing.T, at, gateway, admin string, cert certificate) *tool {
	t.Helper()
	file := replaced(t, "deploy/haproxy/haproxy.cfg", "timeout tunnel 120s", "timeout tunnel "+tunnelTimeout, "timeout client 60s", "timeout client 1s")
	_, adminPort, _ := net.SplitHostPort(admin)
	return startTool(t, []string{"SEALCAST_TLS_BIND=" + at, "SEALCAST_CERT=" + cert.both, "SEALCAST_GATEWAY1=" + gateway,
		"SEALCAST_ADMIN_PORT1=" + adminPort, "SEALCAST_GATEWAY2=" + gateway, "SEALCAST_ADMIN_PORT2=1"}, "haproxy", "-f", file)
}

func startNginx(t *testing.T, at, gateway, _ string, cert certificate) *tool {
	t.Helper()
	file := replaced(t, "deploy/nginx/nginx.conf",
		"listen 443", "listen "+at, "server 127.0.0.1:8080", "server "+gateway, "server 127.0.0.1:8082", "server "+freeAddress(t),
		"/etc/nginx/certs/gateway.pem", cert.cert, "/etc/nginx/certs/gateway.key", cert.key,
		"proxy_read_timeout 120s", "proxy_read_timeout "+tunnelTimeout, "proxy_send_timeout 120s", "proxy_send_timeout "+tunnelTimeout,
		"pid /run/nginx.pid", "pid "+filepath.Join(t.TempDir(), "pid"), "worker_rlimit_nofile 131072", "worker_rlimit_nofile 4096",
		"worker_connections 65536", "worker_connections 1024")
	return startTool(t, nil, "nginx", "-g", "daemon off;", "-c", file)
}

// replaced is a file of the repository with other values, each of which must stand in it.
func replaced(t *testing.T, path string, pairs ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !bytes.Contains(content, []byte(pairs[i])) {
			t.Fatalf("%s has no %q", path, pairs[i])
		}
	}
	out := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(out, []byte(strings.NewReplacer(pairs...).Replace(string(content))), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// tool is a program of somebody else.
type tool struct {
	cmd *exec.Cmd
	out output
}

func startTool(t *testing.T, environ []string, name string, args ...string) *tool {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = filepath.Join("/usr/sbin", name) // where Debian has servers, and users have no path to
	}
	p := &tool{cmd: exec.Command(path, args...)}
	p.cmd.Env = append(os.Environ(), environ...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = patience
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%v: apt-get install %s", err, name)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // its children end with it
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.out.String())
		}
	})
	return p
}

// certificate is one for this machine, in the three forms that servers want.
type certificate struct{ key, cert, both string }

func newCertificate(t *testing.T) certificate {
	t.Helper()
	dir := t.TempDir()
	c := certificate{filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "both.pem")}
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", c.key, "-out", c.cert).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var both []byte
	for _, path := range []string{c.cert, c.key} {
		part, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, part...)
	}
	if err := os.WriteFile(c.both, both, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c certificate) roots(t *testing.T) *tls.Config {
	t.Helper()
	content, err := os.ReadFile(c.cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{RootCAs: pool}
}

// tap passes connections on to an address and keeps all that went through, both ways.
type tap struct {
	addr string
	seen output
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = l.Close() })
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.pass(from, to) })
		}
	})
	return p
}

func (p *tap) pass(from net.Conn, to string) {
	defer from.Close()
	onward, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer onward.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, onward}, {onward, from}} {
		go func() {
			_, _ = io.Copy(io.MultiWriter(way[1], &p.seen), way[0])
			done <- struct{}{}
		}()
	}
	<-done // one direction has ended; closing both ends the other
}

// TestBehindTerminators is the claim of the product: TLS ends in a real proxy
// with the file that we ship, and in what the proxy sees in the clear there is
// no tick, no topic and no token. Clients keep their addresses, and sessions in
// which nothing happens survive the proxy's timeouts.
func TestBehindTerminators(t *testing.T) {
	for _, with := range terminators {
		t.Run(with.name, func(t *testing.T) {
			t.Parallel()
			behind(t, with)
		})
	}
}

const (
	proxiedTopic   = "md:terminator:quokka-numbat:ticker"
	proxiedPayload = `{"last":"31415.92653","venue":"wombat"}`
	tokenSecret    = "a secret of thirty-two bytes or more"
)

func behind(t *testing.T, with terminator) {
	redis, cert, at := redistest.Start(t), newCertificate(t), freeAddress(t)
	g := serve(t, fromRedis(redis, append([]string{"auth.mode=jwt", "auth.keys=[{alg: HS256, secret: " + tokenSecret + "}]",
		"heartbeat.interval=" + heartbeat, "heartbeat.timeout=10s", "compress.codecs=[none]"}, with.gateway...)...))
	tapped := newTap(t, g.listen)
	proxy := with.start(t, at, tapped.addr, g.admin, cert)
	awaitTLS(t, at, cert)

	token := tokenOf(t)
	conn := dialBehind(t, g, at, cert, token, "127.0.0.77")
	defer conn.Close(context.Background())
	if _, err := conn.Subscribe(t.Context(), "md:terminator:**"); err != nil {
		t.Fatal(err)
	}
	sessions := g.get("/v1/sessions").body
	if !strings.Contains(sessions, "127.0.0.77") || strings.Contains(sessions, `"127.0.0.1:`) {
		t.Errorf("sessions do not have the client's address: %s", sessions)
	}
	expectPublished(t, conn, redis, 0)
	expectPublished(t, conn, redis, 5*time.Second) // longer than the proxy's timeouts: nothing but heartbeats until then

	seen := tapped.seen.String()
	if !strings.Contains(seen, "GET /ws HTTP/1.1\r\n") || len(seen) < 2000 {
		t.Fatalf("the tap saw only %d bytes", len(seen))
	}
	for _, secret := range []string{token, "quokka", "31415", "wombat", "Bearer", tokenSecret} {
		if strings.Contains(seen, secret) {
			t.Errorf("what the proxy sees in the clear has %q", secret)
		}
	}
	if out := proxy.out.String(); strings.Contains(out, token) {
		t.Errorf("the proxy's log has the token:\n%s", out)
	}
}

func tokenOf(t *testing.T) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "alice", "aud": "default",
		"exp": time.Now().Add(time.Hour).Unix(), "topics": []string{"md:terminator:**"}}).SignedString([]byte(tokenSecret))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// awaitTLS waits until the proxy answers for a gateway that is ready.
func awaitTLS(t *testing.T, at string, cert certificate) {
	t.Helper()
	asker := http.Client{Transport: &http.Transport{TLSClientConfig: cert.roots(t)}, Timeout: patience}
	defer asker.CloseIdleConnections()
	eventually(t, patience, "a proxy that passes on", func() bool {
		resp, err := asker.Get("https://" + at + "/ws")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusUpgradeRequired // the gateway's own answer
	})
}

func dialBehind(t *testing.T, g *gateway, at string, cert certificate, token, from string) *client.Conn {
	t.Helper()
	opts := g.options()
	opts.Token, opts.TLSConfig = token, cert.roots(t)
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		return d.DialContext(ctx, network, addr)
	}
	conn, err := client.Dial(t.Context(), "wss://"+at+"/ws", opts)
	if err != nil {
		t.Fatalf("%v; log:\n%s", err, g.stderr.String())
	}
	return conn
}

// expectPublished publishes a tick after a while in which the client waits for it.
func expectPublished(t *testing.T, conn *client.Conn, redis *redistest.Server, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	time.AfterFunc(after, func() { redis.Do("PUBLISH", proxiedTopic, proxiedPayload) })
	for {
		event, err := conn.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if tick, ok := event.(*client.Tick); ok {
			if tick.Topic != proxiedTopic || string(tick.Payload) != proxiedPayload {
				t.Errorf("got %s %s", tick.Topic, tick.Payload)
			}
			return
		}
	}
}
