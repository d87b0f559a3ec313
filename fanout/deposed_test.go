package fanout

import (
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

// A master that the sentinels cannot reach, and so have replaced, may still answer: its
// streams are not read any longer. But it is not left because no sentinel can be asked.
func TestStreamsLeaveADeposedMaster(t *testing.T) {
	t.Parallel()
	x := redistest.StartSentinels(t)
	core, logs := observer.New(zap.InfoLevel)
	opt := fromStreams(quick(x.Addrs()...), Sentinel, "ticks")
	opt.Redis.Canary, opt.Log = 2*time.Second, zap.New(core)
	h := startLive(t, opt)
	h.waitReady()
	l := h.loop()
	l.acquire("a")
	l.confirmed("a")
	old := x.Master()
	add(old.Connect(), "ticks", "a", "1")
	l.seen("a", "1")
	old.Do("WAIT", "2", "0") // so that nothing shows in the number of entries
	reading := old.Connect()
	old.Do("ACL", "SETUSER", "default", "-ping", "-replicaof", "-slaveof") // what sentinels need, and gateways do not
	master := x.WaitFailover(old)
	if role := reading.Do("ROLE")[:6]; role != "master" {
		t.Fatalf("the old master is %s", role)
	}
	c := master.Connect()
	add(c, "ticks", "a", "2")
	l.seen("a", "2")
	if n, cause := l.resetCount(); n != 1 || cause != wire.Cause_CAUSE_SOURCE_LOST {
		t.Errorf("%d resets, %v", n, cause)
	}
	h.waitReady()

	for _, s := range x.Sentinels {
		s.Kill()
	}
	const silent = "redis sentinels do not tell the master, staying with the one they told"
	eventually(t, "silent sentinels in the log", func() bool { return logs.FilterMessage(silent).Len() > 0 })
	for n := 3; n < 30; n++ {
		add(c, "ticks", "a", strconv.Itoa(n))
		l.seen("a", strconv.Itoa(n))
	}
	if n, _ := l.resetCount(); n != 1 || logs.FilterMessage(silent).Len() != 1 || h.Ready() != nil {
		t.Errorf("%d resets, ready: %v, logs %v", n, h.Ready(), logs.All())
	}
}
