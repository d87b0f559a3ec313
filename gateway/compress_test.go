package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
	"github.com/sealcast/sealcast/wire/codec"
	"github.com/sealcast/sealcast/wire/topic"
)

var allCodecs = []wire.Codec{wire.CodecNone, wire.CodecSnappy, wire.CodecZstd, wire.CodecZstdDict}

func quote(i int) []byte {
	return fmt.Appendf(nil, `{"type":"ticker","symbol":"SYM-%d","bid":"%d.%02d","ask":"%d.%02d","time":"2026-01-01T00:00:%02dZ"}`,
		i%7, 100+i%3, i%100, 101+i%3, i%89, i%60)
}

func trainedDictionary(t testing.TB) *codec.Dictionary {
	t.Helper()
	var samples [][]byte
	for i := range 200 {
		samples = append(samples, quote(i))
	}
	d, err := codec.Train(samples, 2<<10)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// compressing allows everything.
func compressing(d *codec.Dictionary) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Compress = gateway.CompressOptions{Codecs: []wire.Codec{wire.CodecZstd, wire.CodecSnappy, wire.CodecNone}, MinBytes: 64, Dictionary: d}
	}
}

// countingConn counts what comes from the gateway.
type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// dialCodec connects with one codec, and none to fall back on.
func dialCodec(t testing.TB, s *server, id wire.Codec, suites ...suite.ID) (*client.Conn, *atomic.Int64) {
	t.Helper()
	opts := s.options(suites...)
	opts.Codecs = []wire.Codec{id, wire.CodecNone}[:1+min(int(id), 1)]
	received := new(atomic.Int64)
	opts.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return countingConn{c, received}, err
	}
	c, err := client.Dial(t.Context(), s.url("/ws"), opts)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	if got := c.Info().Codec; got != id {
		t.Fatalf("codec %v, want %v", got, id)
	}
	return c, received
}

// TestEveryCodecWithEverySuite: the same ticks reach every client byte for byte,
// single ones and large batches, whatever closes them, and what should be smaller is.
func TestEveryCodecWithEverySuite(t *testing.T) {
	for _, batch := range []gateway.BatchOptions{
		{MaxTicks: 256, MaxBytes: 16 << 10},
		{MaxDelay: 5 * time.Millisecond, MaxTicks: 256, MaxBytes: 16 << 10},
		{MaxDelay: time.Second, MaxTicks: 50, MaxBytes: 1 << 20},
	} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) { everyCodecWithEverySuite(t, batch) })
	}
}

func everyCodecWithEverySuite(t *testing.T, batch gateway.BatchOptions) {
	allow := compressing(trainedDictionary(t))
	s := start(t, func(o *gateway.Options) { allow(o); o.Batch = batch })
	const rounds, perRound = 20, 60
	var all [][]byte
	for i := range rounds * perRound {
		all = append(all, quote(i))
	}
	all[perRound] = bytes.Repeat([]byte("a large tick "), wire.MaxTick/13) // alone in its batch
	type reader struct {
		*client.Conn
		id       wire.Codec
		received *atomic.Int64
	}
	var readers []reader
	for _, id := range allCodecs {
		for _, su := range suite.All() {
			c, received := dialCodec(t, s, id, su)
			if _, err := c.Subscribe(t.Context(), "md:*"); err != nil {
				t.Fatal(err)
			}
			readers = append(readers, reader{c, id, received})
		}
	}
	for round := range slices.Chunk(all, perRound) {
		s.hub.publish("md:a", round...)
		s.hub.publish("md:a", round[0])
	}
	sizes := map[wire.Codec]int64{}
	for _, r := range readers {
		for round := range slices.Chunk(all, perRound) {
			for i, want := range append(slices.Clone(round), round[0]) {
				if got := nextTick(t, r.Conn); !bytes.Equal(got.Payload, want) || got.Skipped != 0 {
					t.Fatalf("%v, %v: tick %d differs", r.id, r.Info().Suite, i)
				}
			}
		}
		sizes[r.id] = r.received.Load()
	}
	if st := s.Stats(); st.CompressedTo == 0 || st.CompressedTo*3 > st.CompressedFrom {
		t.Errorf("%d bytes were compressed to %d", st.CompressedFrom, st.CompressedTo)
	}
	for _, id := range allCodecs[1:] {
		if sizes[id]*3 > sizes[wire.CodecNone] {
			t.Errorf("%v: %d bytes, %d uncompressed", id, sizes[id], sizes[wire.CodecNone])
		}
	}
}

// TestSlowClientCatchesUpCompressed: what waited for one session is compressed
// for it alone.
func TestSlowClientCatchesUpCompressed(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		compressing(nil)(o)
		o.Loops, o.Slow.Queue = 1, 32<<20
	})
	slow := dialSmall(t, s)
	if got := slow.Info().Codec; got != wire.CodecZstd {
		t.Fatalf("codec %v", got)
	}
	if _, err := slow.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	const ticks, size = 200, 80_000
	payload := func(i int) []byte { // half noise, half not
		p := make([]byte, size)
		x := uint32(i)*2654435761 + 1
		for j := range p[:size/2] {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			p[j] = byte(x)
		}
		return p
	}
	for i := range ticks {
		s.hub.publish("md:a", payload(i))
	}
	for i := range ticks {
		if got := nextTick(t, slow); !bytes.Equal(got.Payload, payload(i)) || got.Skipped != 0 {
			t.Fatalf("tick %d differs", i)
		}
	}
}

