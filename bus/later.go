package bus

import "time"

// How far the numbers of one speaker can be believed. Nobody speaks more often than once in a millisecond,
// and whoever lives speaks at least once in a second or so.
const (
	laterSlack = 64              // messages beyond one in a millisecond: what was held up comes together
	laterQuiet = 2 * time.Second // without anything believed: then the next number is the true one
)

// Later reports whether a message is news. Its speaker gives it a higher number than the one before, so that
// a message that was overtaken on the way is known for one. last is the number that was believed last, at a
// time that is zero if none was yet. A number beyond what can have been said since is a mistake or a forgery:
// believed, it would silence its speaker for ever. One that was believed all the same, within its reach or as
// the first, silences the speaker until laterQuiet has passed.
func Later(last uint64, at time.Time, n uint64, now time.Time) bool {
	since := now.Sub(at)
	if at.IsZero() || since > laterQuiet {
		return true
	}
	return n > last && n-last <= laterSlack+uint64(max(0, since.Milliseconds()))
}
