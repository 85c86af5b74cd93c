package machines

import (
	"slices"
	"strings"
	"time"

	"souk/ledger"
	"souk/market"
)

// fraud is one thing that an insider does to a market's journals: false if it does not come to that in these.
type fraud struct {
	name string
	do   func(x *insider) bool
}

var frauds = []fraud{
	{"another client's name throughout", (*insider).rename},
	{"other values in a round", (*insider).revalue},
	{"a hold's terms", (*insider).otherTerms},
	{"a time", (*insider).otherTime},
	{"an end left out", (*insider).leaveOut},
	{"void and capture exchanged", (*insider).exchange},
	{"tokens inflated", (*insider).inflate},
	{"a made-up payout", (*insider).payOut},
	{"a tail cut at a frame", (*insider).cut},
	{"a directory replaced by its older self", (*insider).goBack},
}

// place is a record of a journal.
type place struct {
	journal   string
	frame, at int
}

func (x *insider) record(p place) *ledger.Record {
	return &x.books[p.journal].frames[p.frame].Records[p.at]
}

// any draws a record that f takes.
func (x *insider) any(f func(r *ledger.Record) bool) (p place, ok bool) {
	var all []place
	for _, name := range sorted(x.books) {
		for i, frame := range x.books[name].frames {
			for k := range frame.Records {
				if f(&frame.Records[k]) {
					all = append(all, place{name, i, k})
				}
			}
		}
	}
	if len(all) == 0 {
		return p, false
	}
	return all[x.r.IntN(len(all))], true
}

// holdOf finds the hold that a record ends.
func (x *insider) holdOf(p place) *ledger.Hold {
	id := ""
	if r := x.record(p); r.Capture != nil {
		id = r.Capture.Hold
	} else {
		id = r.Void.Hold
	}
	for _, f := range x.books[p.journal].frames {
		for i := range f.Records {
			if f.Records[i].ID == id {
				return f.Records[i].Hold
			}
		}
	}
	return nil
}

// charge notes what a client is charged more than it was, by a record.
func (x *insider) charge(p place, client string, amount market.Credits) {
	x.more = append(x.more, extra{p.journal, client, x.books[p.journal].was[p.frame], amount})
}

// paid returns a capture's charge to the client.
func paid(h *ledger.Hold, c *ledger.Capture) market.Credits { return c.Cost + h.Due(c) }

// again clears a round that was changed, and takes the outcome over if nobody who was given a slot would pay
// another price. Where equals are told apart by lot, another salt of the round before is tried.
func (x *insider) again(before *ledger.Record, r *ledger.Round) bool {
	for range 200 {
		r.Round.Prev = [32]byte{}
		if before != nil {
			copy(r.Round.Prev[:], before.Salt[:])
		}
		o, err := market.Clear(r.Round)
		same := err == nil && slices.Equal(o.Planned, r.Outcome.Planned) &&
			slices.EqualFunc(o.Awards, r.Outcome.Awards, func(a, b market.Award) bool {
				a.Value = b.Value
				return a == b
			})
		switch {
		case same:
			r.Outcome = o
			return true
		case before == nil || err != nil:
			return false
		}
		for i := range before.Salt {
			before.Salt[i] = byte(x.r.Uint32())
		}
	}
	return false
}

// rename calls a client by another name, from the first record to the last.
func (x *insider) rename() bool {
	old := []string{"ann", "bob", "cay"}[x.r.IntN(3)]
	name := old[:2] + string(rune('a'+x.r.IntN(26)))
	if name == old {
		return false
	}
	for _, journal := range sorted(x.books) {
		var before *ledger.Record
		for _, f := range x.books[journal].frames {
			for i := range f.Records {
				r := &f.Records[i]
				renamed(r, old, name)
				if r.Round == nil {
					continue
				}
				if !x.again(before, r.Round) {
					return false
				}
				before = r
			}
		}
	}
	return true
}

func renamed(r *ledger.Record, old, name string) {
	one := func(s *string) {
		if *s == old {
			*s = name
		}
	}
	for i := range r.Legs {
		r.Legs[i].Account = strings.Replace(r.Legs[i].Account, "client:"+old+":", "client:"+name+":", 1)
	}
	task := func(s string) string {
		if rest, of := strings.CutPrefix(s, old+"/"); of {
			return name + "/" + rest
		}
		return s
	}
	switch {
	case r.Transfer != nil:
		one(&r.Transfer.Client)
	case r.Hold != nil:
		one(&r.Hold.Client)
	case r.Noted != nil:
		for i := range r.Noted.Spent {
			one(&r.Noted.Spent[i].Client)
		}
	case r.Round != nil:
		for i := range r.Round.Round.Tasks {
			t := &r.Round.Round.Tasks[i]
			one(&t.Client)
			t.ID = market.TaskID(task(string(t.ID)))
		}
		for i := range r.Round.Outcome.Awards {
			a := &r.Round.Outcome.Awards[i]
			a.Task = market.TaskID(task(string(a.Task)))
		}
	}
}

// revalue says that a task was worth more, or less, than its client said.
func (x *insider) revalue() bool {
	p, ok := x.any(func(r *ledger.Record) bool { return r.Round != nil })
	if !ok {
		return false
	}
	r := x.record(p).Round
	e := &r.Round.Edges[x.r.IntN(len(r.Round.Edges))]
	more := 1 + market.Credits(x.r.Int64N(int64(market.Credit/1000)))
	if x.r.IntN(2) == 0 {
		more = -more
	}
	e.Value += more
	return x.again(x.before(p), r)
}

