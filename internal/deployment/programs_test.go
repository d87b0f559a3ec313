package deployment

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root is the repository, seen from this package's folder.
const root = "../.."

// run starts a program that must end well. A missing program fails the test.
func run(t *testing.T, environ []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin"), environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// programs is the folder that our programs are built into.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sealcast-deployment-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	status := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// build builds both programs, once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", programs+"/", "./cmd/sealcast", "./cmd/sealctl")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// program is the path of one of our programs.
func program(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programs, name)
}

// certificate makes a key and a certificate for this machine, in one file for each and one for both.
func certificate(t *testing.T) (key, cert, both string) {
	t.Helper()
	dir := t.TempDir()
	key, cert = filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	run(t, nil, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert)
	var content []byte
	for _, path := range []string{cert, key} {
		part, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, part...)
	}
	return key, cert, write(t, "both.pem", string(content))
}

func TestPrometheusRules(t *testing.T) {
	run(t, nil, "promtool", "check", "rules", "deploy/prometheus/rules.yaml")
	run(t, nil, "promtool", "test", "rules", "deploy/prometheus/rules_test.yaml")
	run(t, nil, "promtool", "check", "config", "--syntax-only", "deploy/prometheus/prometheus.yml")
	if read(t, "deploy/prometheus/rules.yaml") != read(t, "deploy/helm/sealcast/rules.yaml") {
		t.Error("the chart has other rules than deploy/prometheus: copy rules.yaml into deploy/helm/sealcast")
	}
}

func TestHAProxyTakesItsFile(t *testing.T) {
	_, _, both := certificate(t)
	run(t, []string{"SEALCAST_CERT=" + both}, "haproxy", "-c", "-f", "deploy/haproxy/haproxy.cfg")
}

func TestNginxTakesItsFile(t *testing.T) {
	key, cert, _ := certificate(t)
	file := strings.NewReplacer("/etc/nginx/certs/gateway.pem", cert, "/etc/nginx/certs/gateway.key", key,
		"/run/nginx.pid", filepath.Join(t.TempDir(), "pid")).Replace(read(t, "deploy/nginx/nginx.conf"))
	run(t, nil, "nginx", "-t", "-c", write(t, "nginx.conf", file))
}

// The unit is judged with a gateway in its place, since systemd looks for the program.
func TestSystemdTakesTheUnit(t *testing.T) {
	bin := program(t, "sealcast")
	unit := strings.ReplaceAll(read(t, "deploy/systemd/sealcast.service"), "/usr/local/bin/sealcast", bin)
	path := write(t, "sealcast.service", unit)
	if out := run(t, nil, "systemd-analyze", "verify", "--man=no", path); strings.Contains(out, "sealcast.service:") {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	run(t, nil, "systemd-analyze", "security", "--offline=true", "--threshold=20", path)
}

// The script that makes the secrets of compose.yaml gives what compose.yaml takes.
func TestComposeSecrets(t *testing.T) {
	folder := t.TempDir()
	run(t, nil, "deploy/compose/secrets.sh", folder)
	again := run(t, nil, "deploy/compose/secrets.sh", folder)
	dir := filepath.Join(folder, "secrets")
	pin, err := os.ReadFile(filepath.Join(dir, "pin.txt"))
	if err != nil || len(bytes.TrimSpace(pin)) != 43 || !strings.Contains(again, string(bytes.TrimSpace(pin))) {
		t.Errorf("pin %q, told %q: %v", pin, again, err)
	}
	for _, name := range []string{"gateway.key", "tickets.key", "admin_token", "gateway.env", "gateway.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	run(t, nil, program(t, "sealcast"), "config", "check", "deploy/compose/gateway.yaml")
}
