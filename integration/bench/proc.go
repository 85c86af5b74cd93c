// Package bench measures a whole market against what it is asked to reach, and prints one table.
package bench

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"
)

// cpu is the processor time, user and system, that this process has used so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("bench: getrusage on oneself: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// appender appends pieces to a file, each with a sync of its own: the least that a record can cost.
type appender struct {
	file  *os.File
	piece []byte
	at    int64
}

// newAppender makes a file in dir with room for n pieces of size bytes.
func newAppender(dir string, n, size int) (*appender, error) {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return nil, err
	}
	// As a journal's segment is: laid out before it is written, so that a sync need not write its length.
	if err := reserve(f, int64(n*size)); err != nil {
		f.Close()
		return nil, err
	}
	return &appender{file: f, piece: bytes.Repeat([]byte{0xa5}, size)}, nil
}

// append writes one piece, syncs, and returns how long that took.
func (a *appender) append() (time.Duration, error) {
	begin := time.Now()
	if _, err := a.file.WriteAt(a.piece, a.at); err != nil {
		return 0, err
	}
	a.at += int64(len(a.piece))
	err := syncData(a.file)
	return time.Since(begin), err
}

func (a *appender) close() error {
	return errors.Join(a.file.Close(), os.Remove(a.file.Name()))
}

// quantile is the q-th part of ds, 0 to 1, by nearest rank. It sorts ds.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	i := int(q*float64(len(ds))+0.999999) - 1
	return ds[min(max(i, 0), len(ds)-1)]
}

func median(xs []float64) float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	if len(s) == 0 {
		return 0
	}
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}
