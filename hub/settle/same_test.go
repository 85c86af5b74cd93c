package settle

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"souk/agentd"
	"souk/bus"
	"souk/ledger"
	"souk/market"
)

// answer plays a dispatch at an agent, to some end.
func answer(r *rand.Rand, d *bus.Dispatch) agentd.Ending {
	run := agentd.NewRun(d, "a-1", "llama", 16)
	prompt := d.Task.Prompt.Tokens
	first := agentd.Chunk{Events: 1}
	if r.IntN(3) == 0 { // the engine counts otherwise
		prompt = 1 + r.IntN(2*prompt)
	}
	if from := d.Task.Resume; from != nil && prompt > 1 {
		first.Kept = 1 + r.IntN(prompt-1)
		first.Base = prompt - first.Kept
	}
	first.Prompt = prompt
	end := agentd.Answer{Finish: "stop", Unmetered: r.IntN(4) == 0, NoCacheReport: r.IntN(3) == 0}
	sent := 0
	for n := r.IntN(12); ; n-- {
		switch {
		case r.IntN(40) == 0:
			run.Cancel()
			return run.End(agentd.Answer{}, agentd.ErrCancelled)
		case r.IntN(60) == 0:
			return run.End(agentd.Answer{}, agentd.ErrTimeout)
		case n == 0:
			end.Usage = market.Usage{Prompt: prompt, Output: max(0, sent+r.IntN(3)-1)}
			if !end.NoCacheReport {
				end.Usage.Cached = r.IntN(prompt + 1)
			}
			return run.End(end, nil)
		}
		first.Text, first.Count = "w", r.IntN(1+d.MaxTokens/6)
		if _, err := run.Take(first); err != nil {
			return run.End(end, err)
		}
		sent += first.Count
		first = agentd.Chunk{Events: 1}
	}
}

// draw makes up the money of a hold, with every figure at its bounds, too.
func draw(r *rand.Rand, h *ledger.Hold) {
	money := func(most market.Credits) market.Credits {
		switch r.IntN(8) {
		case 0:
			return 0
		case 1:
			return most
		}
		return min(most, market.Credits(r.Int64N(1<<(1+r.IntN(58)))))
	}
	p := &h.Price
	p.Miss, p.Out = money(market.MaxPrice), money(market.MaxPrice)
	p.Hit = money(p.Miss)
	h.Prompt, h.MaxTokens = 1+r.IntN(1<<r.IntN(17)), 1+r.IntN(1<<r.IntN(14))
	h.Cached, h.Output = r.IntN(h.Prompt+1), 1+r.IntN(h.MaxTokens)
	if r.IntN(3) == 0 {
		h.Asserted = r.IntN(h.Prompt + 1)
	}
	h.Tariff = min(money(market.MaxWorth), money(market.MaxWorth))
	h.Quoted = p.Cost(market.Usage{Prompt: h.Prompt, Cached: h.Cached, Output: h.Output}) + h.Tariff
	if r.IntN(4) == 0 { // a thousand times as much as is forecast, or less
		h.Quoted, h.Tariff = money(1000*h.Quoted), 0
	}
	h.Quoted = min(h.Quoted, market.MaxWorth)
	h.Tariff = min(h.Tariff, h.Quoted)
	h.Premium = money(market.MaxWorth)
	h.Fee = money(h.Premium)
	if h.Settle = market.SettleMetered; r.IntN(4) == 0 {
		h.Settle = market.SettleQuoted
	}
	worst := max(h.Quoted, market.WorstCase(*p, h.Prompt, h.MaxTokens)+h.Tariff)
	h.Amount = market.Hold(h.Premium, worst, market.MaxCredits)
	if r.IntN(3) == 0 { // a max_price below the worst case
		h.Amount = h.Premium + money(worst)
		h.Amount = min(h.Amount, h.Premium+worst)
	}
}

// An agent, its hub and the hub's book charge one sum for an answer, whatever the engine counts and however
// it ends: cut, cancelled, unmetered, gone on elsewhere, at a bound of the price card, the premium, the quote
// and the hold. It is within the hold, and the premium is as quoted where the cost is.
func TestAgentHubAndBookChargeOneSum(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	seen := map[string]int{}
	for range 20_000 {
		h := newHouse(t)
		h.must(h.turn.Commit(ledger.NewAccept("hub-math", 2, "ann", market.MaxCredits, h.turn.Salt())))
		x := h.holdOf(func(rec *ledger.Hold) { draw(r, rec) })
		rec := &x.Rec
		x.Msg.Prompt.Tokens, x.Most, x.Verified = rec.Prompt, 2*rec.Prompt, r.IntN(rec.Prompt+1)
		if r.IntN(4) == 0 {
			x.Msg.Resume = &bus.Resume{}
		}
		h.room.Begin(x)
		d := h.turn.Out.Dispatches[0]
		d.PromptMost = x.Covers(x.Most)
		had := h.turn.Book.Avail("ann")
		e := answer(r, &d)
		c := e.Completion
		c.Boot, c.Inbox = 1, "ack"
		h.must(h.room.Completed(&c, c.Validate()))
		left, said := had+rec.Amount-h.turn.Book.Avail("ann"), e.Result
		outcome := c.Outcome
		if c.Unused() {
			outcome = "unused"
		}
		if seen[outcome]++; h.done == nil || len(h.turn.Out.Faults) > 0 || said.Paid() != left ||
			h.done.Paid() != left || h.done.Premium != said.Premium || h.done.Cost != said.Cost {
			t.Fatalf("%+v\n%+v\nagent: %+v\nhub: %+v\nthe book: %v\nfaults %v", rec, c, said, h.done, left,
				h.turn.Out.Faults)
		}
		kind := "as quoted"
		switch due := said.Premium; {
		case left == 0:
			continue
		case due < rec.Fee || left > rec.Amount || rec.Settle == market.SettleQuoted && due != rec.Premium ||
			said.Cost == rec.Quoted && due != rec.Premium:
			t.Fatalf("%+v\n%+v\npays a premium of %s", rec, c, due)
		case left == rec.Amount && due > rec.Premium:
			kind = "all that the hold has"
		case due != rec.Premium:
			kind = fmt.Sprint("more: ", due > rec.Premium)
		}
		seen[kind]++
		seen[c.Finish]++
	}
	t.Log(seen)
	for _, kind := range []string{bus.OutcomeDone, bus.OutcomeCancelled, bus.OutcomeFailed, "unused",
		"length", "as quoted", "all that the hold has", "more: true", "more: false"} {
		if seen[kind] < 50 {
			t.Errorf("%s: %d times, which proves little", kind, seen[kind])
		}
	}
}
