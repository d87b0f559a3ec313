package target

import (
	"bytes"
	"os"
	"strconv"
)

// MemoryOf is the resident memory of a process of this machine in bytes, read
// without disturbing it; 0 where the system does not tell.
func MemoryOf(pid int) int64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
