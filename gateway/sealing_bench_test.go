package gateway_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
)

// audience is subscribers of one topic, of one gateway with one event loop.
type audience struct {
	*server
	readers []*frameCounter
	took    []float64 // seconds of CPU for one batch to all
}

func newAudience(b *testing.B, id suite.ID, group bool, subscribers int) *audience {
	b.Helper()
	a := &audience{server: start(b, func(o *gateway.Options) { o.Loops, o.GroupSeal = 1, group })}
	for range subscribers {
		a.readers = append(a.readers, subscribeRaw(b, a.server, id, "md:a"))
	}
	a.deliver([][]byte{{1}}) // keys go out
	return a
}

// deliver sends one batch to all and waits until the last has it.
func (a *audience) deliver(payloads [][]byte) {
	handOver, from := a.hub.prepare("md:a", payloads...), cpuTime()
	handOver()
	for _, r := range a.readers {
		r.await(1)
	}
	a.took = append(a.took, cpuTime()-from)
}

// cpuTime is what the process has used so far, in seconds.
func cpuTime() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

// BenchmarkSealing sends batches of 100-byte ticks to 500 subscribers: plain,
// sealed for each, and sealed once for all, in turn, so that all three see the
// same machine. It reports the median of deliveries in a second of CPU time, that
// of the subscribers included, who read the frames and open nothing. CPU time,
// because other work on the machine hardly shows in it.
func BenchmarkSealing(b *testing.B) {
	const subscribers = 500
	plain := newAudience(b, suite.Plain, false, subscribers)
	for _, id := range []suite.ID{suite.AES128GCM, suite.ChaCha20Poly1305, suite.SM4GCM} {
		all := map[string]*audience{"plain/s": plain,
			"session/s": newAudience(b, id, false, subscribers), "group/s": newAudience(b, id, true, subscribers)}
		for _, ticks := range []int{1, 10, 50} {
			b.Run(fmt.Sprintf("%v/ticks=%d", id, ticks), func(b *testing.B) {
				payloads := slices.Repeat([][]byte{make([]byte, 100)}, ticks)
				for _, a := range all {
					a.took = nil
				}
				for b.Loop() {
					for _, a := range all {
						a.deliver(payloads)
					}
				}
				b.ReportMetric(0, "ns/op") // three batches together are no unit that anybody wants
				for name, a := range all {
					slices.Sort(a.took)
					b.ReportMetric(float64(ticks*subscribers)/a.took[len(a.took)/2], name)
				}
			})
		}
	}
}
