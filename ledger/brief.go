package ledger

import (
	"encoding/binary"
	"slices"

	"souk/market"
)

// A Brief says of a span of a journal, in a few dozen bytes a task, what sums over it need: of holds and
// their ends what moves money, of other records those that do, whole, and of rounds nothing. It is
//
//	brief     1 byte, 1 for a hub's journal, else 0; rows to the end
//	row       kind 1 byte; time, less that of the row before; then by kind:
//	hold      client name; amount ±
//	void      likewise, of the hold
//	capture   client, agent, model, key, tags, settle, outcome names; amount ±, premium ±, fee ±, quoted ±
//	          of the hold; cost ±; usage prompt ±, cached ±, output ±
//	whole     a record with its length
//	end       nothing: the time of the last frame
//	name      0 and a string that comes for the first time, or the number of such a string, from 1
type Brief struct {
	b       []byte
	at      int64 // of the last row
	last    int64 // of the last frame
	names   []names
	numbers map[string]int
	legs    []Leg
	odd     bool
}

// Kinds of rows beside those of records.
const (
	briefEnd   = 0
	briefWhole = 0xff
)

// mostBrief bounds the strings of a brief: no segment has as many.
const mostBrief = 1 << 17

// Add takes in the next fact of a journal, as a [Reading] has it.
func (x *Brief) Add(f *Fact) {
	r := f.Record
	if x.numbers == nil {
		x.numbers = map[string]int{}
		x.b = append(x.b, flag(f.Hub, 1))
	}
	switch x.last = f.Time; {
	case r.Hold != nil:
		x.row(r.Kind, f.Time)
		n := x.name(r.Hold.Client)
		avail, held := n.client()
		x.b = binary.AppendVarint(x.b, int64(r.Hold.Amount))
		x.moves(r, holdLegs(x.legs[:0], avail, held, r.Hold))
	case r.Void != nil:
		x.row(r.Kind, f.Time)
		avail, held := x.name(f.Hold.Client).client()
		x.b = binary.AppendVarint(x.b, int64(f.Hold.Amount))
		x.moves(r, voidLegs(x.legs[:0], avail, held, f.Hold))
	case r.Capture != nil:
		h, c := f.Hold, r.Capture
		x.row(r.Kind, f.Time)
		avail, held := x.name(h.Client).client()
		payable := x.name(h.Agent).agent()
		for _, name := range [...]string{h.Model, h.Key, h.Tags, h.Settle, c.Outcome} {
			x.name(name)
		}
		x.b = appendInts(x.b, int64(h.Amount), int64(h.Premium), int64(h.Fee), int64(h.Quoted), int64(c.Cost),
			int64(c.Usage.Prompt), int64(c.Usage.Cached), int64(c.Usage.Output))
		x.moves(r, captureLegs(x.legs[:0], avail, held, payable, h, c))
	case len(r.Legs) > 0 || r.Transfer != nil || r.WriteOff != nil:
		x.row(briefWhole, f.Time)
		x.b = appendSized(x.b, func(b []byte) []byte { return AppendRecord(b, r) })
	}
}

func (x *Brief) row(kind Kind, at int64) {
	x.odd = x.odd || at < x.at
	x.b = binary.AppendUvarint(append(x.b, byte(kind)), uint64(at-x.at))
	x.at = at
}

func (x *Brief) name(text string) *names {
	if n := x.numbers[text]; n > 0 {
		x.b = binary.AppendUvarint(x.b, uint64(n))
		return &x.names[n-1]
	}
	x.b = appendString(append(x.b, 0), text)
	x.names = append(x.names, names{id: text})
	x.odd = x.odd || len(x.names) > mostBrief
	x.numbers[text] = len(x.names)
	return &x.names[len(x.names)-1]
}

// moves notes whether a record moves what its kind does: whoever reads the brief takes that for granted.
func (x *Brief) moves(r *Record, legs []Leg) {
	x.odd = x.odd || !slices.Equal(r.Legs, legs)
	x.legs = legs
}

// Bytes returns the brief of all that was added; nil where that is no span of a journal that keeps the rules.
func (x *Brief) Bytes() []byte {
	if x.row(briefEnd, x.last); x.odd || x.numbers == nil {
		return nil
	}
	return x.b
}

// ReadBrief calls f with the facts that a brief has. They lack frames, of captures and voids ids, and of all
// holds what a brief does not say. Bytes that are no brief are ErrEncoding.
func ReadBrief(data []byte, f func(*Fact) error) error {
	d := decode(data)
	d.Strings, d.room = new(market.Strings), &room{}
	var known []names
	name := func() *names {
		n := d.Uvarint()
		if n > uint64(len(known)) || n == 0 && len(known) == mostBrief {
			d.Fail("a name that was not there before, or too many")
		}
		if n == 0 || d.Fault != "" {
			known = append(known, names{id: string(d.Sized())})
			n = uint64(len(known))
		}
		return &known[n-1]
	}
	hub := d.Byte() == 1
	var r Record
	var h Hold
	var c Capture
	var v Void
	fact := Fact{Record: &r}
	legs := make([]Leg, 0, 8)
	for d.Fault == "" && d.At < len(d.Data) {
		kind := Kind(d.Byte())
		fact = Fact{Record: &r, Hub: hub, Time: fact.Time + d.positive()}
		if fact.Time < 0 {
			d.Fail("a time beyond 63 bits")
		}
		r = Record{Kind: kind}
		switch kind {
		case KindHold, KindVoid:
			n := name()
			avail, held := n.client()
			h = Hold{Client: n.id, Amount: d.Credits()}
			if kind == KindHold {
				r.Hold, r.Legs = &h, holdLegs(legs, avail, held, &h)
			} else {
				fact.Hold, r.Void, r.Legs = &h, &v, voidLegs(legs, avail, held, &h)
			}
		case KindCapture:
			client := name()
			avail, held := client.client()
			h = Hold{Client: client.id}
			agent := name()
			payable := agent.agent()
			h.Agent, h.Model, h.Key, h.Tags = agent.id, name().id, name().id, name().id
			h.Settle, c = name().id, Capture{Outcome: name().id}
			var n [8]int64
			d.Varints(n[:])
			h.Amount, h.Premium, h.Fee = market.Credits(n[0]), market.Credits(n[1]), market.Credits(n[2])
			h.Quoted, c.Cost = market.Credits(n[3]), market.Credits(n[4])
			c.Usage = market.Usage{Prompt: int(n[5]), Cached: int(n[6]), Output: int(n[7])}
			fact.Hold, r.Capture, r.Legs = &h, &c, captureLegs(legs, avail, held, payable, &h, &c)
		case briefWhole:
			d.room.begin()
			if d.record(&r, nil); r.Hold != nil || r.Capture != nil || r.Void != nil {
				d.Fail("a whole record of what has rows")
			}
		case briefEnd:
		default:
			d.Fail("unknown row")
		}
		if d.Fault != "" {
			break
		}
		if err := f(&fact); err != nil {
			return err
		}
	}
	return d.end()
}
