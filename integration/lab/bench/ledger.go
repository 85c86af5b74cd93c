package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"souk/ledger"
	"souk/ledger/checkpoint"
	"souk/ledger/inspect"
	"souk/ledger/journal"
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

// sign writes the journal to a directory, with its tree and a checkpoint of all of it.
func (c *checked) sign(dir string) (err error) {
	j, err := journal.Open(dir, journal.Config{MinFree: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for some := range slices.Chunk(c.frames, 1000) {
		frames := make([]ledger.Frame, len(some))
		for i, data := range some {
			if frames[i], err = ledger.DecodeFrame(data); err != nil {
				return err
			}
		}
		if err := j.Append(frames...); err != nil {
			return err
		}
	}
	t, err := j.Tree()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	head, err := t.Grow(nil)
	if err != nil {
		return err
	}
	secret, _, err := note.GenerateKey(nil, "market/"+filepath.Base(dir))
	if err != nil {
		return err
	}
	writer, err := note.NewSigner(secret)
	if err != nil {
		return err
	}
	signed, err := checkpoint.Sign(checkpoint.Checkpoint{Origin: writer.Name(), Size: head.Size,
		Root: head.Root}, writer)
	if err != nil {
		return err
	}
	return t.Keep(signed)
}

// checkSigned audits the journal in a directory up to a level, its checkpoint too.
func checkSigned(ctx context.Context, dir string, level int) error {
	sum, err := inspect.Check(ctx, []string{dir}, inspect.Options{Level: level})
	if err == nil && (sum.Count > 0 || len(sum.Undecided) != 1 ||
		!strings.Contains(sum.Undecided[0], "--policy")) {
		err = fmt.Errorf("a journal that is right, and signed: %q, %q", sum.Findings, sum.Undecided)
	}
	return err
}

// ledgerBars time the levels of an audit that every journal goes through, and the proof of large rounds.
func ledgerBars(ctx context.Context, o Options) ([]Bar, error) {
	var bars []Bar
	temp, err := os.MkdirTemp("", "lab-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	reference := newReference()
	for _, m := range []struct {
		name                         string
		level, rounds, tasks, agents int
		signed                       bool
		limit                        float64 // loops
	}{
		{"ledger check, levels 0 to 3: CPU per record", ledger.LevelConservation, 20_000, 4, 4, false, 0.11},
		{"ledger check, these by a checkpoint, on disk: CPU per record", ledger.LevelConservation, 20_000,
			4, 4, true, 0.2},
		{"ledger check, level 4: CPU per round of 64 x 16", ledger.LevelAuctions, 500, 64, 16, false, 32},
	} {
		c, err := checkedRounds(m.rounds, m.tasks, m.agents)
		if err != nil {
			return nil, err
		}
		of := c.records
		if m.level == ledger.LevelAuctions {
			of = c.rounds
		}
		check, where := func() error { return c.check(m.level) }, "in memory"
		if m.signed {
			dir := filepath.Join(temp, "hub-math")
			if err := c.sign(dir); err != nil {
				return nil, err
			}
			check, where = func() error { return checkSigned(ctx, dir, m.level) }, "on disk"
		}
		x, err := repeat(o, m.name, func() ([]float64, error) {
			call, loop, err := reference.beside(500*time.Millisecond, check)
			return []float64{micros(call) / float64(of), micros(loop)}, err
		})
		if err != nil {
			return nil, err
		}
		bars = append(bars, ratio(m.name, m.limit, "loop", "us", x[0], x[1],
			fmt.Sprintf("%d frames %s, %d records, %d rounds", len(c.frames), where, c.records, c.rounds)))
	}
	return bars, nil
}
