package drive

import (
	"fmt"
	"slices"
)

// kind is a way of driving.
type kind int

const (
	kindEcho   kind = iota
	kindFanout      // closed loop: so many ticks are under way
	kindDelay       // open loop: ticks at a rate
	kindIdle
	kindBare // no server: cryptography alone
)

// dialect is what subscribers speak.
type dialect int

const (
	frames     dialect = iota // each message is one payload; the upgrade subscribes
	push                      // Sealcast's
	natsText                  // of nats-server
	centrifuge                // protobuf of centrifuge
)

// Contestant is who does a work.
type Contestant struct {
	Name     string // unique in its work
	Server   string // of package servers; empty: the gateway
	TLS      bool
	Suite    string // of a sealed session; empty: an ordinary WebSocket
	Dialect  dialect
	Batched  bool     // servers.Options.Batched
	Settings []string // of the gateway
}

// Work is one row of measurements.
type Work struct {
	Name        string // in files and for -only
	Title       string // in tables
	Kind        kind
	Size        int // bytes of a message
	Connections int
	Window      int     // echo: messages under way on each connection; fan-out: ticks under way
	Burst       int     // fan-out: ticks that are published together
	Rate        float64 // delay: ticks a second
	Once        bool    // measured in the first round alone
	Settings    []string
	Contestants []*Contestant
}

func (w *Work) ticks() bool { return w.Kind == kindFanout || w.Kind == kindDelay }

const (
	idleSessions = 10_000
	tickSize     = 100
)

// The contestants' names.
const (
	ourPlainEcho      = "Sealcast, unencrypted"
	ourAES            = "Sealcast, AES-128-GCM"
	ourPlain          = "Sealcast, plain"
	ourGroup          = "Sealcast, AES-128-GCM, group"
	ourChaCha         = "Sealcast, ChaCha20-Poly1305"
	bareCrypto        = "Open and Seal alone"
	bareRedis         = "go-redis alone"
	rawEpoll          = "raw epoll loop"
	ofGnet            = "gnet"
	ofGWS             = "gws"
	ofGorilla         = "gorilla"
	gwsTLS            = "gws, TLS 1.3"
	gorillaTLS        = "gorilla, TLS 1.3"
	broadcaster       = "gws.Broadcaster"
	ofNATS            = "nats-server"
	ofCentrifuge      = "centrifuge"
	centrifugeDelayed = "centrifuge, writes delayed"
)

// Suites of contestants.
const (
	suiteAES   = "aes-128-gcm"
	suitePlain = "plain"
)

func allWorks() []*Work {
	works := slices.Concat(plainEchoes(), sealedEchoes(), fanouts())
	return append(works, &Work{
		Name: "delay", Title: "delay from Redis to the socket, 10,000 ticks/s, 100 subscribers", Kind: kindDelay,
		Size: tickSize, Connections: 100, Rate: 10_000, Settings: []string{"batch.max_delay=0s"},
		Contestants: []*Contestant{{Name: ourAES, Suite: suiteAES, Dialect: push}, {Name: bareRedis, Server: "redis-client"}},
	}, &Work{
		Name: "idle", Title: "idle, 10,000 connections", Kind: kindIdle, Connections: idleSessions, Once: true,
		Contestants: []*Contestant{
			{Name: ourPlain, Suite: suitePlain, Dialect: push}, {Name: ourAES, Suite: suiteAES, Dialect: push},
			{Name: ourChaCha, Suite: "chacha20-poly1305", Dialect: push}, {Name: ofGWS, Server: "gws"},
		},
	})
}

func plainEchoes() (works []*Work) {
	for _, load := range []struct{ connections, window int }{{100, 16}, {100, 1}, {1000, 1}} {
		works = append(works, &Work{
			Name:  fmt.Sprintf("echo-plain-64B-%dc-%dw", load.connections, load.window),
			Title: fmt.Sprintf("plain echo, 64 B, %d connections, %d in flight", load.connections, load.window),
			Size:  64, Connections: load.connections, Window: load.window,
			Contestants: []*Contestant{
				{Name: ourPlainEcho}, {Name: rawEpoll, Server: "epoll"}, {Name: ofGnet, Server: "gnet"},
				{Name: ofGWS, Server: "gws"}, {Name: ofGorilla, Server: "gorilla"},
			},
		})
	}
	return works
}

func sealedEchoes() (works []*Work) {
	for _, window := range []int{1, 16} {
		for _, size := range []int{64, 1024} {
			works = append(works, &Work{
				Name:  fmt.Sprintf("echo-sealed-%dB-100c-%dw", size, window),
				Title: fmt.Sprintf("sealed echo, %s, 100 connections, %d in flight", bytesText(size), window),
				Size:  size, Connections: 100, Window: window,
				Contestants: []*Contestant{
					{Name: ourAES, Suite: suiteAES}, {Name: ourPlain, Suite: suitePlain},
					{Name: gwsTLS, Server: "gws-tls", TLS: true}, {Name: gorillaTLS, Server: "gorilla-tls", TLS: true},
				},
			})
		}
	}
	for _, size := range []int{64, 1024} {
		works = append(works, &Work{
			Name: fmt.Sprintf("bare-%dB", size), Title: "AES-128-GCM of the standard library, " + bytesText(size), Kind: kindBare, Size: size,
			Contestants: []*Contestant{{Name: bareCrypto}},
		})
	}
	return works
}

// fanouts: where ticks may wait, a batch closes with fifty, or after the 5 ms
// that are the default.
func fanouts() []*Work {
	single := &Work{
		Name: "fanout-1000x1", Title: "fan-out, 1,000 subscribers, one tick per publish, 16 under way", Kind: kindFanout,
		Size: tickSize, Connections: 1000, Window: 16, Burst: 1, Settings: []string{"batch.max_delay=0s"},
	}
	works := []*Work{single}
	for _, subscribers := range []int{1000, 5000} {
		works = append(works, &Work{
			Name:  fmt.Sprintf("fanout-%dx50", subscribers),
			Title: fmt.Sprintf("fan-out, %s subscribers, 50 ticks a batch", thousands(subscribers)), Kind: kindFanout,
			Size: tickSize, Connections: subscribers, Window: 50, Burst: 50, Settings: []string{"batch.max_ticks=50", "batch.max_delay=5ms"},
		})
	}
	for _, w := range works {
		w.Contestants = []*Contestant{
			{Name: ourAES, Suite: suiteAES, Dialect: push}, {Name: ourPlain, Suite: suitePlain, Dialect: push},
			{Name: ourGroup, Suite: suiteAES, Dialect: push, Settings: []string{"fanout.seal=group"}},
			{Name: broadcaster, Server: "gws"}, {Name: ofNATS, Server: "nats", Dialect: natsText},
			{Name: ofCentrifuge, Server: "centrifuge", Dialect: centrifuge},
		}
		if w.Burst > 1 {
			w.Contestants = append(w.Contestants, &Contestant{Name: centrifugeDelayed, Server: "centrifuge", Dialect: centrifuge, Batched: true})
		}
	}
	return works
}

func bytesText(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
