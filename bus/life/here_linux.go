package life

import (
	"crypto/sha256"
	"encoding/base32"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// here names this machine and its boot, each by a digest that tells nobody what was digested (machine-id(5)
// asks for that); "" if the system does not say.
//
// A container mostly has no machine-id: its host name stands for it, which is its own and stays when it
// starts again. Containers that have one name, as they share their machine's, are told apart by what they
// hold: one kernel runs them. The machine is named at all for kernels whose boot id is that of another, as a
// small computer's without a source of chance, or a sandbox's.
func here() (machine, boot string) {
	return where("/etc/machine-id", "/proc/sys/kernel/random/boot_id", os.Hostname)
}

func where(machineID, bootID string, hostname func() (string, error)) (machine, boot string) {
	id, err := os.ReadFile(bootID)
	text := strings.TrimSpace(string(id))
	if err != nil || text == "" {
		return "", ""
	}
	name, err := os.ReadFile(machineID)
	if own := strings.TrimSpace(string(name)); err == nil && isMachine(own) {
		return digest("machine", own), digest("boot", text)
	}
	host, err := hostname()
	if err != nil || host == "" {
		return "", ""
	}
	return digest("host", host), digest("boot", text)
}

// isMachine reports whether a machine-id is one: 32 digits, not all zero. One that is still to be made says
// "uninitialized".
func isMachine(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}

func digest(kind, text string) string {
	sum := sha256.Sum256([]byte("souk life " + kind + " " + text))
	return base32.StdEncoding.EncodeToString(sum[:digestLen*5/8])
}

// stamp identifies an open file by device, inode and birth, and says when it was changed last.
func stamp(f *os.File) (id [3]uint64, changed uint64, known bool) {
	var s unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, mask, &s); err == nil {
		if s.Mask&unix.STATX_INO == 0 {
			return id, 0, false
		}
		id = [3]uint64{unix.Mkdev(s.Dev_major, s.Dev_minor), s.Ino, 0}
		if s.Mask&unix.STATX_BTIME != 0 {
			id[2] = nanos(s.Btime)
		}
		return id, nanos(s.Ctime), true
	}
	var old unix.Stat_t // a sandbox may not know statx
	if err := unix.Fstat(int(f.Fd()), &old); err != nil {
		return id, 0, false
	}
	return [3]uint64{uint64(old.Dev), old.Ino, 0}, uint64(old.Ctim.Nano()), true
}

func nanos(t unix.StatxTimestamp) uint64 { return uint64(t.Sec)*1e9 + uint64(t.Nsec) }
