//go:build !linux

package redistest

import "os/exec"

// dieWithParent has no portable form: elsewhere Kill at the end of the test has to do.
func dieWithParent(*exec.Cmd) {}
