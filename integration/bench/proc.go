// Package bench measures a whole market against what it is asked to reach, and prints one table.
package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// tick is the unit of times in /proc/PID/stat: USER_HZ, 100 a second on every Linux.
const tick = 10 * time.Millisecond

// cpuOf is the processor time that another process has used so far, to 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, which may hold anything; count from its end.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: no times", pid)
	}
	return time.Duration(user+system) * tick, nil
}

// rssOf is the resident memory of a process in bytes.
func rssOf(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, b)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
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
