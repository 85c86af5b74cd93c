package floor

import (
	"os"
	"syscall"
)

func reserve(f *os.File, n int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, n) }

func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
