package market

import (
	"encoding/binary"
	"errors"
	"slices"
)

// The canonical bytes of rounds and outcomes are our own: journals keep them and hashes cover them, so there
// is exactly one encoding of each value and decoding refuses every other. Integers are varints (zigzag where
// they may be negative) in their shortest form, strings carry their length, lists their count.

// Version 2 of each adds lists that version 1 lacks. Version 3 of a round adds waits, what was pruned, and
// the parts of tolls. A later version is used only where one of its additions is not empty: whatever an
// earlier one can say keeps its bytes for ever.
const (
	roundVersion   = 1
	roundMore      = 2 // Rule.Instead, Sellers, Bundles
	roundWeighed   = 3 // Task.Wait, Others, Pruned, Parts
	outcomeVersion = 1
	outcomeMore    = 2 // ClientProof.Ties
)

func (r *Round) version() byte {
	if r.weighed() {
		return roundWeighed
	}
	if r.hasMore() {
		return roundMore
	}
	return roundVersion
}

func (o *Outcome) version() byte {
	for i := range o.Clients {
		if len(o.Clients[i].Ties) > 0 {
			return outcomeMore
		}
	}
	return outcomeVersion
}

// ErrEncoding marks bytes that are not the canonical encoding of anything.
var ErrEncoding = errors.New("not a canonical encoding")

// AppendCanonical appends the round's canonical bytes to b.
func (r *Round) AppendCanonical(b []byte) []byte {
	version := r.version()
	b = append(b, version)
	b = appendString(b, r.Domain)
	b = binary.AppendUvarint(b, r.Number)
	b = append(b, r.Prev[:]...)
	if version == roundWeighed {
		return r.appendWeighed(b)
	}
	b = appendString(appendString(appendString(b, r.Rule.Pricing), r.Rule.Settle), r.Rule.Clarke)
	b = binary.AppendVarint(b, int64(r.Fee))
	b = appendCount(b, len(r.Tasks))
	for _, t := range r.Tasks {
		b = appendString(appendString(b, string(t.ID)), t.Client)
	}
	b = appendSupplies(b, r.Agents)
	b = appendCount(b, len(r.Edges))
	for _, e := range r.Edges {
		b = appendInts(b, int64(e.Task), int64(e.Agent), int64(e.Value), int64(e.Cost), int64(e.Toll))
	}
	if version == roundMore {
		b = r.appendMore(b)
	}
	return b
}

func appendSupplies(b []byte, agents []Supply) []byte {
	b = appendCount(b, len(agents))
	for _, a := range agents {
		b = appendString(b, string(a.Agent))
		b = appendCount(b, len(a.Tiers))
		for _, t := range a.Tiers {
			b = appendInts(b, int64(t.Slots), int64(t.Toll))
		}
	}
	return b
}

func (d *decoder) supplies() []Supply {
	return decodeList(d, 2, func() Supply {
		return Supply{
			Agent: AgentID(d.Text()),
			Tiers: decodeList(d, 2, func() Tier { return Tier{Slots: d.Int(), Toll: d.Credits()} }),
		}
	})
}

func (r *Round) appendMore(b []byte) []byte {
	b = appendString(b, r.Rule.Instead)
	b = appendCount(b, len(r.Sellers))
	for _, s := range r.Sellers {
		b = binary.AppendVarint(appendString(appendString(b, s.Owner), s.Class), int64(s.Tariff))
	}
	b = appendCount(b, len(r.Bundles))
	for _, x := range r.Bundles {
		b = appendCount(b, len(x.Tasks))
		for _, j := range x.Tasks {
			b = binary.AppendVarint(b, int64(j))
		}
	}
	return b
}

// DecodeRound reads what [Round.AppendCanonical] wrote. It judges only the form; [Round.Validate] judges the
// content. Lists that are empty come back nil. Errors are ErrEncoding.
func DecodeRound(data []byte) (Round, error) {
	d := decode(data)
	version := d.version(roundVersion, roundWeighed)
	var r Round
	r.Domain = d.Text()
	r.Number = d.Uvarint()
	d.Fill(r.Prev[:])
	if version == roundWeighed {
		d.weighed(&r)
		return r, d.end("round")
	}
	r.Rule = Rule{Pricing: d.Text(), Settle: d.Text(), Clarke: d.Text()}
	r.Fee = d.Credits()
	r.Tasks = decodeList(d, 2, func() Task { return Task{ID: TaskID(d.Text()), Client: d.Text()} })
	r.Agents = d.supplies()
	r.Edges = decodeList(d, 5, func() Edge {
		return Edge{Task: d.Int(), Agent: d.Int(), Value: d.Credits(), Cost: d.Credits(), Toll: d.Credits()}
	})
	if version == roundMore {
		d.more(&r)
		if r.version() != version {
			d.Fail("version 2 of a round that version 1 can say")
		}
	}
	return r, d.end("round")
}

