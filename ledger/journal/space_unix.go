//go:build linux || darwin || freebsd

package journal

import "syscall"

// freeBytes returns how much of the disk under dir this process may still fill.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
