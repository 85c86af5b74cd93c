package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"souk/market"
)

// flow is what a record's legs, or a round's, move between the parties.
type flow struct {
	paid    market.Credits // by clients
	agents  market.Credits
	surplus market.Credits
	fee     market.Credits
	other   market.Credits // the outside and other journals
}

// add counts legs in; false if a sum does not fit.
func (f *flow) add(legs []Leg) bool {
	for _, l := range legs {
		var p *market.Credits
		amount := l.Amount
		switch {
		case strings.HasPrefix(l.Account, "client:"):
			p = &f.paid
			if amount == -amount && amount != 0 {
				return false
			}
			amount = -amount
		case strings.HasPrefix(l.Account, "agent:"):
			p = &f.agents
		case l.Account == Surplus:
			p = &f.surplus
		case l.Account == Fee:
			p = &f.fee
		default:
			p = &f.other
		}
		sum, ok := p.Add(amount)
		if !ok {
			return false
		}
		*p = sum
	}
	return true
}

// balanced reports whether payments = payouts + surplus + fees (+ what left or entered the journal).
func (f *flow) balanced() (market.Credits, bool) {
	s, ok := f.agents.Add(f.surplus)
	if ok {
		s, ok = s.Add(f.fee)
	}
	if ok {
		s, ok = s.Add(f.other)
	}
	return s, ok && s == f.paid
}

// roundSum is a round whose holds have not all ended.
type roundSum struct {
	open     int
	quoted   flow // had every award cost what was quoted
	realised flow
}

// conserve does the sums of level 3, from the legs and independently of the book's rules.
func (a *Audit) conserve(seq uint64, hold *Hold, applied bool) {
	r := &a.rec
	var f flow
	if !f.add(r.Legs) {
		a.wrong(LevelConservation, seq, "I15", r.ID, "sums within 64 bits", "legs %s", FormatLegs(r.Legs))
		return
	}
	if s, ok := f.balanced(); !ok && applied {
		// The book would have refused it: the two disagree.
		a.wrong(LevelConservation, seq, "I1", r.ID, fmt.Sprintf("payments of %s", f.paid),
			"payouts, surplus and fees of %s", s)
	}
	if !applied {
		return
	}
	switch r.Kind {
	case KindHold:
		a.quote(seq, r.Hold)
	case KindVoid:
		a.realise(seq, hold, &f)
	case KindCapture:
		a.realise(seq, hold, &f)
		if !a.tally(&f) {
			a.wrong(LevelConservation, seq, "I15", r.ID, "sums of the journal within 64 bits", "more")
		}
		if a.level >= LevelAcross {
			for _, l := range r.Legs {
				if client, ok := strings.CutPrefix(l.Account, "client:"); ok {
					client, _, _ = strings.Cut(client, ":")
					a.paid[client] -= l.Amount
				}
			}
		}
	}
}

func (a *Audit) tally(f *flow) bool {
	ok := true
	for _, s := range [...]struct {
		to *market.Credits
		by market.Credits
	}{{&a.out.Payments, f.paid}, {&a.out.Payouts, f.agents}, {&a.out.Surplus, f.surplus},
		{&a.out.Fees, f.fee}} {
		n, fits := s.to.Add(s.by)
		if ok = ok && fits; fits {
			*s.to = n
		}
	}
	return ok
}

// quote checks iemas Eq. 9 as quoted: what a round's clients would pay covers what its agents would be due. A
// premium is never negative, so it holds award by award.
func (a *Audit) quote(seq uint64, h *Hold) {
	s := a.rounds[h.Round]
	if s == nil {
		if n := len(a.spare); n > 0 {
			s, a.spare = a.spare[n-1], a.spare[:n-1]
			*s = roundSum{}
		} else {
			s = &roundSum{}
		}
		a.rounds[h.Round] = s
	}
	s.open++
	payment, ok := h.Quoted.Add(h.Premium)
	if !ok || payment-h.Quoted-h.Fee < 0 {
		a.wrong(LevelConservation, seq, "I5", HoldID(a.journal(), h.Round, h.Slot),
			fmt.Sprintf("a payment that covers the quoted cost of %s and the fee of %s (Eq. 9)", h.Quoted,
				h.Fee), "%s", payment)
		return
	}
	q := &s.quoted
	q.paid, q.agents, q.surplus, q.fee = q.paid+payment, q.agents+h.Quoted, q.surplus+h.Premium-h.Fee,
		q.fee+h.Fee
}

// realise counts the end of a hold. The end of a round's last hold closes the round's sums.
func (a *Audit) realise(seq uint64, h *Hold, f *flow) {
	if h == nil {
		return
	}
	s := a.rounds[h.Round]
	if s == nil {
		return
	}
	t := &s.realised
	t.paid, t.agents, t.surplus, t.fee = t.paid+f.paid, t.agents+f.agents, t.surplus+f.surplus, t.fee+f.fee
	if s.open--; s.open > 0 {
		return
	}
	delete(a.rounds, h.Round)
	a.spare = append(a.spare, s)
	for _, x := range [...]struct {
		flow *flow
		how  string
	}{{&s.quoted, "as quoted"}, {&s.realised, "as realised"}} {
		if sum, ok := x.flow.balanced(); !ok || x.flow.surplus < 0 || x.flow.fee < 0 || x.flow.agents < 0 {
			a.wrong(LevelConservation, seq, "I5", RoundID(a.journal(), h.Round),
				fmt.Sprintf("payments of %s, %s, = payouts + surplus + fees, none negative (Eq. 9)",
					x.flow.paid, x.how),
				"%s = %s + %s + %s", sum, x.flow.agents, x.flow.surplus, x.flow.fee)
		}
	}
}

