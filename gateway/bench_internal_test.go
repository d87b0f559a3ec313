package gateway

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/topic"
)

// sink is a socket that takes everything.
type sink struct{ modelSocket }

func (*sink) Write(p []byte) (int, error) { return len(p), nil }
func (*sink) OutboundBuffered() int       { return 0 }

// promptHub confirms each name by itself and remembers nothing.
type promptHub struct {
	noHub
	tickets fanout.Ticket
	numbers map[string]uint32
	posted  []fanout.Event
	codecs  []uint32 // that sessions offer
}

func (h *promptHub) Acquire(_ fanout.LoopID, f topic.Filter) fanout.Ticket {
	h.tickets++
	name := f.String()
	if h.numbers[name] == 0 {
		h.numbers[name] = uint32(len(h.numbers) + 1)
	}
	h.posted = append(h.posted, &fanout.Confirmed{Filter: f, Ticket: h.tickets,
		Topics: []fanout.TopicState{{Number: h.numbers[name], Name: name, Epoch: 1, NextSeq: 1}}})
	return h.tickets
}

func (h *promptHub) Recall(fanout.LoopID, fanout.Recall) fanout.Ticket {
	h.tickets++
	h.posted = append(h.posted, &fanout.Recalled{Ticket: h.tickets})
	return h.tickets
}

// benchWorld is a loop that many sessions can join, where no tick waits for others.
func benchWorld(b *testing.B) (*world, *promptHub) { return promptWorld(b, 0) }

// promptWorld is the same with a delay of batches.
func promptWorld(t testing.TB, delay time.Duration) (*world, *promptHub) {
	w := newWorld(t, 1, func(s *Settings) {
		s.Batch = BatchOptions{MaxDelay: delay, MaxTicks: 256, MaxBytes: 16 << 10}
		s.Limits.Subscriptions = 1 << 20
	})
	h := &promptHub{numbers: map[string]uint32{}}
	w.g.opts.Hub = h
	return w, h
}

// join subscribes a session.
func (h *promptHub) join(w *world, sess *session.Session, filters ...string) {
	w.lastID++
	s := &sink{}
	s.conn = &conn{id: w.lastID, gc: s, loop: w.l, sess: sess, role: session.RolePush, phase: phaseConnect}
	w.l.serve(s.conn, func(x *conn) { x.connect(&wire.Connect{Codecs: h.codecs}) })
	m := &wire.Subscribe{Id: 1}
	for _, f := range filters {
		m.Subscriptions = append(m.Subscriptions, &wire.Subscription{Filter: f})
	}
	w.l.serve(s.conn, func(x *conn) { x.subscribe(m) })
	for len(h.posted) > 0 {
		events := h.posted
		h.posted = nil
		w.turn(events)
	}
}

// BenchmarkDeliveries is what a loop does for ticks of 100 bytes from their
// hand-over on, but for the write system call.
func BenchmarkDeliveries(b *testing.B) {
	const most = 5000
	for _, id := range []suite.ID{suite.AES128GCM, suite.Plain} {
		first, _ := benchWorld(b)
		var sessions []*session.Session
		for range most {
			gw, _ := first.handshake(id)
			sessions = append(sessions, gw)
		}
		for _, cohorts := range []string{"one", "each"} {
			for _, subscribers := range []int{100, 1000, most} {
				w, h := benchWorld(b)
				for i, s := range sessions[:subscribers] {
					filters := []string{"every:a", fmt.Sprint("own:", i)}
					if cohorts == "one" {
						filters = filters[:1]
					}
					h.join(w, s, filters...)
				}
				for _, ticks := range []int{1, 10, 50} {
					b.Run(fmt.Sprintf("%v/cohorts=%s/subscribers=%d/ticks=%d", id, cohorts, subscribers, ticks), func(b *testing.B) {
						benchDeliveries(b, w, subscribers, ticks)
					})
				}
			}
		}
	}
}

