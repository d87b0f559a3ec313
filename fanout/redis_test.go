package fanout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/wire"
)

func TestRedisDeliversAnyPayload(t *testing.T) {
	s := redistest.Start(t)
	h := startLive(t, quick(s.Addr))
	l := h.loop()
	l.acquire("md:**", "name:only")
	l.confirmed("md:**", "name:only")
	h.waitReady()
	pub := s.Connect()
	for _, p := range []string{"", "\x00\r\n$5\xff", strings.Repeat("x", 1<<20), "1"} {
		pub.Publish("md:a", p)
		l.seen("md:a", p)
		pub.Publish("name:only", p)
		l.seen("name:only", p)
	}
	pub.Publish("md:a", strings.Repeat("x", 1<<20+1))
	pub.Publish("md:a", "after")
	l.seen("md:a", "after")
	if n, cause := l.resetCount(); n != 1 || cause != wire.Cause_CAUSE_OVERSIZED {
		t.Errorf("%d resets, cause %v", n, cause)
	}
	if st := h.Stats(); st.Received != 9 || st.Oversized != 1 || st.Lost != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestRedisPatternsAreExact(t *testing.T) {
	s := redistest.Start(t)
	h := startLive(t, quick(s.Addr))
	l := h.loop()
	special := `a?[b]^\c-d:*`
	l.acquire(special, "x:*:z", `n?[a]\m`)
	l.confirmed(special, "x:*:z", `n?[a]\m`)
	pub := s.Connect()
	for _, name := range []string{`a?[b]^\c-d:1`, "x:y:z", "x::z", `n?[a]\m`} {
		for _, wrong := range []string{"axb^c-d:1", "ax[b]^\\c-d:1", "x:1:2:z", "naam", name + ":more"} {
			pub.Publish(wrong, "wrong")
		}
		pub.Publish(name, "right")
		l.seen(name, "right")
	}
	if st := h.Stats(); st.Topics != 4 || st.Received != 4 {
		t.Errorf("stats %+v", st)
	}
}

// Filters that overlap in every way come and go while ticks flow; a loop that
// stays sees each of its topics' ticks exactly once and no reset.
func TestRedisCoverChangesUnderTraffic(t *testing.T) {
	s := redistest.Start(t)
	h := startLive(t, quick(s.Addr))
	names := []string{"md:a:x", "md:a:y", "md:b:x", "md:b:y"}
	steady, fickle := h.loop(), h.loop()
	steady.acquire("md:a:x", "md:*:y")
	steady.confirmed("md:a:x", "md:*:y")
	tr := publishTo(t, s.Addr, 0, names...)
	filters := []string{"md:a:x", "md:a:y", "md:*:x", "md:a:*", "md:**", "**", "md:b:**", "*:*:x", "*:a:*"}
	random := rand.New(rand.NewPCG(1, 2))
	held := map[string]bool{}
	for range 150 {
		f := filters[random.IntN(len(filters))]
		if held[f] = !held[f]; held[f] {
			fickle.acquire(f)
			if random.IntN(2) == 0 {
				fickle.confirmed(f)
			}
		} else {
			fickle.release(f)
		}
		time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
	}
	last := tr.end()
	for _, name := range []string{"md:a:x", "md:a:y", "md:b:y"} {
		steady.seen(name, strconv.Itoa(last[name]))
	}
	if got := steady.topic("md:a:x"); got.ticks != last["md:a:x"] {
		t.Errorf("md:a:x: %d ticks, %d published", got.ticks, last["md:a:x"])
	}
	for _, l := range []*liveLoop{steady, fickle} {
		if n, cause := l.resetCount(); n != 0 {
			t.Errorf("%d resets, last cause %v", n, cause)
		}
	}
	if st := h.Stats(); st.Lost != 0 || st.Dropped != 0 || st.Copies == 0 {
		t.Errorf("stats %+v", st)
	}
	for f := range held {
		if held[f] {
			fickle.release(f)
		}
	}
	eventually(t, "back to the two subscriptions", func() bool {
		return h.Stats().Subscriptions == 2 && s.Do("PUBSUB", "NUMPAT") == "1" && s.Do("PUBSUB", "CHANNELS", "md:*") == "md:a:x"
	})
}

// A short freeze loses nothing, and so resets nothing.
func TestRedisShortFreeze(t *testing.T) {
	s := redistest.Start(t)
	opt := quick(s.Addr)
	opt.Redis.PingTimeout = 5 * time.Second
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("a")
	l.confirmed("a")
	s.Pause()
	l.acquire("b:*", "c") // waits, without holding up anybody
	time.Sleep(300 * time.Millisecond)
	s.Resume()
	l.confirmed("b:*", "c")
	s.Connect().Publish("a", "1")
	l.seen("a", "1")
	if n, _ := l.resetCount(); n != 0 || h.Stats().Lost != 0 {
		t.Errorf("%d resets, stats %+v", n, h.Stats())
	}
}

func TestRedisAwayAtStart(t *testing.T) {
	s := redistest.Reserve(t)
	other := redistest.Reserve(t)
	h := startLive(t, quick(other.Addr, s.Addr))
	l := h.loop()
	l.acquire("a", "md:*")
	h.waitNotReady("connection refused, since 2")
	s.Restart()
	l.confirmed("a", "md:*")
	h.waitReady()
	s.Connect().Publish("md:x", "1")
	l.seen("md:x", "1")
}

func TestRedisWithoutAnswer(t *testing.T) {
	s := redistest.Start(t)
	s.Pause()
	opt := quick(s.Addr)
	opt.Redis.DialTimeout = 100 * time.Millisecond
	h := startLive(t, opt)
	h.waitNotReady("connected, but no answer")
	s.Resume()
	h.waitReady()
}

func TestRedisPassword(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	h := startLive(t, quick(s.Addr))
	h.waitNotReady("NOAUTH")
	opt := quick(s.Addr)
	opt.Redis.Password = "wrong-password"
	h = startLive(t, opt)
	h.waitNotReady("WRONGPASS")
	if text := h.Ready().Error(); strings.Contains(text, "wrong-password") {
		t.Errorf("the password shows in %q", text)
	}
	opt.Redis.Password = "secret"
	startLive(t, opt).waitReady()
}

func TestRedisRefusesByACL(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "reader", "on", ">pw", "resetchannels", "&md:*", "-@all", "+subscribe", "+unsubscribe",
		"+psubscribe", "+punsubscribe", "+hello", "+auth", "+ping")
	opt := quick(s.Addr)
	opt.Redis.Username, opt.Redis.Password = "reader", "pw"
	h := startLive(t, opt)
	l, other := h.loop(), h.loop()
	other.acquire("md:a:b")
	l.acquire("secret:x", "md:a", "**", "md:**", "secret:*")
	l.confirmed("md:a", "md:**")
	other.confirmed("md:a:b")
	for _, f := range []string{"secret:x", "**", "secret:*"} {
		eventually(t, "refused: "+f, func() bool { return l.state(f) == "refused" })
	}
	if !isDenied(l.refused) || !strings.Contains(l.refused.Error(), "NOPERM") {
		t.Errorf("refused because %v", l.refused)
	}
	h.waitReady()
	s.Connect().Publish("md:a:b", "1")
	other.seen("md:a:b", "1")
	l.seen("md:a:b", "1")

	// Less is allowed from now on: Redis cuts the connection.
	s.Do("ACL", "SETUSER", "reader", "resetchannels", "&md:a:b")
	eventually(t, "refused: md:**", func() bool { return l.state("md:**") == "refused" && l.state("md:a") == "refused" })
	eventually(t, "reset", func() bool { n, _ := other.resetCount(); return n == 1 })
	s.Connect().Publish("md:a:b", "2")
	other.seen("md:a:b", "2")
	if st := h.Stats(); st.Refused != 5 || st.Topics != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestRedisUserWithoutPingOrUnsubscribe(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "reader", "on", ">pw", "allchannels", "-@all", "+subscribe", "+hello", "+auth")
	opt := quick(s.Addr)
	opt.Redis.Username, opt.Redis.Password = "reader", "pw"
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("a", "b")
	l.confirmed("a", "b")
	h.waitReady()
	time.Sleep(opt.Redis.PingAfter + opt.Redis.PingTimeout + 100*time.Millisecond)
	if st := h.Stats(); st.Lost != 0 {
		t.Errorf("a refused PING counts as loss: %+v", st)
	}
	l.release("b")
	eventually(t, "connected anew without b", func() bool { return h.Stats().Lost == 1 && h.Ready() == nil })
	s.Connect().Publish("a", "1")
	l.seen("a", "1")
}

