package local

import (
	"fmt"
	"time"

	"souk/cmd/replay"
	"souk/ledger"
	"souk/ledger/journal"
)

func eachJournal(dir string, f func(path string) error) error {
	paths, err := journal.Find(dir)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if err := f(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// RoundRef names a round.
type RoundRef struct {
	Journal string
	Path    string
	Round   uint64
}

// TallyRounds adds the rounds that were cleared since a time to a tally, and returns the one that shows best
// what a round is: contested, and with as many tasks as can be taken in at a glance.
func TallyRounds(dir string, t *replay.Tally, since time.Time) (best RoundRef, err error) {
	score := 0
	err = eachJournal(dir, func(path string) error {
		forecasts := forecasts{of: map[string]ledger.Seen{}}
		return journal.Read(path, func(f ledger.Frame) error {
			if f.Time < since.UnixNano() {
				return nil
			}
			for i := range f.Records {
				rec := &f.Records[i]
				r := rec.Round
				if r == nil {
					forecasts.record(rec, t)
					continue
				}
				t.AddRound(r)
				forecasts.round = r
				if s := showiness(r); s > score {
					score, best = s, RoundRef{Journal: r.Round.Domain, Path: path, Round: r.Round.Number}
				}
			}
			return nil
		})
	})
	return best, err
}

// forecasts holds the rounds' forecasts for placed tasks until their captures come.
type forecasts struct {
	round *ledger.Round          // whose holds follow
	of    map[string]ledger.Seen // by hold
}

// record takes in a record that is no round.
func (x *forecasts) record(r *ledger.Record, t *replay.Tally) {
	switch {
	case r.Hold != nil && x.round != nil && r.Hold.Slot < len(x.round.Outcome.Awards):
		if s := x.round.Expected(&x.round.Outcome.Awards[r.Hold.Slot]); s != nil {
			x.of[r.ID] = *s
		}
	case r.Capture != nil:
		if s, ok := x.of[r.Capture.Hold]; ok && r.Capture.TTFTUS > 0 {
			t.AddForecast(s, time.Duration(r.Capture.TTFTUS)*time.Microsecond)
		}
		delete(x.of, r.Capture.Hold)
	case r.Void != nil:
		delete(x.of, r.Void.Hold)
	}
}

// showiness is above zero for a contested round, and highest for one whose few tasks met at a price, not all
// of them placed, at more than one agent.
func showiness(r *ledger.Round) int {
	if len(r.Outcome.Prices) == 0 {
		return 0
	}
	agents := map[string]bool{}
	for _, a := range r.Outcome.Awards {
		agents[string(a.Agent)] = true
	}
	tasks := len(r.Round.Tasks)
	score := 100 + 10*min(len(r.Outcome.Prices), 2) + 10*min(len(agents), 2) - 5*max(tasks-4, 4-tasks)
	if len(r.Outcome.Awards) < tasks {
		score += 10
	}
	return max(score, 1)
}