func (d *decoder) more(r *Round) {
	r.Rule.Instead = d.Text()
	r.Sellers = decodeList(d, 3,
		func() Seller { return Seller{Owner: d.Text(), Class: d.Text(), Tariff: d.Credits()} })
	r.Bundles = decodeList(d, 1, func() Bundle { return Bundle{Tasks: decodeList(d, 1, d.Int)} })
}

// AppendCanonical appends the outcome's canonical bytes to b.
func (o *Outcome) AppendCanonical(b []byte) []byte {
	version := o.version()
	b = append(b, version)
	b = appendCount(b, len(o.Awards))
	for _, a := range o.Awards {
		b = appendString(appendString(b, string(a.Task)), string(a.Agent))
		b = appendInts(b, int64(a.Tier), int64(a.Value), int64(a.Cost), int64(a.SlotPrice), int64(a.Toll),
			int64(a.Premium))
	}
	b = appendPrices(b, o.Prices)
	b = appendCount(b, len(o.Witnesses))
	for _, w := range o.Witnesses {
		b = appendInts(b, int64(w.Agent), int64(w.Tier), int64(w.Task), int64(w.FromAgent),
			int64(w.FromTier), int64(w.Rank))
	}
	b = appendTies(b, o.Ties)
	b = appendCount(b, len(o.Clients))
	for _, c := range o.Clients {
		b = appendPrices(binary.AppendVarint(appendString(b, c.Client), int64(c.Externality)), c.Prices)
		b = appendCount(b, len(c.Moves))
		for _, m := range c.Moves {
			b = appendInts(b, int64(m.Task), int64(m.Agent), int64(m.Tier))
		}
		if version == outcomeMore {
			b = appendTies(b, c.Ties)
		}
	}
	return binary.AppendVarint(b, int64(o.Welfare))
}

// DecodeOutcome reads what [Outcome.AppendCanonical] wrote. It judges only the form; [Check] judges the
// content. Errors are ErrEncoding.
func DecodeOutcome(data []byte) (Outcome, error) {
	d := decode(data)
	version := d.version(outcomeVersion, outcomeMore)
	var o Outcome
	o.Awards = decodeList(d, 8, func() Award {
		return Award{
			Task: TaskID(d.Text()), Agent: AgentID(d.Text()), Tier: d.Int(),
			Value: d.Credits(), Cost: d.Credits(), SlotPrice: d.Credits(), Toll: d.Credits(),
			Premium: d.Credits(),
		}
	})
	o.Prices = d.prices()
	o.Witnesses = decodeList(d, 6, func() Witness {
		return Witness{Agent: d.Int(), Tier: d.Int(), Task: d.Int(), FromAgent: d.Int(), FromTier: d.Int(),
			Rank: d.Int()}
	})
	o.Ties = d.ties()
	o.Clients = decodeList(d, 4, func() ClientProof {
		c := ClientProof{
			Client: d.Text(), Externality: d.Credits(), Prices: d.prices(),
			Moves: decodeList(d, 3,
				func() Move { return Move{Task: d.Int(), Agent: d.Int(), Tier: d.Int()} }),
		}
		if version == outcomeMore {
			c.Ties = d.ties()
		}
		return c
	})
	o.Welfare = d.Credits()
	if d.Fault == "" && o.version() != version {
		d.Fail("version 2 of an outcome that version 1 can say")
	}
	return o, d.end("outcome")
}

func appendPrices(b []byte, prices []SlotPrice) []byte {
	b = appendCount(b, len(prices))
	for _, p := range prices {
		b = appendInts(b, int64(p.Agent), int64(p.Tier), int64(p.Price))
	}
	return b
}

func (d *decoder) prices() []SlotPrice {
	return decodeList(d, 3, func() SlotPrice {
		return SlotPrice{Agent: d.Int(), Tier: d.Int(),
			Price: d.Credits()}
	})
}

func appendTies(b []byte, ties []Tie) []byte {
	b = appendCount(b, len(ties))
	for _, t := range ties {
		b = appendInts(b, int64(t.Agent), int64(t.Tier), t.Rank)
	}
	return b
}

func (d *decoder) ties() []Tie {
	return decodeList(d, 3, func() Tie { return Tie{Agent: d.Int(), Tier: d.Int(), Rank: d.Varint()} })
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
