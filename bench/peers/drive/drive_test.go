package drive

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealcast/sealcast/bench/peers/servers"
	"github.com/sealcast/sealcast/internal/loadgen/measure"
)

// TestEveryServerAtEveryWork: every server starts, echoes or fans out, and all
// that it sends is what it should be; only there are few of everything.
func TestEveryServerAtEveryWork(t *testing.T) {
	b := &bench{Config: Config{
		Gateway: gatewayProgram, Warmup: 10 * time.Millisecond, For: 100 * time.Millisecond, GeneratorCore: 1,
		Say: func(text string) { t.Log(text) },
	}, ctx: t.Context()}
	if err := b.prepare(); err != nil {
		t.Fatal(err)
	}
	defer b.redis.stop()
	works := allWorks()
	seen := map[string]bool{}
	for _, w := range works {
		w.Connections = min(w.Connections, 20)
		w.Rate = min(w.Rate, 200)
		for _, c := range w.Contestants {
			seen[c.Server] = true
		}
	}
	for _, name := range servers.Names() {
		if !seen[name] {
			t.Errorf("server %s has no work", name)
		}
	}
	r := newResults(works, b.Config)
	samples, err := b.round(works, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.add(samples)
	for _, s := range samples {
		if s.ServerNS <= 0 && s.P99 <= 0 && s.RSS <= 0 {
			t.Errorf("%s, %s: nothing was measured", s.Work, s.Contestant)
		}
	}
	for _, a := range bars() {
		if len(a.values(r)) != 1 {
			t.Errorf("%s: nothing decides it", a.title)
		}
	}
}

// A server that sends something else, or nothing, is noticed.
func TestAnswersAreVerified(t *testing.T) {
	c := &echoClient{pattern: []byte("0123456789abcdefTEXT")}
	c.m = &meter{}
	for _, answer := range []string{"", "0123456789abcdefTEXX", "\x01\x00\x00\x00\x00\x00\x00\x0089abcdefTEXT"} {
		if err := c.Message(0, []byte(answer)); err == nil {
			t.Errorf("%q was taken for message 0", answer)
		}
	}
	f := &feed{pattern: []byte("0123456789abcdefTEXT")}
	s := &subscriber{feed: f, tick: func(*subscriber, uint64, int64) {}}
	first := append(make([]byte, 16), "TEXT"...)
	if err := s.payload(first); err != nil {
		t.Fatal(err)
	}
	if err := s.payload(first); err == nil {
		t.Error("a tick that came twice was taken")
	}
}

func TestProcessorTimeOfAnother(t *testing.T) {
	got, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if own := measure.ProcessCPU(); got > own || own-got > time.Second {
		t.Errorf("%v by the clock, %v by getrusage", got, own)
	}
	if _, err := cpuTime(1 << 22); err == nil {
		t.Error("a process that is not there has a time")
	}
}

func TestDialectsInParts(t *testing.T) {
	var got []string
	newSubscriber := func() *subscriber {
		s := &subscriber{feed: &feed{pattern: make([]byte, 16)}, tick: func(s *subscriber, seq uint64, _ int64) { got = append(got, s.m.work.Name) }}
		s.m = &meter{work: &Work{Name: "tick"}}
		return s
	}
	payload := make([]byte, 16)
	stream := []byte("INFO {}\r\n+OK\r\nMSG " + topic + " 1 16\r\n" + string(payload) + "\r\n")
	for cut := range stream {
		got = nil
		r := &natsReader{s: newSubscriber()}
		for _, part := range [][]byte{stream[:cut], stream[cut:]} {
			if err := r.read(part); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		if len(got) != 1 {
			t.Fatalf("cut at %d: %d ticks", cut, len(got))
		}
	}
	if err := (&natsReader{s: newSubscriber()}).read([]byte("-ERR 'no'\r\n")); err == nil {
		t.Error("an error of nats-server was not noticed")
	}
	got = nil
	push := append([]byte{0x22, 20, 0x22, 18, 0x22, 16}, payload...)
	if err := (&centrifugeReader{s: newSubscriber()}).read(append([]byte{byte(len(push))}, push...)); err != nil || len(got) != 1 {
		t.Errorf("centrifuge: %v, %d ticks", err, len(got))
	}
	if err := (&centrifugeReader{s: newSubscriber()}).read([]byte{9, 1}); err == nil {
		t.Error("a reply that is cut off was taken")
	}
}

// fabricated is a run in which Sealcast needs half of gws's time.
func fabricated() *Results {
	r := newResults(plainEchoes(), Config{})
	for round := range 5 {
		var samples []Sample
		for _, w := range r.works {
			for _, c := range w.Contestants {
				s := Sample{Work: w.Name, Contestant: c.Name, Round: round, ServerNS: 1000 + float64(round), Rate: 10}
				if c.Name == ofGWS {
					s.ServerNS *= 2
				}
				samples = append(samples, s)
			}
		}
		r.add(samples)
	}
	return r
}

func TestTablesAndHistory(t *testing.T) {
	r := fabricated()
	var history bytes.Buffer
	if err := r.WriteHistory(&history); err != nil {
		t.Fatal(err)
	}
	if want := "Benchmark/echo-plain-64B-100c-1w/gws 1 2000 cpu-ns/op 10 op/s\n"; !strings.Contains(history.String(), want) {
		t.Errorf("the history has no line %q", want)
	}
	var once bytes.Buffer
	if err := r.WriteJSON(&once); err != nil {
		t.Fatal(err)
	}
	twice, err := ReadJSON(bytes.NewReader(once.Bytes()), bytes.NewReader(once.Bytes()))
	if err != nil || twice.Rounds != 10 || len(twice.Samples) != 2*len(r.Samples) {
		t.Errorf("two runs of five rounds are read as %d: %v", twice.Rounds, err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	const around = "before\n" + beginMark + "\nold\n" + endMark + "\nafter\n"
	if err := os.WriteFile(page, []byte(around), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second run replaces the first
		if err := r.UpdatePage(page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| plain echo, 64 B, 100 × 1, against gws | 0.5 (0.5–0.5) | 1, 0.8 | stretch met |",
		"| plain echo, 64 B, 100 × 16, against gws | 0.5 (0.5–0.5) | 0.143 | missed |",
		"| gws | 2004 | 2000–2008 | 10 |",
	} {
		if strings.Count(string(text), want) < 1 {
			t.Errorf("the page has no line %q:\n%s", want, text)
		}
	}
	if !strings.HasPrefix(string(text), "before\n") || !strings.HasSuffix(string(text), "\nafter\n") || strings.Contains(string(text), "old") {
		t.Error("what stands around the tables has changed, or the old ones are still there")
	}
	if err := os.WriteFile(page, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.UpdatePage(page); err == nil {
		t.Error("a page without marks was taken")
	}
}

func TestMedianAndInterval(t *testing.T) {
	if m := median([]float64{5, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	values := []float64{1, 2, 3, 4, 5, 6, 7}
	low, high := interval(values)
	if low >= 4 || high <= 4 || low < 1 || high > 7 {
		t.Errorf("the interval of %v is %v to %v", values, low, high)
	}
	if low, high := interval([]float64{3}); low != 3 || high != 3 {
		t.Errorf("the interval of one value is %v to %v", low, high)
	}
}

func TestUnknownWork(t *testing.T) {
	_, err := Run(context.Background(), Config{Only: []string{"nothing like it"}, GeneratorCore: 1, Rounds: 1})
	if err == nil || !strings.Contains(err.Error(), "no work") {
		t.Errorf("%v", err)
	}
}
