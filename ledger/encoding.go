package ledger

import (
	"encoding/binary"
	"errors"
	"slices"
	"souk/bus/tip"
	"strconv"
)

// The layout of a frame. An integer is an unsigned varint, or a zigzag varint where marked ±, in its
// shortest form; a string is its length and its bytes; a list is its count and its items. Every value has
// exactly one encoding, and the decoder takes no other, so that hashes over stored bytes mean something.
//
//	frame     version     1 byte, FrameVersion
//	          epoch       of the writer
//	          sequence    from 1 without gaps
//	          time        Unix nanoseconds
//	          records     list of: length in bytes, record
//
//	record    kind        1 byte, a Kind
//	          salt        16 bytes
//	          id          string
//	          legs        list of: account string, amount ±
//	          part        by kind, to the end of the record:
//
//	open      journal, role, domain strings; scale ±; the treasury's: currency string
//	round     length and canonical bytes of market.Round; the same of market.Outcome; canonical bytes of
//	          market.Ground; lists of what was expected, see appendSeen, of what policies set, see
//	          appendSets, and of who had waited, see appendWaited
//	hold      client, task, agent, model, kind, settle strings; attempt ±; round; slot ±;
//	          amount ±, premium ±, fee ±, quoted ±; price miss ±, hit ±, out ±;
//	          prompt ±, cached ±, output ±, max tokens ±; expires ±; boot ±;
//	          digest 16 bytes; tariff ±; reader, token strings; asserted ±;
//	          request, key, tags strings
//	capture   hold, outcome, finish strings; cost ±; usage prompt ±, cached ±, output ±; ttft ±;
//	          flags 1 byte: 1 unmetered, 2 no cache report, 4 a claim follows: prompt ±, cached ±, output ±,
//	          relayed ±, most ±, cost ±
//	void      hold, reason strings
//	transfer  client, hub, note strings; number; amount ±; what doors vouched for, see appendVouched; of
//	          deposits, payouts and orders to hubs: what an operator said, see appendOrder
//	epoch     length and canonical bytes of market.Epoch; of a seal: slots list of ±, peak ±;
//	          of a tariff: length and canonical bytes of market.Tariff
//	move      from, to strings; period; part; amount ±; rest ±; of an operator's: what the operator said
//	budget    client, of, every strings; number; amount ±
//	mark      journal string; number; the journal's checksum 16 bytes, sequence, checksum 16 bytes;
//	          spent, list of: client, amount ±
//	writeoff  hub string; mark as above; back ±, lost ±
//	month     month, by, note strings; lists of: hub, mark as above; account, amount ±; accounts; digest 32
//
// bytes
//
//	close     nothing
const FrameVersion = 1

// MaxFrame bounds a frame in bytes: above the largest round of a hub, small enough to be read into memory.
const MaxFrame = 32 << 20

// ErrEncoding marks bytes that are not the encoding of any frame.
var ErrEncoding = errors.New("not a frame")

// AppendFrame appends a frame's bytes to b; it allocates only where b is too short.
func AppendFrame(b []byte, f *Frame) []byte {
	b = append(b, f.Version)
	b = binary.AppendUvarint(b, uint64(f.Epoch))
	b = binary.AppendUvarint(b, f.Seq)
	b = binary.AppendUvarint(b, uint64(f.Time))
	b = binary.AppendUvarint(b, uint64(len(f.Records)))
	for i := range f.Records {
		b = appendSized(b, func(b []byte) []byte { return AppendRecord(b, &f.Records[i]) })
	}
	return b
}

// AppendRecord appends a record's bytes to b; [Leaves] has those of the Merkle tree's leaves.
func AppendRecord(b []byte, r *Record) []byte {
	b = append(b, byte(r.Kind))
	b = append(b, r.Salt[:]...)
	b = appendString(b, r.ID)
	b = binary.AppendUvarint(b, uint64(len(r.Legs)))
	for _, l := range r.Legs {
		b = appendString(b, l.Account)
		b = binary.AppendVarint(b, int64(l.Amount))
	}
	return appendPart(b, r)
}

