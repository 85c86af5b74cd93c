package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"souk/market"
)

// roundOf is a round as a hub makes it, every task of another client, with values and costs of the order of a
// cent.
func roundOf(tasks, agents, slots, candidates int) market.Round {
	rng := rand.New(rand.NewPCG(9, 9))
	r := market.Round{Domain: "math", Number: 42, Rule: market.DefaultRule, Fee: 1000}
	for i := range agents {
		r.Agents = append(r.Agents,
			market.Supply{Agent: market.AgentID(fmt.Sprintf("agent-%04d", i)),
				Seats: []market.Seat{{Slots: max(1, slots/agents)}}})
	}
	for j := range tasks {
		client := fmt.Sprintf("client-%05d", j)
		r.Tasks = append(r.Tasks, market.Task{ID: market.TaskID(client + "/t"), Client: client})
		value := 1_000_000 + rng.Int64N(20_000_000)
		for k := range candidates {
			i := (j*7 + k*max(1, agents/candidates)) % agents
			r.Edges = append(r.Edges, market.Edge{Task: j, Agent: i,
				Value: market.Credits(value + rng.Int64N(1_000_000)),
				Cost:  market.Credits(500_000 + rng.Int64N(1_000_000))})
		}
	}
	r.Sort()
	return r
}

// mechanismBars time the clearing of single rounds, with every price and the check of the certificate.
func mechanismBars(_ context.Context, o Options) ([]Bar, error) {
	var bars []Bar
	references := newSolving()
	for _, c := range []struct {
		name                             string
		tasks, agents, slots, candidates int
		limit                            float64 // searches
	}{
		{"round of 64 x 16, all prices and certificate", 64, 16, 64, 16, 1.29},
		{"round of 200 x 100", 200, 100, 200, 100, 0},
		{"round of 10,000 x 1,000, 16 candidates", 10_000, 1000, 10_000, 16, 525},
	} {
		r := roundOf(c.tasks, c.agents, c.slots, c.candidates)
		awards, prices := 0, 0
		x, err := repeat(o, "a "+c.name, func() ([]float64, error) {
			return references.beside(500*time.Millisecond, func() error {
				out, err := market.Clear(r)
				if err != nil {
					return err
				}
				awards, prices = len(out.Awards), len(out.Prices)
				return market.Check(r, out)
			})
		})
		if err != nil {
			return nil, err
		}
		bars = append(bars, references.ratio(c.name, c.limit, x,
			fmt.Sprintf("clearing and checking; %d awards, %d slot prices above zero", awards, prices)))
	}
	return bars, nil
}
