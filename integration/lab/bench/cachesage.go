package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"souk/bus/policy"
	"souk/integration/lab/cachesage/sage"
)

// cachesageBars measures what learns which session is back and which role runs: the cost of an event and of a
// score with 10,000 sessions of 50 roles, beside a fixed loop of the processor. The loop took 14 us where an
// event was to take 1 us and a score 0.1 us.
func cachesageBars(_ context.Context, o Options) ([]Bar, error) {
	const sessions, rolesOf, many = 10_000, 50, 1024
	k, now, n := sage.New(sage.Params{}, sessions), time.Unix(1_800_000_000, 0), uint64(0)
	rng := rand.New(rand.NewPCG(1, 1))
	observe := func() {
		n++
		e := policy.Event{Kind: policy.Arrived, Client: 1, Session: 1 + rng.Uint64N(sessions)}
		e.Role = 1 + (e.Session+n/sessions)%rolesOf
		for range 2 {
			now = now.Add(time.Millisecond)
			e.At = now
			k.Observe(e)
			e.Kind, e.Agent = policy.Served, 1
		}
	}
	for range 8 * sessions {
		observe()
	}
	reference := newReference()
	values, err := repeat(o, "what cachesage learns and scores", func() ([]float64, error) {
		heard, loop, err := reference.beside(100*time.Millisecond, func() error {
			for range many / 2 {
				observe()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		scored, again, err := reference.beside(100*time.Millisecond, func() error {
			for range many {
				n++
				k.Score(now, policy.Item{Kind: policy.Tail, Session: 1 + n%sessions, Role: 1 + n%rolesOf,
					Tokens: 160}, 0)
			}
			return nil
		})
		return []float64{heard.Seconds() / loop.Seconds() / many, scored.Seconds() / again.Seconds() / many,
			1e9 * heard.Seconds() / many, 1e9 * scored.Seconds() / many}, err
	})
	if err != nil {
		return nil, err
	}
	note := func(ns []float64) string {
		return fmt.Sprintf("%.0f ns of the processor here, with %d sessions of %d roles", median(ns), sessions,
			rolesOf)
	}
	return []Bar{
		{Name: "cachesage: an event", Asked: "at most 0.071 loops, 1 us beside one of 14 us", Limit: 0.071,
			Unit: "x", Measured: median(values[0]), Runs: values[0], Note: note(values[2])},
		{Name: "cachesage: a score", Asked: "at most 0.0071 loops, 100 ns beside one of 14 us", Limit: 0.0071,
			Unit: "x", Measured: median(values[1]), Runs: values[1], Note: note(values[3])},
	}, nil
}
