package bench

import (
	"context"
	"errors"
	"time"

	"souk/agentd/policy/guard"
	"souk/agentd/vllmsim"
	"souk/cmd/replay"
	"souk/integration/lab/policies"
)

// guardBars measures the policy that looks for patterns in answers: what a token of the recorded answers
// costs, how many planted strings are found, and how many answers without one are cut.
func guardBars(_ context.Context, o Options) ([]Bar, error) {
	g, err := guard.New(policies.GuardPatterns)
	if err != nil {
		return nil, err
	}
	all, err := replay.Bundled()
	if err != nil {
		return nil, err
	}
	var texts [][]string // their tokens
	tokens, words := 0, vllmsim.Tokens()
	for _, d := range all {
		for _, x := range d.Turns {
			var text []string
			for _, id := range words.Encode(nil, x.Answer) {
				text = append(text, words.Text(id))
			}
			texts, tokens = append(texts, text), tokens+len(text)
		}
	}
	reference := newReference()
	times, err := repeat(o, "what guarding costs a token", func() ([]float64, error) {
		call, _, err := reference.beside(200*time.Millisecond, func() error {
			for _, text := range texts {
				look := g.Begin("math")
				for _, piece := range text {
					if _, cut := look.Add(guard.Text, piece); cut {
						return errors.New("an answer without a planted string is cut")
					}
				}
				look.End(guard.Text)
			}
			return nil
		})
		return []float64{micros(call) / float64(tokens)}, err
	})
	if err != nil {
		return nil, err
	}
	f, err := policies.PlayGuard("patterns", 1)
	if err != nil {
		return nil, err
	}
	recall, cuts := float64(f.Found)/float64(f.Texts), float64(f.False)
	return []Bar{
		{Name: "guard: an answer's token", Asked: "at most 1 us", Limit: 1, Unit: "us",
			Measured: median(times[0]), Runs: times[0], Note: "processor time, three patterns, recorded answers token by token"},
		{Name: "guard: planted strings found", Asked: "all", Limit: 1, AtLeast: true, Measured: recall,
			Runs: []float64{recall}, Note: "of one in each recorded question and answer, cut before it to the letter"},
		{Name: "guard: texts cut without cause", Asked: "none", Limit: 0, Measured: cuts, Runs: []float64{cuts},
			Note: "of the same texts as they are"},
	}, nil
}
