package market

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Under vcg an agent is paid what its own price card says, so that it gains by asking more. Under tariff it
// is paid what a competitor asks: for an epoch of half a minute or so, the owners of one class of agents
// (model, precision, hardware) hand in sealed asks, the m lowest win, and each is paid, for every task and
// beside the metered cost, the ask of the first that lost (trade reduction; McAfee 1992). No winner's own ask
// enters what it is paid, and no client's report enters either who wins or the tariff, so that truth is best
// on both sides and clients' payments cover what agents are due.

// PricingTariff pays agents a tariff of their class, found for an epoch from sealed asks.
const PricingTariff = "tariff"

// MaxOwners bounds the owners of one epoch, MaxAsks the asks of one of them: one for each of its agents.
const (
	MaxOwners = 1 << 12
	MaxAsks   = 1 << 10
)

// Ask is an owner's price for every task served by an agent of the class, beside the metered cost.
type Ask struct {
	Owner  string
	Amount Credits
	Nonce  [16]byte // hides the amount until the ask is opened
}

// Seal commits an owner to an ask that nobody can read yet: SHA-256 over class, epoch and the ask.
func (a Ask) Seal(class string, epoch uint64) [32]byte {
	buf := binary.BigEndian.AppendUint64([]byte("souk ask 1\n"), epoch)
	for _, s := range []string{class, a.Owner} {
		buf = append(binary.BigEndian.AppendUint64(buf, uint64(len(s))), s...)
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(a.Amount))
	return sha256.Sum256(append(buf, a.Nonce[:]...))
}

// Sealed is an ask as it is handed in.
type Sealed struct {
	Owner string
	Seal  [32]byte
}

// Epoch is everything that a tariff depends on.
type Epoch struct {
	Class  string
	Number uint64
	// of the journal's last round before the first seal, as of [Round]: breaks ties, by what no ask enters
	Prev    [32]byte
	Ceiling Credits // R: higher asks are dropped; it is the tariff where no owner lost
	Winners int     // m, fixed from earlier epochs (NextWinners); 0: all
	Seals   []Sealed
	Opened  []Ask
	Lost    []string // owners that have no agent left: the epoch goes on as if they had never asked
}

// Tariff is the outcome of an epoch.
type Tariff struct {
	Class   string
	Epoch   uint64
	Amount  Credits  // paid for every task to every winner, beside the metered cost
	Winners []string // owners that sell, the lowest ask first
	Standby []string // owners that do not, the lowest ask first: who enters when a winner is lost
}

// Validate judges an epoch: its errors name the field and the limit.
func (e Epoch) Validate() error {
	if err := e.validate(); err != nil {
		return fmt.Errorf("epoch %d of %s: %w", e.Number, clip(e.Class), err)
	}
	return nil
}

func (e Epoch) validate() error {
	switch {
	case e.Class == "" || len(e.Class) > MaxID:
		return fmt.Errorf("class has %d bytes, want 1 to %d", len(e.Class), MaxID)
	case e.Ceiling < 0 || e.Ceiling > MaxWorth:
		return fmt.Errorf("ceiling is %s, want 0 to %s credits", e.Ceiling, MaxWorth)
	case e.Winners < 0 || e.Winners > MaxOwners:
		return fmt.Errorf("winners is %d, want 0 to %d", e.Winners, MaxOwners)
	case len(e.Lost) > MaxOwners:
		return fmt.Errorf("%d owners lost, want at most %d", len(e.Lost), MaxOwners)
	}
	sealed := make(map[string][][32]byte)
	for i, s := range e.Seals {
		if err := validateID(s.Owner); err != nil {
			return fmt.Errorf("seal %d: owner %w", i, err)
		}
		sealed[s.Owner] = append(sealed[s.Owner], s.Seal)
		if n := len(sealed[s.Owner]); n > MaxAsks {
			return fmt.Errorf("owner %s: more than %d asks", s.Owner, MaxAsks)
		}
	}
	if len(sealed) > MaxOwners {
		return fmt.Errorf("%d owners, want at most %d", len(sealed), MaxOwners)
	}
	for i, a := range e.Opened {
		if a.Amount < 0 || a.Amount > MaxWorth {
			return fmt.Errorf("ask %d of owner %s: %s, want 0 to %s credits",
				i, clip(a.Owner), a.Amount, MaxWorth)
		}
		at := slices.Index(sealed[a.Owner], a.Seal(e.Class, e.Number))
		if at < 0 {
			return fmt.Errorf("ask %d of owner %s: no seal fits it, or it was opened twice", i, clip(a.Owner))
		}
		sealed[a.Owner] = slices.Delete(sealed[a.Owner], at, at+1)
	}
	return nil
}

