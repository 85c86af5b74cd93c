// Package life names runs of processes, and tells whether one has ended that was here before us, so that
// nobody need wait for its lease.
//
// # What is proof
//
// A life names the machine that it runs on, the machine's boot, and what it holds there: the file LOCK of its
// directory, by device, inode and time of birth ([Dir]). That an earlier life of a directory has ended is
// proven by the lock on that very file, which is ours now: within one boot of one machine no two files that
// are open have one device and inode, and one file's lock has one holder. So a life that is found in a copy
// of the directory proves nothing, as its LOCK is another file. Nor does one of another boot or machine,
// where the same numbers may be those of another file: a disk that was cloned, or that two machines share. An
// inode that is used again has another birth, where the file system tells births; where it does not, whoever
// had that inode open has closed it. A hard link and a bind mount are the same file, and have its lock.
//
// A network file system may let two machines lock one file. That is no matter, since a life of another
// machine is never proof; processes of one machine are kept apart by its own kernel.
//
// Not told apart are two machines that were resumed from one snapshot of a running one: they have one boot,
// and a process of each has the same life and the same lease.
package life

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Life is a run of a process, as it stands in LIVES and in the registry. Its text is
//
//	NAME.MACHINE.BOOT.f-A-B-C
//
// where NAME is random, MACHINE and BOOT are digests, and LOCK is the file of device A, inode B and birth C.
// "NAME" alone is a life of which nothing is known, where the system tells too little.
type Life struct {
	Name          string
	Machine, Boot string
	ID            [3]uint64
}

// maxText is the longest text of a life, in bytes.
const maxText = nameLen + 1 + digestLen + 1 + digestLen + 2 + 3*17

const (
	nameLen   = 26 // of rand.Text
	digestLen = 16
)

// errNone: the text is no life.
var errNone = errors.New("what it says of itself is no name of a run")

// Parse reads the text of a life.
func Parse(text string) (Life, error) {
	switch {
	case text == "":
		return Life{}, errors.New("it says nothing of itself")
	case len(text) > maxText:
		return Life{}, errNone
	}
	fields := strings.Split(text, ".")
	if !plain(fields[0], nameLen) {
		return Life{}, errNone
	}
	l := Life{Name: fields[0]}
	if len(fields) == 1 {
		return l, nil
	}
	if len(fields) != 4 || !plain(fields[1], digestLen) || !plain(fields[2], digestLen) {
		return Life{}, errNone
	}
	l.Machine, l.Boot = fields[1], fields[2]
	what := strings.Split(fields[3], "-")
	if len(what) != 1+len(l.ID) || what[0] != "f" {
		return Life{}, errNone
	}
	for i := range l.ID {
		n, err := strconv.ParseUint(what[1+i], 16, 64)
		if err != nil || strconv.FormatUint(n, 16) != what[1+i] {
			return Life{}, errNone
		}
		l.ID[i] = n
	}
	return l, nil
}

// plain reports whether s has n characters, capital letters and the digits 2 to 7, as rand.Text makes them.
func plain(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

func (l Life) String() string {
	if l.Machine == "" {
		return l.Name
	}
	return fmt.Sprintf("%s.%s.%s.f-%x-%x-%x", l.Name, l.Machine, l.Boot, l.ID[0], l.ID[1], l.ID[2])
}

// begin makes a new life that holds the file of an id, if that is known.
func begin(id [3]uint64, known bool) Life {
	l := Life{Name: rand.Text()}
	if machine, boot := here(); machine != "" && boot != "" && known {
		l.Machine, l.Boot, l.ID = machine, boot, id
	}
	return l
}

// place says why a life is not of this machine and boot, which are those of own; "" if it is.
func (l Life) place(own Life) string {
	switch {
	case own.Machine == "":
		return "this system does not say which machine and boot it is, or which file a lock is on"
	case l.Machine == "":
		return "it does not say where it began"
	case l.Machine != own.Machine:
		return "it began on another machine, or in another container"
	case l.Boot != own.Boot:
		return "the machine has started anew since"
	}
	return ""
}
