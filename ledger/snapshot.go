package ledger

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"souk/bus/tip"
	"souk/market"
)

// The layout of a book in a snapshot: integers and strings as in a frame, lists in one order only, so that
// equal books have equal bytes.
//
//	head      journal, role, domain strings; closed 1 byte; its checksum 16 bytes; sequence, and that of its
//	          own mark; epoch; time; round; its hash 32 bytes; its awards
//	accounts  list, by name, of: name, amount ±
//	open      list, by round and slot, of: length in bytes, hold as in a frame
//	ended     list, the oldest first, of: round and slot packed; digest 8 bytes; kind 1 byte
//	transfers list, the oldest first, of: id; kind 1 byte; client; amount ±; note 8 bytes
//	hubs      list, by name, of: name; last grant, return and distribution; the last one's client and
//	          amount ±; ended 1 byte, 2 where it was written off
//	allotted  list, by client and hub, of: client, hub, amount ±; list, by door and line, of: door; line;
//	          total ±; where there are some, what is left ±
//	classes   list, by name, of: name; lengths and canonical bytes of the epochs sealed and cleared and of
//	          the tariff; uses that count, list of them; the last one; the next one's tie-break 32 bytes
//	budgets   list, by client, of: the budget as in a frame; ended 1 byte; its last period, and the parts of
//	          it; due ±; parts that went back
//	marks     list, by journal, of: journal; number; mark as in a frame
//	spent     list, by client and hub, of: client, hub, amount ±

// appendBook appends what the book holds to dst.
func (b *Book) appendBook(dst []byte) []byte {
	h := &b.head
	dst = appendStrings(dst, h.journal, h.role, h.domain)
	dst = append(dst, flag(h.closed, 1))
	dst = append(dst, h.id[:]...)
	for _, n := range [...]uint64{h.seq, h.said, uint64(h.epoch), uint64(h.time), h.round} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = append(dst, h.hash[:]...)
	dst = binary.AppendUvarint(dst, uint64(h.awards))

	dst = binary.AppendUvarint(dst, uint64(len(b.accounts)))
	for _, name := range slices.Sorted(maps.Keys(b.accounts)) {
		dst = binary.AppendVarint(appendString(dst, name), int64(b.accounts[name].amount))
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.open)))
	for _, k := range slices.Sorted(maps.Keys(b.open)) {
		dst = appendSized(dst, func(dst []byte) []byte { return appendHold(dst, b.open[k]) })
	}
	dst = binary.AppendUvarint(dst, uint64(b.past.len()))
	for p := b.past.first; p < b.past.next; p++ {
		e := b.past.at(p)
		dst = binary.LittleEndian.AppendUint64(binary.AppendUvarint(dst, uint64(e.key)), e.digest)
		dst = append(dst, byte(e.kind))
	}
	dst = binary.AppendUvarint(dst, uint64(b.opsQ.len()))
	for _, id := range b.opsQ.items[b.opsQ.first:] {
		o := b.ops[id]
		dst = appendString(append(appendString(dst, id), byte(o.kind)), o.client)
		dst = binary.LittleEndian.AppendUint64(binary.AppendVarint(dst, int64(o.amount)), o.note)
	}
	hubs := b.Hubs()
	dst = binary.AppendUvarint(dst, uint64(len(hubs)))
	for _, name := range hubs {
		c := b.hubs[name]
		dst = appendString(dst, name)
		for _, n := range [...]uint64{c.grant, c.giveBack, c.distribute} {
			dst = binary.AppendUvarint(dst, n)
		}
		dst = binary.AppendVarint(appendString(dst, c.payee), int64(c.share))
		dst = append(dst, flag(c.ended, 1)+flag(c.lost, 1))
	}
	return b.appendMarks(b.appendBudgets(b.appendClasses(b.appendAllotted(dst))))
}

