package report

import (
	"fmt"
	"strings"
)

// Wish is what a user wants of a suite.
type Wish struct {
	KeyBits int     // at least; 0: 128
	P99     float64 // microseconds, at most, at the rate that was measured; 0: any
}

// Recommendation is the suite to choose, and how that follows from the results.
type Recommendation struct {
	Suite   string   `json:"suite"` // empty: none fits
	Because []string `json:"because"`
	Rule    string   `json:"rule"`
}

// keyBits of the suites that are recommended. SM4 is for those whom a rule binds
// to it, and they need no advice.
var keyBits = map[string]int{"aes-128-gcm": 128, "aes-256-gcm": 256, "chacha20-poly1305": 256}

// rule is what recommend does, for people.
const rule = "Of the suites whose key is long enough, without AES instructions on either side only ChaCha20-Poly1305 " +
	"(AES in software is slower and its timing can tell about the key); then those that keep the P99 target at the measured " +
	"size and rate; then the one that costs the gateway least time for a message, except that AES-256-GCM is taken " +
	"when it costs less than 10 per cent more (or less than the spread), for the longer key."

// margin is what a longer key may cost, in per cent.
const margin = 10

// Recommend makes the recommendation of a report on several suites; nil when it
// has results of fewer than two.
func Recommend(m Machine, results []Result, w Wish) *Recommendation {
	all := bySuite(results)
	if len(all) < 2 {
		return nil
	}
	rec := &Recommendation{Rule: rule}
	hardware := m.AES && m.GatewayAES
	if hardware {
		rec.add("both sides have AES instructions")
	} else {
		rec.add("AES instructions are missing on at least one side")
	}
	var left []*figures
	for _, f := range all {
		if f.suits(rec, w, hardware) {
			left = append(left, f)
		}
	}
	if len(left) == 0 {
		rec.add("no measured suite fits")
		return rec
	}
	rec.choose(left)
	return rec
}

func (r *Recommendation) add(format string, args ...any) {
	r.Because = append(r.Because, fmt.Sprintf(format, args...))
}

// figures are what a suite's results say.
type figures struct {
	suite    string
	p99      float64 // the worst of its open-loop results; 0: none
	cost     float64 // the sum over results, of the gateway's time or what a message took
	spread   float64
	measured int
}

// bySuite sums results up whose cases every suite was measured in.
func bySuite(results []Result) []*figures {
	var all []*figures
	find := func(suite string) *figures {
		for _, f := range all {
			if f.suite == suite {
				return f
			}
		}
		all = append(all, &figures{suite: suite})
		return all[len(all)-1]
	}
	for i := range results {
		r := &results[i]
		if _, ok := keyBits[r.Suite]; !ok || r.Messages == 0 || r.Partial != "" || r.Scenario == "handshake" || r.Scenario == "idle" {
			continue
		}
		f := find(r.Suite)
		f.measured++
		f.cost += costOf(r)
		f.spread = max(f.spread, r.Spread.Rate)
		if r.RateAsked > 0 {
			f.p99 = max(f.p99, r.Latency.P99)
		}
	}
	most := 0
	for _, f := range all {
		most = max(most, f.measured)
	}
	var whole []*figures
	for _, f := range all {
		if f.measured == most {
			whole = append(whole, f)
		}
	}
	return whole
}

// costOf is the gateway's time for a message, or what a message took where the
// gateway does not tell.
func costOf(r *Result) float64 {
	if r.Gateway != nil && r.Gateway.PerMessage > 0 {
		return r.Gateway.PerMessage
	}
	return 1e6 / r.RateReached
}

func (f *figures) suits(rec *Recommendation, w Wish, hardware bool) bool {
	switch {
	case keyBits[f.suite] < w.KeyBits:
		rec.add("%s: its key has %d bits, %d are required", f.suite, keyBits[f.suite], w.KeyBits)
		return false
	case !hardware && strings.HasPrefix(f.suite, "aes"):
		rec.add("%s: AES would run in software", f.suite)
		return false
	case w.P99 > 0 && f.p99 > w.P99:
		rec.add("%s: P99 %s, the target is %s", f.suite, Micros(f.p99), Micros(w.P99))
		return false
	}
	rec.add("%s: %.3g µs of the gateway for a message", f.suite, f.cost/float64(f.measured))
	return true
}

// choose takes the cheapest, or AES-256-GCM if that is nearly as cheap.
func (r *Recommendation) choose(left []*figures) {
	best := left[0]
	for _, f := range left {
		if f.cost < best.cost {
			best = f
		}
	}
	for _, f := range left {
		if more := change(f.cost, best.cost); f.suite == "aes-256-gcm" && f != best && keyBits[best.suite] < 256 && more <= max(margin, f.spread) {
			r.add("%s costs %.1f %% more than %s, which its longer key is worth", f.suite, more, best.suite)
			best = f
		}
	}
	r.Suite = best.suite
}
