package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"souk/market"
)

// conserve does the sums of level 3 for a record that the book has taken, from the legs and independently of
// the book's rules: payments = earnings + surplus + fees, and what left or entered the journal. What holds
// for every record holds for every round (iemas Eq. 9).
func (a *Audit) conserve(seq uint64) {
	r := a.rec
	var paid, agents, surplus, fee, other market.Credits // a balance has room for each of them
	for _, l := range r.Legs {
		client, isClient := strings.CutPrefix(l.Account, "client:")
		switch {
		case isClient:
			paid -= l.Amount
			if end := r.Kind == KindCapture || r.Kind == KindRefund; end && a.level >= LevelAcross {
				client, _, _ = strings.Cut(client, ":")
				if a.paid[client] -= l.Amount; r.Kind == KindRefund {
					a.back[client] += l.Amount
				}
			}
		case strings.HasPrefix(l.Account, "agent:"):
			agents += l.Amount
		case l.Account == Surplus:
			surplus += l.Amount
		case l.Account == Fee:
			fee += l.Amount
		default:
			other += l.Amount
		}
	}
	if s := agents + surplus + fee + other; s != paid { // the book would have refused it: the two disagree
		a.wrong(LevelConservation, seq, "I1", r.ID, fmt.Sprintf("payments of %s", paid),
			"earnings, surplus and fees of %s", s)
	}
	a.agents += agents
	switch o := &a.out; r.Kind {
	case KindCapture:
		o.Payments, o.Earned = o.Payments+paid, o.Earned+agents
		o.Surplus, o.Fees = o.Surplus+surplus, o.Fees+fee
	case KindRemit:
		o.Remitted += r.Transfer.Amount
	case KindRefund:
		o.Refunded += r.Transfer.Amount
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
	if agents != a.agents {
		a.wrong(LevelConservation, seq, "I5", "",
			fmt.Sprintf("agents' accounts = what they earned and was not remitted, %s", a.agents), "%s",
			agents)
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
	want := market.Settle(h.Settle, h.Price, h.Tariff, h.Quoted, c.Usage, h.Amount-h.Premium)
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
	if u := c.Said; u != nil {
		a.wrong(LevelMetering, seq, "I5", a.rec.ID,
			fmt.Sprintf("a usage of agent %s's engine as by its token ids, which were paid: %d prompt "+
				"tokens "+
				"and %d output", clip(h.Agent), c.Usage.Prompt, c.Usage.Output), "%d and %d, %d cached",
			u.Prompt, u.Output, u.Cached)
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
