package bench

import (
	"context"
	"fmt"
	"time"

	"souk/ledger"
	"souk/market"
)

// checked is a hub's journal in memory, of rounds whose tasks all get a slot and are all paid.
type checked struct {
	frames          [][]byte
	records, rounds int
}

// write appends a frame of records, which must be legal.
func (c *checked) write(b *ledger.Book, records ...ledger.Record) error {
	for i := range records {
		if err := b.Apply(&records[i]); err != nil {
			return err
		}
	}
	_, _, now := b.Last()
	f, err := b.Seal(1, now+1, records)
	if err != nil {
		return err
	}
	c.frames, c.records = append(c.frames, ledger.AppendFrame(nil, &f)), c.records+len(records)
	return nil
}

// checkedRounds is a journal of so many rounds.
func checkedRounds(rounds, tasks, agents int) (*checked, error) {
	const hub = "hub-math"
	c, b, r := &checked{rounds: rounds}, ledger.NewBook(), roundOf(tasks, agents, tasks, agents)
	if err := c.write(b, ledger.NewOpen(hub, ledger.RoleHub, r.Domain, [16]byte{1})); err != nil {
		return nil, err
	}
	for i, t := range r.Tasks {
		if err := c.write(b, ledger.NewAccept(hub, uint64(i+1), t.Client, 1_000_000*market.Credit,
			[16]byte{2})); err != nil {
			return nil, err
		}
	}
	card := market.Price{Miss: market.Credit, Hit: market.Credit / 10, Out: 4 * market.Credit}
	for n := range rounds {
		number, prev := b.LastRound()
		r.Number, r.Prev = number+1, prev
		for i := range r.Tasks {
			r.Tasks[i].ID = market.TaskID(fmt.Sprintf("%s/t%d", r.Tasks[i].Client, n))
		}
		o, err := market.Clear(r)
		if err != nil {
			return nil, err
		}
		salt := [16]byte{byte(n), byte(n >> 8), byte(n >> 16)}
		round := ledger.NewRound(hub, r, o, salt)
		g := &round.Round.Ground // slots stay free, and cost nothing
		g.Loads, g.Stays = make([]market.Load, agents), make([]market.Stay, len(r.Edges))
		for i := range g.Loads {
			g.Loads[i].Spare = true
		}
		begun, ends := []ledger.Record{round}, []ledger.Record(nil)
		for slot, a := range o.Awards {
			h := ledger.Hold{Client: r.Tasks[slot].Client, Task: fmt.Sprint("t", n), Agent: string(a.Agent),
				Model: "glm-4.5-air", Round: r.Number, Slot: slot, Kind: "task", Settle: r.Rule.Settle,
				Amount: a.Premium + 2*a.Cost, Premium: a.Premium, Fee: r.Fee, Quoted: a.Cost, Price: card,
				Prompt: 800, Output: 200, MaxTokens: 400, Expires: 1_800_000_000e9, Boot: 1_790_000_000e9}
			begun = append(begun, b.NewHold(ledger.HoldID(hub, h.Round, slot), &h, salt))
			ends = append(ends, ledger.NewCapture(hub, h, ledger.Capture{Outcome: "done", Finish: "stop",
				Cost: a.Cost, Usage: market.Usage{Prompt: 800, Output: 190}, TTFTUS: 41_000}, salt))
		}
		if err := c.write(b, begun...); err != nil {
			return nil, err
		}
		for len(ends) > 0 { // some end together
			k := min(len(ends), 1+n%3)
			if err := c.write(b, ends[:k]...); err != nil {
				return nil, err
			}
			ends = ends[k:]
		}
	}
	return c, nil
}

// check audits the journal up to a level.
func (c *checked) check(level int) error {
	a := ledger.NewAudit("", level)
	for i, data := range c.frames {
		a.Frame(uint64(i+1), 1, data)
	}
	if r := a.Finish(); r.Count > 0 {
		return fmt.Errorf("a finding in a journal that is right: %s", r.Findings[0])
	}
	return nil
}

// ledgerBars time the levels of an audit that every journal goes through, and the proof of large rounds.
func ledgerBars(_ context.Context, o Options) ([]Bar, error) {
	var bars []Bar
	reference := newReference()
	for _, m := range []struct {
		name                         string
		level, rounds, tasks, agents int
		limit                        float64 // loops
	}{
		{"ledger check, levels 0 to 3: CPU per record", ledger.LevelConservation, 20_000, 4, 4, 0.11},
		{"ledger check, level 4: CPU per round of 64 x 16", ledger.LevelAuctions, 500, 64, 16, 32},
	} {
		c, err := checkedRounds(m.rounds, m.tasks, m.agents)
		if err != nil {
			return nil, err
		}
		of := c.records
		if m.level == ledger.LevelAuctions {
			of = c.rounds
		}
		x, err := repeat(o, m.name, func() ([]float64, error) {
			call, loop, err := reference.beside(500*time.Millisecond,
				func() error { return c.check(m.level) })
			return []float64{micros(call) / float64(of), micros(loop)}, err
		})
		if err != nil {
			return nil, err
		}
		bars = append(bars, ratio(m.name, m.limit, "loop", "us", x[0], x[1],
			fmt.Sprintf("%d frames in memory, %d records, %d rounds", len(c.frames), c.records, c.rounds)))
	}
	return bars, nil
}
