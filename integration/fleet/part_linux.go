package fleet

import "syscall"

// dieWithUs keeps a terminal's Ctrl-C from the process, and has it killed should this one die.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
