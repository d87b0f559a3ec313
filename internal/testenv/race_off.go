//go:build !race

package testenv

// Race tells that the race detector is on, under which programs are several
// times as slow, and allocate.
const Race = false
