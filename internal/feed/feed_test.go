package feed

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/wire/topic"
)

type tick struct {
	Symbol  string  `json:"symbol"`
	Bid     float64 `json:"bid"`
	Ask     float64 `json:"ask"`
	Last    float64 `json:"last"`
	BidSize float64 `json:"bid_size"`
	AskSize float64 `json:"ask_size"`
	Volume  float64 `json:"volume"`
	Update  uint64  `json:"update"`
	Price   float64 `json:"price"`
	Size    float64 `json:"size"`
	Side    string  `json:"side"`
	Trade   uint64  `json:"trade"`
}

// Prices stay near where they began, never cross, and move.
func TestDemoIsPlausible(t *testing.T) {
	m := NewDemo(1)
	first, last := map[string]tick{}, map[string]tick{}
	trades, moves := 0, map[string]int{}
	const ticks = 20_000
	for range ticks {
		name, payload := m.Next()
		var v tick
		if err := json.Unmarshal(payload, &v); err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		switch {
		case name == "md:demo:"+v.Symbol+":trade":
			trades++
			if v.Price <= 0 || v.Size <= 0 || (v.Side != "buy" && v.Side != "sell") || v.Trade == 0 {
				t.Fatalf("trade %s", payload)
			}
			continue
		case name != "md:demo:"+v.Symbol+":ticker":
			t.Fatalf("topic %s of %s", name, payload)
		case v.Bid <= 0 || v.Ask <= v.Bid || v.BidSize <= 0 || v.AskSize <= 0 || v.Ask-v.Bid > 0.01*v.Ask:
			t.Fatalf("quote %s", payload)
		}
		before, known := last[v.Symbol]
		if !known {
			first[v.Symbol] = v
		} else if move := v.Bid/before.Bid - 1; move < -0.01 || move > 0.01 {
			t.Errorf("%s jumps from %v to %v", v.Symbol, before.Bid, v.Bid)
		} else if move != 0 {
			moves[v.Symbol]++
		}
		if v.Update != before.Update+1 {
			t.Errorf("%s: update %d after %d", v.Symbol, v.Update, before.Update)
		}
		last[v.Symbol] = v
	}
	if len(last) != 20 || trades < ticks/10 || trades > ticks/3 {
		t.Errorf("%d symbols, %d trades", len(last), trades)
	}
	for symbol, v := range last {
		if drift := v.Bid / first[symbol].Bid; moves[symbol] < 100 || drift < 0.8 || drift > 1.25 {
			t.Errorf("%s went from %v to %v in %d moves", symbol, first[symbol].Bid, v.Bid, moves[symbol])
		}
	}
}

func TestSameSeedSameFeed(t *testing.T) {
	a, b, other := NewSynthetic(50, 7), NewSynthetic(50, 7), NewSynthetic(50, 8)
	same := true
	for range 1000 {
		aTopic, aPayload := a.Next()
		bTopic, bPayload := b.Next()
		oTopic, oPayload := other.Next()
		if aTopic != bTopic || string(aPayload) != string(bPayload) {
			t.Fatalf("%s %s is not %s %s", aTopic, aPayload, bTopic, bPayload)
		}
		same = same && aTopic == oTopic && string(aPayload) == string(oPayload)
	}
	if same {
		t.Error("another seed gives the same feed")
	}
}

func TestSyntheticTopics(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 300} {
		m := NewSynthetic(n, 1)
		seen := map[string]bool{}
		for range 30_000 {
			name, payload := m.Next()
			if err := topic.ValidName(name); err != nil || !json.Valid(payload) {
				t.Fatalf("%s %s: %v", name, payload, err)
			}
			seen[strings.Split(name, ":")[2]] = true
		}
		if len(seen) != max(n, 1) {
			t.Errorf("%d symbols seen, asked for %d", len(seen), n)
		}
	}
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		n        int64
		decimals int
		want     string
	}{{0, 2, "0.00"}, {5, 2, "0.05"}, {123456, 2, "1234.56"}, {10, 5, "0.00010"}, {1000, 3, "1.000"}} {
		if got := string(appendDecimal(nil, c.n, c.decimals)); got != c.want {
			t.Errorf("%d, %d: %s, want %s", c.n, c.decimals, got, c.want)
		}
	}
}
