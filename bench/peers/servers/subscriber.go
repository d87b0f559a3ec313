package servers

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sealcast/sealcast/internal/loadgen/measure"
	"github.com/sealcast/sealcast/internal/loadgen/message"
)

// Delays is what serveSubscriber has measured, in nanoseconds.
type Delays struct {
	Ticks    int64
	P50, P99 int64
}

// serveSubscriber has no clients: it reads ticks with go-redis, as the bare
// minimum that any gateway does, and times each from the stamp that its
// publisher made. GET /delays tells and forgets what it has measured.
func serveSubscriber(ctx context.Context, l net.Listener, o Options) error {
	var mu sync.Mutex
	delays := measure.NewHistogram()
	mux := http.NewServeMux()
	mux.HandleFunc("/delays", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(Delays{delays.TotalCount(), delays.ValueAtQuantile(50), delays.ValueAtQuantile(99)})
		delays.Reset()
	})
	return serveHTTP(ctx, l, o, mux, func(payload []byte) {
		mu.Lock()
		defer mu.Unlock()
		record(delays, payload)
	})
}

func record(h *hdrhistogram.Histogram, payload []byte) {
	if _, at, ok := message.Stamped(payload); ok {
		_ = h.RecordValue(min(max(Now()-at, 1), h.HighestTrackableValue())) // within the range
	}
}
