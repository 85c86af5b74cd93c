package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"souk/bus/tip"
	"souk/ledger"
	"souk/market"
)

// Statement is a client's account over a time, by all journals of its market: what it had, what came and
// went, and what it has. Money that only goes between the treasury and hubs is nothing of that.
type Statement struct {
	Client string
	Period
	Currency         string
	Opening, Closing market.Credits
	Lines            []Line   // in order of time, but for usage
	Usage            []Sum    // of tasks, by model
	Places           []Place  // where the closing balance is
	Ends             int64    // the last moment that is known, where no journal goes beyond the time; else 0
	open             []string // hubs of the market whose journals are here
}

// Line is money that came, or went where it is below 0, but for tasks.
type Line struct {
	Time   int64
	What   string // "deposit", "withdrawal", "transfer", "surplus", "refund", "lost"
	Record string
	About  string // the other client of a transfer; the hub of what was lost
	Note   string
	Amount market.Credits
}

// Place is a part of a client's money: an account of a journal, or what is under way to or from a hub.
type Place struct {
	Journal, Account string
	Amount           market.Credits
}

// stating makes a statement.
type stating struct {
	*Statement
	from, to int64
	journal  string
	names    [3]string // of the client's accounts
	here     map[[2]string]market.Credits
	away     map[string]market.Credits // under way, by hub
	models   map[string]*Sum
	opening  market.Credits
	all      market.Credits // what came, less what went, in the time
	known    bool
	beyond   bool // a journal goes on after the time
	alike    string
}

// State makes a client's statement. sources are all journals of the client's market.
func State(ctx context.Context, sources []*Source, client string, p Period) (*Statement, error) {
	s := &stating{Statement: &Statement{Client: client, Period: p},
		names: [3]string{ledger.Prepaid(client), ledger.Avail(client), ledger.Held(client)},
		here:  map[[2]string]market.Credits{}, away: map[string]market.Credits{}, models: map[string]*Sum{}}
	s.from, s.to = p.Bounds()
	treasuries := 0
	for _, src := range sources {
		if src.Role == ledger.RoleTreasury {
			s.Currency, treasuries = src.Currency, treasuries+1
		} else {
			s.open = append(s.open, src.Name)
		}
	}
	if treasuries != 1 {
		return nil, fmt.Errorf("a statement is of all journals of one market: there are %d of a treasury here",
			treasuries)
	}
	for _, src := range sources {
		s.journal = src.Name
		if err := src.Briefly(ctx, math.MinInt64, math.MaxInt64, s.add); err != nil {
			return nil, err
		}
	}
	if s.beyond {
		s.Ends = 0
	}
	if !s.known {
		return nil, (&asked{part: "client", name: client, alike: s.alike}).unknown()
	}
	return s.Statement, s.close()
}

// add takes in a fact.
func (s *stating) add(f *ledger.Fact) error {
	if f.Time >= s.to {
		s.beyond = true
		return ErrStop
	}
	r := f.Record
	s.Ends = max(s.Ends, f.Time)
	var own market.Credits
	for i := range r.Legs {
		l := &r.Legs[i]
		if !s.of(l.Account) {
			continue
		}
		key := [2]string{s.journal, l.Account}
		have := s.here[key]
		if err := cmp.Or(Add(&own, l.Amount), Add(&have, l.Amount)); err != nil {
			return err
		}
		s.here[key] = have
	}
	line := Line{Time: f.Time, Record: r.ID, Amount: own}
	switch {
	case r.Capture != nil:
		return s.paid(f, own)
	case r.Kind == ledger.KindWriteOff:
		return s.lost(line, r.WriteOff.Hub)
	case own == 0:
		return nil
	case r.Kind == ledger.KindGrant, r.Kind == ledger.KindReclaim, r.Kind == ledger.KindAccept,
		r.Kind == ledger.KindReturn:
		away := s.away[r.Transfer.Hub]
		err := Add(&away, -own)
		s.away[strings.Clone(r.Transfer.Hub)] = away
		return err
	case r.Kind == ledger.KindDeposit:
		line.What, line.Note = "deposit", said(r.Transfer)
	case r.Kind == ledger.KindPayout:
		line.What, line.Note = "withdrawal", said(r.Transfer)
	case r.Kind == ledger.KindRefund:
		line.What, line.About, line.Note = "refund", r.Transfer.Order.Receipt, said(r.Transfer)
	case r.Kind == ledger.KindMove:
		line.What, line.About = "transfer", r.Move.From
		if r.Move.From == s.Client {
			line.About = r.Move.To
		}
	case r.Kind == ledger.KindDistribute:
		line.What, line.About = "surplus", r.Transfer.Hub
	default:
		line.What = r.Kind.String()
	}
	return s.line(line)
}

