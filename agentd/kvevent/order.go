package kvevent

import (
	"cmp"
	"fmt"
	"slices"

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
// Live batches come over a connection that may drop some; where one is missing, those after it wait until the
// replay has said what it was. A number that was there already, with other content, is a new life: the cache
// is empty. What cannot be had again makes the listener blind: it then knows some blocks, and none that is
// not there.
type Order struct {
	Replay bool // there is a replay to be asked

	next   uint64 // the batch that is due
	known  bool   // next is right: all before it was applied, or is forgotten
	Asking bool   // the replay is being read
	check  bool   // it was asked for a batch that we have, to see whether the engine lives the same life
	first  bool   // nothing came of it yet
	got    bool   // something did that was new
	tries  int    // how often it was asked in vain
	joined bool   // nothing has come over the connection yet: what was said before it was heard may be missed

	waiting []held // by number, all of one connection
	bytes   int
	seen    [remembered]uint64 // hashes of the latest batches that were applied, by number
}

// held is a batch that waits for those before it.
type held struct {
	seq     uint64
	payload []byte
}

const (
	remembered = 1024     // batches that are recognised when they come again
	maxWaiting = 16 << 20 // bytes of batches that wait, with overhead for each
	overhead   = 64
	maxTries   = 3       // of the replay without anything new
	maxSeq     = 1 << 62 // no publisher ever comes so far
)

// Joined tells of a new connection to the publisher: what it said before that may have been missed, and it
// may live another life. What comes over one connection is of one life.
func (o *Order) Joined() (out Out) {
	o.drop(len(o.waiting)) // the replay has it, or it was another life's
	switch {
	case o.Replay:
		o.tries, o.joined = 0, true
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
	case o.Asking:
		if o.add(&out, seq, payload) && o.known && !o.first {
			o.drain(&out)
		}
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
			o.reborn(&out, seq, payload)
		}
	case o.Replay:
		if o.add(&out, seq, payload) {
			o.tries = 0
			o.ask(&out)
		}
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
	if seq == o.next {
		o.apply(&out, seq, payload)
	} else if !o.add(&out, seq, payload) {
		return out
	}
	o.drain(&out)
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
			o.reborn(&out, 0, nil)
			return out
		}
	}
	if o.known && !o.unsure() {
		o.drain(&out)
	}
	if o.got || o.known && whole && len(o.waiting) == 0 {
		o.tries = 0
	}
	if !o.Asking && (o.joined || !(o.known && whole && len(o.waiting) == 0)) {
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
	o.check = o.known && o.next > 0 && (len(o.waiting) == 0 || o.unsure())
	o.Asking, o.first, o.got = true, true, false
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
	n := 0
	for n < len(o.waiting) && o.waiting[n].seq < seq {
		n++
	}
	o.drop(n)
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

// add has a batch wait for its turn, and reports whether all is still as it was.
func (o *Order) add(out *Out, seq uint64, payload []byte) bool {
	if o.known && seq < o.next {
		if o.again(seq, payload) {
			return true
		}
		o.reborn(out, seq, payload)
		return false
	}
	i, found := slices.BinarySearchFunc(o.waiting, seq, func(h held, seq uint64) int {
		return cmp.Compare(h.seq, seq)
	})
	if found {
		if sum(o.waiting[i].payload) == sum(payload) {
			return true
		}
		o.reborn(out, seq, payload)
		return false
	}
	o.waiting = slices.Insert(o.waiting, i, held{seq, payload})
	if o.bytes += len(payload) + overhead; o.bytes > maxWaiting {
		o.lose(out, fmt.Sprintf("%d batches wait for number %d, and no more can", len(o.waiting), o.next))
		return false
	}
	return true
}

// drain applies what waited and is due.
func (o *Order) drain(out *Out) {
	n := 0
	for n < len(o.waiting) && o.waiting[n].seq <= o.next {
		h := o.waiting[n]
		n++
		if h.seq == o.next {
			o.apply(out, h.seq, h.payload)
		} else if !o.again(h.seq, h.payload) {
			o.drop(n)
			o.reborn(out, h.seq, h.payload)
			return
		}
	}
	o.drop(n)
}

// drop takes away the first n that wait.
func (o *Order) drop(n int) {
	for _, h := range o.waiting[:n] {
		o.bytes -= len(h.payload) + overhead
	}
	o.waiting = slices.Delete(o.waiting, 0, n)
	if len(o.waiting) == 0 {
		o.waiting = nil
	}
}

// reborn begins a new life of the engine, which a batch has shown that cannot be one of the life before;
// nil: which the lack of one has shown.
func (o *Order) reborn(out *Out, seq uint64, payload []byte) {
	const why = "the engine has begun a new life"
	if payload != nil {
		o.drop(len(o.waiting))
	}
	switch {
	case seq == 0 && payload != nil && !o.Asking:
		o.begin(out, Restarted, 0, why)
		o.apply(out, seq, payload)
	case !o.Replay:
		o.begin(out, Blind, seq, why)
		o.apply(out, seq, payload)
	default:
		o.begin(out, Blind, 0, why)
		o.known = false
		if payload != nil {
			o.add(out, seq, payload)
		}
		o.ask(out)
	}
}

// lose gives up the missing batches. Of those that wait, only the ones behind the last gap are still true.
func (o *Order) lose(out *Out, why string) {
	at := len(o.waiting)
	for at > 0 && (at == len(o.waiting) || o.waiting[at-1].seq+1 == o.waiting[at].seq) {
		at--
	}
	last := o.waiting[at:]
	o.waiting, o.bytes, o.tries, o.Asking = nil, 0, 0, false
	out.Ask = false
	o.begin(out, Blind, 0, why)
	o.known = false
	for _, h := range last {
		o.known = true
		o.apply(out, h.seq, h.payload)
	}
}
