package local

import (
	"fmt"
	"time"

	"souk/cmd/replay"
	"souk/ledger"
	"souk/ledger/journal"
)

// Shown is a round, and the directory of its journal.
type Shown struct {
	Path string
	*ledger.Round
}

// TallyRounds adds the rounds that were cleared since a time to a tally, and returns the one that shows best
// what a round is: contested, and with as many tasks as can be taken in at a glance.
func TallyRounds(dir string, t *replay.Tally, since time.Time) (best Shown, err error) {
	paths, err := journal.Find(dir)
	score := 0
	for _, path := range paths {
		err := journal.Read(path, func(f ledger.Frame) error {
			if f.Time < since.UnixNano() {
				return nil
			}
			for i := range f.Records {
				r := f.Records[i].Round
				if r == nil {
					continue
				}
				t.AddRound(r)
				if s := showiness(r); s > score {
					score, best = s, Shown{path, r}
				}
			}
			return nil
		})
		if err != nil {
			return best, fmt.Errorf("%s: %w", path, err)
		}
	}
	return best, err
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