func benchDeliveries(b *testing.B, w *world, subscribers, ticks int) {
	payload := make([]byte, 100)
	events := make([]fanout.Event, ticks)
	for i := range events {
		events[i] = &fanout.Tick{Topic: 1, Seq: uint64(i + 1), ReceivedUS: 1, Payload: payload}
	}
	before := w.l.stats.delivered.Load()
	for b.Loop() {
		w.turn(events)
	}
	if n := w.l.stats.delivered.Load() - before; n != uint64(b.N*subscribers*ticks) {
		b.Fatalf("%d deliveries", n)
	}
	b.ReportMetric(float64(b.N*subscribers*ticks)/b.Elapsed().Seconds(), "deliveries/s")
}

// BenchmarkCompression is what a loop does for batches of 50 quotes to one cohort of
// 1,000 sessions, uncompressed and with Zstandard in turn: medians of the time for one
// delivery, and how much more compression takes.
func BenchmarkCompression(b *testing.B) {
	const subscribers, ticks = 1000, 50
	for _, id := range []suite.ID{suite.AES128GCM, suite.Plain} {
		w, h := benchWorld(b)
		packing, packed := benchWorld(b)
		packing.l.live.Compress.Codecs = []wire.Codec{wire.CodecZstd}
		packed.codecs = []uint32{uint32(wire.CodecZstd)}
		for range subscribers {
			gw, _ := w.handshake(id)
			h.join(w, gw, "every:a")
			gw, _ = packing.handshake(id)
			packed.join(packing, gw, "every:a")
		}
		b.Run(id.String(), func(b *testing.B) {
			events := quotes(ticks)
			var took [2][]float64
			for b.Loop() {
				for i, world := range []*world{w, packing} {
					begun := time.Now()
					world.turn(events)
					took[i] = append(took[i], float64(time.Since(begun).Nanoseconds())/(subscribers*ticks))
				}
			}
			if packing.l.stats.compressedTo.Load()*2 > packing.l.stats.compressedFrom.Load() {
				b.Fatal("the batches were not compressed")
			}
			none, zstd := middle(took[0]), middle(took[1])
			b.ReportMetric(none, "none-ns/delivery")
			b.ReportMetric(zstd, "zstd-ns/delivery")
			b.ReportMetric(100*(zstd/none-1), "%-more")
		})
	}
}

func quotes(n int) []fanout.Event {
	rng, events := rand.New(rand.NewPCG(3, 4)), make([]fanout.Event, n)
	for i := range events {
		events[i] = &fanout.Tick{Topic: 1, Seq: uint64(i + 1), ReceivedUS: 1, Payload: fmt.Appendf(nil,
			`{"type":"ticker","product_id":"BTC-USD","price":"%d.%02d","best_bid":"%d.%02d","side":"buy","volume_24h":"%d"}`,
			64_000+rng.IntN(99), rng.IntN(100), 64_000+rng.IntN(99), rng.IntN(100), rng.IntN(1_000_000))}
	}
	return events
}

func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkMemory is what topics and subscriptions cost on a loop, each session
// with a watch list of its own.
func BenchmarkMemory(b *testing.B) {
	const topics, sessions, each = 100_000, 1000, 1000
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprintf("md:exchange:SYM-%06d:ticker", i)
	}
	for b.Loop() {
		w, h := benchWorld(b)
		sess, _ := w.handshake(suite.AES128GCM)
		before := heap()
		for from := 0; from < topics; from += each {
			h.join(w, sess, names[from:from+each]...)
		}
		perTopic := float64(heap()-before) / topics
		rng, list := rand.New(rand.NewPCG(1, 1)), make([]string, each)
		before = heap()
		for range sessions {
			for i, n := range rng.Perm(topics)[:each] {
				list[i] = names[n]
			}
			h.join(w, sess, list...)
		}
		b.ReportMetric(perTopic, "B/topic") // with its filter and a first subscription
		b.ReportMetric(float64(heap()-before)/(sessions*each), "B/subscription")
		runtime.KeepAlive(w)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