// appendPart appends what a record says, without id, legs and salt.
func appendPart(b []byte, r *Record) []byte {
	switch {
	case r.Open != nil:
		b = appendStrings(b, r.Open.Journal, r.Open.Role, r.Open.Domain)
		b = binary.AppendVarint(b, r.Open.Scale)
		if r.Open.Role == RoleTreasury {
			b = appendString(b, r.Open.Currency)
		}
	case r.Round != nil:
		// a list that grows bit by bit is copied several times
		x := &r.Round.Round
		b = slices.Grow(b, 256+32*(len(x.Tasks)+len(x.Edges)+len(x.Others)+len(r.Round.Outcome.Awards)))
		b = appendSized(b, x.AppendCanonical)
		b = appendSized(b, r.Round.Outcome.AppendCanonical)
		b = appendSeen(r.Round.Ground.AppendCanonical(b), r.Round.Seen)
		b = appendWaited(appendSets(b, r.Round.Set), r.Round.Waited)
	case r.Hold != nil:
		b = appendHold(b, r.Hold)
	case r.Capture != nil:
		c := r.Capture
		b = appendStrings(b, c.Hold, c.Outcome, c.Finish)
		b = appendInts(b, int64(c.Cost), int64(c.Usage.Prompt), int64(c.Usage.Cached), int64(c.Usage.Output),
			c.TTFTUS)
		b = append(b, flag(c.Unmetered, 1)|flag(c.NoCacheReport, 2)|flag(c.Claim != nil, 4)|
			flag(c.Said != nil, 8))
		if q := c.Claim; q != nil {
			b = appendInts(b, int64(q.Usage.Prompt), int64(q.Usage.Cached), int64(q.Usage.Output),
				int64(q.Relayed), int64(q.Most), int64(q.Cost))
		}
		if u := c.Said; u != nil {
			b = appendInts(b, int64(u.Prompt), int64(u.Cached), int64(u.Output))
		}
	case r.Void != nil:
		b = appendStrings(b, r.Void.Hold, r.Void.Reason)
	case r.Transfer != nil:
		t := r.Transfer
		b = appendStrings(b, t.Client, t.Hub, t.Note)
		b = binary.AppendUvarint(b, t.Number)
		b = appendVouched(binary.AppendVarint(b, int64(t.Amount)), t.Vouched)
		if r.Kind.hasOrder() {
			b = appendOrder(b, t.Order)
		}
	case r.Epoch != nil:
		b = appendSized(b, r.Epoch.Epoch.AppendCanonical)
		if r.Kind == KindTariff {
			return appendSized(b, r.Epoch.Tariff.AppendCanonical)
		}
		b = binary.AppendUvarint(b, uint64(len(r.Epoch.Use.Slots)))
		for _, n := range r.Epoch.Use.Slots {
			b = binary.AppendVarint(b, int64(n))
		}
		b = binary.AppendVarint(b, int64(r.Epoch.Use.Peak))
	case r.Move != nil:
		m := r.Move
		b = appendStrings(b, m.From, m.To)
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.Period), m.Part)
		if b = appendInts(b, int64(m.Amount), int64(m.Rest)); m.Period == 0 && m.Part == 0 {
			b = appendOrder(b, m.Order)
		}
	case r.Budget != nil:
		b = appendBudget(b, r.Budget)
	case r.Noted != nil:
		n := r.Noted
		b = appendMark(binary.AppendUvarint(appendString(b, n.Journal), n.Number), n.Mark)
		b = binary.AppendUvarint(b, uint64(len(n.Spent)))
		for _, s := range n.Spent {
			b = binary.AppendVarint(appendString(b, s.Client), int64(s.Amount))
		}
	case r.Month != nil:
		b = appendMonth(b, r.Month)
	case r.WriteOff != nil:
		w := r.WriteOff
		b = appendInts(appendMark(appendString(b, w.Hub), w.Mark), int64(w.Back), int64(w.Lost))
	}
	return b
}

