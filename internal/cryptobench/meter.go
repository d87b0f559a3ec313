package cryptobench

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// task is one operation that is measured.
type task struct {
	group     Group
	operation string
	suite     string // "" where no suite is in it
	size      int    // bytes that one operation handles; 0 where that says nothing
	baseline  *task  // what the operation is compared with, measured in the same run

	// ready prepares what the next n operations consume, untimed; nil when
	// they consume nothing. n is at most atOnce.
	ready  func(n int) error
	atOnce int
	// run performs one operation: the next of those that ready prepared.
	run func() error
	// verify shows once, untimed, that run does what it claims.
	verify func() error

	plan    plan
	allocs  allocations
	repeats []repeat
}

// plan is how a measurement of a task alternates: a block of operations timed
// together, for the throughput, then some timed one by one, for the latency.
// An operation that fills a block alone needs no singles.
type plan struct{ block, singles int }

// repeat is what one measurement of a task found.
type repeat struct {
	wall, cpu float64 // nanoseconds per operation; cpu is negative where the system does not tell
	p50, p99  time.Duration
	samples   int
}

// allocations are those of one operation.
type allocations struct{ objects, bytes float64 }

// blockTime is the length that blocks should have: long beside what the clocks
// cost, some 40 ns and 400 ns, short beside a time slice of the scheduler.
const blockTime = 100 * time.Microsecond

// singlesPerBlock is how many operations are timed one by one after each block.
const singlesPerBlock = 8

// maxBlock bounds a block where nothing else does.
const maxBlock = 8192

func (t *task) wrap(err error) error {
	return fmt.Errorf("%s: %s, suite %q, %d bytes: %w", t.group, t.operation, t.suite, t.size, err)
}

// meter times tasks. What it reads of the outside world can be replaced.
type meter struct {
	now     func() time.Duration           // a monotonic clock
	cpu     func() (time.Duration, bool)   // of this process, user and system
	heap    func() (objects, bytes uint64) // allocated since the process began
	collect func()                         // frees garbage, so that a task does not pay for the one before

	clockCost, cpuCost time.Duration // what a reading adds to the time between two
	times              []time.Duration
}

func newMeter() *meter {
	began := time.Now()
	m := &meter{
		now:     func() time.Duration { return time.Since(began) },
		cpu:     processCPU,
		heap:    heapAllocations(),
		collect: runtime.GC,
	}
	m.calibrate()
	return m
}

// calibrate finds what the clocks cost.
func (m *meter) calibrate() {
	m.clockCost = usualStep(m.now)
	m.cpuCost = usualStep(func() time.Duration {
		used, _ := m.cpu()
		return used
	})
}

// usualStep is the median of the time between two readings of a clock.
func usualStep(clock func() time.Duration) time.Duration {
	const readings = 1001
	steps := make([]time.Duration, readings)
	for i := range steps {
		t0 := clock()
		steps[i] = clock() - t0
	}
	slices.Sort(steps)
	return percentile(steps, 50)
}

// heapAllocations returns a function that reads the allocator's counters and
// itself allocates nothing.
func heapAllocations() func() (objects, bytes uint64) {
	s := new(runtime.MemStats)
	return func() (objects, bytes uint64) {
		runtime.ReadMemStats(s)
		return s.Mallocs, s.TotalAlloc
	}
}

// prepare verifies the task, warms it up, counts its allocations and decides
// how it is measured.
func (m *meter) prepare(t *task, warmup time.Duration) error {
	if err := t.verify(); err != nil {
		return err
	}
	if t.ready == nil {
		t.ready, t.atOnce = func(int) error { return nil }, maxBlock
	}
	perOperation, err := m.warmUp(t, warmup)
	if err != nil {
		return err
	}
	t.plan = newPlan(perOperation, t.atOnce)
	return m.countAllocations(t)
}

