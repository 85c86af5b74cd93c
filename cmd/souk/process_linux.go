package main

import "syscall"

// ownGroup puts a process into a group of its own, and has it told to stop should this one be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