// before is the record of the round before that at p.
func (x *insider) before(p place) (last *ledger.Record) {
	for i, f := range x.books[p.journal].frames[:p.frame+1] {
		for k := range f.Records {
			if i == p.frame && k == p.at {
				return last
			}
			if f.Records[k].Round != nil {
				last = &f.Records[k]
			}
		}
	}
	return last
}

// otherTerms changes what a hold says.
func (x *insider) otherTerms() bool {
	p, ok := x.any(func(r *ledger.Record) bool { return r.Hold != nil })
	if !ok {
		return false
	}
	h := x.record(p).Hold
	switch x.r.IntN(6) {
	case 0:
		h.Model += "-2"
	case 1:
		h.Attempt++
	case 2:
		h.Boot++
	case 3:
		h.Digest[x.r.IntN(len(h.Digest))] ^= 1 << x.r.IntN(8)
	case 4:
		h.Expires += x.r.Int64N(int64(time.Hour))
	case 5:
		h.MaxTokens += 1 + x.r.IntN(100)
	}
	return true
}

// otherTime has a frame written earlier or later.
func (x *insider) otherTime() bool {
	name := sorted(x.books)[x.r.IntN(len(x.books))]
	frames := x.books[name].frames
	i := 1 + x.r.IntN(len(frames)-2)
	was, from, to := frames[i].Time, frames[i-1].Time, frames[i+1].Time
	frames[i].Time = from + x.r.Int64N(to-from+1)
	return frames[i].Time != was
}

// drop takes a record out, and its frame if nothing is left of it.
func (x *insider) drop(p place) {
	b := x.books[p.journal]
	f := &b.frames[p.frame]
	if f.Records = slices.Delete(f.Records, p.at, p.at+1); len(f.Records) == 0 {
		b.frames = slices.Delete(b.frames, p.frame, p.frame+1)
		b.was = slices.Delete(b.was, p.frame, p.frame+1)
	}
}

// leaveOut takes the end of a hold out.
func (x *insider) leaveOut() bool {
	p, ok := x.any(func(r *ledger.Record) bool { return r.Capture != nil || r.Void != nil })
	if !ok {
		return false
	}
	if c := x.record(p).Capture; c != nil {
		h := x.holdOf(p)
		x.charge(p, h.Client, -paid(h, c))
	}
	x.drop(p)
	return true
}

// exchange makes a void of a capture, or a capture of a void.
func (x *insider) exchange() bool {
	kind := []ledger.Kind{ledger.KindCapture, ledger.KindVoid}[x.r.IntN(2)]
	p, ok := x.any(func(r *ledger.Record) bool { return r.Kind == kind })
	if !ok {
		return false
	}
	r, h := x.record(p), x.holdOf(p)
	if c := r.Capture; c != nil {
		x.charge(p, h.Client, -paid(h, c))
		*r = ledger.NewVoid(p.journal, *h, "agent_failed", r.Salt)
		return true
	}
	u := market.Usage{Prompt: h.Prompt, Cached: h.Cached, Output: max(1, h.Output)}
	c := ledger.Capture{Outcome: "done", Finish: "stop", Usage: u, TTFTUS: 50_000,
		Cost: market.Settle(h.Settle, h.Price, h.Tariff, h.Quoted, u, h.Amount-h.Premium)}
	*r = ledger.NewCapture(p.journal, *h, c, r.Salt)
	x.charge(p, h.Client, paid(h, r.Capture))
	return true
}

// inflate charges for tokens that nobody got.
func (x *insider) inflate() bool {
	p, ok := x.any(func(r *ledger.Record) bool { return r.Capture != nil })
	if !ok {
		return false
	}
	c, h := x.record(p).Capture, x.holdOf(p)
	was := paid(h, c)
	c.Usage.Output = min(c.Usage.Output+1+x.r.IntN(100), h.MaxTokens)
	c.Cost = market.Settle(h.Settle, h.Price, h.Tariff, h.Quoted, c.Usage, h.Amount-h.Premium)
	x.charge(p, h.Client, paid(h, c)-was)
	return paid(h, c) > was
}

// payOut makes a payout up.
func (x *insider) payOut() bool {
	b := x.books[ledger.Treasury]
	i := 1 + x.r.IntN(len(b.frames)-1)
	f := &b.frames[i]
	if !f.Says() {
		return false
	}
	client := []string{"ann", "bob", "cay"}[x.r.IntN(3)]
	var salt [16]byte
	for k := range salt {
		salt[k] = byte(x.r.Uint32())
	}
	amount := 1 + market.Credits(x.r.Int64N(int64(market.Credit)))
	f.Records = append(f.Records, ledger.NewPayout("p-7", client, amount, nil, salt))
	return true
}

// cut takes a journal's end off.
func (x *insider) cut() bool {
	name := sorted(x.books)[x.r.IntN(len(x.books))]
	b := x.books[name]
	n := len(b.frames) - 1 - x.r.IntN(len(b.frames)/4)
	b.frames, b.was = b.frames[:n], b.was[:n]
	return true
}

// goBack leaves all journals as they were at one moment.
func (x *insider) goBack() bool {
	frames := x.books[ledger.Treasury].frames
	at := frames[len(frames)/2+x.r.IntN(len(frames)/2)].Time
	for _, b := range x.books {
		n := len(b.frames)
		for n > 1 && b.frames[n-1].Time > at {
			n--
		}
		b.frames, b.was = b.frames[:n], b.was[:n]
	}
	return true
}
