//go:build !linux

package parts

import "syscall"

func group(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
