package parts

import "syscall"

// group keeps a terminal's Ctrl-C from the process, and has it told should this one die.
func group(orphan syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphan}
}