// bid is an owner's asks as one.
type bid struct {
	owner  string
	amount Credits
	tie    [32]byte
}

// bids takes the highest ask of each owner. So no owner sells by one agent and sets the tariff by another,
// and no agent is paid less than was asked for it. An owner that opened one ask must open all: else it could
// seal many, and open the one that suits it once the others' are known. Asks above the ceiling are dropped.
// The bids are sorted by amount, equal ones by a hash that no ask enters.
func (e Epoch) bids() []bid {
	left := make(map[string]int)
	for _, s := range e.Seals {
		left[s.Owner]++
	}
	merged := make(map[string]Credits)
	for _, a := range e.Opened {
		left[a.Owner]--
		merged[a.Owner] = max(merged[a.Owner], a.Amount)
	}
	var out []bid
	for owner, amount := range merged {
		if left[owner] > 0 || amount > e.Ceiling || slices.Contains(e.Lost, owner) {
			continue
		}
		key := append([]byte("souk tariff tie 1\n"), e.Prev[:lotBytes]...)
		key = binary.BigEndian.AppendUint64(key, e.Number)
		key = append(append(key, e.Class...), 0)
		out = append(out, bid{owner, amount, sha256.Sum256(append(key, owner...))})
	}
	slices.SortFunc(out, func(a, b bid) int {
		return cmp.Or(cmp.Compare(a.amount, b.amount), bytes.Compare(a.tie[:], b.tie[:]),
			cmp.Compare(a.owner, b.owner))
	})
	return out
}

// Clear finds the epoch's tariff: the m lowest owners win and are paid the next one's ask, or the ceiling
// where there is none. It fails only on an epoch that [Epoch.Validate] refuses.
func (e Epoch) Clear() (Tariff, error) {
	if err := e.Validate(); err != nil {
		return Tariff{}, err
	}
	bids := e.bids()
	m := len(bids)
	if e.Winners > 0 {
		m = min(m, e.Winners)
	}
	t := Tariff{Class: e.Class, Epoch: e.Number, Amount: e.Ceiling}
	if m < len(bids) {
		t.Amount = bids[m].amount
	}
	for i, b := range bids {
		if i < m {
			t.Winners = append(t.Winners, b.owner)
		} else {
			t.Standby = append(t.Standby, b.owner)
		}
	}
	return t, nil
}

// Without is the epoch after an owner lost its last agent. It is cleared again: the first owner on standby
// takes its place, and all are paid the ask of the next one. So it is still best to ask the truth. If the
// owner that steps in were paid its own ask, losing would pay.
func (e Epoch) Without(owner string) Epoch {
	e.Lost = append(slices.Clone(e.Lost), owner)
	return e
}

// CheckTariff verifies a tariff by what defines it, without sorting anything: every owner whose asks count
// stands in it once, in order, no winner asked more than the tariff, and the tariff is what the first loser
// asked. Its errors are ErrOutcome, or those of [Epoch.Validate].
func CheckTariff(e Epoch, t Tariff) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if err := e.check(t); err != nil {
		return fmt.Errorf("epoch %d of %s: %w: %w", e.Number, e.Class, ErrOutcome, err)
	}
	return nil
}

