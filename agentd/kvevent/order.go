package kvevent

import "fmt"

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
	Ask   bool     // the replay is to be asked for all that it has; what it was asked before is void
}

// Order puts the batches of one publisher in sequence. Each has a number, from 0 in each life of the engine.
// Live batches come over a connection that may drop some. Wherever the next number is not the one that is
// due, something was missed, or the engine lives another life: all is forgotten, and read again from the
// replay, as far as that goes back, while live batches wait. Where it has not the first of all, or where
// there is no replay, the listener is blind: it then knows some blocks, and none that is not there.
type Order struct {
	Replay bool // there is a replay to be asked

	next   uint64 // the batch that is due
	known  bool   // all from some batch up to next was applied, since the last reset
	asking bool   // the replay is being read
	tries  int    // how often it was asked in vain

	waiting []held // in the order in which they came, all of one connection
	bytes   int
}

// held is a batch that waits until the replay was read.
type held struct {
	seq     uint64
	payload []byte
}

const (
	maxWaiting = 16 << 20 // bytes of batches that wait, with overhead for each
	overhead   = 64
	maxTries   = 3       // of the replay without an end that is whole
	maxSeq     = 1 << 62 // no publisher ever comes so far
)

// Joined tells of a new connection to the publisher: what it said before that may have been missed, and it
// may live another life. What comes over one connection is of one life.
func (o *Order) Joined() (out Out) {
	o.waiting, o.bytes, o.tries = nil, 0, 0
	switch {
	case o.Replay:
		o.ask(&out)
	case o.known:
		o.begin(&out, Blind, 0, "the connection broke off, and there is no replay to ask what was missed")
		o.known = false
	}
	return out
}

// Live takes a batch as it was published.
func (o *Order) Live(seq uint64, payload []byte) (out Out) {
	switch {
	case seq >= maxSeq:
	case o.asking:
		o.wait(&out, seq, payload)
	case o.known && seq == o.next:
		o.apply(&out, seq, payload)
	case o.Replay:
		o.tries = 0
		o.wait(&out, seq, payload)
		o.ask(&out)
	default:
		o.start(&out, seq, payload, "no replay has what was before it")
	}
	return out
}

// Replayed takes a batch that the replay sent.
func (o *Order) Replayed(seq uint64, payload []byte) (out Out) {
	switch {
	case !o.asking || seq >= maxSeq:
	case !o.known:
		o.start(&out, seq, payload, "the replay goes back no further")
	case seq == o.next:
		o.apply(&out, seq, payload)
	default:
		o.ask(&out)
	}
	return out
}

// ReplayEnd says that the replay has said all; whole: in its own words, rather than by falling silent.
func (o *Order) ReplayEnd(whole bool) (out Out) {
	if !o.asking {
		return out
	}
	if !whole {
		o.ask(&out)
		return out
	}
	if o.asking = false; !o.known {
		o.begin(&out, Restarted, 0, "the engine has published nothing yet")
	}
	for i, h := range o.waiting {
		switch {
		case h.seq == o.next:
			o.apply(&out, h.seq, h.payload)
		case h.seq > o.next:
			o.drop(i)
			o.ask(&out)
			return out
		}
	}
	o.drop(len(o.waiting))
	o.tries = 0
	return out
}

// Asking reports whether the replay's answer is waited for: if not, reading it can be given up.
func (o *Order) Asking() bool { return o.asking }

// ask has the replay asked, and what it says believed in place of all before. After too many tries it gives
// up: of what waits, only what is behind the last gap is still true.
func (o *Order) ask(out *Out) {
	if o.tries++; o.tries <= maxTries {
		o.known, o.asking, out.Ask = false, true, true
		return
	}
	o.lose(out, "the replay does not say what was missed")
}

func (o *Order) lose(out *Out, why string) {
	waiting := o.waiting
	o.asking, o.tries, out.Ask = false, 0, false
	o.drop(len(waiting))
	o.begin(out, Blind, 0, why)
	o.known = false
	for _, h := range waiting {
		if o.known && h.seq == o.next {
			o.apply(out, h.seq, h.payload)
		} else {
			o.start(out, h.seq, h.payload, why)
		}
	}
}

// start begins anew with a batch: with all that the engine holds, where that is its first.
func (o *Order) start(out *Out, seq uint64, payload []byte, why string) {
	if seq == 0 {
		o.begin(out, Restarted, 0, "the engine's first batches are known")
	} else {
		o.begin(out, Blind, seq, fmt.Sprintf("the first batch that is known is number %d: %s", seq, why))
	}
	o.apply(out, seq, payload)
}

func (o *Order) begin(out *Out, r Reset, seq uint64, why string) {
	o.known, o.next = true, seq
	out.Reset, out.Why, out.Apply = r, why, nil
}

// apply hands on the batch that is due.
func (o *Order) apply(out *Out, seq uint64, payload []byte) {
	out.Apply = append(out.Apply, payload)
	o.next = seq + 1
}

// wait keeps a batch until the replay was read.
func (o *Order) wait(out *Out, seq uint64, payload []byte) {
	o.waiting = append(o.waiting, held{seq, payload})
	if o.bytes += len(payload) + overhead; o.bytes > maxWaiting {
		o.lose(out, fmt.Sprintf("%d batches wait for the replay, and no more can", len(o.waiting)))
	}
}

// drop takes away the first n that wait.
func (o *Order) drop(n int) {
	for _, h := range o.waiting[:n] {
		o.bytes -= len(h.payload) + overhead
	}
	if o.waiting = o.waiting[n:]; len(o.waiting) == 0 {
		o.waiting = nil
	}
}
