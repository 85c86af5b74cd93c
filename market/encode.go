package market

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The canonical bytes of rounds and outcomes are our own: journals keep them and hashes cover them, so there
// is exactly one encoding of each value and decoding refuses every other. Integers are varints (zigzag where
// they may be negative) in their shortest form, strings carry their length, lists their count.

// Version 2 of each has lists that version 1 lacks, and version 3 of a round what was weighed beside them.
// Each is used only where one of them is not empty: what an earlier one can say has the same bytes for ever.
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
	b = appendString(b, r.Rule.Pricing)
	b = appendString(b, r.Rule.Settle)
	b = appendString(b, r.Rule.Clarke)
	b = binary.AppendVarint(b, int64(r.Fee))
	b = appendCount(b, len(r.Tasks))
	for _, t := range r.Tasks {
		b = appendString(b, string(t.ID))
		b = appendString(b, t.Client)
	}
	b = appendSupplies(b, r.Agents)
	b = appendCount(b, len(r.Edges))
	for _, e := range r.Edges {
		b = binary.AppendVarint(b, int64(e.Task))
		b = binary.AppendVarint(b, int64(e.Agent))
		b = binary.AppendVarint(b, int64(e.Value))
		b = binary.AppendVarint(b, int64(e.Cost))
		b = binary.AppendVarint(b, int64(e.Toll))
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
			b = binary.AppendVarint(b, int64(t.Slots))
			b = binary.AppendVarint(b, int64(t.Toll))
		}
	}
	return b
}

func (d *decoder) supplies() []Supply {
	return decodeList(d, 2, func() Supply {
		return Supply{
			Agent: AgentID(d.string()),
			Tiers: decodeList(d, 2, func() Tier { return Tier{Slots: d.int(), Toll: d.credits()} }),
		}
	})
}

