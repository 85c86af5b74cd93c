package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lifeOf names the life of a process of this machine as Linux tells of it: the machine's boot, the namespace
// that its number is of, the number, and when it began; "" where that cannot be read.
func lifeOf(pid int) string {
	where, err := here()
	if err != nil {
		return ""
	}
	began, err := beganAt(pid)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %s", where, pid, began)
}

// hasEnded reports whether a process is known to have died: it ran where this one runs, and there is none of
// its number now, or another one, which began later.
func hasEnded(life string) bool {
	parts := strings.Fields(life)
	where, err := here()
	if err != nil || len(parts) != 4 || parts[0]+" "+parts[1] != where {
		return false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || pid <= 0 {
		return false
	}
	began, err := beganAt(pid)
	if err != nil { // /proc may hide those of others, which cannot be told anything either
		return errors.Is(err, fs.ErrNotExist) && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	return began != parts[3]
}

// here is what numbers of processes are compared within. Containers have each their own, also one that is
// started again.
func here() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	numbers, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + " " + numbers, nil
}

// beganAt is when a process began, in ticks since the machine did: field 22 of /proc/PID/stat, see proc(5).
// The second field may hold anything but ends with the last bracket.
func beganAt(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: %d fields after the name", pid, len(fields))
	}
	return fields[19], nil
}
