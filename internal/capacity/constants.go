// Package capacity estimates what an installation needs: gateways, processors,
// memory, bandwidth, descriptors and Redis servers for a load. It is arithmetic
// over constants that were measured, each of which says where and how; it
// measures nothing itself and never opens a connection.
//
// An estimate goes through these parts, in this order:
//
//	plan 1  client.go    what one client is sent
//	plan 2  gateway.go   what one gateway of so many has to do
//	plan 3  estimate.go  how many gateways that makes, by what binds first
//	plan 4  redis.go     what Redis has to do for these
package capacity

import "slices"

// Constant is one measured figure.
type Constant struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	What   string  `json:"what"`
	Source string  `json:"source"` // the command that measures it, or what fixes it
	Page   string  `json:"page"`   // where the measurement is described
}

// Pages that describe measurements.
const (
	pageConstants = "docs/performance.md, Constants of a capacity plan"
	pageRecords   = "docs/performance.md, Records"
	pageCodecs    = "docs/performance.md, Compression"
	pageDeliver   = "docs/performance.md, Deliveries"
	pageIdle      = "docs/performance.md, Idle sessions"
	pagePool      = "docs/performance.md, The pool of ciphers"
	pageProtocol  = "docs/protocol.md"
)

// Commands that measure.
const (
	benchRecord = "sealctl bench fanout --start --suites plain --subscribers 500 --size 100"
	benchIdle   = "sealctl bench idle --start --connections 15000 --suites aes-128-gcm"
	benchCrypto = "sealctl bench crypto"
	benchCodec  = "sealctl bench compression --batch 1,50"
	benchFeed   = "sealctl feed --symbols 200 --rate"
	benchRedis  = "go test -run '^$' -bench Redis -benchtime 2s ./fanout"
	benchMemory = "go test ./gateway -run '^$' -bench Memory -benchtime 1x"
	testBytes   = "go test -run TestBytesOnTheWire ./internal/capacity"
)

// Constants returns all of them, in the order of the page.
func Constants() []Constant {
	return slices.Concat(trafficConstants(), processorConstants(), sealConstants(), memoryConstants())
}

func trafficConstants() []Constant {
	return []Constant{
		{"tick.head", 7, "bytes", "what a batch holds of a tick beside its payload", testBytes, pageProtocol + ", section 6"},
		{"record.head", 36, "bytes", "what a record has around a batch: WebSocket and record headers, tag, what the first tick needs beyond others", testBytes, pageProtocol + ", sections 2 and 4"},
		{"segment.payload", 1448, "bytes", "what a TCP segment holds", "Ethernet's 1,500 bytes less IPv4 and TCP with timestamps", "RFC 791, 9293, 7323"},
		{"segment.head", 90, "bytes", "what a segment costs beside that, preamble and gap of Ethernet included", "20 IPv4, 32 TCP, 38 Ethernet", "RFC 791, 9293, 7323; IEEE 802.3"},
		{"server.head", 52, "bytes", "what a message of Redis has beside the payload, with a topic's name of 20 bytes", testBytes, "RESP2"},
		{"ratio.snappy.1", 1.00, "", "payloads by what is sent of their batch with Snappy, below 50 ticks, at least", benchCodec, pageCodecs},
		{"ratio.snappy.50", 2.71, "", "and from 50 ticks on", benchCodec, pageCodecs},
		{"ratio.zstd.1", 1.00, "", "payloads by what is sent of their batch with Zstandard, below 50 ticks, at least", benchCodec, pageCodecs},
		{"ratio.zstd.50", 4.35, "", "and from 50 ticks on", benchCodec, pageCodecs},
	}
}