func (r *Round) appendMore(b []byte) []byte {
	b = appendString(b, r.Rule.Instead)
	b = appendCount(b, len(r.Sellers))
	for _, s := range r.Sellers {
		b = appendString(b, s.Owner)
		b = appendString(b, s.Class)
		b = binary.AppendVarint(b, int64(s.Tariff))
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
	d := decoder{data: data}
	version := d.version(roundVersion, roundWeighed)
	var r Round
	r.Domain = d.string()
	r.Number = d.uvarint()
	copy(r.Prev[:], d.bytes(len(r.Prev)))
	if version == roundWeighed {
		d.weighed(&r)
		return r, d.end("round")
	}
	r.Rule = Rule{Pricing: d.string(), Settle: d.string(), Clarke: d.string()}
	r.Fee = d.credits()
	r.Tasks = decodeList(&d, 2, func() Task { return Task{ID: TaskID(d.string()), Client: d.string()} })
	r.Agents = d.supplies()
	r.Edges = decodeList(&d, 5, func() Edge {
		return Edge{Task: d.int(), Agent: d.int(), Value: d.credits(), Cost: d.credits(), Toll: d.credits()}
	})
	if version == roundMore {
		d.more(&r)
		if r.version() != version {
			d.fail("version 2 of a round that version 1 can say")
		}
	}
	return r, d.end("round")
}

func (d *decoder) more(r *Round) {
	r.Rule.Instead = d.string()
	r.Sellers = decodeList(d, 3,
		func() Seller { return Seller{Owner: d.string(), Class: d.string(), Tariff: d.credits()} })
	r.Bundles = decodeList(d, 1, func() Bundle { return Bundle{Tasks: decodeList(d, 1, d.int)} })
}

// AppendCanonical appends the outcome's canonical bytes to b.
func (o *Outcome) AppendCanonical(b []byte) []byte {
	version := o.version()
	b = append(b, version)
	b = appendCount(b, len(o.Awards))
	for _, a := range o.Awards {
		b = appendString(b, string(a.Task))
		b = appendString(b, string(a.Agent))
		b = binary.AppendVarint(b, int64(a.Tier))
		for _, c := range [5]Credits{a.Value, a.Cost, a.SlotPrice, a.Toll, a.Premium} {
			b = binary.AppendVarint(b, int64(c))
		}
	}
	b = appendPrices(b, o.Prices)
	b = appendCount(b, len(o.Witnesses))
	for _, w := range o.Witnesses {
		for _, n := range [6]int{w.Agent, w.Tier, w.Task, w.FromAgent, w.FromTier, w.Rank} {
			b = binary.AppendVarint(b, int64(n))
		}
	}
	b = appendTies(b, o.Ties)
	b = appendCount(b, len(o.Clients))
	for _, c := range o.Clients {
		b = appendString(b, c.Client)
		b = binary.AppendVarint(b, int64(c.Externality))
		b = appendPrices(b, c.Prices)
		b = appendCount(b, len(c.Moves))
		for _, m := range c.Moves {
			for _, n := range [3]int{m.Task, m.Agent, m.Tier} {
				b = binary.AppendVarint(b, int64(n))
			}
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
	d := decoder{data: data}
	version := d.version(outcomeVersion, outcomeMore)
	var o Outcome
	o.Awards = decodeList(&d, 8, func() Award {
		return Award{
			Task: TaskID(d.string()), Agent: AgentID(d.string()), Tier: d.int(),
			Value: d.credits(), Cost: d.credits(), SlotPrice: d.credits(), Toll: d.credits(),
			Premium: d.credits(),
		}
	})
	o.Prices = d.prices()
	o.Witnesses = decodeList(&d, 6, func() Witness {
		return Witness{Agent: d.int(), Tier: d.int(), Task: d.int(), FromAgent: d.int(), FromTier: d.int(),
			Rank: d.int()}
	})
	o.Ties = d.ties()
	o.Clients = decodeList(&d, 4, func() ClientProof {
		c := ClientProof{
			Client: d.string(), Externality: d.credits(), Prices: d.prices(),
			Moves: decodeList(&d, 3,
				func() Move { return Move{Task: d.int(), Agent: d.int(), Tier: d.int()} }),
		}
		if version == outcomeMore {
			c.Ties = d.ties()
		}
		return c
	})
	o.Welfare = d.credits()
	if d.fault == "" && o.version() != version {
		d.fail("version 2 of an outcome that version 1 can say")
	}
	return o, d.end("outcome")
}

func appendPrices(b []byte, prices []SlotPrice) []byte {
	b = appendCount(b, len(prices))
	for _, p := range prices {
		b = binary.AppendVarint(b, int64(p.Agent))
		b = binary.AppendVarint(b, int64(p.Tier))
		b = binary.AppendVarint(b, int64(p.Price))
	}
	return b
}

func (d *decoder) prices() []SlotPrice {
	return decodeList(d, 3, func() SlotPrice {
		return SlotPrice{Agent: d.int(), Tier: d.int(),
			Price: d.credits()}
	})
}

func appendTies(b []byte, ties []Tie) []byte {
	b = appendCount(b, len(ties))
	for _, t := range ties {
		b = binary.AppendVarint(b, int64(t.Agent))
		b = binary.AppendVarint(b, int64(t.Tier))
		b = binary.AppendVarint(b, t.Rank)
	}
	return b
}

func (d *decoder) ties() []Tie {
	return decodeList(d, 3, func() Tie { return Tie{Agent: d.int(), Tier: d.int(), Rank: d.varint()} })
}

func appendCount(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder walks over bytes and remembers its first fault; after one it yields zeros.
type decoder struct {
	data  []byte
	at    int
	fault string
}

func (d *decoder) fail(why string) {
	if d.fault == "" {
		d.fault = why
	}
}

func (d *decoder) end(what string) error {
	if d.fault == "" && d.at < len(d.data) {
		d.fail("bytes after the end")
	}
	if d.fault == "" {
		return nil
	}
	return fmt.Errorf("%s: byte %d of %d: %s: %w", what, d.at, len(d.data), d.fault, ErrEncoding)
}

func (d *decoder) bytes(n int) []byte {
	if d.fault != "" || n > len(d.data)-d.at {
		d.fail("cut short")
		return nil
	}
	d.at += n
	return d.data[d.at-n : d.at]
}

// skip passes over a string.
func (d *decoder) skip() {
	if n := d.uvarint(); n > uint64(len(d.data)-d.at) {
		d.fail("string longer than what is left")
	} else {
		d.bytes(int(n))
	}
}

func (d *decoder) version(least, most byte) byte {
	b := d.bytes(1)
	if len(b) == 0 {
		return 0
	}
	if b[0] < least || b[0] > most {
		d.fail(fmt.Sprintf("version %d, want %d to %d", b[0], least, most))
	}
	return b[0]
}

func (d *decoder) uvarint() uint64 {
	if d.fault != "" {
		return 0
	}
	x, n, fault := Uvarint(d.data[d.at:])
	if fault != "" {
		d.fail(fault)
	}
	d.at += n
	return x
}

// Uvarint reads an integer of a canonical encoding from the front of b: the shortest form of a varint alone.
// It returns the integer and how many bytes it took; or what is wrong, and zeros.
func Uvarint(b []byte) (x uint64, n int, fault string) {
	x, n = binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, 0, "cut short"
	case n < 0:
		return 0, 0, "integer beyond 64 bits"
	case n > 1 && b[n-1] == 0:
		return 0, 0, "integer not in its shortest form"
	}
	return x, n, ""
}

func (d *decoder) varint() int64 {
	x := d.uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

func (d *decoder) int() int         { return int(d.varint()) }
func (d *decoder) credits() Credits { return Credits(d.varint()) }

func (d *decoder) string() string { return d.text(d.uvarint()) }

// text reads so many bytes.
func (d *decoder) text(n uint64) string {
	if n > uint64(len(d.data)-d.at) {
		d.fail("string longer than what is left")
		return ""
	}
	return string(d.bytes(int(n)))
}

// decodeList reads a count and so many elements of at least least bytes each, which bounds what a hostile
// count can make us allocate to a small multiple of the bytes at hand.
func decodeList[T any](d *decoder, least int, element func() T) []T {
	n := d.uvarint()
	if d.fault == "" && n > uint64((len(d.data)-d.at)/least) {
		d.fail("list longer than what is left")
	}
	if d.fault != "" || n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		list[i] = element()
		if d.fault != "" {
			return nil
		}
	}
	return list
}

const epochVersion = 1

// AppendCanonical appends the epoch's canonical bytes to b.
func (e *Epoch) AppendCanonical(b []byte) []byte {
	b = append(b, epochVersion)
	b = appendString(b, e.Class)
	b = binary.AppendUvarint(b, e.Number)
	b = append(b, e.Prev[:]...)
	b = binary.AppendVarint(b, int64(e.Ceiling))
	b = binary.AppendVarint(b, int64(e.Winners))
	b = appendCount(b, len(e.Seals))
	for _, s := range e.Seals {
		b = appendString(b, s.Owner)
		b = append(b, s.Seal[:]...)
	}
	b = appendCount(b, len(e.Opened))
	for _, a := range e.Opened {
		b = appendString(b, a.Owner)
		b = binary.AppendVarint(b, int64(a.Amount))
		b = append(b, a.Nonce[:]...)
	}
	return appendStrings(b, e.Lost)
}

// DecodeEpoch reads what [Epoch.AppendCanonical] wrote. It judges only the form. Errors are ErrEncoding.
func DecodeEpoch(data []byte) (Epoch, error) {
	d := decoder{data: data}
	d.version(epochVersion, epochVersion)
	e := Epoch{Class: d.string(), Number: d.uvarint()}
	copy(e.Prev[:], d.bytes(len(e.Prev)))
	e.Ceiling, e.Winners = d.credits(), d.int()
	e.Seals = decodeList(&d, 33, func() (s Sealed) {
		s.Owner = d.string()
		copy(s.Seal[:], d.bytes(len(s.Seal)))
		return s
	})
	e.Opened = decodeList(&d, 18, func() (a Ask) {
		a.Owner, a.Amount = d.string(), d.credits()
		copy(a.Nonce[:], d.bytes(len(a.Nonce)))
		return a
	})
	e.Lost = decodeList(&d, 1, d.string)
	return e, d.end("epoch")
}

// AppendCanonical appends the tariff's canonical bytes to b.
func (t *Tariff) AppendCanonical(b []byte) []byte {
	b = append(b, epochVersion)
	b = appendString(b, t.Class)
	b = binary.AppendUvarint(b, t.Epoch)
	b = binary.AppendVarint(b, int64(t.Amount))
	return appendStrings(appendStrings(b, t.Winners), t.Standby)
}

// DecodeTariff reads what [Tariff.AppendCanonical] wrote. It judges only the form. Errors are ErrEncoding.
func DecodeTariff(data []byte) (Tariff, error) {
	d := decoder{data: data}
	d.version(epochVersion, epochVersion)
	t := Tariff{Class: d.string(), Epoch: d.uvarint(), Amount: d.credits(),
		Winners: decodeList(&d, 1, d.string)}
	t.Standby = decodeList(&d, 1, d.string)
	return t, d.end("tariff")
}

func appendStrings(b []byte, list []string) []byte {
	b = appendCount(b, len(list))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}
