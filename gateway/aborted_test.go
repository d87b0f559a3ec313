package gateway_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/testenv"
)

// TestAbortedConnections: connections that go in every phase, half of them with a
// reset, leave nothing behind: no goroutine, no descriptor, nothing in a gauge.
func TestAbortedConnections(t *testing.T) {
	n := 5_000
	switch {
	case testenv.Long():
		n = 100_000
	case testenv.Race:
		n = 1_000
	}
	s := start(t, nil)
	connected(t, s, suite.AES128GCM).conn.Close() // both loops exist after two
	connected(t, s, suite.AES128GCM).conn.Close()
	eventually(t, "nobody", func() bool { return s.Stats().Connections == 0 })
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)

	const throwers = 8
	var all sync.WaitGroup
	for w := range throwers {
		all.Go(func() {
			for i := w; i < n && !t.Failed(); i += throwers {
				abort(t, s, i)
			}
		})
	}
	all.Wait()
	ended := time.Now()
	eventually(t, "gauges, goroutines and descriptors as before", func() bool {
		st := s.Stats()
		return st.Connections == 0 && st.Queues.Handshakes == 0 && st.Queues.SlowSessions == 0 && st.Queues.SlowBytes == 0 &&
			s.hub.heldFilters() == 0 && runtime.NumGoroutine() <= goroutines && openDescriptors(t) <= descriptors
	})
	st := s.Stats()
	t.Logf("%d connections aborted, as before %v after the last", n, time.Since(ended).Round(time.Millisecond))
	if st.Panics != 0 || st.EnrollFailed != 0 || st.Accepted < uint64(n)*9/10 {
		t.Errorf("%+v", st.Newcomers)
	}
}

// abort takes a connection to one of the phases, in turn, and leaves.
func abort(t *testing.T, s *server, i int) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%20))}} // each has its own ports
	conn, err := dialer.DialContext(t.Context(), "tcp", s.addr)
	if err != nil {
		t.Errorf("connection %d: %v", i, err)
		return
	}
	defer conn.Close()
	if i%2 == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0) // reset
	}
	p := peerOn(t, conn)
	switch phase := i / 2 % 8; phase {
	case 0: // has only connected
	case 1: // half a request
		p.send([]byte(request("/ws"))[:40])
	case 2, 3: // upgraded; half a frame
		p.upgrade(s, "/echo")
		if phase == 3 {
			p.send(frame(ws.OpBinary, false, "begun")[:5])
		}
	case 4: // does not wait for the answer to its handshake
		p.upgrade(s, "/ws", suite.AES128GCM)
		p.send(binaryFrame(p.init()))
	case 5: // agreed, never connected
		p.upgrade(s, "/ws", suite.AES128GCM)
		p.agree()
	case 6, 7: // in service; with a subscription that is not confirmed yet
		p.upgrade(s, "/ws", suite.AES128GCM)
		p.agree()
		p.send(p.say(connectMessage()))
		p.hear()
		if phase == 7 {
			p.send(p.say(subscribeMessage(1, fmt.Sprintf("md:%d", i%50), "md:*")))
		}
	}
}

func openDescriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
