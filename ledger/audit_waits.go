package ledger

import (
	"cmp"
	"slices"

	"souk/market"
)

// WaitRounds is how many rounds back the slot price may lie that a task's wait names (market.Wait.Round): a
// hub that knows none of the last so many rounds names round 0 and no price.
const WaitRounds = 1 << 16

// maxPriced bounds the prices that an audit keeps, at 40 bytes each. A wait that names one of before is
// counted in Report.Distant and not judged.
const maxPriced = 1 << 19

// priced is a slot price above 0 that was recorded: of one more slot at an agent's first tier. Where there is
// none the price is 0, whether the agent's slots were worth nothing to others or it was not in the round.
type priced struct {
	round uint64
	agent string
	price market.Credits
}

// prices remembers the slot prices of the last rounds.
type prices struct {
	last  []priced
	known uint64 // those of every later round are here
}

// note keeps the prices of a round.
func (p *prices) note(r *market.Round, list []market.SlotPrice, in *interner) {
	for _, x := range list {
		if x.Tier == 0 && x.Agent >= 0 && x.Agent < len(r.Agents) {
			p.last = append(p.last, priced{r.Number, in.string([]byte(r.Agents[x.Agent].Agent)), x.Price})
		}
	}
	for len(p.last) > maxPriced {
		p.known, p.last = p.last[0].round, p.last[1:]
	}
	for len(p.last) > 0 && p.last[0].round+WaitRounds < r.Number {
		p.last = p.last[1:]
	}
}

// of is the price of an agent in a round; known is false where it was forgotten.
func (p *prices) of(round uint64, agent string) (price market.Credits, known bool) {
	i, _ := slices.BinarySearchFunc(p.last, round,
		func(x priced, n uint64) int { return cmp.Compare(x.round, n) })
	for ; i < len(p.last) && p.last[i].round == round; i++ {
		if p.last[i].agent == agent {
			return p.last[i].price, true
		}
	}
	return 0, round > p.known
}

// crowded judges the slot prices that a round's waits name, and keeps those of the round. Of what a wait is
// made of, sum and bounds are part of the round's own check.
func (a *Audit) crowded(seq uint64, id string, lazy *raw) {
	if !market.Crowded(lazy.round, lazy.outcome) {
		return
	}
	r, err := market.DecodeRound(lazy.round)
	if err != nil {
		return // RoundCheck says so
	}
	for _, t := range r.Tasks {
		w := t.Wait
		switch {
		case w == nil || w.Round == 0 || w.Round >= r.Number: // without a price; the last RoundCheck refuses
		case w.Round+WaitRounds < r.Number:
			a.wrong(LevelAuctions, seq, "I6", id,
				"the price of an agent waited for, at most 65,536 rounds old", "task %s names round %d",
				clip(string(t.ID)), w.Round)
		default:
			want, known := a.prices.of(w.Round, string(w.Agent))
			switch {
			case !known:
				a.out.Distant++
			case want != w.Price:
				a.wrong(LevelAuctions, seq, "I6", id,
					"the slot price "+want.String()+" of agent "+clip(string(w.Agent))+
						" that an earlier round recorded",
					"task %s waits at the price %s of round %d", clip(string(t.ID)), w.Price, w.Round)
			}
		}
	}
	if o, err := market.DecodeOutcome(lazy.outcome); err == nil {
		a.prices.note(&r, o.Prices, a.dec.intern)
	}
}
