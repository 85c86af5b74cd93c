package ledger

import (
	"crypto/sha256"
	"fmt"
	"math"

	"souk/bus/tip"
	"souk/market"
)

// DecodeFrame reads what AppendFrame wrote and nothing else: canonical form, known kinds, no byte left over.
// It judges only the form; a Book judges the content. What it allocates is bounded by a small multiple of
// len(data). The frame shares no memory with data. Errors are ErrEncoding.
func DecodeFrame(data []byte) (Frame, error) {
	d := decode(data)
	f := d.frame(nil)
	if err := d.end(); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// frame reads a frame. Where rounds are asked for, their bytes are left there in place of r.Round.
func (d *decoder) frame(rounds *[]raw) (f Frame) {
	var left raw
	lazy := &left
	if rounds == nil {
		lazy = nil
	}
	n := d.header(&f)
	if d.room != nil {
		f.Records = d.room.begin()
	} else {
		f.Records = make([]Record, 0, min(n, 4096)) // more, once so many have been there
	}
	for range n {
		f.Records = append(f.Records, Record{})
		r := &f.Records[len(f.Records)-1]
		if d.record(r, lazy); d.Fault != "" {
			break
		}
		if lazy != nil && r.Kind == KindRound {
			*rounds = append(*rounds, left)
		}
	}
	if d.room != nil {
		d.room.records = f.Records
	}
	return f
}

// minRecord is the least a record takes with its length: kind, salt, empty id, no legs.
const minRecord = 1 + 1 + 16 + 1 + 1

// decoder reads frames and what snapshots hold.
type decoder struct {
	market.Decoder
	room *room // nil: everything is made anew
}

func decode(data []byte) *decoder { return &decoder{Decoder: market.Decoder{Data: data}} }

func (d *decoder) end() error { return d.End(ErrEncoding) }

// header reads a frame up to its records and returns their number.
func (d *decoder) header(f *Frame) int {
	if len(d.Data) > MaxFrame {
		d.Fail(fmt.Sprintf("more than %d bytes", MaxFrame))
		return 0
	}
	f.Version = d.Version(FrameVersion)
	f.Epoch = d.positive()
	f.Seq = d.Uvarint()
	f.Time = d.positive()
	return d.Count(minRecord)
}

// raw holds what a lazy decoder leaves undecoded: of a round its ground, and all that follows, as rest.
type raw struct{ round, outcome, rest []byte }

// record reads one record with its length. With a raw, a round's bytes are left there.
func (d *decoder) record(r *Record, lazy *raw) {
	d.within(func() { d.body(r, lazy) })
}

func (d *decoder) body(r *Record, lazy *raw) {
	r.Kind = Kind(d.Byte())
	d.Fill(r.Salt[:])
	r.ID = d.Text()
	if legs := d.Count(2); legs > 0 && d.Fault == "" {
		r.Legs = d.legs(legs)
		for i := range r.Legs {
			d.Again(&r.Legs[i].Account)
			r.Legs[i].Amount = d.Credits()
		}
	}
	d.part(r, lazy)
}

func (d *decoder) part(r *Record, lazy *raw) {
	switch r.Kind {
	case KindOpen:
		r.Open = &Open{Journal: d.Text(), Role: d.Text(), Domain: d.Text(), Scale: d.Varint()}
		if r.Open.Role == RoleTreasury {
			r.Open.Currency = d.Text()
		}
	case KindRound:
		round, outcome := d.Sized(), d.Sized()
		if d.Fault != "" {
			return
		}
		if lazy != nil {
			lazy.round, lazy.outcome, lazy.rest = round, outcome, d.Data[d.At:]
			d.At = len(d.Data)
			return
		}
		r.Round = new(Round)
		r.Round.read(d, round, outcome)
	case KindHold:
		r.Hold = d.newHold()
		d.hold(r.Hold)
	case KindCapture:
		c := d.newCapture()
		c.Hold, c.Claim, c.Said = d.Text(), nil, nil
		d.Again(&c.Outcome)
		d.Again(&c.Finish)
		var n [5]int64
		d.Varints(n[:])
		c.Cost, c.TTFTUS = market.Credits(n[0]), n[4]
		c.Usage = market.Usage{Prompt: int(n[1]), Cached: int(n[2]), Output: int(n[3])}
		flags := d.Byte()
		if flags > 15 {
			d.Fail("unknown flags")
		}
		c.Unmetered, c.NoCacheReport = flags&1 != 0, flags&2 != 0
		if flags&4 != 0 {
			c.Claim = &Claim{Usage: market.Usage{Prompt: d.Int(), Cached: d.Int(), Output: d.Int()},
				Relayed: d.Int(), Most: d.Int(), Cost: d.Credits()}
		}
		if flags&8 != 0 {
			c.Said = &market.Usage{Prompt: d.Int(), Cached: d.Int(), Output: d.Int()}
		}
		r.Capture = c
	case KindVoid:
		r.Void = d.newVoid()
		*r.Void = Void{Hold: d.Text(), Reason: d.Name()}
	case KindDeposit, KindPayout, KindGrant, KindAccept, KindReturn, KindReclaim, KindDistribute,
		KindRemit, KindRefund:
		r.Transfer = d.newTransfer()
		*r.Transfer = Transfer{Client: d.Name(), Hub: d.Name(), Note: d.Text(), Number: d.Uvarint(),
			Amount: d.Credits(), Vouched: d.vouched()}
		if r.Kind.hasOrder() {
			r.Transfer.Order = d.order()
		}
	case KindSeal, KindTariff:
		d.epoch(r)
	case KindMove:
		r.Move = &Move{From: d.Name(), To: d.Name(), Period: d.Uvarint(), Part: d.Uvarint(),
			Amount: d.Credits(), Rest: d.Credits()}
		if r.Move.Period == 0 && r.Move.Part == 0 {
			r.Move.Order = d.order()
		}
	case KindBudget:
		r.Budget = &Budget{}
		d.budget(r.Budget)
	case KindMark:
		r.Noted = &Noted{Journal: d.Name(), Number: d.Uvarint(), Mark: d.mark(),
			Spent: listed(d, 2, func() tip.Spent { return tip.Spent{Client: d.Name(), Amount: d.Credits()} })}
	case KindWriteOff:
		r.WriteOff = &WriteOff{Hub: d.Name(), Mark: d.mark(), Back: d.Credits(), Lost: d.Credits()}
	case KindMonth:
		r.Month = d.month()
	case KindClose:
	default:
		d.Fail("unknown " + r.Kind.String())
	}
}

func (d *decoder) budget(u *Budget) {
	*u = Budget{Client: d.Name(), Of: d.Name(), Every: d.Name(), Number: d.Uvarint(), Amount: d.Credits()}
}

func (d *decoder) mark() (m tip.Mark) {
	d.Fill(m.Journal[:])
	m.Seq = d.Uvarint()
	d.Fill(m.Sum[:])
	return m
}

// read reads a round's parts, of which a decoder is at the last.
func (r *Round) read(d *decoder, round, outcome []byte) {
	err := r.Round.Decode(round, d.Strings)
	if err == nil {
		err = r.Outcome.Decode(outcome, d.Strings)
	}
	if err != nil {
		d.Fail(err.Error())
		return
	}
	d.Ground(&r.Round, &r.Ground)
	r.Seen = d.seen(&r.Round, r.Seen)
	r.Set, r.Waited = d.sets(), d.waited(&r.Round, r.Waited)
}

func (d *decoder) epoch(r *Record) {
	r.Epoch = &Epoch{}
	var err error
	if epoch := d.Sized(); d.Fault == "" {
		r.Epoch.Epoch, err = market.DecodeEpoch(epoch)
	}
	if r.Kind == KindTariff {
		if tariff := d.Sized(); d.Fault == "" && err == nil {
			r.Epoch.Tariff, err = market.DecodeTariff(tariff)
		}
	} else {
		r.Epoch.Use = market.ClassUse{Slots: listed(d, 1, d.Int), Peak: d.Int()}
	}
	if err != nil {
		d.Fail(err.Error())
	}
}

// hold reads into a hold that may have been another.
func (d *decoder) hold(h *Hold) {
	d.Again(&h.Client)
	h.Task = d.Text()
	d.Again(&h.Agent)
	d.Again(&h.Model)
	d.Again(&h.Kind)
	d.Again(&h.Settle)
	h.Attempt = d.Int()
	h.Round = d.Uvarint()
	var n [14]int64
	d.Varints(n[:])
	h.Slot = int(n[0])
	h.Amount, h.Premium, h.Fee, h.Quoted = market.Credits(n[1]), market.Credits(n[2]), market.Credits(n[3]),
		market.Credits(n[4])
	h.Price = market.Price{Miss: market.Credits(n[5]), Hit: market.Credits(n[6]), Out: market.Credits(n[7])}
	h.Prompt, h.Cached, h.Output, h.MaxTokens = int(n[8]), int(n[9]), int(n[10]), int(n[11])
	h.Expires, h.Boot = n[12], n[13]
	d.Fill(h.Digest[:])
	h.Tariff = d.Credits()
	d.Again(&h.Reader)
	h.Token, h.Asserted = d.Text(), d.Int()
	h.Request = d.Text()
	d.Again(&h.Key)
	h.Tags = d.Text()
}

// heads appends what a book needs of rounds' and outcomes' canonical bytes, without decoding them.
func (d *decoder) heads(heads []roundHead, rounds []raw) []roundHead {
	for _, lazy := range rounds {
		heads = append(heads, roundHead{hash: sha256.Sum256(lazy.round)})
		h := &heads[len(heads)-1]
		in := decode(lazy.round)
		in.Byte()  // version
		in.Sized() // domain
		h.number = in.Uvarint()
		in.Fill(h.prev[:])
		out := decode(lazy.outcome)
		out.Byte() // version
		h.awards = out.Count(1)
		if in.Fault != "" || out.Fault != "" {
			d.Fail("a round cut short")
		}
	}
	return heads
}

// open decodes a round into one whose memory is used again.
func (x *raw) open(into *Round, s *market.Strings) error {
	d := decode(x.rest)
	d.Strings = s
	into.read(d, x.round, x.outcome)
	return d.end()
}

// positive reads an int64 that is never negative.
func (d *decoder) positive() int64 {
	x := d.Uvarint()
	if x > math.MaxInt64 {
		d.Fail("integer beyond 63 bits")
		return 0
	}
	return int64(x)
}

// listed reads a count, and then that many of at least least bytes each; nil for none.
func listed[T any](d *decoder, least int, read func() T) (all []T) {
	if n := d.Count(least); n > 0 && d.Fault == "" {
		all = make([]T, n)
	}
	for i := range all {
		all[i] = read()
	}
	return all
}

// within reads what has its length before it, to its end.
func (d *decoder) within(read func()) {
	n := d.Count(1)
	if d.Fault != "" {
		return
	}
	outer := d.Data
	d.Data = outer[:d.At+n]
	read()
	if d.At < len(d.Data) {
		d.Fail("bytes after the end of a part")
	}
	if d.Fault == "" {
		d.Data = outer
	}
}
