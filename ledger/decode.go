package ledger

import (
	"fmt"
	"math"

	"souk/market"
)

// DecodeFrame reads what AppendFrame wrote and nothing else: canonical form, known kinds, no byte left over.
// It judges only the form; a Book judges the content. What it allocates is bounded by a small multiple of
// len(data). The frame shares no memory with data. Errors are ErrEncoding.
func DecodeFrame(data []byte) (Frame, error) {
	d := decoder{data: data}
	f := Frame{}
	n := d.header(&f)
	if d.fault == "" && n > 0 {
		f.Records = make([]Record, n)
		for i := range f.Records {
			if d.record(&f.Records[i], nil); d.fault != "" {
				break
			}
		}
	}
	if err := d.end(); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// minRecord is the least a record takes with its length: kind, salt, empty id, no legs.
const minRecord = 1 + 1 + 16 + 1 + 1

// decoder walks over bytes and remembers its first fault; after one it yields zeros.
type decoder struct {
	data   []byte
	at     int
	fault  string
	intern *interner // nil: every string is its own
	spare  []*Hold   // that nobody refers to any more
}

// fail notes the first fault and leaves nothing more to be read, so that the reads below need not ask.
func (d *decoder) fail(why string) {
	if d.fault == "" {
		d.fault = why
		d.data = d.data[:d.at]
	}
}

func (d *decoder) end() error {
	if d.at < len(d.data) {
		d.fail("bytes after the end")
	}
	if d.fault == "" {
		return nil
	}
	return fmt.Errorf("byte %d: %s: %w", d.at, d.fault, ErrEncoding)
}

// header reads a frame up to its records and returns their number.
func (d *decoder) header(f *Frame) int {
	if len(d.data) > MaxFrame {
		d.fail(fmt.Sprintf("more than %d bytes", MaxFrame))
		return 0
	}
	if v := d.bytes(1); len(v) == 1 {
		switch f.Version = v[0]; {
		case f.Version > FrameVersion:
			d.fail(fmt.Sprintf("version %d, and this release of souk reads up to %d: take a later one",
				f.Version, FrameVersion))
		case f.Version < FrameVersion:
			d.fail(fmt.Sprintf("version %d, want %d", f.Version, FrameVersion))
		}
	}
	f.Epoch = d.positive()
	f.Seq = d.uvarint()
	f.Time = d.positive()
	return d.count(minRecord)
}

// raw is what a lazy decoder leaves undecoded.
type raw struct{ round, outcome []byte }

// record reads one record with its length. With a raw, a round's bytes are left there, and what r.Capture and
// r.Void point to is used again.
func (d *decoder) record(r *Record, lazy *raw) {
	n := d.count(1)
	if d.fault != "" {
		return
	}
	outer := d.data
	d.data = outer[:d.at+n]
	if kind := d.bytes(1); len(kind) == 1 {
		r.Kind = Kind(kind[0])
	}
	copy(r.Salt[:], d.bytes(len(r.Salt)))
	r.ID = d.string()
	if legs := d.count(2); legs > 0 && d.fault == "" {
		if cap(r.Legs) >= legs {
			r.Legs = r.Legs[:legs]
		} else {
			r.Legs = make([]Leg, legs)
		}
		for i := range r.Legs {
			r.Legs[i] = Leg{d.name(), d.credits()}
		}
	} else {
		r.Legs = nil
	}
	capture, void := r.Capture, r.Void
	r.Capture, r.Void = nil, nil
	if lazy == nil || capture == nil || void == nil {
		capture, void = nil, nil
	}
	d.part(r, lazy, capture, void)
	if d.at < len(d.data) {
		d.fail("bytes after the record's end")
	}
	if d.fault == "" {
		d.data = outer
	}
}

func (d *decoder) part(r *Record, lazy *raw, c *Capture, v *Void) {
	switch r.Kind {
	case KindOpen:
		r.Open = &Open{Journal: d.string(), Role: d.string(), Domain: d.string(), Scale: d.varint()}
	case KindRound:
		round, outcome := d.sized(), d.sized()
		if d.fault != "" {
			return
		}
		if lazy != nil {
			lazy.round, lazy.outcome = round, outcome
			return
		}
		d.round(r, round, outcome)
	case KindHold:
		h := d.newHold()
		d.hold(h)
		r.Hold = h
	case KindCapture:
		if c == nil {
			c = &Capture{}
		}
		*c = Capture{Hold: d.string(), Outcome: d.name(), Finish: d.name(), Cost: d.credits(),
			Usage: market.Usage{Prompt: d.int(), Cached: d.int(), Output: d.int()}, TTFTUS: d.varint()}
		if flags := d.bytes(1); len(flags) == 1 {
			if flags[0] > 7 {
				d.fail("unknown flags")
			}
			c.Unmetered, c.NoCacheReport = flags[0]&1 != 0, flags[0]&2 != 0
			if flags[0]&4 != 0 {
				c.Claim = &Claim{Usage: market.Usage{Prompt: d.int(), Cached: d.int(), Output: d.int()},
					Relayed: d.int(), Most: d.int(), Cost: d.credits()}
			}
		}
		r.Capture = c
	case KindVoid:
		if v == nil {
			v = &Void{}
		}
		*v = Void{Hold: d.string(), Reason: d.name()}
		r.Void = v
	case KindDeposit, KindPayout, KindGrant, KindAccept, KindReturn, KindReclaim, KindDistribute:
		r.Transfer = &Transfer{Client: d.name(), Hub: d.name(), Note: d.string(), Number: d.uvarint(),
			Amount: d.credits()}
	case KindRefund, KindReverse:
		r.Correction = &Correction{Of: d.string(), Payer: d.name(), Reason: d.string(), Amount: d.credits()}
	case KindSeal, KindTariff:
		d.epoch(r)
	case KindClose:
	default:
		d.fail("unknown " + r.Kind.String())
	}
}

func (d *decoder) round(r *Record, round, outcome []byte) {
	r.Round = &Round{}
	var err error
	if r.Round.Round, err = market.DecodeRound(round); err == nil {
		r.Round.Outcome, err = market.DecodeOutcome(outcome)
	}
	if err != nil {
		d.fail(err.Error())
	}
}

func (d *decoder) epoch(r *Record) {
	r.Epoch = &Epoch{}
	var err error
	if epoch := d.sized(); d.fault == "" {
		r.Epoch.Epoch, err = market.DecodeEpoch(epoch)
	}
	if r.Kind == KindTariff {
		if tariff := d.sized(); d.fault == "" && err == nil {
			r.Epoch.Tariff, err = market.DecodeTariff(tariff)
		}
	} else {
		if n := d.count(1); n > 0 {
			r.Epoch.Use.Slots = make([]int, n)
			for i := range r.Epoch.Use.Slots {
				r.Epoch.Use.Slots[i] = d.int()
			}
		}
		r.Epoch.Use.Peak = d.int()
	}
	if err != nil {
		d.fail(err.Error())
	}
}

// newHold returns memory for a hold: that of one that has ended, where the decoder's owner handed it back.
func (d *decoder) newHold() *Hold {
	n := len(d.spare)
	if n == 0 {
		return new(Hold)
	}
	h := d.spare[n-1]
	d.spare = d.spare[:n-1]
	return h
}

func (d *decoder) hold(h *Hold) {
	h.Client, h.Task, h.Agent, h.Model, h.Kind, h.Settle = d.name(), d.string(), d.name(), d.name(), d.name(),
		d.name()
	h.Attempt = d.int()
	h.Round = d.uvarint()
	h.Slot = d.int()
	h.Amount, h.Premium, h.Fee, h.Quoted = d.credits(), d.credits(), d.credits(), d.credits()
	h.Price = market.Price{Miss: d.credits(), Hit: d.credits(), Out: d.credits()}
	h.Prompt, h.Cached, h.Output, h.MaxTokens = d.int(), d.int(), d.int(), d.int()
	h.Expires, h.Boot = d.varint(), d.varint()
	copy(h.Digest[:], d.bytes(len(h.Digest)))
	h.Tariff, h.Reader, h.Token = 0, "", ""
	if d.at == len(d.data) {
		return
	}
	if h.Tariff = d.credits(); d.at < len(d.data) {
		if h.Reader, h.Token = d.name(), d.string(); h.Reader == "" && h.Token == "" {
			d.fail("a reader and a token that are empty are not written")
		}
	} else if h.Tariff == 0 {
		d.fail("a tariff of 0 is not written")
	}
}

// roundHead reads what a book needs of a round's and an outcome's canonical bytes without decoding them.
func (d *decoder) roundHead(lazy *raw) roundHead {
	h := roundHead{hash: RoundHash(lazy.round)}
	in := decoder{data: lazy.round}
	in.bytes(1) // version
	in.sized()  // domain
	h.number = in.uvarint()
	copy(h.prev[:], in.bytes(len(h.prev)))
	out := decoder{data: lazy.outcome}
	out.bytes(1) // version
	h.awards = out.count(1)
	if in.fault != "" || out.fault != "" {
		d.fail("a round cut short")
	}
	return h
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.data)-d.at || d.fault != "" {
		d.fail("cut short")
		return nil
	}
	d.at += n
	return d.data[d.at-n : d.at]
}

