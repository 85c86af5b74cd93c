package games

import (
	"math/rand/v2"
	"time"

	"souk/hub/regime"
	"souk/integration/replay/virtual"
	"souk/integration/vllmsim"
)

// knee is a market whose engines have 64 slots together, and serve each task in the same time, so that it is
// known how many they serve at most.
type knee struct {
	output int // tokens of each answer
}

const (
	kneeEngines = 4
	kneeSlots   = 16
)

// rate is how many tasks a second the engines serve with all slots taken.
func (k knee) rate(p vllmsim.Profile) float64 {
	resident := float64(128 + k.output/2)
	step := p.Base + kneeSlots*(p.Decode+resident*p.Resident) // us; prompts are cached
	return kneeEngines * kneeSlots / (step * float64(k.output) / 1e6)
}

// times plays tasks that come at random, for so long at each of some rates in turn, in multiples of what is
// served at most. It returns what the hub's slowdown said, by second.
func (k knee) times(seed uint64, each time.Duration, factors ...float64) (said []moment, err error) {
	p, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6b6e6565))
	var arrive []time.Duration
	at := time.Duration(0)
	for i, f := range factors {
		for end := time.Duration(i+1) * each; ; {
			at += time.Duration(rng.ExpFloat64() / (f * k.rate(p)) * 1e9)
			if at >= end {
				at = end
				break
			}
			arrive = append(arrive, at)
		}
	}
	s := virtual.Setting{Engines: kneeEngines, Arrive: arrive, Seed: seed, Length: at,
		Scripts: virtual.NewTemplates([]virtual.Template{{Prompt: 128, Output: k.output}}, blockSize),
		Engine: virtual.EngineConfig{Profile: p, Slots: kneeSlots, MaxBatched: p.MaxNumBatchedTokens,
			Blocks: 8192, BlockSize: blockSize},
		Hop: 300 * time.Microsecond, Scrape: 5 * time.Second}
	t := Topology{Prefill: 1, Decode: kneeEngines, Rate: 1e9}
	played, err := play(t, s, ours)
	return played.said, err
}

// Detection is how long after it twice as much as can be served is seen, after half of it.
func Detection(seed uint64) (time.Duration, error) {
	const calm = 30 * time.Second
	said, err := knee{output: 400}.times(seed, calm, 0.5, 2)
	p := played{said: said}
	return time.Duration(p.seen("acts", calm, calm) * float64(time.Second)), err
}

// highest is the highest state that is said.
func highest(said []moment) (s regime.State) {
	for _, m := range said {
		s = max(s, m.states["acts"])
	}
	return s
}
