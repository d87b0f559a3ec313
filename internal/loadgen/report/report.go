// Package report is what load tests have found: the document, its JSON, tables
// and page, medians over repeats, thresholds, comparison. It measures nothing
// and touches neither network nor files.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Document is the outcome of one command. Its JSON form is a public format.
type Document struct {
	Machine        Machine         `json:"machine"`
	Settings       Settings        `json:"settings"`
	Results        []Result        `json:"results"`
	Partial        string          `json:"partial,omitempty"` // why the run ended early; empty: it did not
	Recommendation *Recommendation `json:"recommendation,omitempty"`
	Thresholds     []Outcome       `json:"thresholds,omitempty"`
}

// Machine is where a run took place.
type Machine struct {
	CPU         string   `json:"cpu"`
	Cores       int      `json:"cores"`
	MemoryBytes int64    `json:"memory_bytes,omitempty"`
	GOOS        string   `json:"goos"`
	GOARCH      string   `json:"goarch"`
	Kernel      string   `json:"kernel,omitempty"`
	Go          string   `json:"go"`
	AES         bool     `json:"aes_hardware"`
	Sealctl     string   `json:"sealctl"`
	Gateways    []string `json:"gateways,omitempty"` // their versions, as they tell them
	GatewayAES  bool     `json:"gateway_aes_hardware"`
	Same        bool     `json:"same_machine"` // gateway and generator share it
}

// Settings are what the command was told, and defaults as they were in force.
type Settings struct {
	Command     string         `json:"command"`
	Started     string         `json:"started"` // RFC 3339
	Gateway     string         `json:"gateway"` // its address, or how it was started
	Suites      []string       `json:"suites,omitempty"`
	Sizes       []int          `json:"sizes,omitempty"`
	Connections []int          `json:"connections,omitempty"`
	Rate        float64        `json:"rate,omitempty"`
	For         string         `json:"for"`
	Warmup      string         `json:"warmup"`
	Repeat      int            `json:"repeat"`
	Seed        uint64         `json:"seed"`
	Loops       int            `json:"generator_loops"`
	Set         []string       `json:"set,omitempty"` // settings of a gateway that was started
	More        map[string]any `json:"more,omitempty"`
}

// Case is what a result is of. Two results of the same case can be compared.
type Case struct {
	Scenario    string `json:"scenario"`
	Load        string `json:"load,omitempty"` // how it was driven, see docs/benchmarking.md
	Suite       string `json:"suite"`
	Size        int    `json:"size"` // bytes of a message
	Connections int    `json:"connections"`
	Subscribers int    `json:"subscribers,omitempty"` // of each topic
	Topics      int    `json:"topics,omitempty"`
	Variant     string `json:"variant,omitempty"` // settings that differ from other results
}

// Result is one case: of one run, or the medians of several.
type Result struct {
	Case
	RateAsked   float64           `json:"rate_asked"` // messages a second; 0: as many as possible
	RateReached float64           `json:"rate_reached"`
	Messages    uint64            `json:"messages"` // answers or deliveries in the measured part
	Errors      uint64            `json:"errors"`
	ByKind      map[string]uint64 `json:"errors_by_kind,omitempty"`
	Latency     Latency           `json:"latency_us"`
	Gateway     *GatewayUse       `json:"gateway"` // null: no admin interface was named
	Generator   GeneratorUse      `json:"generator"`
	Baseline    *Change           `json:"vs_baseline,omitempty"`
	Repeats     int               `json:"repeats"`
	Spread      Spread            `json:"spread"`
	Partial     string            `json:"partial,omitempty"`
	Notes       []string          `json:"notes,omitempty"`
	Counts      map[string]uint64 `json:"counts,omitempty"` // what else was counted, by scenario
	Memory      []MemoryStep      `json:"memory,omitempty"`
	Curves
}