// warmUp runs the task for a while, in growing blocks, and returns the
// shortest time per operation that a block took.
func (m *meter) warmUp(t *task, warmup time.Duration) (time.Duration, error) {
	fastest := time.Duration(0)
	block := 1
	for began := m.now(); ; {
		took, err := m.block(t, block)
		if err != nil {
			return 0, err
		}
		per := max(took/time.Duration(block), 1)
		if fastest == 0 || per < fastest {
			fastest = per
		}
		if took < blockTime {
			block = min(2*block, t.atOnce)
		}
		if m.now()-began >= warmup {
			return fastest, nil
		}
	}
}

// newPlan fits blocks to the time of one operation and to how many can be
// ready at once.
func newPlan(perOperation time.Duration, atOnce int) plan {
	block := min(int(blockTime/max(perOperation, 1)), atOnce)
	if block <= 1 {
		return plan{block: 1}
	}
	singles := min(singlesPerBlock, block/2)
	return plan{block: min(block, atOnce-singles), singles: singles}
}

// block makes n operations ready and times them together.
func (m *meter) block(t *task, n int) (time.Duration, error) {
	if err := t.ready(n); err != nil {
		return 0, err
	}
	return m.timed(t, n)
}

// timed times n operations that are ready, without the clock's own cost.
func (m *meter) timed(t *task, n int) (time.Duration, error) {
	t0 := m.now()
	for range n {
		if err := t.run(); err != nil {
			return 0, err
		}
	}
	return max(m.now()-t0-m.clockCost, 0), nil
}

// countAllocations takes the least of some passes, since the runtime
// allocates now and then.
func (m *meter) countAllocations(t *task) error {
	const passes = 3
	n := t.plan.block
	for pass := 0; pass < passes && (pass == 0 || t.allocs.objects > 0); pass++ {
		if err := t.ready(n); err != nil {
			return err
		}
		objects, bytes := m.heap()
		for range n {
			if err := t.run(); err != nil {
				return err
			}
		}
		objects2, bytes2 := m.heap()
		got := allocations{float64(objects2-objects) / float64(n), float64(bytes2-bytes) / float64(n)}
		if pass == 0 || got.objects < t.allocs.objects {
			t.allocs = got
		}
	}
	return nil
}

// measure adds one repeat to the task: it runs blocks and singles in turn for
// about budget, and at least once.
func (m *meter) measure(t *task, budget time.Duration) error {
	if t.plan.block > 1 { // brings code and data back into the caches
		if _, err := m.block(t, t.plan.block); err != nil {
			return err
		}
	}
	m.times = m.times[:0]
	var wall, cpu time.Duration
	known := true
	operations := 0
	for began := m.now(); operations == 0 || m.now()-began < budget; operations += t.plan.block {
		w, c, ok, err := m.round(t)
		if err != nil {
			return err
		}
		wall, cpu, known = wall+w, cpu+c, known && ok
	}
	t.repeats = append(t.repeats, m.result(wall, cpu, known, operations))
	if t.allocs.objects > 0 {
		m.collect()
	}
	return nil
}

// round times one block, on both clocks, and then the singles.
func (m *meter) round(t *task) (wall, cpu time.Duration, known bool, err error) {
	if err := t.ready(t.plan.block + t.plan.singles); err != nil {
		return 0, 0, false, err
	}
	before, _ := m.cpu()
	if wall, err = m.timed(t, t.plan.block); err != nil {
		return 0, 0, false, err
	}
	after, known := m.cpu()
	if t.plan.singles == 0 {
		m.times = append(m.times, wall/time.Duration(t.plan.block))
	}
	for range t.plan.singles {
		one, err := m.timed(t, 1)
		if err != nil {
			return 0, 0, false, err
		}
		m.times = append(m.times, one)
	}
	return wall, max(after-before-m.cpuCost, 0), known, nil
}

func (m *meter) result(wall, cpu time.Duration, known bool, operations int) repeat {
	slices.Sort(m.times)
	r := repeat{
		wall:    float64(wall) / float64(operations),
		cpu:     -1,
		p50:     percentile(m.times, 50),
		p99:     percentile(m.times, 99),
		samples: len(m.times),
	}
	if known {
		r.cpu = float64(cpu) / float64(operations)
	}
	return r
}
