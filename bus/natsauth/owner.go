package natsauth

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// An operator's commands run as root beside services that do not. What root makes in a folder belongs to
// whoever has the folder: else a service could read its own keys no more.

// ownFile does so for a file that is open.
func ownFile(f *os.File) error {
	uid, gid, mine := owner(filepath.Dir(f.Name()))
	if mine {
		return nil
	}
	return f.Chown(uid, gid)
}

// ownDir does so for a folder that was just made.
func ownDir(path string) error {
	uid, gid, mine := owner(filepath.Dir(path))
	if mine {
		return nil
	}
	return os.Lchown(path, uid, gid)
}

// makeDir makes a folder where there is none, for the owner of that in which it lies.
func makeDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return ownDir(path)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// owner says whose a folder is; mine that what this process makes there needs no other owner, or can have
// none.
func owner(dir string) (uid, gid int, mine bool) {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return 0, 0, true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.Uid == 0 {
		return 0, 0, true
	}
	return int(s.Uid), int(s.Gid), false
}