// total does the sums over the whole journal.
func (a *Audit) total() {
	if a.level < LevelConservation {
		return
	}
	seq := a.book.head.Seq
	agents := a.book.sums(func(level int, invariant, expected, format string, args ...any) {
		a.wrong(level, seq, invariant, "", expected, format, args...)
	})
	if agents != a.out.Payouts {
		a.wrong(LevelConservation, seq, "I5", "", fmt.Sprintf("agents' accounts = payouts of %s", a.out.Payouts),
			"%s", agents)
	}
}

// sums looks at all accounts together, says what is wrong with them, and returns what is due to agents.
func (b *Book) sums(wrong func(level int, invariant, expected, format string, args ...any)) (
	agents market.Credits) {
	all, held := market.Credits(0), map[string]market.Credits{}
	for _, h := range b.open {
		held[Held(h.Client)] += h.Amount
	}
	for _, x := range b.Balances("") {
		all += x.Amount // it may overflow and come back: only whether the sum is 0 matters
		if x.Amount < 0 && !MayOwe(x.Account) {
			wrong(LevelConservation, "I2", x.Account+" of at least 0", "%s", x.Amount)
		}
		if strings.HasSuffix(x.Account, ":held") && x.Amount != held[x.Account] {
			wrong(LevelState, "I2", fmt.Sprintf("%s = the sum of open holds, %s", x.Account, held[x.Account]), "%s",
				x.Amount)
		}
		delete(held, x.Account)
		if strings.HasPrefix(x.Account, "agent:") {
			agents += x.Amount
		}
	}
	if all != 0 {
		wrong(LevelConservation, "I1", "a sum of 0 over all accounts", "%s", all)
	}
	for _, account := range slices.Sorted(maps.Keys(held)) {
		if held[account] != 0 {
			wrong(LevelState, "I2", fmt.Sprintf("%s = the sum of open holds, %s", account, held[account]),
				"no such account")
		}
	}
	return agents
}

// quoted recomputes a hold's quote from the tokens that were predicted and the price card (level 6).
func (a *Audit) quoted(seq uint64, h *Hold) {
	u := market.Usage{Prompt: h.Prompt, Cached: h.Cached, Output: h.Output}
	if want, ok := h.Price.Cost(u).Add(h.Tariff); !ok || want != h.Quoted {
		a.wrong(LevelMetering, seq, "I5", a.rec.ID,
			fmt.Sprintf("a quote of %s by the card of agent %s: %d prompt tokens of which %d cached, %d "+
				"output, tariff %s", want, clip(h.Agent), u.Prompt, u.Cached, u.Output, h.Tariff), "%s",
			h.Quoted)
	}
}

// meter recomputes a settlement from usage and price card (level 6), by the rule that hub and agent used.
func (a *Audit) meter(seq uint64, h *Hold) {
	c := a.rec.Capture
	want := market.SettleTariff(h.Settle, h.Price, h.Tariff, h.Quoted, c.Usage, h.Amount-h.Premium)
	if c.Cost != want {
		tariff := ""
		if h.Tariff > 0 {
			tariff = fmt.Sprintf(", tariff %s", h.Tariff)
		}
		a.wrong(LevelMetering, seq, "I5", a.rec.ID,
			fmt.Sprintf("a cost of %s: %s, %d prompt tokens of which %d cached, %d output%s", want, h.Settle,
				c.Usage.Prompt, c.Usage.Cached, c.Usage.Output, tariff), "%s", c.Cost)
	}
	if q := c.Claim; q != nil {
		lies := q.Lies(h, c.Unmetered, c.Cost)
		if len(lies) == 0 {
			lies = []string{"nothing that cannot be"}
		}
		a.wrong(LevelMetering, seq, "I5", a.rec.ID,
			fmt.Sprintf("an account of agent %s on hold %s that can be true", clip(h.Agent), clip(c.Hold)),
			"%s; it was settled at %s for %d prompt tokens of which %d cached, %d output",
			strings.Join(lies, "; "), c.Cost, c.Usage.Prompt, c.Usage.Cached, c.Usage.Output)
	}
	if least := min(h.Asserted, c.Usage.Prompt); c.Usage.Cached < least {
		a.wrong(LevelMetering, seq, "I5", a.rec.ID,
			fmt.Sprintf("at least %d cached tokens: agent %s got the task because it said that it holds %d",
				least, clip(h.Agent), h.Asserted), "%d", c.Usage.Cached)
	}
	if c.NoCacheReport && c.Usage.Cached != 0 {
		a.wrong(LevelMetering, seq, "I5", a.rec.ID, "no cached tokens, since the engine reported none", "%d",
			c.Usage.Cached)
	}
	if c.Usage.Output > h.MaxTokens && h.MaxTokens > 0 {
		a.wrong(LevelMetering, seq, "I4", a.rec.ID,
			fmt.Sprintf("at most %d output tokens, where the stream is cut", h.MaxTokens), "%d",
			c.Usage.Output)
	}
}
