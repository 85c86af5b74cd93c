package kvevent

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Reset says what becomes of what was believed.
type Reset uint8

// The resets.
const (
	Keep      Reset = iota // it stands
	Restarted              // the engine holds nothing but what comes now
	Blind                  // something was missed for good: what comes now is true, but not all
)

// Out lists what an Order wants done, in this order.
type Out struct {
	Reset Reset
	Why   string   // of a Reset, for people
	Apply [][]byte // payloads, in sequence
	// The replay is to be asked for all batches from here on; what it was asked before is void.
	Ask  bool
	From uint64
}

// Order puts the batches of one publisher in sequence. Each has a number, from 0 in each life of the engine.
// Live batches come over a connection that may drop some; where one is missing, the replay is asked for all
// from there on, and what it says comes before what is published meanwhile. A number that was there already,
// with other content, is a new life: the cache is empty. What cannot be had again makes the listener blind:
// it then knows some blocks, and none that is not there.
type Order struct {
	Replay bool // there is a replay to be asked

	next   uint64 // the batch that is due
	known  bool   // next is right: all before it was applied, or is forgotten
	Asking bool   // the replay is being read: nothing comes live until it ends
	check  bool   // it was asked for a batch that we have, to see whether the engine lives the same life
	first  bool   // nothing came of it yet
	got    bool   // something did that was new
	hole   bool   // it left something out
	tries  int    // how often it was asked in vain
	joined bool   // nothing has come over the connection yet: what was said before it was heard may be missed

	ahead *batch             // which came live, and showed that others are missing; nil: none did
	seen  [remembered]uint64 // hashes of the latest batches that were applied, by number
}

type batch struct {
	seq     uint64
	payload []byte
}

const (
	remembered = 1024    // batches that are recognised when they come again
	maxTries   = 3       // of the replay without anything new
	maxSeq     = 1 << 62 // no publisher ever comes so far
)

// Joined tells of a new connection to the publisher: what it said before that may have been missed, and it
// may live another life. What comes over one connection is of one life.
func (o *Order) Joined() (out Out) {
	switch {
	case o.Replay:
		o.tries, o.joined, o.ahead = 0, true, nil
		o.ask(&out)
	case o.known:
		o.lose(&out, "the connection broke off, and there is no replay to ask what was missed")
	}
	return out
}

// Live takes a batch as it was published.
func (o *Order) Live(seq uint64, payload []byte) (out Out) {
	o.joined = false // from here on a gap shows
	switch {
	case seq >= maxSeq:
	case !o.known && seq == 0:
		o.begin(&out, Restarted, seq, "the engine has just begun")
		o.apply(&out, seq, payload)
	case !o.known:
		o.begin(&out, Blind, seq, fmt.Sprintf("the first batch that came is number %d", seq))
		o.apply(&out, seq, payload)
	case seq == o.next:
		o.apply(&out, seq, payload)
	case seq < o.next:
		if !o.again(seq, payload) {
			o.tries = 0
			o.reborn(&out, &batch{seq, payload})
		}
	case o.Replay:
		o.tries, o.ahead = 0, &batch{seq, payload}
		o.ask(&out)
	default:
		why := fmt.Sprintf("batches %d to %d are missing, and there is no replay to ask", o.next, seq-1)
		o.begin(&out, Blind, seq, why)
		o.apply(&out, seq, payload)
	}
	return out
}

// Replayed takes a batch that the replay sent.
func (o *Order) Replayed(seq uint64, payload []byte) (out Out) {
	if !o.Asking || seq >= maxSeq {
		return out
	}
	first := o.first
	o.first = false
	switch {
	case !first:
	case !o.known && seq == 0:
		o.begin(&out, Restarted, seq, "the engine's first batches are known")
	case !o.known:
		o.begin(&out, Blind, seq, fmt.Sprintf("the replay begins with number %d", seq))
	case seq > o.next || seq == o.next && o.check:
		why := fmt.Sprintf("batch %d is missing: the replay begins with number %d", o.next, seq)
		o.begin(&out, Blind, seq, why)
	}
	o.take(&out, &batch{seq, payload})
	return out
}

