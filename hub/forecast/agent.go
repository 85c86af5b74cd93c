package forecast

import (
	"time"

	"souk/bus"
	"souk/hub/estimate"
	"souk/hub/predict"
	"souk/market"
)

// WorstFirst bounds how long the first token of an answer may take: several times what is expected, for a
// queue or another's long prompt. It assumes that nothing is cached, as the client may know that what is
// inferred is wrong, and the most tokens for a picture, as nobody knows how many it has before it was
// computed. Where enough answers of about that length were seen it is what one in a thousand takes, if that
// is less.
func WorstFirst(m *predict.Means, t *Task, e *estimate.Estimate, in estimate.Delay) time.Duration {
	f := t.Features(e)
	f.Cached = 0
	if t.Media {
		f.Prompt, f.Counted = max(f.Prompt, e.Most), 0
	}
	first, work, _ := m.Line().Idle(f)
	cold := m.Line().Later(first, work, in)
	worst := 4 * cold
	if seen, known := m.LatestFirst(cold); known {
		worst = min(worst, seen)
	}
	return 2*time.Second + worst
}

// Second is the income of an agent's engine from a second of computing prompts, at its card.
func Second(m *predict.Means, rate *predict.Rate, card market.Price) market.Credits {
	const sample = 1024
	takes, ok := rate.Takes(sample)
	if !ok {
		f := predict.Features{Counted: sample + 1, Cached: 1}
		takes = m.First(f)
		f.Cached = sample
		takes = max(0, takes-m.First(f))
	}
	if takes <= 0 {
		return 0
	}
	return card.Cost(market.Usage{Prompt: int(min(sample/takes.Seconds(), bus.MaxTokens))})
}