// A loop that is stuck shows as an overflow, which is counted and told; Redis
// never gets to see a slow reader.
func TestRedisOverflow(t *testing.T) {
	s := redistest.Start(t)
	opt := quick(s.Addr)
	opt.QueueTicks = 100
	h := startLive(t, opt)
	l := h.loop()
	l.acquire("md:*")
	l.confirmed("md:*")
	pub := s.Connect()
	pub.Publish("md:a", "1")
	l.seen("md:a", "1")
	hold := make(chan struct{})
	l.mu.Lock()
	l.hold = hold
	l.mu.Unlock()
	value := 1
	for range 3000 {
		value++
		pub.Publish("md:a", strconv.Itoa(value))
	}
	pub.Publish("md:b", "1") // dropped before the topic was known
	eventually(t, "all messages read", func() bool {
		st := h.Stats()
		return st.Dropped > 1000 && st.Received+uint64(st.QueueTicks)+st.Dropped == 3002
	})
	l.mu.Lock()
	l.hold = nil
	l.mu.Unlock()
	close(hold)
	eventually(t, "reset", func() bool { n, _ := l.resetCount(); return n == 2 })
	pub.Publish("md:a", "3002")
	l.seen("md:a", "3002")
	if st := h.Stats(); st.Lost != 0 || st.QueueTicks != 0 {
		t.Errorf("stats %+v", st)
	}
	if _, cause := l.resetCount(); cause != wire.Cause_CAUSE_SOURCE_OVERFLOW {
		t.Errorf("cause %v", cause)
	}
}

func TestRedisManyNames(t *testing.T) {
	s := redistest.Start(t)
	h := startLive(t, quick(s.Addr))
	l, wide := h.loop(), h.loop()
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("md:n%d", i))
	}
	l.acquire(names...)
	l.confirmed(names...)
	wide.acquire("md:**")
	wide.confirmed("md:**")
	eventually(t, "covered by the pattern", func() bool { return h.Stats().Subscriptions == 1 })
	wide.release("md:**")
	eventually(t, "names again", func() bool { return h.Stats().Subscriptions == len(names) })
	pub := s.Connect()
	for _, name := range slices.Backward(names) {
		pub.Publish(name, "1")
	}
	l.seen(names[0], "1")
	if n, _ := l.resetCount(); n != 0 {
		t.Errorf("%d resets", n)
	}
}