func (b *Book) appendBudgets(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.budgets)))
	for _, name := range b.Budgeted() {
		u := b.budgets[name]
		dst = append(appendBudget(dst, &u.Budget), flag(u.Ended, 1))
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, u.Period), u.Parts)
		dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(u.Due)), u.Backs)
	}
	return dst
}

func (b *Book) appendMarks(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.marks)))
	for _, name := range b.marked() {
		x := b.marks[name]
		dst = appendMark(binary.AppendUvarint(appendString(dst, name), x.number), x.mark)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.spent)))
	for _, k := range slices.SortedFunc(maps.Keys(b.spent), comparePair) {
		dst = binary.AppendVarint(appendStrings(dst, k[:]...), int64(b.spent[k]))
	}
	return dst
}

func comparePair(x, y [2]string) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }

func (b *Book) appendAllotted(dst []byte) []byte {
	keys := slices.SortedFunc(maps.Keys(b.allotted), comparePair)
	keys = slices.DeleteFunc(keys, func(k [2]string) bool { return k[1] == "" }) // the sums of the others
	dst = binary.AppendUvarint(dst, uint64(len(keys)))
	for _, k := range keys {
		dst = binary.AppendVarint(appendStrings(dst, k[:]...), int64(*b.allotted[k]))
		dst = appendVouched(dst, b.vouched[k])
	}
	return dst
}

func (b *Book) appendClasses(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.classes)))
	for _, name := range slices.Sorted(maps.Keys(b.classes)) {
		c := b.classes[name]
		dst = appendString(dst, name)
		dst = appendSized(dst, c.sealed.AppendCanonical)
		dst = appendSized(dst, c.cleared.AppendCanonical)
		dst = appendSized(dst, c.tariff.AppendCanonical)
		dst = binary.AppendUvarint(dst, uint64(len(c.past)))
		for _, u := range c.past {
			dst = appendUse(dst, u)
		}
		dst = append(appendUse(dst, c.use), c.prev[:]...)
	}
	return dst
}

func appendUse(dst []byte, u market.ClassUse) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(u.Slots)))
	for _, n := range u.Slots {
		dst = binary.AppendVarint(dst, int64(n))
	}
	return binary.AppendVarint(dst, int64(u.Peak))
}

// book reads what appendBook wrote, and judges whether a journal's records could have led to it. That proves
// nothing of the journal, but no account is short, and every hold is covered.
func (d *decoder) book() *Book {
	b := NewBook()
	h := &b.head
	h.journal, h.role, h.domain = d.Text(), d.Text(), d.Text()
	h.closed = d.bit()
	d.Fill(h.id[:])
	h.seq, h.said, h.epoch, h.time, h.round = d.Uvarint(), d.Uvarint(), d.positive(), d.positive(),
		d.Uvarint()
	d.Fill(h.hash[:])
	h.awards = int(min(d.Uvarint(), maxSlots+1))
	h.held = h.awards
	if d.Fault == "" && (!ValidID(h.journal) || h.role != RoleHub && h.role != RoleTreasury ||
		len(h.domain) > maxText || h.seq == 0 || h.said == 0 || h.said > h.seq || h.id == tip.Sum{} ||
		h.round > maxRound || h.awards > maxSlots) {
		d.Fail("no journal's head")
	}
	d.accounts(b)
	d.holds(b)
	d.ended(b)
	d.transfers(b)
	d.hubs(b)
	d.classes(b)
	d.budgets(b)
	d.marks(b)
	return b
}

func (d *decoder) bit() bool {
	v := d.Byte()
	if v > 1 {
		d.Fail("neither 0 nor 1")
	}
	return v == 1
}

func (d *decoder) word() (w uint64) {
	if v := d.Bytes(8); len(v) == 8 {
		w = binary.LittleEndian.Uint64(v)
	}
	return w
}

