// Package feed makes up market data: quotes and trades whose prices move
// plausibly. It only computes, the same for the same seed; it never publishes
// anything and reads no clock.
package feed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
)

// tradeShare is the part of ticks that are trades.
const tradeShare = 0.2

// Market is a set of instruments. One goroutine uses it at a time.
type Market struct {
	random      *rand.Rand
	instruments []*instrument
}

// NewSynthetic returns a market of so many made-up symbols, at least one.
// Topics are md:synth:SYM0001:ticker and md:synth:SYM0001:trade and so on.
func NewSynthetic(symbols int, seed uint64) *Market {
	m := newMarket(seed)
	for i := range max(symbols, 1) {
		price := math.Pow(10, 0.5+4*m.random.Float64()) // from about 3 to 30,000
		decimals := 2
		if price < 10 {
			decimals = 4
		}
		m.add("synth", fmt.Sprintf("SYM%04d", i+1), price, decimals)
	}
	return m
}

// NewDemo returns a market of 20 well-known symbols, whose prices have nothing
// to do with the real ones. Topics are md:demo:BTC-USD:ticker and so on.
func NewDemo(seed uint64) *Market {
	m := newMarket(seed)
	for _, s := range []struct {
		symbol   string
		price    float64
		decimals int
	}{
		{"BTC-USD", 64250, 2}, {"ETH-USD", 3120, 2}, {"SOL-USD", 148.5, 2}, {"XRP-USD", 0.6125, 4},
		{"ADA-USD", 0.4480, 4}, {"DOGE-USD", 0.12345, 5}, {"AVAX-USD", 35.4, 2}, {"LINK-USD", 17.25, 3},
		{"DOT-USD", 7.125, 3}, {"LTC-USD", 84.3, 2}, {"EUR-USD", 1.08425, 5}, {"GBP-USD", 1.26710, 5},
		{"USD-JPY", 151.32, 3}, {"AUD-USD", 0.65840, 5}, {"USD-CHF", 0.90455, 5}, {"XAU-USD", 2345.5, 2},
		{"AAPL", 189.95, 2}, {"MSFT", 421.3, 2}, {"NVDA", 902.4, 2}, {"TSLA", 175.2, 2},
	} {
		m.add("demo", s.symbol, s.price, s.decimals)
	}
	return m
}

func newMarket(seed uint64) *Market {
	return &Market{random: rand.New(rand.NewPCG(seed, 0x5ea1))}
}

func (m *Market) add(venue, symbol string, price float64, decimals int) {
	mid := price * math.Pow10(decimals)
	topic := "md:" + venue + ":" + symbol + ":"
	m.instruments = append(m.instruments, &instrument{
		symbol:   symbol,
		ticker:   topic + "ticker",
		trade:    topic + "trade",
		decimals: decimals,
		anchor:   mid,
		mid:      mid,
		last:     int64(mid),
	})
}

// Next returns the next tick: a topic and a JSON object, which is the caller's.
// The first symbols are somewhat busier than the last ones.
func (m *Market) Next() (topic string, payload []byte) {
	i := int(float64(len(m.instruments)) * math.Pow(m.random.Float64(), 1.5))
	in := m.instruments[i]
	in.move(m.random)
	if m.random.Float64() < tradeShare {
		return in.trade, in.appendTrade(nil, m.random)
	}
	return in.ticker, in.appendTicker(nil, m.random)
}

// instrument is one symbol. Prices are in units of its smallest price step.
type instrument struct {
	symbol, ticker, trade string
	decimals              int // of a price

	anchor   float64 // where the price tends to; wanders slowly
	mid      float64
	bid, ask int64
	last     int64 // price of the last trade
	volume   int64 // in thousandths
	quotes   uint64
	trades   uint64
}

const (
	wander    = 2e-5 // standard deviation of the anchor's relative change per tick
	shake     = 8e-5 // of the price's
	reversion = 0.02 // part of the distance to the anchor that the price loses per tick
	spread    = 1e-4 // of the price, besides one step
)

// move lets the price revert to its anchor and both take a random step.
func (in *instrument) move(r *rand.Rand) {
	in.anchor *= math.Exp(wander * r.NormFloat64())
	in.mid += reversion*(in.anchor-in.mid) + shake*in.mid*r.NormFloat64()
	in.mid = max(in.mid, 10)
	width := 1 + int64(spread*in.mid*r.Float64())
	in.bid = int64(in.mid) - width/2
	in.ask = in.bid + width
}

func (in *instrument) appendTicker(dst []byte, r *rand.Rand) []byte {
	in.quotes++
	dst = append(dst, `{"symbol":"`...)
	dst = append(dst, in.symbol...)
	dst = in.appendPrice(append(dst, `","bid":`...), in.bid)
	dst = appendSize(append(dst, `,"bid_size":`...), size(r))
	dst = in.appendPrice(append(dst, `,"ask":`...), in.ask)
	dst = appendSize(append(dst, `,"ask_size":`...), size(r))
	dst = in.appendPrice(append(dst, `,"last":`...), in.last)
	dst = appendSize(append(dst, `,"volume":`...), in.volume)
	dst = strconv.AppendUint(append(dst, `,"update":`...), in.quotes, 10)
	return append(dst, '}')
}

// appendTrade trades at the bid or at the ask.
func (in *instrument) appendTrade(dst []byte, r *rand.Rand) []byte {
	side, price := `sell`, in.bid
	if r.Float64() < 0.5 {
		side, price = `buy`, in.ask
	}
	amount := size(r)
	in.last = price
	in.volume += amount
	in.trades++
	dst = append(dst, `{"symbol":"`...)
	dst = append(dst, in.symbol...)
	dst = in.appendPrice(append(dst, `","price":`...), price)
	dst = appendSize(append(dst, `,"size":`...), amount)
	dst = append(dst, `,"side":"`...)
	dst = append(dst, side...)
	dst = strconv.AppendUint(append(dst, `","trade":`...), in.trades, 10)
	return append(dst, '}')
}

// size is an amount in thousandths; small ones are the most frequent.
func size(r *rand.Rand) int64 { return 1 + int64(1500*r.ExpFloat64()) }

func (in *instrument) appendPrice(dst []byte, steps int64) []byte {
	return appendDecimal(dst, steps, in.decimals)
}

func appendSize(dst []byte, thousandths int64) []byte { return appendDecimal(dst, thousandths, 3) }

// appendDecimal writes n / 10^decimals, n >= 0, without the detour of floating point.
func appendDecimal(dst []byte, n int64, decimals int) []byte {
	unit := int64(1)
	for range decimals {
		unit *= 10
	}
	dst = append(strconv.AppendInt(dst, n/unit, 10), '.')
	for unit /= 10; unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(n/unit%10))
	}
	return dst
}
