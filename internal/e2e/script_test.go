package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/internal/redistest"
	"github.com/sealcast/sealcast/internal/testenv"
	"github.com/sealcast/sealcast/wire"
)

// share is the part of the ticks that goes through programs with the race
// detector, which are so much slower.
func share() float64 {
	if testenv.Race {
		return 0.2
	}
	return 1
}

// tick is one message of a script. Payloads may share memory.
type tick struct{ topic, payload string }

// script is what is published, in this order.
type script []tick

// byTopic is what each topic's subscribers must see.
func (s script) byTopic() map[string][]string {
	topics := map[string][]string{}
	for _, t := range s {
		topics[t.topic] = append(topics[t.topic], t.payload)
	}
	return topics
}

// allBytes holds each value of a byte once.
var allBytes = func() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

// largest is a payload of the greatest length, binary.
var largest = randomBytes(rand.New(rand.NewPCG(1, 1)), wire.MaxTick)

func randomBytes(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// topicNames makes up names below "md:" and a venue of its own, among them such
// as nobody expects.
func topicNames(venue string, n int) []string {
	names := []string{
		"md:" + venue + "::",
		"md:" + venue + ":with space: ",
		"md:" + venue + ":ünï–çødé:\U0001f4c8",
		"md:" + venue + ":" + strings.Repeat("x", 255-len(venue)-4),
		"md:" + venue + `:glob\[a-z]?:^"'`,
	}
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("md:%s:SYM%02d:trade", venue, i))
	}
	return names
}

// smallTicks makes up so many ticks, or their share, of at most 200 bytes, one in ten empty.
func smallTicks(r *rand.Rand, topics []string, n int) script {
	var s script
	for range int(float64(n) * share()) {
		t := tick{topic: topics[r.IntN(len(topics))]}
		if r.IntN(10) > 0 {
			t.payload = randomBytes(r, r.IntN(200))
		}
		s = append(s, t)
	}
	return s
}

// largeTicks makes up ticks of every size that is special, up to the greatest.
func largeTicks(topics []string) script {
	var s script
	for i, n := range []int{wire.MaxTick, 0, 1, 16 << 10, 16<<10 + 1, 64<<10 - 1, 64 << 10, wire.MaxTick - 1, 1, wire.MaxTick, 256 << 10, 0, 700_001, wire.MaxTick, 0} {
		s = append(s, tick{topics[i%len(topics)], largest[:n]})
	}
	return append(s, tick{topics[0], allBytes}, tick{topics[1], strings.Repeat(allBytes, 500)})
}

// pipeline is how many ticks `sealctl feed --speed max` sends before it waits for Redis.
const pipeline = 1000

// publish sends ticks as fast as `sealctl feed --speed max` does.
func (s script) publish(t testing.TB, c *redistest.Conn) {
	t.Helper()
	for len(s) > 0 {
		n := min(pipeline, len(s))
		for _, tick := range s[:n] {
			c.Queue("PUBLISH", tick.topic, tick.payload)
		}
		_, err := c.Flush()
		for i := 1; i < n && err == nil; i++ {
			_, err = c.Receive()
		}
		if err != nil {
			t.Fatal(err)
		}
		s = s[n:]
	}
}

// inPieces cuts a script so that the ticks of a piece together fit a slow
// client's queue with room to spare.
func (s script) inPieces(bytes int) []script {
	var pieces []script
	begin, size := 0, 0
	for i, t := range s {
		if size += len(t.payload); size > bytes && i > begin {
			pieces = append(pieces, s[begin:i])
			begin, size = i, len(t.payload)
		}
	}
	return append(pieces, s[begin:])
}

// recorded is the script as a recorded feed, which knows no line feeds in payloads.
func (s script) recorded() []byte {
	var b bytes.Buffer
	for i := range s {
		s[i].payload = strings.ReplaceAll(s[i].payload, "\n", "\r")
		fmt.Fprintf(&b, "%d\t%s\t%s\n", i*50, s[i].topic, s[i].payload)
	}
	return b.Bytes()
}
