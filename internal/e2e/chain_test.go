package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/redistest"
)

// chainSuites are those that the main path has to hold for.
var chainSuites = []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305, suite.Plain}

// queueShare is how many bytes are published before every client must have
// them: slow.queue is 4 MiB, and a client on a busy machine reads nothing for a while.
const queueShare = 2 << 20

// Generated ticks, from Redis to 8 clients on 2 event loops, with each suite:
// thousands of small ones at once, binary and empty ones, those of 1 MiB.
func TestChain(t *testing.T) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "loops=2", "cipher.allow_plain=true"))
	for _, id := range chainSuites {
		t.Run(id.String(), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(id), 7))
			topics := topicNames(id.String(), 50)
			burst := smallTicks(random, topics, 8000)
			large := largeTicks(topics)
			mixed := interleave(random, smallTicks(random, topics, 500), largeTicks(topics[3:]))
			opts := g.options()
			opts.Suites = []suite.ID{id}
			a := gather(t, g.url(), opts, 8, slices.Concat(burst, large, mixed), "md:"+id.String()+":**")
			c := r.Connect()
			burst.publish(t, c)
			sent := len(burst)
			for _, piece := range append(large.inPieces(queueShare), mixed.inPieces(queueShare)...) {
				a.await(sent)
				piece.publish(t, c)
				sent += len(piece)
			}
			a.verdict()
		})
	}
}

// interleave mixes two scripts at random and keeps the order of each.
func interleave(r *rand.Rand, a, b script) script {
	var mixed script
	for len(a)+len(b) > 0 {
		from := &a
		if r.IntN(len(a)+len(b)) >= len(a) {
			from = &b
		}
		mixed = append(mixed, (*from)[0])
		*from = (*from)[1:]
	}
	return mixed
}

// Clients with different subscriptions: names, patterns, both, so that cohorts
// and the cover at the source differ; each sees exactly its topics.
func TestChainOverlappingSubscriptions(t *testing.T) {
	r := redistest.Start(t)
	g := serve(t, fromRedis(r, "loops=2"))
	topics := []string{"a", "a:b", "a:b:c", "a:x:c", "b:b", ":", "a:", ":a"}
	s := smallTicks(rand.New(rand.NewPCG(3, 3)), topics, 2000)
	var audiences []*audience
	for _, c := range []struct{ filters, topics []string }{
		{[]string{"**"}, topics},
		{[]string{"a", "a:**"}, []string{"a", "a:b", "a:b:c", "a:x:c", "a:"}},
		{[]string{"*"}, []string{"a"}},
		{[]string{"*:*"}, []string{"a:b", "b:b", ":", "a:", ":a"}},
		{[]string{"a:*:c", "a:b:c", "a:b:**"}, []string{"a:b:c", "a:x:c"}},
		{[]string{":a", ":", "*:b"}, []string{":", ":a", "a:b", "b:b"}},
	} {
		mine := slices.DeleteFunc(slices.Clone(s), func(t tick) bool { return !slices.Contains(c.topics, t.topic) })
		audiences = append(audiences, gather(t, g.url(), g.options(), 2, mine, c.filters...))
	}
	s.publish(t, r.Connect())
	for _, a := range audiences {
		a.verdict()
	}
}
