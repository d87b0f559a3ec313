package fanout

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

// deafProxy stands before a server. While deaf, it lets everything through but messages.
type deafProxy struct {
	addr string
	deaf atomic.Bool
}

func startDeafProxy(t *testing.T, server string) *deafProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &deafProxy{addr: l.Addr().String()}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { p.back(near, far); _ = near.Close() }()
		}
	}()
	return p
}

func (p *deafProxy) back(near io.Writer, far io.Reader) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := far.Read(chunk)
		if err != nil {
			return
		}
		if p.deaf.Load() && bytes.Contains(chunk[:n], []byte("message\r\n")) {
			continue
		}
		if _, err := near.Write(chunk[:n]); err != nil {
			return
		}
	}
}

// A server whose messages do not arrive is left, though it answers each PING.
func TestCanaryShowsADeadPath(t *testing.T) {
	s := redistest.Start(t)
	p := startDeafProxy(t, s.Addr)
	opt := quick(p.addr)
	opt.Redis.Canary = 400 * time.Millisecond
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("md:**")
	l.confirmed("md:**")
	s.Connect().Publish("md:a", "1")
	l.seen("md:a", "1")
	if n := h.Stats().Lost; n != 0 {
		t.Errorf("lost %d times", n)
	}
	p.deaf.Store(true)
	eventually(t, "lost", func() bool { return h.Stats().Lost > 0 })
	p.deaf.Store(false)
	h.waitReady()
	eventually(t, "reset", func() bool { n, cause := l.resetCount(); return n > 0 && cause == wire.Cause_CAUSE_SOURCE_LOST })
	for n := 2; l.topic("md:a").payload != strconv.Itoa(n); n++ { // it may have been lost once more meanwhile
		s.Connect().Publish("md:a", strconv.Itoa(n+1))
		time.Sleep(20 * time.Millisecond)
	}
	if st := h.Stats(); st.Invalid != 0 || st.Unmatched != 0 {
		t.Errorf("canaries count as messages: %+v", st)
	}
}

// A user who may not publish goes without a canary, and one who may not subscribe to its channel.
func TestNoCanaryWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "deaf", "on", ">secret", "resetchannels", "&md:*", "+@all")
	s.Do("ACL", "SETUSER", "mute", "on", ">secret", "allchannels", "+@all", "-publish")
	for _, user := range []string{"deaf", "mute"} {
		opt := quick(s.Addr)
		opt.Redis.Username, opt.Redis.Password, opt.Redis.Canary = user, "secret", 100*time.Millisecond
		h := startLive(t, opt)
		l := h.loop()
		l.acquire("md:*")
		l.confirmed("md:*")
		h.waitReady()
		time.Sleep(300 * time.Millisecond)
		if n := h.Stats().Lost; n != 0 {
			t.Errorf("%s: lost %d times", user, n)
		}
	}
}
