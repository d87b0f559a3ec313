//go:build !linux

package reactor

import "time"

// NewBackend makes the backend that fits this system best. start is time 0 of its clock.
func NewBackend(start time.Time) (Backend, error) { return NewGoroutines(start, nil), nil }
