package drive

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func coreSet(core int) *unix.CPUSet {
	var set unix.CPUSet
	set.Set(core)
	return &set
}

// pinProcess binds all threads of this process to a core. Those that come later
// inherit it.
func pinProcess(core int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, coreSet(core)); err != nil && err != unix.ESRCH {
			return fmt.Errorf("core %d: %w", core, err)
		}
	}
	return nil
}

// onCore runs f bound to a core, so that a process that it starts is bound too.
func onCore(core, home int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, coreSet(core)); err != nil {
		return fmt.Errorf("core %d: %w", core, err)
	}
	err := f()
	if back := unix.SchedSetaffinity(0, coreSet(home)); err == nil {
		err = back
	}
	return err
}

// cpuTime is what all threads of a process have used of processors, in user and
// system mode, to the nanosecond: the process's own clock, which other
// processes may read (clock_getcpuclockid).
func cpuTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("processor time of the server: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
