//go:build !linux

package floor

import "os"

func reserve(f *os.File, n int64) error { return f.Truncate(n) }

func syncData(f *os.File) error { return f.Sync() }
