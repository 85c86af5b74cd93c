package ledger

import "errors"

// ErrDiskFull: the disk is nearly full, nothing was written, and the journal takes no new holds. What ends holds
// (captures, voids, returns) is still taken.
var ErrDiskFull = errors.New("disk is nearly full")

// Journal is an append-only, totally ordered log with one writer; made by ledger/journal.
//
// Append makes all frames durable, in order, with one sync, and returns only then. Frames must follow on
// what is stored: Seq without a gap, Epoch and Time not lower. After an error other than ErrDiskFull the journal
// takes nothing more and the process must stop: a failed sync is never retried. Replay calls f with every stored
// frame from the first; it ends before the first Append. One goroutine at a time.
//
// A Journal that also has the method HasRoom() bool says by it whether the next Append of a round would be refused
// with ErrDiskFull. A hub asks before it clears one, since its state cannot go back.
type Journal interface {
	Replay(f func(Frame) error) error
	Append(frames ...Frame) error
	Close() error
}
