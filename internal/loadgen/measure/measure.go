// Package measure counts what a load generator has seen, in slices of time. It
// sends nothing and reads no clock: times come from the event loops.
package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram: from a nanosecond to two minutes, to three digits.
// What takes longer counts as two minutes.
const (
	longest = int64(2 * time.Minute)
	digits  = 3
)

// NewHistogram makes a histogram of times in nanoseconds.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, digits) }

// LateAfter is how much later than intended a message must leave to be late.
const LateAfter = int64(time.Millisecond)

// Window is the measured part of a run, in the event loops' time.
type Window struct {
	From, To int64
	Slices   int
}

// slice is the part of the window that at lies in; -1 if it lies outside.
func (w *Window) slice(at int64) int {
	if at < w.From || at >= w.To {
		return -1
	}
	return int((at - w.From) * int64(w.Slices) / (w.To - w.From))
}

// Seconds is the window's length.
func (w *Window) Seconds() float64 { return float64(w.To-w.From) / 1e9 }

// Recorder counts for one event loop, and belongs to it. Outside its window it
// counts nothing but errors.
type Recorder struct {
	Window
	Counts
	slices []*hdrhistogram.Histogram // of latencies, by intended time
	came   []uint64                  // answers, by the time they came
}

// Counts are the sums of a recorder.
type Counts struct {
	Sent        uint64 // messages intended within the window that have left
	Late        uint64 // of these, more than LateAfter behind their time
	LateByLoop  uint64 // of the late ones, because the generator itself was busy
	Unanswered  uint64 // of these, never answered
	Disconnects uint64 // connections that were lost during the run
}

// NewRecorder makes the recorder of one loop.
func NewRecorder(w Window) *Recorder {
	r := &Recorder{Window: w, came: make([]uint64, w.Slices)}
	for range w.Slices {
		r.slices = append(r.slices, NewHistogram())
	}
	return r
}

// Record counts an answer that came now to a message intended for then.
func (r *Recorder) Record(intended, now int64) {
	if i := r.slice(now); i >= 0 {
		r.came[i]++
	}
	if i := r.slice(intended); i >= 0 {
		_ = r.slices[i].RecordValue(min(max(now-intended, 1), longest)) // within the range, so it cannot fail
	}
}

// Arrived counts an answer whose latency is not measured.
func (r *Recorder) Arrived(now int64) {
	if i := r.slice(now); i >= 0 {
		r.came[i]++
	}
}

// Left counts a message that leaves now, and was intended for then. ready is
// when the connection could take it: what is later than that is the
// generator's own doing.
func (r *Recorder) Left(intended, ready, now int64) {
	if r.slice(intended) < 0 {
		return
	}
	r.Sent++
	if now-intended > LateAfter {
		r.Late++
		if now-max(ready, intended) > LateAfter {
			r.LateByLoop++
		}
	}
}

// Figures are what all recorders of a run have counted together.
type Figures struct {
	Window
	Counts
	Latency *hdrhistogram.Histogram
	Slices  []Slice
	Came    uint64
}

// Slice is one part of the window.
type Slice struct {
	Latency *hdrhistogram.Histogram
	Came    uint64
}

// Merge adds recorders of the same window up. They must not be in use any more.
func Merge(all []*Recorder) *Figures {
	f := &Figures{Window: all[0].Window, Latency: NewHistogram()}
	for i := range f.Window.Slices {
		s := Slice{Latency: NewHistogram()}
		for _, r := range all {
			s.Latency.Merge(r.slices[i])
			s.Came += r.came[i]
		}
		f.Latency.Merge(s.Latency)
		f.Came += s.Came
		f.Slices = append(f.Slices, s)
	}
	for _, r := range all {
		f.Counts.add(&r.Counts)
	}
	return f
}

// Add adds figures of another process, slice by slice.
func (f *Figures) Add(o *Figures) {
	f.Latency.Merge(o.Latency)
	f.Came += o.Came
	f.Counts.add(&o.Counts)
	for i := range f.Slices {
		f.Slices[i].Latency.Merge(o.Slices[i].Latency)
		f.Slices[i].Came += o.Slices[i].Came
	}
}

func (c *Counts) add(o *Counts) {
	c.Sent += o.Sent
	c.Late += o.Late
	c.LateByLoop += o.LateByLoop
	c.Unanswered += o.Unanswered
	c.Disconnects += o.Disconnects
}

// Rate is how many answers came in a second.
func (f *Figures) Rate() float64 { return float64(f.Came) / f.Seconds() }