func appendHold(b []byte, h *Hold) []byte {
	b = appendStrings(b, h.Client, h.Task, h.Agent, h.Model, h.Kind, h.Settle)
	b = binary.AppendVarint(b, int64(h.Attempt))
	b = binary.AppendUvarint(b, h.Round)
	b = appendInts(b, int64(h.Slot), int64(h.Amount), int64(h.Premium), int64(h.Fee), int64(h.Quoted),
		int64(h.Price.Miss), int64(h.Price.Hit), int64(h.Price.Out),
		int64(h.Prompt), int64(h.Cached), int64(h.Output), int64(h.MaxTokens), h.Expires, h.Boot)
	b = binary.AppendVarint(append(b, h.Digest[:]...), int64(h.Tariff))
	b = binary.AppendVarint(appendStrings(b, h.Reader, h.Token), int64(h.Asserted))
	return appendStrings(b, h.Request, h.Key, h.Tags)
}

func appendBudget(b []byte, u *Budget) []byte {
	b = binary.AppendUvarint(appendStrings(b, u.Client, u.Of, u.Every), u.Number)
	return binary.AppendVarint(b, int64(u.Amount))
}

func appendMark(b []byte, m tip.Mark) []byte {
	b = binary.AppendUvarint(append(b, m.Journal[:]...), m.Seq)
	return append(b, m.Sum[:]...)
}

// appendSized appends what f appends, with its length before it.
func appendSized(b []byte, f func([]byte) []byte) []byte {
	// The length's own length is known only afterwards: leave two bytes, enough up to 16 KB, and move if it
	// takes more or less.
	const guess = 2
	start := len(b)
	b = f(append(b, make([]byte, guess)...))
	n := len(b) - start - guess
	var size [binary.MaxVarintLen64]byte
	w := binary.PutUvarint(size[:], uint64(n))
	switch {
	case w > guess:
		b = append(b, size[:w-guess]...)
		copy(b[start+w:], b[start+guess:start+guess+n])
	case w < guess:
		copy(b[start+w:], b[start+guess:])
		b = b[:start+w+n]
	}
	copy(b[start:], size[:w])
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, list ...string) []byte {
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func appendInts(b []byte, list ...int64) []byte {
	at, most := len(b), len(b)+binary.MaxVarintLen64*len(list)
	b = slices.Grow(b, most-at)[:most]
	for _, n := range list {
		at += binary.PutVarint(b[at:], n)
	}
	return b[:at]
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

var kindNames = [...]string{
	KindOpen: "open", KindRound: "round", KindHold: "hold", KindCapture: "capture", KindVoid: "void",
	KindDeposit: "deposit", KindPayout: "payout",
	KindGrant:  "grant",
	KindAccept: "accept", KindReturn: "return", KindReclaim: "reclaim", KindDistribute: "distribute",
	KindClose: "close",
	KindSeal:  "seal", KindTariff: "tariff", KindMove: "move", KindBudget: "budget",
	KindMark: "mark", KindWriteOff: "writeoff", KindRemit: "remit", KindRefund: "refund",
	KindMonth: "month",
}

// KindNames lists the names of all kinds, as String has them.
func KindNames() []string {
	return slices.DeleteFunc(slices.Clone(kindNames[:]), func(name string) bool { return name == "" })
}

// String names a kind in lower case, as commands print it.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// FormatLegs writes legs in one line: "client:a:avail -0.5, client:a:held 0.5".
func FormatLegs(legs []Leg) string {
	if len(legs) == 0 {
		return "none"
	}
	var b []byte
	for i, l := range legs {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, clip(l.Account)...)
		b = append(b, ' ')
		b = append(b, l.Amount.String()...)
	}
	return string(b)
}
