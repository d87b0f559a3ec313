package capacity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/wire"
)

// small is a load that can be worked out by hand.
func small() Inputs {
	in := Defaults()
	in.Clients, in.Topics, in.PerClient, in.Lists = 1000, 10, 10, 1
	in.Rate, in.Size, in.Connects, in.DelayMS = 10, 100, 10, 10
	in.Machine.Cores, in.Headroom, in.HistoryBytes, in.SlowTotal = 4, 0.5, 0, 0
	return in
}

func estimate(t *testing.T, in Inputs) *Plan {
	t.Helper()
	p, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step finds a figure of a plan.
func (p *Plan) step(t *testing.T, part int, name string) float64 {
	t.Helper()
	for _, s := range p.Parts[part].Steps {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no step %q in %q", name, p.Parts[part].Title)
	return 0
}

// TestByHand holds every step against figures worked out on paper.
func TestByHand(t *testing.T) {
	p := estimate(t, small())
	for _, c := range []struct {
		part int
		name string
		want float64
	}{
		{0, "ticks", 100},                       // 10 × 10
		{0, "ticks in a record", 2},             // 1 + 100 × 0.01
		{0, "records", 50},                      // 100 / 2
		{0, "bytes of a record", 250},           // 2 × (100 + 7) + 36
		{0, "bandwidth", 136000},                // 50 × (250 + 90) × 8
		{1, "clients", 1000},                    // one gateway
		{1, "topics followed", 10},              // each has a follower
		{1, "ticks from Redis", 100},            // 10 × 10
		{1, "take ticks", 0.00647},              // 100 × 64.7 µs
		{1, "write records", 0.800635},          // 50,000 × (15.5 + 250/1024 × 2.1) µs
		{1, "seal", 0.01093077},                 // 50,000 × (0.156 + 5.494 × 186/16320) µs
		{1, "join ticks", 0.000088},             // 1 list on 4 loops × 100 × 0.22 µs
		{1, "heartbeats", 0.0022},               // 1,000 × 2.2 µs
		{1, "connections", 0.014},               // 10 × 1,400 µs
		{1, "cores needed", 1.668647},           // 0.834324 / 0.5
		{1, "topics and subscriptions", 604750}, // 10 × 475 + 10,000 × 60
		{1, "expanded keys", 1280000},
		{1, "memory of the process", 26554500}, // 20e6 + 1,000 × 2,785 + 2 × (604,750 + 1,280,000)
		{1, "memory of the kernel", 3977000},
		{1, "bandwidth to clients", 136e6},
		{1, "bandwidth from Redis", 121600}, // 100 × 152 × 8
		{1, "descriptors", 1064},
		{2, "ticks published", 100},
		{2, "copies", 200}, // two gateways, one of them to spare
		{2, "processors", 0.000183},
		{2, "shards", 1},
		{2, "bandwidth to gateways", 243200},
		{3, "deliveries", 100000},
		{3, "cores", 3.337295},
		{3, "memory", 61063000},
		{3, "bandwidth to clients", 136e6},
	} {
		if got := p.step(t, c.part, c.name); math.Abs(got-c.want) > 1e-6*math.Max(1, c.want) {
			t.Errorf("%s, %s: %v, want %v", p.Parts[c.part].Title, c.name, got, c.want)
		}
	}
	if p.Gateways != 2 || p.Bound != "nothing: one is enough" || p.Redis.Shards != 1 {
		t.Errorf("%d gateways, bound by %s, %d shards", p.Gateways, p.Bound, p.Redis.Shards)
	}
}

// TestWhatBinds: the number of gateways follows from what is short first.
func TestWhatBinds(t *testing.T) {
	for _, c := range []struct {
		bound    string
		gateways int // without spare ones
		change   func(*Inputs)
	}{
		{"descriptors", 100, func(in *Inputs) { in.Machine.Descriptors = 10_064; in.Clients = 1_000_000; in.Rate = 0.001 }},
		// 134,217,728 less 20,009,500 is room for 10,854 clients of 2,785 + 2 × (600 + 1,280) + 3,977 bytes.
		{"memory", 10, func(in *Inputs) { in.Machine.MemoryBytes = 1 << 27; in.Clients = 100_000; in.Rate = 0.001 }},
		// 1,000 clients have 143.2 Mbit/s, and half of 100 Mbit/s may be used: 349 clients.
		{"bandwidth", 3, func(in *Inputs) { in.Machine.LinkBits = 100e6 }},
		// One with 3,000 would need 3 × 1.63 cores for these, and 0.04 for ticks and connections.
		{"cores", 2, func(in *Inputs) { in.Clients = 3000 }},
	} {
		in := small()
		in.Spare = 0
		c.change(&in)
		p := estimate(t, in)
		if p.Bound != c.bound || p.Gateways != c.gateways {
			t.Errorf("%d gateways bound by %s, want %d by %s", p.Gateways, p.Bound, c.gateways, c.bound)
		}
	}
}

func TestNeverEnough(t *testing.T) {
	in := small()
	in.Topics, in.Rate, in.PerClient = 1_000_000, 100, 1_000_000
	if _, err := Estimate(in); !errors.Is(err, ErrNeverEnough) {
		t.Errorf("%v", err)
	}
}

// TestDirections: more of a load never needs less.
func TestDirections(t *testing.T) {
	base := estimate(t, small())
	for name, change := range map[string]func(*Inputs){
		"clients": func(in *Inputs) { in.Clients *= 10 },
		"rate":    func(in *Inputs) { in.Rate *= 10 },
		"size":    func(in *Inputs) { in.Size *= 10 },
		"lists":   func(in *Inputs) { in.Lists = 0 },
		"suite":   func(in *Inputs) { in.Suite = "sm4-gcm" },
		"delay":   func(in *Inputs) { in.DelayMS = 0 },
	} {
		in := small()
		change(&in)
		if p := estimate(t, in); p.Total.Cores <= base.Total.Cores {
			t.Errorf("%s: %v cores, before %v", name, p.Total.Cores, base.Total.Cores)
		}
	}
	group := small()
	group.Seal, group.Suite = "group", "sm4-gcm"
	each := group
	each.Seal = "session"
	if estimate(t, group).Total.Cores >= estimate(t, each).Total.Cores {
		t.Error("groups save nothing")
	}
}

// TestCompression: the least ratio that was measured, unless one is given.
func TestCompression(t *testing.T) {
	in := small()
	in.Codec, in.DelayMS = "zstd", 1000 // 101 ticks: 10,100 bytes of payloads
	p := estimate(t, in)
	if got, want := p.step(t, 0, "bytes of a record"), 101*100/4.35+36; math.Abs(got-want) > 0.01 {
		t.Errorf("%v bytes, want %v", got, want)
	}
	in.Ratio = 10
	if got, want := estimate(t, in).step(t, 0, "bytes of a record"), 101*100/10.0+36; math.Abs(got-want) > 0.01 {
		t.Errorf("%v bytes, want %v", got, want)
	}
	if got, want := p.step(t, 1, "compress"), 4*(100.0/101)*(101*100/1024.0)*6.4e-6; math.Abs(got-want) > 1e-9 {
		t.Errorf("%v cores, want %v", got, want)
	}
}

func TestRefusals(t *testing.T) {
	for name, change := range map[string]func(*Inputs){
		"clients":       func(in *Inputs) { in.Clients = 0 },
		"topics":        func(in *Inputs) { in.Topics = -1 },
		"subscriptions": func(in *Inputs) { in.PerClient = 11 },
		"lists":         func(in *Inputs) { in.Lists = 1001 },
		"rate":          func(in *Inputs) { in.Rate = math.NaN() },
		"size":          func(in *Inputs) { in.Size = 2 << 20 },
		"connects":      func(in *Inputs) { in.Connects = -1 },
		"delay":         func(in *Inputs) { in.DelayMS = math.Inf(1) },
		"suite":         func(in *Inputs) { in.Suite = "rot13" },
		"seal":          func(in *Inputs) { in.Seal = "twice" },
		"codec":         func(in *Inputs) { in.Codec = "gzip" },
		"ratio":         func(in *Inputs) { in.Ratio = 2 },
		"cores":         func(in *Inputs) { in.Machine.Cores = 0 },
		"memory":        func(in *Inputs) { in.Machine.MemoryBytes = 1 },
		"link":          func(in *Inputs) { in.Machine.LinkBits = 0 },
		"descriptors":   func(in *Inputs) { in.Machine.Descriptors = 64 },
		"headroom":      func(in *Inputs) { in.Headroom = 1.1 },
		"spare":         func(in *Inputs) { in.Spare = -1 },
		"history":       func(in *Inputs) { in.SlowTotal = -1 },
	} {
		in := small()
		change(&in)
		var wrong *InputError
		if _, err := Estimate(in); !errors.As(err, &wrong) || wrong.Name != name || wrong.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBytesOnTheWire holds the constants about bytes against what the wire
// package and the sealer make.
func TestBytesOnTheWire(t *testing.T) {
	const aDay = 86_400_000_000 // since the gateway has started
	v := constantValues()
	for _, n := range []int{1, 2, 20, 50} {
		items := make([]wire.BatchItem, n)
		for i := range items {
			payload := make([]byte, 100)
			items[i] = wire.BatchItem{Topic: 5000 + uint32(i%20), Seq: 1_000_000 + uint64(i/20), Payload: payload, ReceivedUS: aDay + int64(i)*100}
		}
		const frameHeader, sealed = 4, 17
		got := float64(len(wire.AppendBatchFrame(nil, items)) + sealed + frameHeader)
		want := float64(n)*(100+v["tick.head"]) + v["record.head"]
		if math.Abs(got-want) > 0.04*want {
			t.Errorf("%d ticks are %v bytes, by the constants %v", n, got, want)
		}
	}
	var s record.Sealer
	s.Init(suite.AES128GCM, record.Secret{}, record.Limits{})
	if s.Overhead() != 17 {
		t.Errorf("a record has %d bytes around its plaintext", s.Overhead())
	}
	topic := strings.Repeat("t", 20)
	message := fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$100\r\n%s\r\n", len(topic), topic, strings.Repeat("x", 100))
	if got := float64(len(message) - 100); got != v["server.head"] {
		t.Errorf("a message of Redis has %v bytes beside the payload", got)
	}
}

// TestDefaults: what the plan takes for the gateway's settings are these.
func TestDefaults(t *testing.T) {
	in, c := Defaults(), config.Default()
	if in.DelayMS != c.Batch.MaxDelay.Seconds()*1000 || in.HistoryBytes != float64(c.Limits.HistoryBytes) || in.SlowTotal != float64(c.Slow.Total) ||
		batchTicks != c.Batch.MaxTicks || batchBytes != c.Batch.MaxBytes {
		t.Errorf("%+v, settings %+v %+v %+v", in, c.Batch, c.Limits.HistoryBytes, c.Slow)
	}
	for _, id := range suite.All() {
		in := small()
		if in.Suite = id.String(); in.check() != nil {
			t.Errorf("no plan with %v", id)
		}
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestConstantsPage: docs/performance.md has a row for every constant, and no other.
func TestConstantsPage(t *testing.T) {
	_, section, _ := strings.Cut(page(t, "docs/performance.md"), "## Constants of a capacity plan\n")
	rows := regexp.MustCompile("(?m)^\\| `[a-z0-9.-]+` \\|.*$").FindAllString(section, -1)
	var want []string
	for _, c := range Constants() {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s | `%s` |", c.Name, amount(c.Value), c.Unit, c.What, c.Source))
	}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "|  |", "| |")
	}
	if got := strings.Join(rows, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the section should have the rows\n%s\nand has\n%s", strings.Join(want, "\n"), got)
	}
}

// TestConstantsFollowThePage: the figures that other sections tell are the constants.
func TestConstantsFollowThePage(t *testing.T) {
	text, v := page(t, "docs/performance.md"), constantValues()
	for _, id := range []suite.ID{suite.AES128GCM, suite.AES256GCM, suite.ChaCha20Poly1305, suite.SM4GCM, suite.Plain} {
		row := regexp.MustCompile(`(?m)^\| ` + id.String() + ` \| ([\d,.]+).*\| ([\d,.]+)[^|]*\|$`).FindStringSubmatch(text)
		if row == nil {
			t.Fatalf("no row of records for %v", id)
		}
		for i, size := range []string{"64", "16384"} {
			perSecond, err := strconv.ParseFloat(strings.ReplaceAll(row[i+1], ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			name := "seal." + id.String() + "." + size
			if us := 1000 / perSecond; math.Abs(us-v[name]) > 0.01*us+0.0005 {
				t.Errorf("%s is %v, the page says %v", name, v[name], us)
			}
		}
	}
	for name, said := range map[string]string{
		"topic.memory":        "475 bytes",
		"subscription.memory": "subscription 60 bytes",
		"ratio.snappy.50":     "2.71 (19",
		"ratio.zstd.50":       "4.35 (56",
		"ratio.snappy.1":      "as it is and counts as 1.00",
		"ratio.zstd.1":        "as it is and counts as 1.00",
	} {
		figure := amount(v[name])
		if !strings.Contains(text, said) || !strings.Contains(strings.ReplaceAll(said, "1.00", "1"), strings.TrimSuffix(figure, "0")) {
			t.Errorf("%s is %s, and the page does not say %q", name, figure, said)
		}
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	p := estimate(t, small())
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gateways     2 (1 to spare), bound by nothing: one is enough",
		"bytes of a record                     250 B  = 2 × (100 + 7) + 36",
		"seal.aes-128-gcm.64", "docs/performance.md, Records", "go test -run '^$' -bench Redis",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "sm4-gcm") || strings.Contains(b.String(), "NaN") {
		t.Error("a constant that was not used, or nonsense")
	}
	raw, err := json.Marshal(p)
	var again Plan
	if err != nil || json.Unmarshal(raw, &again) != nil || again.Gateways != 2 || len(again.Measured) != len(Constants()) {
		t.Errorf("%v: %s", err, raw)
	}
}

func TestAmounts(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 1.5: "1.5", 0.000183: "0.000183", 2.58: "2.58", 64.7: "64.7", 999.6: "1,000", 1234567: "1,234,567", 12345.6: "12,346"} {
		if got := amount(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
	if got := binary(1536) + "B, " + scaled(143.2e6) + "bit/s"; got != "1.5 KiB, 143 Mbit/s" {
		t.Error(got)
	}
}