// ReplayEnd says that the replay has said all; whole: in its own words, rather than by falling silent.
func (o *Order) ReplayEnd(whole bool) (out Out) {
	if !o.Asking {
		return out
	}
	o.Asking = false
	if o.first && whole {
		switch {
		case !o.known:
			o.begin(&out, Restarted, 0, "the engine has published nothing yet")
		case o.check: // it has not even the last batch that we had
			o.reborn(&out, nil)
			return out
		}
	}
	if b := o.ahead; b != nil && o.known && !o.unsure() {
		if o.take(&out, b); out.Ask {
			return out
		}
		if b.seq < o.next {
			o.ahead = nil
		}
	}
	done := o.known && whole && !o.hole && o.ahead == nil
	if o.got || done {
		o.tries = 0
	}
	if o.joined || !done {
		o.joined = false
		o.ask(&out)
	}
	return out
}

// ask has the replay asked: from the first batch if nothing is known; after a gap from the one that is due;
// and where nothing tells of a gap, from the last one that was applied. After too many tries it gives up.
func (o *Order) ask(out *Out) {
	if o.tries++; o.tries > maxTries {
		o.lose(out, "the replay does not say what was missed")
		return
	}
	o.check = o.known && o.next > 0 && (o.ahead == nil && !o.hole || o.unsure())
	o.Asking, o.first, o.got, o.hole = true, true, false, false
	out.Ask, out.From = true, 0
	if o.check {
		out.From = o.next - 1
	} else if o.known {
		out.From = o.next
	}
}

// unsure reports whether the replay was asked which life the engine lives, and has not said a word.
func (o *Order) unsure() bool { return o.check && o.first }

// begin starts anew at a batch.
func (o *Order) begin(out *Out, r Reset, seq uint64, why string) {
	o.known, o.next, o.check = true, seq, false
	clear(o.seen[:])
	out.Reset, out.Why, out.Apply = r, why, nil
}

// take hands on a batch, if it is due.
func (o *Order) take(out *Out, b *batch) {
	switch {
	case b.seq == o.next:
		o.apply(out, b.seq, b.payload)
	case b.seq > o.next:
		o.hole = true
	case !o.again(b.seq, b.payload):
		o.reborn(out, b)
	}
}

// apply hands on the batch that is due.
func (o *Order) apply(out *Out, seq uint64, payload []byte) {
	out.Apply = append(out.Apply, payload)
	o.seen[seq%remembered] = sum(payload)
	o.next, o.got = seq+1, true
}

// sum is never 0.
func sum(payload []byte) uint64 { return max(1, xxhash.Sum64(payload)) }

// again reports whether a batch that was applied before comes again.
func (o *Order) again(seq uint64, payload []byte) bool {
	return o.next-seq <= remembered && o.seen[seq%remembered] == sum(payload)
}

// reborn begins a new life of the engine, which a batch has shown that cannot be one of the life before;
// nil: which the lack of one has shown.
func (o *Order) reborn(out *Out, b *batch) {
	const why = "the engine has begun a new life"
	switch o.ahead = nil; {
	case b != nil && b.seq == 0 && !o.Asking:
		o.begin(out, Restarted, 0, why)
		o.apply(out, 0, b.payload)
	case !o.Replay:
		o.begin(out, Blind, b.seq, why)
		o.apply(out, b.seq, b.payload)
	default:
		o.begin(out, Blind, 0, why)
		o.known, o.ahead = false, b
		o.ask(out)
	}
}

// lose gives up the missing batches. The one that showed that they are is still true.
func (o *Order) lose(out *Out, why string) {
	b := o.ahead
	o.ahead, o.tries, o.Asking, out.Ask = nil, 0, false, false
	o.begin(out, Blind, 0, why)
	if o.known = b != nil; b != nil {
		o.next = b.seq
		o.apply(out, b.seq, b.payload)
	}
}
