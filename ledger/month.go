package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"souk/bus/tip"
	"souk/market"
)

// A month is closed by a record of the treasury with the trial balance of its journal, and with how far every
// hub's journal was by its last mark: so the balances of that hub's frames up to there belong to it. What
// comes later for a closed month is a correction, and says so: see [tip.Order].

// Month closes a month.
type Month struct {
	Month    string
	By       string // the operator
	Note     string
	Journals []Marked  // of hubs, by name
	Balances []Balance // of every account, but clients', and the sum of these
	Accounts uint64    // all of them
	Digest   [32]byte  // of all their balances: SHA-256 of lines "ACCOUNT UNITS\n", sorted
}

// Marked says how far a hub's journal was.
type Marked struct {
	Journal string
	Mark    tip.Mark
}

// clientsPrepaid is the line of a trial balance for what clients have with the treasury.
const clientsPrepaid = "client:*:prepaid"

// MonthID is the id of the record that closes a month.
func MonthID(month string) string { return "month/" + month }

// ClosedMonth is the last month that was closed, with all before it; "": none was.
func (b *Book) ClosedMonth() string { return b.head.Month }

// EndOf is the moment when a month is over, in Unix nanoseconds.
func EndOf(month string) int64 {
	t, err := time.Parse("2006-01", month)
	if err != nil {
		return 0
	}
	return t.AddDate(0, 1, 0).UnixNano()
}

// NewMonth closes a month in the treasury's book as it is now.
func (b *Book) NewMonth(month, by, note string, salt [16]byte) Record {
	m := b.trial()
	m.Month, m.By, m.Note = month, by, note
	return Record{Kind: KindMonth, ID: MonthID(month), Salt: salt, Month: &m}
}

// trial makes the trial balance of the book.
func (b *Book) trial() (m Month) {
	digest, clients := sha256.New(), Balance{Account: clientsPrepaid}
	for _, x := range b.Balances("") {
		fmt.Fprintf(digest, "%s %d\n", x.Account, int64(x.Amount))
		m.Accounts++
		if _, ok := PrepaidOf(x.Account); ok {
			clients.Amount += x.Amount // part of what was deposited
			continue
		}
		m.Balances = append(m.Balances, x)
	}
	m.Balances = append(m.Balances, clients)
	slices.SortFunc(m.Balances, func(x, y Balance) int { return cmp.Compare(x.Account, y.Account) })
	digest.Sum(m.Digest[:0])
	for _, name := range slices.Sorted(maps.Keys(b.Marks)) {
		m.Journals = append(m.Journals, Marked{name, b.Marks[name].Mark})
	}
	return m
}

// applyMonth closes a month, once, and in order.
func (b *Book) applyMonth(r *Record) error {
	m := r.Month
	no := func(err error, expected, format string, args ...any) error {
		return broken(err, "I22", r.ID, expected, format, args...)
	}
	switch {
	case !ValidMonth(m.Month) || r.ID != MonthID(m.Month):
		return no(ErrIllegal, "id month/ and a month like 2026-11", "%q", clip(r.ID))
	case m.Month <= b.head.Month:
		return no(ErrConflict, "a month after "+b.head.Month+", which is closed with all before it", "%s",
			m.Month)
	}
	if err := b.validOrder(r, &tip.Order{By: m.By, Note: m.Note}); err != nil {
		return err
	}
	if err := b.legsAre(r, nil); err != nil {
		return err
	}
	want := b.trial()
	switch {
	case !slices.Equal(m.Balances, want.Balances) || m.Accounts != want.Accounts || m.Digest != want.Digest:
		return no(ErrIllegal, fmt.Sprintf("the balances of %d accounts, %s", want.Accounts,
			FormatLegs(legsOf(want.Balances))),
			"%d accounts, %s", m.Accounts, FormatLegs(legsOf(m.Balances)))
	case !slices.Equal(m.Journals, want.Journals):
		return no(ErrIllegal, fmt.Sprintf("the last marks of %d hubs", len(want.Journals)), "others, of %d",
			len(m.Journals))
	}
	b.head.Month = m.Month // the head of before comes back with a refusal
	return nil
}

func legsOf(all []Balance) (legs []Leg) {
	for _, x := range all {
		legs = append(legs, Leg(x))
	}
	return legs
}

// Totals returns the debits and the credits of a trial balance: what accounts have, and what they owe.
func (m *Month) Totals() (debits, credits market.Credits) {
	for _, x := range m.Balances {
		debits, credits = debits+max(0, x.Amount), credits+max(0, -x.Amount)
	}
	return debits, credits
}

// tooSoon finds a month that was closed before it was over (level 2).
func (a *Audit) tooSoon(r *Record) {
	if h := &a.book.head; h.Time < EndOf(r.Month.Month) {
		a.wrong(LevelState, h.Seq, "I22", r.ID, "a month that is over", "it was closed on %s",
			time.Unix(0, h.Time).UTC().Format(time.RFC3339))
	}
}

// Corrects is the closed month that an order corrects, as it says itself; "": none.
func Corrects(o *tip.Order) string {
	if o == nil || o.Month == "" || strings.Compare(o.Month, o.Closed) > 0 {
		return ""
	}
	return o.Month
}

func appendMonth(b []byte, m *Month) []byte {
	b = binary.AppendUvarint(appendStrings(b, m.Month, m.By, m.Note), uint64(len(m.Journals)))
	for _, j := range m.Journals {
		b = appendMark(appendString(b, j.Journal), j.Mark)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Balances)))
	for _, x := range m.Balances {
		b = binary.AppendVarint(appendString(b, x.Account), int64(x.Amount))
	}
	return append(binary.AppendUvarint(b, m.Accounts), m.Digest[:]...)
}

func (d *decoder) month() *Month {
	m := &Month{Month: d.Name(), By: d.Name(), Note: d.Text(),
		Journals: listed(d, 2, func() Marked { return Marked{d.Name(), d.mark()} }),
		Balances: listed(d, 2, func() Balance { return Balance{d.Name(), d.Credits()} }),
		Accounts: d.Uvarint()}
	d.Fill(m.Digest[:])
	return m
}
