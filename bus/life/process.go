package life

import "os"

// Process is the life of this process, for one that has no directory.
func Process() string { return ofProcess(os.Getpid()).String() }

// ofProcess is the life of a process as this system tells of it: the namespaces that its number and time are
// of, the number, and when it began.
func ofProcess(pid int) Life {
	space, err := spaceOf()
	began, err2 := beganAt(pid)
	if err != nil || err2 != nil {
		return begin(0, [3]uint64{})
	}
	return begin(process, [3]uint64{space, uint64(pid), began})
}

// ProcessEnded reports whether a process, by the life that a registry has, is known to have ended: it ran
// where this one runs, and there is none of its number now, or another one, which began at another time. If
// not, it says why that is not known. Containers have numbers of their own, also one that is started again.
func ProcessEnded(text string) (ended bool, why string) {
	l, err := Parse(text)
	if err != nil {
		return false, err.Error()
	}
	own := ofProcess(os.Getpid())
	if why := l.place(own); why != "" {
		return false, why
	}
	if l.What != process || l.ID[0] != own.ID[0] {
		return false, "it began in another container"
	}
	pid := int(l.ID[1])
	if pid <= 0 || uint64(pid) != l.ID[1] {
		return false, errNone.Error()
	}
	began, err := beganAt(pid)
	switch {
	case err == nil && began != l.ID[2]:
		return true, ""
	case err == nil:
		return false, "its process runs"
	case gone(pid):
		return true, ""
	}
	return false, "this system does not show its process"
}
