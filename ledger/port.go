package ledger

import (
	"errors"

	"souk/bus/tip"
)

// ErrDiskFull: the disk is nearly full, nothing was written, and the journal takes no new holds. What ends
// holds (captures, voids, returns) is still taken.
var ErrDiskFull = errors.New("disk is nearly full")

// ErrUnpaid: nothing was paid for a hold: it was never made, or runs yet, or ended without.
var ErrUnpaid = errors.New("no payment has this receipt")

// Journal is an append-only, totally ordered log with one writer; made by ledger/journal.
//
// Append makes all frames durable, in order, with one sync, and returns only then. Frames must follow on what
// is stored: Seq without a gap, Epoch and Time not lower. After an error other than ErrDiskFull the journal
// takes nothing more and the process must stop: a failed sync is never retried. One goroutine at a time.
//
// Restore brings a replica to the last stored frame; call it before the first Append. A journal may keep
// snapshots beside its frames, so that a start need not read all of them. The replica then gets the newest
// snapshot that fits, and the frames after it. Snapshots are made of durable frames only, and prove nothing:
// a snapshot that does not fit the journal is ignored.
//
// Follow makes the journal write a snapshot whenever that would spare the next start enough. The snapshot
// is made by a new replica (fresh) from the last snapshot and the frames after it. Follow returns at once and
// works in the background until end is called. Until then Restore and Close must not be called.
//
// HasRoom says whether the disk has room for new holds; if not, an Append of a round may be refused with
// ErrDiskFull. A hub asks before it clears one, since its state cannot go back.
//
// Life names this opening of the journal; "" if openings have no names. Ended reports whether a life is an
// earlier opening of this very journal whose process is proven to have ended, since we hold its lock; if not,
// why nothing proves that.
//
// Moved reports whether the journal may be an older copy of what it was: it was opened last on another file,
// machine or boot, or nobody knows. It is false for a journal that is new, and for one that was opened last
// on this very file in this boot. Settle says whether it is known to be the one that was written last: then
// Moved is false. As long as it is not, later openings find it moved, too. Confirmed reports whether it was
// moved once, in any opening, and Settle has said since that it is none: that it is the newest is known by
// another's word alone.
//
// Held returns an error once the journal's files are no longer those under their names: its directory was
// moved away, or a copy was put in its place. Nothing is taken from then on.
//
// Captured reads what was paid for a hold: by Client, to Order.Agent, as Order.Capture says; ErrUnpaid where
// nothing was. It may be called beside Append.
//
// Sum is the checksum of a stored frame; ok is false if there is none of that sequence. It may be called
// beside Append. What was asked for lately, and the last frame that says more than marks, are at hand; else
// it reads a segment.
type Journal interface {
	Restore(r Replica) error
	Follow(fresh func() Replica) (end func())
	Append(frames ...Frame) error
	HasRoom() bool
	Opening
	Held() error
	Sum(seq uint64) (sum tip.Sum, ok bool, err error)
	Captured(receipt string) (tip.Ordered, error)
	Close() error
}

// Opening tells of this opening of a journal, and of those before it; see [Journal].
type Opening interface {
	Life() string
	Ended(life string) (ended bool, why string)
	Moved() bool
	Confirmed() bool
	Settle(own bool)
}

// Replica is a state that a journal's frames build. It can be saved as a snapshot between any two frames. A
// replica made of a snapshot and the frames after it equals one made of all frames (I14).
type Replica interface {
	// Load sets the state to a snapshot, instead of applying the frames that it was made of; nil is the empty
	// state. After an error the replica is empty.
	Load(snapshot []byte) error
	// Apply takes in the stored bytes of the next frame, with the index and term they were stored under.
	// ErrEncoding: they are no frame.
	Apply(seq uint64, epoch int64, data []byte) error
	// Snapshot returns the state in bytes.
	Snapshot() ([]byte, error)
}
