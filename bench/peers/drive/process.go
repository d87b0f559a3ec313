package drive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sealcast/sealcast/bench/peers/servers"
	"github.com/sealcast/sealcast/internal/loadgen/target"
)

// patience bounds every wait for a process.
const patience = 20 * time.Second

// process is a server that is measured.
type process struct {
	address netip.AddrPort
	admin   string // host:port
	pid     int
	stop    func()
}

// start starts the server of a contestant and waits until it follows the topic.
func (b *bench) start(w *Work, c *Contestant) (p *process, err error) {
	err = onCore(b.ServerCore, b.GeneratorCore, func() error {
		if c.Server == "" {
			p, err = b.startGateway(w, c)
		} else {
			p, err = b.startPeer(w, c)
		}
		return err
	})
	if err == nil && w.ticks() && c.Server != "nats" && c.Server != "" {
		err = b.redis.awaitFollower(b.ctx)
	}
	if err == nil {
		err = awaitListener(p.address)
	}
	if err != nil && p != nil {
		p.stop()
	}
	return p, err
}

// gatewaySettings are those of every gateway here: one loop, nothing but the
// work, and suites as clients wish.
var gatewaySettings = []string{
	"loops=1", "redis.mode=standalone", "cipher.suites=[aes-128-gcm, chacha20-poly1305]", "cipher.prefer=client",
	"cipher.allow_plain=true", "cipher.post_quantum=off", "compress.codecs=[none]", "admin.pprof=true",
	"heartbeat.interval=1m", "heartbeat.timeout=10m",
}

func (b *bench) startGateway(w *Work, c *Contestant) (*process, error) {
	settings := append([]string{"redis.addrs=" + b.redis.address}, gatewaySettings...)
	g, err := target.Start(b.ctx, b.Gateway, append(append(settings, w.Settings...), c.Settings...))
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddrPort(g.Listen)
	return &process{address: address, admin: g.AdminAddress, pid: g.PID(), stop: g.Stop}, err
}

func (b *bench) startPeer(w *Work, c *Contestant) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{servers.Command, c.Server, "-topic", topic}
	if w.ticks() {
		args = append(args, "-redis", b.redis.address)
	}
	if c.Batched {
		args = append(args, "-batched")
	}
	cmd := child(self, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, stop: func() { end(cmd) }}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return p, fmt.Errorf("server %s has ended at once", c.Server)
	}
	var address string
	if _, err := fmt.Sscanf(line, servers.ReadyLine("%s", "%s"), &address, &p.admin); err != nil {
		return p, fmt.Errorf("server %s: %q", c.Server, line)
	}
	p.address, err = netip.ParseAddrPort(address)
	return p, err
}

// child is a process that does not outlive this one.
func child(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// end ends a child that keeps nothing worth an orderly end.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // says that it was killed
}

// awaitListener waits until somebody accepts: some libraries bind by themselves.
func awaitListener(address netip.AddrPort) error {
	for begun := time.Now(); ; {
		c, err := net.DialTimeout("tcp", address.String(), time.Second)
		if err == nil {
			return c.Close()
		}
		if time.Since(begun) > patience {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// settled is the resident memory of a server once forced collections have given
// back what they can.
func (p *process) settled(ctx context.Context) (int64, error) {
	last := int64(1 << 62)
	for range 40 {
		for range 2 {
			if _, err := p.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
				return 0, err
			}
		}
		time.Sleep(300 * time.Millisecond) // the runtime gives memory back by and by
		now := target.MemoryOf(p.pid)
		if now > last-64<<10 {
			return min(now, last), nil
		}
		last = now
	}
	return last, nil
}

// get asks the admin address.
func (p *process) get(ctx context.Context, path string) ([]byte, error) {
	return get(ctx, p.admin, path)
}

func get(ctx context.Context, host, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// redisServer is a real one, on the generator's core.
type redisServer struct {
	address string
	client  *redis.Client
	cmd     *exec.Cmd
	dir     string
}

func startRedis() (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	dir, err := os.MkdirTemp("", "peers-redis")
	if err != nil {
		return nil, err
	}
	r := &redisServer{address: address, dir: dir, client: redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})}
	r.cmd = child(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir,
		"--logfile", filepath.Join(dir, "log"))
	if err := r.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	parsed, err := netip.ParseAddrPort(address)
	if err == nil {
		err = awaitListener(parsed)
	}
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	return r, nil
}

func (r *redisServer) stop() {
	r.client.Close()
	end(r.cmd)
	os.RemoveAll(r.dir)
}

// awaitFollower waits until somebody follows the topic.
func (r *redisServer) awaitFollower(ctx context.Context) error {
	for begun := time.Now(); ; {
		n, err := r.client.PubSubNumSub(ctx, topic).Result()
		if err == nil && n[topic] > 0 {
			return nil
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("nobody follows %s: %w", topic, errors.Join(err, ctx.Err()))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// machine says where a run took place.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // unknown without
	return model + ", Linux " + string(bytes.TrimSpace(kernel))
}
