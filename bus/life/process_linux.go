package life

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// spaceOf is the namespaces that numbers of processes and the times of their beginnings belong to: in another
// one of time the same process began at another time. A system without those has one.
func spaceOf() (uint64, error) {
	pid, err := namespace("pid")
	if err != nil {
		return 0, err
	}
	time, err := namespace("time")
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return pid<<32 | time, err
}

// namespace is the number of a namespace of this process, from "pid:[4026531836]".
func namespace(kind string) (uint64, error) {
	text, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(text, kind+":["), "]"), 10, 32)
}

// beganAt returns when a process began, in ticks since the machine did: field 22 of /proc/PID/stat, see
// proc(5). The second field may hold anything but ends with the last bracket.
func beganAt(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields after the name", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// gone reports whether there is no process of that number. /proc may hide those of others, of which it cannot
// be told otherwise.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
