//go:build race

package e2e

// raceEnabled: the programs are then built with the race detector, too.
const raceEnabled = true