func (d *decoder) accounts(b *Book) {
	sum, before := market.Credits(0), ""
	for n := d.Count(2); n > 0 && d.Fault == ""; n-- {
		name, amount := d.Text(), d.Credits()
		var ok bool
		if sum, ok = sum.Add(amount); !ok || name <= before || amount < 0 && !MayOwe(name) {
			d.Fail("an account out of order, or short")
		}
		b.accounts[name], before = &account{amount}, name
	}
	if sum != 0 {
		d.Fail("accounts that do not sum to 0")
	}
}

func (d *decoder) holds(b *Book) {
	held := map[string]market.Credits{}
	last := slotKey(0)
	for n := d.Count(2); n > 0 && d.Fault == ""; n-- {
		h := new(Hold)
		d.within(func() { d.hold(h) })
		if d.Fault != "" {
			return
		}
		k, ok := keyOf(h.Round, h.Slot)
		sum, fits := held[Held(h.Client)].Add(h.Amount)
		if !ok || !fits || h.valid("") != nil || len(b.open) > 0 && k <= last || h.Round > b.head.round {
			d.Fail("a hold that cannot be open")
			return
		}
		b.open[k], held[Held(h.Client)], last = h, sum, k
	}
	for name, amount := range held {
		if b.Balance(name) != amount {
			d.Fail("holds that the account does not cover")
		}
	}
	for name, a := range b.accounts {
		if strings.HasSuffix(name, ":held") && a.amount != held[name] {
			d.Fail("money held for nothing")
		}
	}
}

func (d *decoder) ended(b *Book) {
	n := d.Count(10)
	if n > RememberEnded {
		d.Fail("too many ended holds")
	}
	for ; n > 0 && d.Fault == ""; n-- {
		e := ended{slotKey(d.Uvarint()), d.word(), Kind(d.Byte())}
		_, again := b.ended[e.key]
		if b.open[e.key] != nil || again || e.kind != KindCapture && e.kind != KindVoid ||
			e.key.round() > b.head.round || e.key.slot() >= maxSlots {
			d.Fail("a hold that cannot have ended so")
			return
		}
		b.ended[e.key] = b.past.push(e)
	}
}

func (d *decoder) transfers(b *Book) {
	n := d.Count(12)
	if n > RememberOps {
		d.Fail("too many transfers")
	}
	for ; n > 0 && d.Fault == ""; n-- {
		id := d.Text()
		o := op{kind: Kind(d.Byte())}
		o.client, o.amount, o.note = d.name(), d.Credits(), d.word()
		if _, again := b.ops[id]; again || id == "" || len(id) > maxText || o.amount <= 0 || o.client != "" &&
			!ValidID(o.client) {
			d.Fail("no transfer")
			return
		}
		b.ops[id] = o
		b.opsQ.push(id)
	}
}

func (d *decoder) hubs(b *Book) {
	before := ""
	for n := d.Count(4); n > 0 && d.Fault == ""; n-- {
		name := d.Text()
		c := &counters{grant: d.Uvarint(), giveBack: d.Uvarint(), distribute: d.Uvarint(), payee: d.name(),
			share: d.Credits()}
		ended := d.Byte()
		c.ended, c.lost = ended > 0, ended > 1
		if ended > 2 || name <= before || !ValidID(name) || *c == (counters{}) || c.share < 0 ||
			c.payee != "" && !ValidID(c.payee) {
			d.Fail("no hub, or one out of order")
		}
		b.hubs[name], before = c, name
	}
	last := [2]string{}
	for n := d.Count(4); n > 0 && d.Fault == ""; n-- {
		k, amount := [2]string{d.name(), d.name()}, d.Credits()
		if v := d.vouched(); v != nil {
			if v.Left < 0 || v.Left > market.MaxCredits || len(v.Doors) > MaxVouched || v.odd() != nil {
				d.Fail("nothing that doors vouched for")
			}
			b.vouched[k] = v
		}
		if comparePair(last, k) >= 0 || !ValidID(k[0]) ||
			!ValidID(k[1]) || amount < 0 {
			d.Fail("no allotment, or one out of order")
			return
		}
		sum := b.allotted[[2]string{k[0], ""}]
		if sum == nil {
			sum = new(market.Credits)
			b.allotted[[2]string{k[0], ""}] = sum
		}
		var ok bool
		if *sum, ok = sum.Add(amount); !ok {
			d.Fail("allotments beyond 64 bits")
		}
		b.allotted[k], last = &amount, k
	}
}

