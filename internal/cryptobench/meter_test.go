package cryptobench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// machine is a made-up one: its clocks move by what its operations take and by
// what reading them costs.
type machine struct {
	wall, used     time.Duration
	objects, bytes uint64
	noCPUClock     bool
	collections    int
}

const (
	clockReading = 40 * time.Nanosecond
	cpuReading   = 300 * time.Nanosecond
)

func (c *machine) meter() *meter {
	m := &meter{
		now: func() time.Duration {
			c.pass(clockReading, clockReading)
			return c.wall
		},
		cpu: func() (time.Duration, bool) {
			if c.noCPUClock {
				return 0, false
			}
			c.pass(cpuReading, cpuReading)
			return c.used, true
		},
		heap:    func() (uint64, uint64) { return c.objects, c.bytes },
		collect: func() { c.collections++ },
	}
	m.calibrate()
	return m
}

func (c *machine) pass(wall, cpu time.Duration) {
	c.wall += wall
	c.used += cpu
}

// task takes the given times in turn.
func (c *machine) task(atOnce int, times ...time.Duration) *task {
	turn, prepared := 0, 0
	t := &task{operation: "test"}
	t.verify = func() error { return nil }
	t.run = func() error {
		if prepared--; atOnce > 0 && prepared < 0 {
			return errors.New("ran more than was ready")
		}
		d := times[turn%len(times)]
		turn++
		c.pass(d, 2*d) // a garbage collector works beside
		return nil
	}
	if atOnce > 0 {
		t.atOnce = atOnce
		t.ready = func(n int) error {
			if n > atOnce {
				return errors.New("asked for more than fits")
			}
			c.pass(time.Millisecond, time.Millisecond) // not the operation's time
			prepared = n
			return nil
		}
	}
	return t
}

