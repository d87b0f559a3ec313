//go:build race

package e2e

// raceEnabled: the programs are then built with the race detector, too.
const raceEnabled = true

// share is the part of the ticks that goes through programs that are so much slower.
const share = 0.2
