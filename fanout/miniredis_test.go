package fanout

import (
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/sealcast/sealcast/wire"
)

// miniredis gives a message through one of the patterns that match, and does
// not keep the order between names and patterns. WholeSource copes.
func TestMiniredisCoverChangesUnderTraffic(t *testing.T) {
	m := miniredis.RunT(t)
	opt := quick(m.Addr())
	opt.WholeSource = true
	h := startLive(t, opt)
	steady, fickle := h.loop(), h.loop()
	steady.acquire("md:a:x", "md:*:y")
	steady.confirmed("md:a:x", "md:*:y")
	tr := publishTo(t, m.Addr(), 0, "md:a:x", "md:a:y", "md:b:x", `odd\E(:y`)
	for range 30 {
		for _, f := range []string{"md:a:*", "**", "md:*:x", "md:a:x", `odd\E(:*`, "[:*"} {
			fickle.acquire(f)
			fickle.confirmed(f)
			defer fickle.release(f)
		}
		for _, f := range []string{"md:a:*", "**", "md:*:x", "md:a:x", `odd\E(:*`, "[:*"} {
			time.Sleep(time.Millisecond)
			fickle.release(f)
		}
	}
	last := tr.end()
	for _, name := range []string{"md:a:x", "md:a:y"} {
		steady.seen(name, strconv.Itoa(last[name]))
		if got := steady.topic(name).ticks; got != last[name] {
			t.Errorf("%s: %d ticks, %d published", name, got, last[name])
		}
	}
	if n, _ := steady.resetCount(); n != 0 || h.Stats().Copies != 0 {
		t.Errorf("%d resets, stats %+v", n, h.Stats())
	}
}

// Filters that do not overlap work with miniredis as with Redis.
func TestMiniredisAsStandalone(t *testing.T) {
	m := miniredis.RunT(t)
	h := startLive(t, quick(m.Addr()))
	l := h.loop()
	for range 3 {
		l.acquire("name", "md:*:x")
		l.confirmed("name", "md:*:x")
		m.Publish("name", "1")
		m.Publish("md:a:x", "1")
		l.seen("name", "1")
		l.seen("md:a:x", "1")
		l.release("name")
		l.release("md:*:x")
		eventually(t, "unsubscribed", func() bool { return h.Stats().Subscriptions == 0 })
	}
	l.acquire("name")
	l.confirmed("name")
	m.Close()
	h.waitNotReady("connection refused")
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "reset", func() bool { n, _ := l.resetCount(); return n == 1 })
	m.Publish("name", "2")
	l.seen("name", "2")
	if _, cause := l.resetCount(); cause != wire.Cause_CAUSE_SOURCE_LOST {
		t.Errorf("cause %v", cause)
	}
}