func (e Epoch) check(t Tariff) error {
	if t.Class != e.Class || t.Epoch != e.Number {
		return fmt.Errorf("a tariff of epoch %d of %s", t.Epoch, clip(t.Class))
	}
	asked := make(map[string]bid)
	for _, b := range e.bids() {
		asked[b.owner] = b
	}
	want := len(asked)
	if e.Winners > 0 {
		want = min(want, e.Winners)
	}
	if len(t.Winners) != want || len(t.Winners)+len(t.Standby) != len(asked) {
		return fmt.Errorf("%d winners and %d on standby, want %d and %d", len(t.Winners), len(t.Standby),
			want, len(asked)-want)
	}
	var last bid
	for i, owner := range slices.Concat(t.Winners, t.Standby) {
		b, ok := asked[owner]
		if !ok {
			return fmt.Errorf("owner %s: its asks do not count, or it stands there twice", clip(owner))
		}
		delete(asked, owner)
		if i > 0 && (b.amount < last.amount || b.amount == last.amount &&
			bytes.Compare(b.tie[:], last.tie[:]) < 0) {
			return fmt.Errorf("owner %s asked %s and stands behind %s, who asked %s", owner, b.amount,
				last.owner, last.amount)
		}
		if i == len(t.Winners) && t.Amount != b.amount {
			return fmt.Errorf("tariff is %s, want the %s that the first loser %s asked",
				t.Amount, b.amount, owner)
		}
		last = b
	}
	if len(t.Standby) == 0 && t.Amount != e.Ceiling {
		return fmt.Errorf("tariff is %s, want the ceiling %s, since nobody lost", t.Amount, e.Ceiling)
	}
	return nil
}

// ClassUse counts the use of one class in an earlier epoch.
type ClassUse struct {
	Slots []int // of every owner whose asks counted
	Peak  int   // most slots in use at once
}

// minOwners counts the independent owners that a class needs before one of them is left out. With fewer, the
// owner that is left out would set the tariff of nearly all that is sold.
const minOwners = 4

// NextWinners fixes how many owners win in the next epoch, from earlier epochs alone, so that no ask of the
// epoch itself has a say. For each earlier epoch it counts how many owners are needed until their slots cover
// the peak and a quarter more, whichever owners win; so it adds them up from the smallest. The largest count
// decides. 0 means that all owners win: a class had fewer than four owners, or no slack, or no epoch yet.
func NextWinners(past []ClassUse) int {
	m := 0
	for _, use := range past {
		if len(use.Slots) < minOwners || use.Peak < 0 || use.Peak > math.MaxInt/5 {
			return 0
		}
		slots := slices.Sorted(slices.Values(use.Slots))
		need, have, n := (use.Peak*5+3)/4, 0, 0
		for n < len(slots) && (have < need || n == 0) {
			have += min(max(slots[n], 0), MaxSlots)
			n++
		}
		if have < need || n == len(slots) {
			return 0
		}
		m = max(m, n)
	}
	return m
}

// Settle returns the sum that the client pays and the agent is due beside the premium: one integer, computed
// by the same function at the hub, at the agent and in the audit, so that no error of prediction can open a
// gap between the two (iemas Thm. 4.3). Under metered it is the price card on real usage plus the tariff, 0
// for none; under quoted it is the quote, which includes the tariff. It is at most costCap, the hold less its
// premium. An unknown rule settles as metered does.
func Settle(rule string, p Price, tariff, quoted Credits, u Usage, costCap Credits) Credits {
	cost := quoted
	if rule != SettleQuoted {
		var ok bool
		if cost, ok = p.Cost(u).Add(max(tariff, 0)); !ok {
			cost = MaxCredits
		}
	}
	return max(0, min(cost, costCap))
}

// SettlePremium returns what is due beside the cost. A premium is for a slot for as long as an answer takes,
// so under metered it follows the cost, all but the flat fee, and is no less than quoted where its client has
// cancelled. left is what the hold has beside the cost.
func SettlePremium(rule string, cancelled bool, premium, fee, quoted, cost, left Credits) Credits {
	if rule == SettleQuoted || quoted <= 0 || cancelled && cost < quoted {
		return premium
	}
	return min(fee+Part(premium-fee, int64(cost), int64(quoted)), left)
}
