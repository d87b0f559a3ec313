package drive

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Sample is one measurement of one server in one round.
type Sample struct {
	Work        string  `json:"work"`
	Contestant  string  `json:"contestant"`
	Round       int     `json:"round"`
	ServerNS    float64 `json:"server_cpu_ns"`          // processor time of the server for one message or delivery
	DriverNS    float64 `json:"generator_cpu_ns"`       // the generator's
	ServerCores float64 `json:"server_cores,omitempty"` // of 1
	DriverCores float64 `json:"generator_cores,omitempty"`
	Rate        float64 `json:"rate,omitempty"` // messages or deliveries a second
	RSS         int64   `json:"rss_bytes,omitempty"`
	P50         float64 `json:"delay_p50_ns,omitempty"`
	P99         float64 `json:"delay_p99_ns,omitempty"`
	PerSession  float64 `json:"bytes_per_session,omitempty"`
}

// text is for who watches a run.
func (s *Sample) text() string {
	switch {
	case s.PerSession > 0:
		return fmt.Sprintf("%6.0f B a session, RSS %d MB", s.PerSession, s.RSS>>20)
	case s.P99 > 0:
		return fmt.Sprintf("P50 %6.1f µs  P99 %6.1f µs  %.0f ns  %.0f/s  server %.0f %%  generator %.0f %%", s.P50/1e3, s.P99/1e3, s.ServerNS, s.Rate, 100*s.ServerCores, 100*s.DriverCores)
	}
	return fmt.Sprintf("%8.1f ns  %9.0f/s  server %3.0f %%  generator %3.0f %% (%.0f ns)  RSS %d MB",
		s.ServerNS, s.Rate, 100*s.ServerCores, 100*s.DriverCores, s.DriverNS, s.RSS>>20)
}

// Results are what a run has found. They hold nothing of a round that failed.
type Results struct {
	Started string   `json:"started"`
	Took    string   `json:"took"`
	Machine string   `json:"machine"`
	Go      string   `json:"go"`
	Rounds  int      `json:"rounds"`
	For     string   `json:"for"`
	Warmup  string   `json:"warmup"`
	Modules []string `json:"modules"` // the peers' versions
	Samples []Sample `json:"samples"`

	works []*Work
}

func newResults(works []*Work, c Config) *Results {
	r := &Results{
		Started: time.Now().UTC().Format(time.RFC3339), Machine: machine(), Go: runtime.Version(),
		For: c.For.String(), Warmup: c.Warmup.String(), works: works,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			for _, peer := range []string{"/gws", "/gorilla/websocket", "/gnet/", "/centrifuge", "/nats-server/"} {
				if strings.Contains(m.Path, peer) {
					r.Modules = append(r.Modules, m.Path+" "+m.Version)
				}
			}
		}
	}
	return r
}

func (r *Results) add(samples []Sample) {
	r.Rounds++
	r.Samples = append(r.Samples, samples...)
}

// orNil is r if it holds anything.
func (r *Results) orNil() *Results {
	if r.Rounds == 0 {
		return nil
	}
	return r
}

// of are the samples of a contestant at a work, by round.
func (r *Results) of(work, contestant string) (found []Sample) {
	for _, s := range r.Samples {
		if s.Work == work && s.Contestant == contestant {
			found = append(found, s)
		}
	}
	return found
}

// WriteJSON writes all samples.
func (r *Results) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// ReadJSON reads what WriteJSON has written of one run or more, as if it were
// one: the same machine and versions are taken for granted, the first names them.
func ReadJSON(files ...io.Reader) (*Results, error) {
	all := new(Results)
	for i, f := range files {
		var r Results
		if err := json.NewDecoder(f).Decode(&r); err != nil {
			return nil, fmt.Errorf("results of a run: %w", err)
		}
		if i == 0 {
			*all = r
			continue
		}
		all.Samples = append(all.Samples, r.Samples...)
	}
	all.works = allWorks()
	for _, w := range all.works {
		for _, c := range w.Contestants {
			all.Rounds = max(all.Rounds, len(all.of(w.Name, c.Name)))
		}
	}
	return all, nil
}
