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
	d := decode(data)
	d.Version(outcomeVersion)
	var o Outcome
	o.Awards = decodeList(d, 8, func() Award {
		return Award{
			Task: TaskID(d.Text()), Agent: AgentID(d.Text()), Seat: d.Int(),
			Value: d.Credits(), Cost: d.Credits(), SlotPrice: d.Credits(), Toll: d.Credits(),
			Premium: d.Credits(),
		}
	})
	o.Planned = decodeList(d, 3,
		func() Planned { return Planned{Task: d.Int(), Agent: d.Int(), Seat: d.Int()} })
	o.Prices = d.prices()
	o.Witnesses = decodeList(d, 6, func() Witness {
		return Witness{Agent: d.Int(), Seat: d.Int(), Task: d.Int(), FromAgent: d.Int(), FromSeat: d.Int(),
			Rank: d.Int()}
	})
	o.Ties = d.ties()
	o.Clients = decodeList(d, 5, func() ClientProof {
		return ClientProof{
			Client: d.Text(), Externality: d.Credits(), Prices: d.prices(),
			Moves: decodeList(d, 3,
				func() Move { return Move{Task: d.Int(), Agent: d.Int(), Seat: d.Int()} }),
			Ties: d.ties(),
		}
	})
	o.Welfare = d.Credits()
	return o, d.end("outcome")
}

func appendPrices(b []byte, prices []SlotPrice) []byte {
	b = appendCount(b, len(prices))
	for _, p := range prices {
		b = appendInts(b, int64(p.Agent), int64(p.Seat), int64(p.Price))
	}
	return b
}

func (d *decoder) prices() []SlotPrice {
	return decodeList(d, 3, func() SlotPrice {
		return SlotPrice{Agent: d.Int(), Seat: d.Int(),
			Price: d.Credits()}
	})
}

func appendTies(b []byte, ties []Tie) []byte {
	b = appendCount(b, len(ties))
	for _, t := range ties {
		b = appendInts(b, int64(t.Agent), int64(t.Seat), t.Rank)
	}
	return b
}

func (d *decoder) ties() []Tie {
	return decodeList(d, 3, func() Tie { return Tie{Agent: d.Int(), Seat: d.Int(), Rank: d.Varint()} })
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