// Latency is in microseconds, from the time at which a message was to be sent
// until its answer, or it itself, was there and verified.
type Latency struct {
	Avg     float64 `json:"avg"`
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	P999    float64 `json:"p999"`
	Max     float64 `json:"max"`
	Ratio   float64 `json:"p99_to_p50"`
	Samples int64   `json:"samples"`
}

// GatewayUse is what the gateway used during the measured part, by its own metrics.
type GatewayUse struct {
	CPUSeconds float64  `json:"cpu_seconds"`
	Cores      float64  `json:"cores"`
	RSSStart   int64    `json:"rss_start_bytes"`
	RSSPeak    int64    `json:"rss_peak_bytes"`
	RSSEnd     int64    `json:"rss_end_bytes"`
	GCCount    float64  `json:"gc_count"`
	GCPauses   float64  `json:"gc_pauses_ms"` // all together
	GCPauseMax float64  `json:"gc_pause_max_ms"`
	SealAvg    *float64 `json:"seal_us,omitempty"` // mean of the sealed records that were timed
	OpenAvg    *float64 `json:"open_us,omitempty"`
	PerMessage float64  `json:"cpu_us_per_message"`
	LoopLagP99 float64  `json:"loop_lag_p99_us"`
	Stalls     float64  `json:"loop_stalls"` // turns of a loop longer than 100 ms
}

// GeneratorUse is what the load generator used itself.
type GeneratorUse struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      float64 `json:"cores"`
	Late       uint64  `json:"late_sends"`         // sent more than a millisecond after their time
	LateOwn    uint64  `json:"late_by_generator"`  // of these, because the generator was busy
	Bottleneck string  `json:"bottleneck"`         // why it may have been what was measured; empty: it was not
	Processes  int     `json:"processes"`          // it consisted of
	Connect    float64 `json:"connecting_seconds"` // until all connections were ready
}

// Change is against the result of the suite plain of the same run and case, in per cent.
type Change struct {
	Suite      string  `json:"suite"`
	Latency    float64 `json:"latency_pct"` // of the mean
	P99        float64 `json:"p99_pct"`
	Throughput float64 `json:"throughput_pct"`
	CPU        float64 `json:"cpu_pct"` // of the gateway's time for one message
}

// Spread is how far the repeats lie apart, largest minus smallest in per cent of
// the median; with one run, of the slices of its measured part without extremes.
type Spread struct {
	Of     string  `json:"of"` // "repeats" or "slices"
	Rate   float64 `json:"rate_pct"`
	P50    float64 `json:"p50_pct"`
	P99    float64 `json:"p99_pct"`
	Memory float64 `json:"memory_pct,omitempty"`
}

// MemoryStep is the gateways' memory with so many connections.
type MemoryStep struct {
	Connections   int     `json:"connections"`
	RSS           int64   `json:"rss_bytes"`
	PerConnection float64 `json:"bytes_per_connection"` // above what it was without any
	Seconds       float64 `json:"connected_after_seconds"`
}

// Curves are what the charts show.
type Curves struct {
	Percentiles []Point     `json:"percentiles,omitempty"` // per cent → microseconds
	Timeline    []TimePoint `json:"timeline,omitempty"`
}

// Point is one of a curve.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// TimePoint is one part of the measured time.
type TimePoint struct {
	Seconds float64 `json:"seconds"` // since the beginning, at its end
	Rate    float64 `json:"rate"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Cores   float64 `json:"gateway_cores"`
	RSS     int64   `json:"gateway_rss_bytes"`
}

// WriteJSON writes the document as JSON.
func (d *Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// ErrDocument reports bytes that are no document of sealctl bench.
var ErrDocument = errors.New("not a report of sealctl bench")

// Read reads a document.
func Read(r io.Reader) (*Document, error) {
	d := new(Document)
	if err := json.NewDecoder(r).Decode(d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	if len(d.Results) == 0 || d.Results[0].Scenario == "" || d.Settings.Command == "" {
		return nil, fmt.Errorf("%w: it holds no results", ErrDocument)
	}
	return d, nil
}
