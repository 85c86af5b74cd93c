package predict

import (
	"slices"
	"time"
)

// Rate estimates how fast an agent computes prompts, by the times of first tokens. An engine computes one
// prompt after the other, so each takes the time since the first token before it, or since it was sent. It is
// not always known yet whose first token came before, so most samples are too long: the quicker quarter
// counts. The zero Rate has seen nothing.
type Rate struct {
	firsts  [16]time.Duration // of the last answers
	at, n   int
	samples [32]float64 // seconds a token
	slowest float64     // of those seen lately, and of prompts that were cut before a first token
}

// leastTokens are enough to tell the time of a prompt from that of a step.
const leastTokens = 64

// Learn takes in when a prompt was sent, how many tokens of it were to be computed, and its first token.
func (r *Rate) Learn(sent, first time.Duration, tokens int) {
	from := sent
	for _, f := range r.firsts {
		if f < first {
			from = max(from, f)
		}
	}
	r.firsts[r.at%len(r.firsts)] = first
	r.at++
	if tokens >= leastTokens && first > from {
		r.samples[r.n%len(r.samples)] = (first - from).Seconds() / float64(tokens)
		r.n++
		r.Cut(first-from, tokens)
	}
}

// Cut takes in how long so many tokens took at least: a slower engine is followed at once, a faster one in
// small steps.
func (r *Rate) Cut(after time.Duration, tokens int) {
	if tokens >= leastTokens {
		r.slowest = max(after.Seconds()/float64(tokens), r.slowest*15/16)
	}
}

// Slowest returns how long so many tokens take at worst; false: nothing was seen.
func (r *Rate) Slowest(tokens int) (time.Duration, bool) {
	return span(r.slowest * float64(tokens)), r.slowest > 0
}

// Takes returns how long so many tokens take; false while too little was seen.
func (r *Rate) Takes(tokens int) (time.Duration, bool) {
	if r.n < 8 {
		return 0, false
	}
	seen := slices.Clone(r.samples[:min(r.n, len(r.samples))])
	slices.Sort(seen)
	return span(seen[len(seen)/4] * float64(max(0, tokens))), true
}
