package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/fanout"
	"github.com/sealcast/sealcast/gateway"
)

// metricsHandler serves /metrics: ours, and those of the Go runtime and the process.
func metricsHandler(o Options) http.Handler {
	return promhttp.HandlerFor(newRegistry(o), promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(o.Log)})
}

func newRegistry(o Options) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(newCollector(o), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// sample is what the packages counted, as of one scrape.
type sample struct {
	version string
	gateway gateway.Stats
	hub     fanout.Stats
	ready   bool // ticks come from the source
}

// kind is the type of a family.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is one metric with all its labels. One of value, values and spread is set.
type family struct {
	name   string
	kind   kind
	labels []string
	help   string
	value  func(*sample) float64
	values func(*sample, func(value float64, labels ...string))
	spread func(*sample) gateway.Distribution
}

// collector samples the packages' Stats at each scrape: nothing is done for
// metrics while messages flow, except that loops count.
type collector struct {
	options  Options
	families []family
	descs    []*prometheus.Desc
}

func newCollector(o Options) *collector {
	c := &collector{options: o, families: families()}
	for _, f := range c.families {
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, f.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector. While the gateway starts there is nothing.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	g, hub := c.options.Parts()
	if g == nil {
		return
	}
	s := &sample{version: c.options.Info().Version, gateway: g.Stats(), hub: hub.Stats(), ready: hub.Ready() == nil}
	for i, f := range c.families {
		f.collect(s, c.descs[i], out)
	}
}

func (f *family) collect(s *sample, desc *prometheus.Desc, out chan<- prometheus.Metric) {
	typ := prometheus.GaugeValue
	if f.kind == counter {
		typ = prometheus.CounterValue
	}
	switch {
	case f.value != nil:
		out <- prometheus.MustNewConstMetric(desc, typ, f.value(s))
	case f.values != nil:
		f.values(s, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, typ, value, labels...)
		})
	default:
		out <- constHistogram(desc, f.spread(s))
	}
}

// constHistogram adds the counts up, as Prometheus wants them.
func constHistogram(desc *prometheus.Desc, d gateway.Distribution) prometheus.Metric {
	buckets, total := make(map[float64]uint64, len(d.Bounds)), uint64(0)
	for i, n := range d.Counts {
		total += n
		if i < len(d.Bounds) {
			buckets[d.Bounds[i]] = total
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, d.Sum, buckets)
}