func measured(t *testing.T, m *meter, task *task) repeat {
	t.Helper()
	if err := m.prepare(task, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := m.measure(task, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	return task.repeats[0]
}

func TestMeterSubtractsItsClocks(t *testing.T) {
	for _, test := range []struct {
		name    string
		takes   time.Duration
		atOnce  int
		plan    plan
		samples int // 0: more than a hundred
	}{
		{"fast", 100 * time.Nanosecond, 0, plan{1000, 8}, 0},
		{"fast, few at once", 100 * time.Nanosecond, 15, plan{8, 7}, 0},
		{"fast, two at once", 100 * time.Nanosecond, 2, plan{1, 1}, 20},
		{"fast, one at once", 100 * time.Nanosecond, 1, plan{1, 0}, 20},
		{"middling", 40 * time.Microsecond, 0, plan{2, 1}, 0},
		{"slow", 4 * time.Millisecond, 0, plan{1, 0}, 5},
		{"slower than the budget", time.Second, 0, plan{1, 0}, 1},
		{"faster than the clock", time.Nanosecond, 0, plan{maxBlock - 8, 8}, 0},
	} {
		c := new(machine)
		task := c.task(test.atOnce, test.takes)
		got := measured(t, c.meter(), task)
		if task.plan != test.plan {
			t.Errorf("%s: plan %+v, want %+v", test.name, task.plan, test.plan)
		}
		want := float64(test.takes)
		// The processor's clock also sees the wall clock being read.
		reading := 2 * float64(clockReading) / float64(task.plan.block)
		if got.wall != want || got.cpu < 2*want || got.cpu > 2*want+reading {
			t.Errorf("%s: %v ns, %v ns of processor, want %v, %v", test.name, got.wall, got.cpu, want, 2*want)
		}
		if got.p50 != test.takes || got.p99 != test.takes {
			t.Errorf("%s: P50 %v, P99 %v, want %v", test.name, got.p50, got.p99, test.takes)
		}
		if test.samples == 0 && got.samples <= 100 || test.samples > 0 && got.samples != test.samples {
			t.Errorf("%s: %d samples", test.name, got.samples)
		}
	}
}

func TestMeterPercentiles(t *testing.T) {
	c := new(machine)
	times := slices.Repeat([]time.Duration{time.Microsecond}, 97)
	times = append(times, 10*time.Microsecond, 10*time.Microsecond, 10*time.Microsecond)
	got := measured(t, c.meter(), c.task(0, times...))
	if got.p50 != time.Microsecond || got.p99 != 10*time.Microsecond {
		t.Errorf("P50 %v, P99 %v", got.p50, got.p99)
	}
	if want := 1270.0; got.wall < 0.95*want || got.wall > 1.05*want {
		t.Errorf("%v ns, want about the mean of %v", got.wall, want)
	}
}

func TestMeterWithoutProcessorClock(t *testing.T) {
	c := &machine{noCPUClock: true}
	task := c.task(0, time.Microsecond)
	if got := measured(t, c.meter(), task); got.cpu >= 0 {
		t.Errorf("%v ns of processor, which nobody can know", got.cpu)
	}
	if r := newResult(task); r.CPUShare != nil || r.CPUTime != nil {
		t.Errorf("result %+v", r)
	}
	task.baseline = task
	if r := newResult(task); r.Baseline.CPURatio != nil || r.Baseline.TimeRatio != 1 {
		t.Errorf("comparison %+v", *r.Baseline)
	}
}

func TestMeterCountsAllocations(t *testing.T) {
	c := new(machine)
	m := c.meter()
	task := c.task(0, time.Microsecond)
	inner, disturb := task.run, true
	task.run = func() error {
		c.objects += 2
		c.bytes += 100
		if disturb = !disturb; c.wall < 300*time.Microsecond && disturb {
			c.objects++ // the runtime, early on
		}
		return inner()
	}
	measured(t, m, task)
	if want := (allocations{2, 100}); task.allocs != want {
		t.Errorf("%+v, want %+v", task.allocs, want)
	}
	if c.collections != 1 {
		t.Errorf("%d collections after a task that leaves garbage", c.collections)
	}
	clean := c.task(0, time.Microsecond)
	if measured(t, m, clean); c.collections != 1 || clean.allocs.objects != 0 {
		t.Errorf("%d collections, %+v after a task that leaves none", c.collections, clean.allocs)
	}
}

func TestMeterReportsErrors(t *testing.T) {
	wrong := errors.New("wrong")
	for name, spoil := range map[string]func(*task){
		"verify": func(t *task) { t.verify = func() error { return wrong } },
		"run":    func(t *task) { t.run = func() error { return wrong } },
		"ready":  func(t *task) { t.ready = func(int) error { return wrong } },
	} {
		c := new(machine)
		m := c.meter()
		task := c.task(10, time.Microsecond)
		spoil(task)
		if err := m.prepare(task, time.Millisecond); !errors.Is(err, wrong) {
			t.Errorf("%s: prepare: %v", name, err)
		}
		task.plan = plan{block: 2, singles: 1}
		if err := m.measure(task, time.Millisecond); name != "verify" && !errors.Is(err, wrong) {
			t.Errorf("%s: measure: %v", name, err)
		}
	}
}

// TestRunGoesRound: every repeat measures every task before the next begins.
func TestRunGoesRound(t *testing.T) {
	c := new(machine)
	m := c.meter()
	var order []string
	var tasks []*task
	for _, name := range []string{"a", "b", "c"} {
		task := c.task(0, 10*time.Millisecond)
		inner := task.run
		task.run = func() error {
			order = append(order, name)
			return inner()
		}
		tasks = append(tasks, task)
	}
	var steps []int
	o := Options{Repeat: 2, For: time.Millisecond, Warmup: time.Millisecond, Progress: func(done, total int) {
		if total != 9 {
			t.Errorf("%d steps in all", total)
		}
		steps = append(steps, done)
	}}
	if err := m.all(context.Background(), o, tasks); err != nil {
		t.Fatal(err)
	}
	order = slices.Compact(order) // warm-up and counting run several times
	if want := []string{"a", "b", "c", "a", "b", "c", "a", "b", "c"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(steps, want) {
		t.Errorf("steps %v", steps)
	}
}