// TestCodecsAreReloaded: sessions go on when compression is switched off and on
// and when the dictionary changes; new ones get what is allowed then.
func TestCodecsAreReloaded(t *testing.T) {
	var opts gateway.Options
	s := start(t, func(o *gateway.Options) {
		compressing(trainedDictionary(t))(o)
		opts = *o
	})
	old, received := dialCodec(t, s, wire.CodecZstdDict)
	if _, err := old.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("text"), 1000)
	costs := func() int64 {
		before := received.Load()
		s.hub.publish("md:a", text)
		if got := nextTick(t, old); !bytes.Equal(got.Payload, text) {
			t.Fatal("the tick differs")
		}
		return received.Load() - before
	}
	if n := costs(); n > 500 {
		t.Errorf("%d bytes compressed", n)
	}
	settings := opts.Settings
	settings.Compress = gateway.CompressOptions{}
	s.Reload(settings)
	if n := costs(); n < 4000 {
		t.Errorf("%d bytes when compression is off", n)
	}
	if c := s.dial(t); c.Info().Codec != wire.CodecNone {
		t.Errorf("a new session has %v", c.Info().Codec)
	}
	settings.Compress = opts.Compress
	settings.Compress.Dictionary = trainedDictionary(t)
	s.Reload(settings)
	if n := costs(); n > 500 {
		t.Errorf("%d bytes with the dictionary from before", n)
	}
	fresh, _ := dialCodec(t, s, wire.CodecZstdDict)
	if _, err := fresh.Subscribe(t.Context(), "md:a"); err != nil {
		t.Fatal(err)
	}
	costs()
	if got := nextTick(t, fresh); !bytes.Equal(got.Payload, text) {
		t.Error("the tick differs with the new dictionary")
	}
}

func TestClassesThroughSockets(t *testing.T) {
	s := start(t, func(o *gateway.Options) {
		compressing(nil)(o)
		for _, r := range [][2]string{{"account:**", "account"}, {"secret:**", ""}} {
			f, err := topic.ParseFilter(r[0])
			if err != nil {
				t.Fatal(err)
			}
			o.Topics = append(o.Topics, gateway.TopicRule{Match: f, Compress: r[1]})
		}
	})
	c, received := dialCodec(t, s, wire.CodecZstd)
	if _, err := c.Subscribe(t.Context(), "**"); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("text"), 1000)
	for _, name := range []string{"md:a", "account:a", "secret:a"} {
		before := received.Load()
		s.hub.publish(name, text)
		if got := nextTick(t, c); got.Topic != name || !bytes.Equal(got.Payload, text) {
			t.Fatalf("%s: got %d bytes of %s", name, len(got.Payload), got.Topic)
		}
		if n := received.Load() - before; (n > 4000) != (name == "secret:a") {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

// With policy latest every tick that does not come is covered by one that does.
func TestEveryCodecWithEverySuiteMerged(t *testing.T) {
	allow := compressing(trainedDictionary(t))
	all, err := topic.ParseFilter("**")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(o *gateway.Options) {
		allow(o)
		o.Batch.MaxDelay = 2 * time.Millisecond
		o.Topics = []gateway.TopicRule{{Match: all, Compress: gateway.DefaultClass, Latest: true}}
	})
	var readers []*client.Conn
	for _, id := range allCodecs {
		for _, su := range suite.All() {
			c, _ := dialCodec(t, s, id, su)
			if _, err := c.Subscribe(t.Context(), "md:*"); err != nil {
				t.Fatal(err)
			}
			readers = append(readers, c)
		}
	}
	const ticks = 3000
	for i := range ticks {
		s.hub.publish("md:a", quote(i))
	}
	merged := uint64(0)
	for _, c := range readers {
		for last := uint64(0); last < ticks; {
			got := nextTick(t, c)
			if first := got.Seq - got.Skipped; first > last+1 || got.Seq <= last || !bytes.Equal(got.Payload, quote(int(got.Seq-1))) {
				t.Fatalf("%v: tick %d covers from %d on, after %d: %s", c.Info().Suite, got.Seq, first, last, got.Payload)
			}
			merged += got.Seq - last - 1
			last = got.Seq
		}
	}
	if merged == 0 {
		t.Error("nothing was merged")
	}
}

func TestCompressedDeliveriesAllocateNothing(t *testing.T) {
	const subscribers, handOvers, ticks = 100, 20, 50
	for _, id := range allCodecs[1:] {
		t.Run(id.String(), func(t *testing.T) {
			s := start(t, compressing(trainedDictionary(t)))
			var readers []*frameCounter
			for range subscribers {
				readers = append(readers, subscribeRaw(t, s, suite.AES128GCM, "md:a", id))
			}
			var payloads [][]byte
			for i := range ticks {
				payloads = append(payloads, quote(i))
			}
			round := func() func() {
				var prepared []func()
				for range handOvers {
					prepared = append(prepared, s.hub.prepare("md:a", payloads...))
				}
				return func() {
					for _, handOver := range prepared {
						handOver()
						for _, r := range readers {
							r.await(1)
						}
					}
				}
			}
			round()()
			if got := mallocsDuring(round()); got >= steadyMallocs && steady {
				t.Errorf("%d allocations over %d deliveries", got, subscribers*handOvers*ticks)
			}
			for _, r := range readers {
				if r.err != nil {
					t.Fatal(r.err)
				}
			}
		})
	}
}