func processorConstants() []Constant {
	return []Constant{
		{"tick.in.2000", 64.7, "µs", "from Redis to the event loops, of a gateway that takes 2,000 ticks/s", benchFeed + " 2000", pageConstants},
		{"tick.in.20000", 16.3, "µs", "the same at 20,000 ticks/s: one wake-up serves more", benchFeed + " 20000", pageConstants},
		{"tick.in.57000", 5.7, "µs", "the same at 57,000 ticks/s and more", benchFeed + " 60000", pageConstants},
		{"tick.most", 66000, "ticks/s", "the most that one gateway was seen to take, without a loss", benchFeed + " 200000", pageConstants},
		{"record.write", 15.5, "µs", "a record with one tick to one client: batch, frame, write, kernel; not sealed", benchRecord + " --rate 40 --set batch.max_delay=0s", pageConstants},
		{"record.kib", 2.1, "µs/KiB", "and for each KiB in it, from records of 21 ticks", benchRecord + " --rate 400 --set batch.max_delay=50ms", pageConstants},
		{"tick.join", 0.22, "µs", "a tick that is joined for one watch list alone", "go test ./gateway -run '^$' -bench Deliveries -benchtime 40ms", pageDeliver},
		{"codec.snappy", 1.0, "µs/KiB", "Snappy, once for a watch list and event loop", benchCodec, pageCodecs},
		{"codec.zstd", 6.4, "µs/KiB", "Zstandard, the same", benchCodec, pageCodecs},
		{"handshake", 1400, "µs", "a connection from its accept to its session, with ML-KEM or a ticket", "sealctl bench handshake --start --suites aes-128-gcm", pageConstants},
		{"session.idle", 2.2, "µs/s", "heartbeats of one session, every 25 s", "SEALCAST_LONG=1 go test -run TestIdleSessions -v ./internal/e2e", pageIdle},
		{"server.publish", 0.97, "µs", "a PUBLISH of 100 bytes, for the Redis server", benchRedis, pageConstants},
		{"server.gateway", 0.43, "µs", "and for each gateway that is subscribed", benchRedis, pageConstants},
	}
}

func sealConstants() []Constant {
	small := func(suite string, us float64) Constant {
		return Constant{"seal." + suite + ".64", us, "µs", "sealing a record of 64 bytes", benchCrypto, pageRecords}
	}
	large := func(suite string, us float64) Constant {
		return Constant{"seal." + suite + ".16384", us, "µs", "sealing a record of 16 KiB", benchCrypto, pageRecords}
	}
	return []Constant{
		small("aes-128-gcm", 0.156), large("aes-128-gcm", 5.65),
		small("aes-256-gcm", 0.169), large("aes-256-gcm", 5.81),
		small("chacha20-poly1305", 0.220), large("chacha20-poly1305", 10.37),
		small("sm4-gcm", 0.541), large("sm4-gcm", 67.1),
		small("plain", 0.026), large("plain", 0.247),
	}
}

func memoryConstants() []Constant {
	return []Constant{
		{"gateway.memory", 20e6, "bytes", "resident memory of a gateway without clients", "sealcast serve", pageConstants},
		{"session.memory", 2785, "bytes", "resident memory of a session", benchIdle, pageIdle},
		{"key.memory", 1280, "bytes", "an expanded AES key, of a session that is sealed for within five seconds", "go test -run '^$' -bench Pool ./crypto/record", pagePool},
		{"key.most", 32768, "", "how many of them an event loop keeps", "go test -run '^$' -bench Pool ./crypto/record", pagePool},
		{"topic.memory", 475, "bytes", "a topic that somebody follows by name", benchMemory, pageDeliver},
		{"subscription.memory", 60, "bytes", "each further subscription", benchMemory, pageDeliver},
		{"heap.factor", 2, "", "how far the heap grows beyond what is in use before it is collected", "GOGC=100, Go's default", "https://go.dev/doc/gc-guide"},
		{"kernel.memory", 3977, "bytes", "the kernel's for one connection without traffic: socket, file, epoll", "sealctl bench idle --start --connections 8000, /proc/slabinfo meanwhile", pageConstants},
		{"descriptors.reserve", 64, "", "descriptors that a gateway keeps for other things than clients", "go test -run TestDescriptorsRunOut ./internal/e2e", "docs/operations.md, Limits"},
	}
}

// values are the constants by name.
type values map[string]float64

func constantValues() values {
	v := values{}
	for _, c := range Constants() {
		v[c.Name] = c.Value
	}
	return v
}
