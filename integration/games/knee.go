package games

import (
	"math/rand/v2"
	"time"

	"souk/integration/replay/virtual"
	"souk/integration/vllmsim"
)

// A market whose engines have 64 slots together, and serve each task in the same time, so that it is known
// how many they serve at most.
const (
	kneeEngines = 4
	kneeSlots   = 16
	kneeOutput  = 400 // tokens of an answer
)

// knee is how many tasks a second the engines serve with all slots taken.
func knee(p vllmsim.Profile) float64 {
	const resident = 128 + kneeOutput/2
	step := p.Base + kneeSlots*(p.Decode+resident*p.Resident) // us; prompts are cached
	return kneeEngines * kneeSlots / (step * kneeOutput / 1e6)
}

// atTimes plays tasks that come at random, for so long at each of some multiples of the knee in turn.
func atTimes(seed uint64, each time.Duration, factors ...float64) (played, error) {
	p, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	if err != nil {
		return played{}, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6b6e6565))
	var arrive []time.Duration
	at := time.Duration(0)
	for i, f := range factors {
		for end := time.Duration(i+1) * each; ; {
			at += time.Duration(rng.ExpFloat64() / (f * knee(p)) * 1e9)
			if at >= end {
				at = end
				break
			}
			arrive = append(arrive, at)
		}
	}
	s := virtual.Setting{Engines: kneeEngines, Arrive: arrive, Seed: seed, Length: at,
		Scripts: virtual.NewTemplates([]virtual.Template{{Prompt: 128, Output: kneeOutput}}, blockSize),
		Engine: virtual.EngineConfig{Profile: p, Slots: kneeSlots, MaxBatched: p.MaxNumBatchedTokens,
			Blocks: 8192, BlockSize: blockSize},
		Hop: 300 * time.Microsecond, Scrape: 5 * time.Second}
	t := Topology{Prefill: 1, Decode: kneeEngines, Rate: 1e9}
	return play(t, s, ours)
}

// Detection is how long after it twice as much as can be served is seen, after half of it.
func Detection(seed uint64) (time.Duration, error) {
	const calm = 30 * time.Second
	p, err := atTimes(seed, calm, 0.5, 2)
	return time.Duration(p.seen("acts", calm, calm) * float64(time.Second)), err
}
