//go:build !linux

package fleet

import "syscall"

func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
