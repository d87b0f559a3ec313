//go:build !race

package e2e

const raceEnabled = false

const share = 1.0