// said returns an operator's reference and note for a transfer.
func said(t *ledger.Transfer) string {
	if t.Order == nil {
		return t.Note
	}
	return strings.TrimSpace(t.Order.Ref + " " + t.Order.Note)
}

// of reports whether an account is the client's.
func (s *stating) of(account string) bool {
	if account == s.names[0] || account == s.names[1] || account == s.names[2] {
		s.known = true
		return true
	}
	if !s.known && len(account) == len(s.names[0]) && strings.EqualFold(account, s.names[0]) {
		s.alike = account[len("client:") : len(account)-len(":prepaid")]
	}
	return false
}

// line takes a line in, or what it adds to the opening balance.
func (s *stating) line(l Line) error {
	if l.Time < s.from {
		return Add(&s.opening, l.Amount)
	}
	if len(s.Lines) == MostGroups {
		return fmt.Errorf("more than %d lines: choose a shorter time", MostGroups)
	}
	l.Record, l.About, l.Note = strings.Clone(l.Record), strings.Clone(l.About), strings.Clone(l.Note)
	s.Lines = append(s.Lines, l)
	return Add(&s.all, l.Amount)
}

// paid takes in a payment, by which so much came into the client's accounts.
func (s *stating) paid(f *ledger.Fact, own market.Credits) error {
	client, _, use, _ := f.Use()
	if client != s.Client {
		return nil
	}
	if own != -use.Paid {
		return fmt.Errorf("%s: %s moves %s of %s's, where %s is due: ledger check says more", s.journal, f.Record.ID,
			own, client, use.Paid)
	}
	if f.Time < s.from {
		return Add(&s.opening, own)
	}
	sum := s.models[use.Model]
	if sum == nil {
		model := strings.Clone(use.Model)
		sum = &Sum{Of: []string{model}, Use: tip.Use{Model: model}}
		s.models[model] = sum
	}
	return cmp.Or(sum.Add(&Sum{Use: use}), Add(&s.all, own))
}

// lost takes in that a hub's journal was written off: what of the client's money is under way to it has come
// back or is gone. What was spent there stands in that journal alone.
func (s *stating) lost(l Line, hub string) error {
	away := s.away[hub]
	if err := Add(&away, -l.Amount); err != nil {
		return err
	}
	s.away[hub] = away
	if slices.Contains(s.open, hub) || away == 0 {
		return nil
	}
	delete(s.away, hub)
	l.What, l.About, l.Amount = "lost", hub, -away
	return s.line(l)
}

// close makes both balances, and compares what there is with what came and went.
func (s *stating) close() error {
	for _, key := range slices.SortedFunc(maps.Keys(s.here), func(a, b [2]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		if amount := s.here[key]; amount != 0 {
			s.Places = append(s.Places, Place{key[0], key[1], amount})
		}
	}
	for _, hub := range slices.Sorted(maps.Keys(s.away)) {
		amount := s.away[hub]
		if amount != 0 && !slices.Contains(s.open, hub) {
			return fmt.Errorf("the journal of %s is not among these: %s of %s's money went there, and what was "+
				"spent of it is not known: name its directory, too", hub, amount, s.Client)
		}
		if amount != 0 {
			s.Places = append(s.Places, Place{hub, "under way", amount})
		}
	}
	for _, model := range slices.Sorted(maps.Keys(s.models)) {
		s.Usage = append(s.Usage, *s.models[model])
	}
	slices.SortStableFunc(s.Lines, func(a, b Line) int { return cmp.Compare(a.Time, b.Time) })
	for _, p := range s.Places {
		if err := Add(&s.Closing, p.Amount); err != nil {
			return err
		}
	}
	s.Opening = s.opening
	all := s.opening
	if err := Add(&all, s.all); err != nil {
		return err
	}
	if all != s.Closing {
		return fmt.Errorf("%s has %s, where %s is left of what came and went: ledger check says more", s.Client,
			s.Closing, all)
	}
	return nil
}
