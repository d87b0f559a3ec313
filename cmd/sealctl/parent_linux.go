package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes sure that no helper outlives a benchmark that was killed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
