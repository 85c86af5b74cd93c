package ledger

import "errors"

// ErrDiskFull: the disk is nearly full, nothing was written, and the journal takes no new holds. What ends
// holds (captures, voids, returns) is still taken.
var ErrDiskFull = errors.New("disk is nearly full")

// Journal is an append-only, totally ordered log with one writer; made by ledger/journal.
//
// Append makes all frames durable, in order, with one sync, and returns only then. Frames must follow on what
// is stored: Seq without a gap, Epoch and Time not lower. After an error other than ErrDiskFull the journal
// takes nothing more and the process must stop: a failed sync is never retried. One goroutine at a time.
//
// Restore brings a replica to the last stored frame, before the first Append. A journal may keep snapshots
// beside its frames, so that a start need not read it from the first: then the replica is given the newest
// one that fits and the frames behind it. Snapshots are made of frames that are durable, and prove nothing:
// one that does not fit the journal in anything is ignored.
//
// Follow has the journal make a snapshot whenever one would spare the next start enough: of a replica that is
// fresh, the last snapshot, and the frames behind it. It returns at once, and goes on beside anything but
// Restore and Close until end is called.
//
// HasRoom says whether the disk has room for new holds; if not, an Append of a round may be refused with
// ErrDiskFull. A hub asks before it clears one, since its state cannot go back.
//
// Life names this opening of the journal, "" where openings have no names, and Ended reports whether a life
// is of an earlier one: its process has ended, for we have its lock.
type Journal interface {
	Restore(r Replica) error
	Follow(fresh func() Replica) (end func())
	Append(frames ...Frame) error
	HasRoom() bool
	Life() string
	Ended(life string) bool
	Close() error
}

// Replica is a state that a journal's frames build and that can be written down between any two of them. Made
// of what was written down and the frames behind it, it is the same as made of all frames (I14).
type Replica interface {
	// Load takes in a snapshot in the place of the frames that it was made of; nil: of none. After an error
	// it is as new.
	Load(snapshot []byte) error
	// Apply takes in the stored bytes of the next frame, with the index and term they were stored under.
	// ErrEncoding: they are no frame.
	Apply(seq uint64, epoch int64, data []byte) error
	// Snapshot is the state in bytes.
	Snapshot() ([]byte, error)
}