func (d *decoder) classes(b *Book) {
	n := d.Count(40)
	if n > maxClasses {
		d.Fail("too many classes")
	}
	for before := ""; n > 0 && d.Fault == ""; n-- {
		name := d.Text()
		c := &class{}
		var errs [3]error
		sealed, cleared, tariff := d.Sized(), d.Sized(), d.Sized()
		if d.Fault != "" {
			return
		}
		c.sealed, errs[0] = market.DecodeEpoch(sealed)
		c.cleared, errs[1] = market.DecodeEpoch(cleared)
		c.tariff, errs[2] = market.DecodeTariff(tariff)
		past := d.Count(2)
		if past > pastEpochs {
			d.Fail("too many epochs")
			return
		}
		for range past {
			c.past = append(c.past, d.use())
		}
		c.use = d.use()
		d.Fill(c.prev[:])
		if slices.ContainsFunc(errs[:], func(err error) bool { return err != nil }) || name <= before &&
			len(b.classes) > 0 || c.sealed.Number == 0 ||
			c.sealed.Class != name || c.sealed.Validate() != nil || c.cleared.Number > c.sealed.Number ||
			c.cleared.Number > 0 &&
				(c.cleared.Class != name || c.cleared.Validate() != nil || c.tariff.Class != name) {
			d.Fail("no class, or one out of order")
			return
		}
		b.classes[name], before = c, name
		if c.cleared.Number > 0 {
			b.tariffs = append(b.tariffs, c.tariff)
		}
	}
}

func (d *decoder) budgets(b *Book) {
	before := ""
	for n := d.Count(10); n > 0 && d.Fault == ""; n-- {
		u := &Allowance{}
		d.budget(&u.Budget)
		u.Ended, u.Period, u.Parts, u.Due, u.Backs = d.bit(), d.Uvarint(), d.Uvarint(), d.Credits(),
			d.Uvarint()
		if u.Client <= before || !ValidID(u.Client) || !ValidID(u.Of) || u.Number == 0 ||
			b.accounts[Prepaid(u.Client)] == nil || u.Amount < 0 || u.Ended != (u.Amount == 0) ||
			u.Due < 0 || u.Due > market.MaxCredits || u.Ended && u.Due > 0 {
			d.Fail("no budget, or one out of order")
			return
		}
		b.budgets[u.Client], before = u, u.Client
	}
}

// marks reads how far other journals are, and what was spent at hubs by that.
func (d *decoder) marks(b *Book) {
	before := ""
	for n := d.Count(35); n > 0 && d.Fault == ""; n-- {
		name := d.Text()
		x := &noted{number: d.Uvarint(), mark: d.mark()}
		if name <= before || !ValidID(name) || x.number == 0 || !x.mark.Valid() ||
			x.mark.Journal == b.head.id {
			d.Fail("no mark, or one out of order")
			return
		}
		b.marks[name], before = x, name
	}
	last := [2]string{}
	for n := d.Count(3); n > 0 && d.Fault == ""; n-- {
		k, amount := [2]string{d.name(), d.name()}, d.Credits()
		if comparePair(last, k) >= 0 || b.marks[k[1]] == nil || amount <= 0 || amount > b.Allotted(k[0],
			k[1]) {
			d.Fail("nothing that was spent, or out of order")
			return
		}
		b.spent[k], last = amount, k
	}
}

// use reads how a class went.
func (d *decoder) use() (u market.ClassUse) {
	if n := d.Count(1); n > 0 {
		u.Slots = make([]int, n)
		for i := range u.Slots {
			u.Slots[i] = d.Int()
		}
	}
	u.Peak = d.Int()
	return u
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
