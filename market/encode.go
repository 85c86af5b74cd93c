package market

import (
	"encoding/binary"
	"errors"
	"slices"
)

// The canonical bytes of rounds and outcomes are our own: journals keep them and hashes cover them, so there
// is exactly one encoding of each value and decoding refuses every other. They are final from the first tag
// on, as package ledger says. Integers are varints (zigzag where they may be negative) in their shortest
// form, strings carry their length, lists their count.

// Versions of the encodings. Bytes of any other are refused.
const (
	roundVersion   = 1
	outcomeVersion = 1
	epochVersion   = 1 // of epochs and tariffs
)

// ErrEncoding marks bytes that are not the canonical encoding of anything.
var ErrEncoding = errors.New("not a canonical encoding")

// AppendCanonical appends the outcome's canonical bytes to b.
func (o *Outcome) AppendCanonical(b []byte) []byte {
	b = append(b, outcomeVersion)
	b = appendCount(b, len(o.Awards))
	for _, a := range o.Awards {
		b = appendString(appendString(b, string(a.Task)), string(a.Agent))
		b = appendInts(b, int64(a.Seat), int64(a.Value), int64(a.Cost), int64(a.SlotPrice), int64(a.Toll),
			int64(a.Premium))
	}
	b = appendCount(b, len(o.Planned))
	for _, p := range o.Planned {
		b = appendInts(b, int64(p.Task), int64(p.Agent), int64(p.Seat))
	}
	b = appendPrices(b, o.Prices)
	b = appendCount(b, len(o.Witnesses))
	for _, w := range o.Witnesses {
		b = appendInts(b, int64(w.Agent), int64(w.Seat), int64(w.Task), int64(w.FromAgent),
			int64(w.FromSeat), int64(w.Rank))
	}
	b = appendTies(b, o.Ties)
	b = appendCount(b, len(o.Clients))
	for _, c := range o.Clients {
		b = appendPrices(binary.AppendVarint(appendString(b, c.Client), int64(c.Externality)), c.Prices)
		b = appendCount(b, len(c.Moves))
		for _, m := range c.Moves {
			b = appendInts(b, int64(m.Task), int64(m.Agent), int64(m.Seat))
		}
		b = appendTies(b, c.Ties)
	}
	return binary.AppendVarint(b, int64(o.Welfare))
}

// DecodeOutcome reads what [Outcome.AppendCanonical] wrote. It judges only the form; [Check] judges the
// content. Errors are ErrEncoding.
func DecodeOutcome(data []byte) (Outcome, error) {
	var o Outcome
	err := o.Decode(data, nil)
	return o, err
}

// Decode is [DecodeOutcome] into an outcome whose memory is used again, with strings of s, which may be nil.
func (o *Outcome) Decode(data []byte, s *Strings) error {
	d := decode(data)
	d.Strings = s
	d.Version(outcomeVersion)
	o.Awards = decodeList(d, o.Awards, 8, func(a *Award) {
		a.Task, a.Agent = TaskID(d.Text()), AgentID(d.Name())
		var n [6]int64
		d.Varints(n[:])
		a.Seat, a.Value, a.Cost, a.SlotPrice, a.Toll, a.Premium = int(n[0]), Credits(n[1]), Credits(n[2]),
			Credits(n[3]), Credits(n[4]), Credits(n[5])
	})
	o.Planned = decodeList(d, o.Planned, 3,
		func(p *Planned) { *p = Planned{Task: d.Int(), Agent: d.Int(), Seat: d.Int()} })
	o.Prices = d.prices(o.Prices)
	o.Witnesses = decodeList(d, o.Witnesses, 6, func(w *Witness) {
		*w = Witness{Agent: d.Int(), Seat: d.Int(), Task: d.Int(), FromAgent: d.Int(), FromSeat: d.Int(),
			Rank: d.Int()}
	})
	o.Ties = d.ties(o.Ties)
	o.Clients = decodeList(d, o.Clients, 5, func(c *ClientProof) {
		c.Client, c.Externality, c.Prices = d.Name(), d.Credits(), d.prices(c.Prices)
		c.Moves = decodeList(d, c.Moves, 3,
			func(m *Move) { *m = Move{Task: d.Int(), Agent: d.Int(), Seat: d.Int()} })
		c.Ties = d.ties(c.Ties)
	})
	o.Welfare = d.Credits()
	return d.end("outcome")
}

func appendPrices(b []byte, prices []SlotPrice) []byte {
	b = appendCount(b, len(prices))
	for _, p := range prices {
		b = appendInts(b, int64(p.Agent), int64(p.Seat), int64(p.Price))
	}
	return b
}

func (d *decoder) prices(list []SlotPrice) []SlotPrice {
	return decodeList(d, list, 3,
		func(p *SlotPrice) { *p = SlotPrice{Agent: d.Int(), Seat: d.Int(), Price: d.Credits()} })
}

func appendTies(b []byte, ties []Tie) []byte {
	b = appendCount(b, len(ties))
	for _, t := range ties {
		b = appendInts(b, int64(t.Agent), int64(t.Seat), t.Rank)
	}
	return b
}

func (d *decoder) ties(list []Tie) []Tie {
	return decodeList(d, list, 3,
		func(t *Tie) { *t = Tie{Agent: d.Int(), Seat: d.Int(), Rank: d.Varint()} })
}

func appendInts(b []byte, list ...int64) []byte {
	at, most := len(b), len(b)+binary.MaxVarintLen64*len(list)
	b = slices.Grow(b, most-at)[:most]
	for _, n := range list {
		at += binary.PutVarint(b[at:], n)
	}
	return b[:at]
}

func appendCount(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
