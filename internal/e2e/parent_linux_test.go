package e2e

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes sure that no process outlives a test that crashed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
