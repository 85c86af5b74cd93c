package agentd

import "time"

// Shelf holds an agent's answers: those that run, and those that have ended and are kept for readers that
// missed something, until these have them, or they are old or too many. S is what a shell keeps beside each.
// The shelf looks into none of them: it is told their sizes. One caller at a time.
type Shelf[S any] struct {
	byID   map[StreamID]*Kept[S]
	live   map[*Kept[S]]bool
	byHold map[string]*Kept[S] // ended, and not yet told how
	ended  []*Kept[S]          // oldest first
	bytes  int                 // of these
	most   int

	resends[S]
}

// Kept is an answer's place on the shelf.
type Kept[S any] struct {
	Answer S // what the shell keeps there
	ID     StreamID
	Hold   string

	over  bool  // stopped or ended
	why   error // it was stopped
	ended bool
	bytes int       // of an ended one
	until time.Time // it is kept so long
	read  bool      // its reader has all of it
	again again
}

// NewShelf keeps so many bytes of ended answers at most.
func NewShelf[S any](most int) Shelf[S] {
	return Shelf[S]{
		byID: map[StreamID]*Kept[S]{}, live: map[*Kept[S]]bool{}, byHold: map[string]*Kept[S]{}, most: most,
		resends: newResends[S](),
	}
}

// Add takes in an answer that begins. An earlier attempt at the same task loses its name.
func (h *Shelf[S]) Add(id StreamID, hold string, answer S) *Kept[S] {
	k := &Kept[S]{Answer: answer, ID: id, Hold: hold}
	h.byID[id], h.live[k] = k, true
	return k
}

// Find returns an answer by its name, nil if none is kept.
func (h *Shelf[S]) Find(id StreamID) *Kept[S] { return h.byID[id] }

// Stop ends an answer early, for a reason; false if that has been done, or it has ended.
func (k *Kept[S]) Stop(why error) bool {
	if k.over {
		return false
	}
	k.over, k.why = true, why
	return true
}

// Stopped is why an answer was stopped; nil if it was not.
func (k *Kept[S]) Stopped() error { return k.why }

// Put says that an answer has ended, and what of it is kept for so long. If it is unsaid, its hub is yet to
// decide on its end: see [Shelf.Decided].
func (h *Shelf[S]) Put(now time.Time, k *Kept[S], bytes int, keep time.Duration, unsaid bool) {
	delete(h.live, k)
	k.over, k.ended, k.bytes, k.until = true, true, bytes, now.Add(keep)
	if unsaid {
		h.byHold[k.Hold] = k
	}
	h.bytes += bytes
	h.ended = append(h.ended, k)
	h.Sweep(now)
}

// Decided returns the answer of a hold whose end was unsaid, once.
func (h *Shelf[S]) Decided(hold string) *Kept[S] {
	k := h.byHold[hold]
	delete(h.byHold, hold)
	return k
}

// Sweep drops ended answers, oldest first.
func (h *Shelf[S]) Sweep(now time.Time) {
	gone := 0
	for _, k := range h.ended {
		if !k.read && !now.After(k.until) && h.bytes <= h.most {
			break
		}
		h.bytes -= k.bytes
		h.forget(k)
		delete(h.byHold, k.Hold)
		gone++
	}
	clear(h.ended[:gone])
	h.ended = h.ended[gone:]
}

func (h *Shelf[S]) forget(k *Kept[S]) {
	if h.byID[k.ID] == k {
		delete(h.byID, k.ID)
	}
}

// Acked says how many bytes of an answer are left that its reader has not acknowledged. It reports whether
// that was the last of one that has ended, which is forgotten.
func (h *Shelf[S]) Acked(k *Kept[S], left int) (read bool) {
	if !k.ended {
		return false
	}
	h.bytes += left - k.bytes
	k.bytes, k.read = left, left == 0
	if k.read {
		h.forget(k)
	}
	return k.read
}

// Size is how many ended answers there are, and their bytes.
func (h *Shelf[S]) Size() (ended, bytes int) { return len(h.ended), h.bytes }

// Running lists the answers that have not ended, in no particular order.
func (h *Shelf[S]) Running() []S {
	if len(h.live) == 0 {
		return nil
	}
	out := make([]S, 0, len(h.live))
	for k := range h.live {
		out = append(out, k.Answer)
	}
	return out
}