func (d *decoder) uvarint() uint64 {
	if d.at < len(d.data) && d.data[d.at] < 0x80 { // most are one byte
		d.at++
		return uint64(d.data[d.at-1])
	}
	return d.longUvarint()
}

func (d *decoder) longUvarint() uint64 {
	if d.fault != "" {
		return 0
	}
	x, n, fault := market.Uvarint(d.data[d.at:])
	if fault != "" {
		d.fail(fault)
	}
	d.at += n
	return x
}

func (d *decoder) varint() int64 {
	x := d.uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

// positive reads an int64 that is never negative.
func (d *decoder) positive() int64 {
	x := d.uvarint()
	if x > math.MaxInt64 {
		d.fail("integer beyond 63 bits")
		return 0
	}
	return int64(x)
}

func (d *decoder) int() int                { return int(d.varint()) }
func (d *decoder) credits() market.Credits { return market.Credits(d.varint()) }

// count reads the number of items of at least least bytes each, which bounds what a hostile count can make
// us allocate.
func (d *decoder) count(least int) int {
	n := d.uvarint()
	if d.fault == "" && n > uint64((len(d.data)-d.at)/least) {
		d.fail("a length beyond what is left")
	}
	if d.fault != "" {
		return 0
	}
	return int(n)
}

// sized reads bytes with their length before them.
func (d *decoder) sized() []byte {
	n := d.uvarint()
	if n > uint64(len(d.data)-d.at) {
		d.fail("a length beyond what is left")
		return nil
	}
	d.at += int(n)
	return d.data[d.at-int(n) : d.at]
}

func (d *decoder) string() string { return string(d.sized()) }

// interner keeps one copy of strings that come again and again. A small table is asked before the map, since
// most names of a record are among the last few.
type interner struct {
	recent [512]string
	all    map[string]string
}

// maxInterned bounds the strings that are kept.
const maxInterned = 1 << 16

func (in *interner) string(b []byte) string {
	n := len(b)
	if n == 0 {
		return ""
	}
	// clients and agents differ in the middle of their accounts' names
	i := (uint(n)*131 + uint(b[n-1])*31 + uint(b[n/2])*17 + uint(b[n*3/4])*7 +
		uint(b[n/3])) % uint(len(in.recent))
	if s := in.recent[i]; s == string(b) {
		return s
	}
	s, ok := in.all[string(b)]
	if !ok {
		if len(in.all) >= maxInterned {
			clear(in.all)
		}
		s = string(b)
		in.all[s] = s
	}
	in.recent[i] = s
	return s
}

// name reads a string that probably comes again.
func (d *decoder) name() string {
	b := d.sized()
	if d.intern == nil {
		return string(b)
	}
	return d.intern.string(b)
}
