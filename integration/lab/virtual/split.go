package virtual

import (
	"time"

	"souk/agentd/vllmsim"
)

const (
	tokenOf8B = 32 * 2 * 8 * 128 * 2 // bytes of keys and values of a token of Llama 3.1 8B, at 16 bits
	link400   = 400e9 / 8            // bytes a second of a network of 400 Gbit/s
)

// mixed is two kinds of work on so many engines of an 8B: long prompts with short answers, and short prompts
// with long answers, a half of each, of which so many come in a second. Of the engines the last of each pool
// answers what the pool's others compute.
func mixed(engines int, pools []int, rate float64, seed uint64) (Setting, error) {
	profile, err := vllmsim.ProfileNamed("rtxpro6000-llama-3.1-8b")
	if err != nil {
		return Setting{}, err
	}
	script := func(role string, prompt, output int) *Script {
		s := &Script{role: role, turns: []turn{{prompt: prompt, output: output}}}
		for i := range prompt / blockSize {
			s.hashes = append(s.hashes, mix(uint64(prompt+i)))
		}
		s.chains = [][]uint64{s.hashes}
		return s
	}
	s := Setting{Scripts: []*Script{script("reader", 6000, 60), script("writer", 100, 400)},
		Rate: rate, Clients: 12, Length: 40 * time.Second, Warm: 10 * time.Second, Seed: seed,
		Engine: EngineConfig{Profile: profile, Slots: 48, MaxBatched: profile.MaxNumBatchedTokens,
			Blocks: 32768, BlockSize: blockSize}, Hop: 300 * time.Microsecond, Scrape: 2 * time.Second}
	s.Engines = engines
	for _, prefill := range pools {
		s.Engines -= prefill
		s.Pools = append(s.Pools, Pool{Prefill: prefill, Decode: []int{s.Engines - 1 - len(s.Pools)},
			Token: tokenOf8B, Link: link400})
	}
	return s, nil
}

// Within which a task is served well: its first token, and the mean between tokens.
const (
	wellFirst = time.Second
	wellEach  = 15 * time.Millisecond
)

// goodput returns the tasks a second that were served well.
func (s *Setting) goodput(all []*Request) float64 {
	n := 0
	for _, q := range all {
		if q.Arrived < s.Warm || q.Refused || q.First-q.Arrived > wellFirst ||
			(q.Done-q.First)/time.Duration(max(1, q.Output-1)) > wellEach {
			continue
		}
		n++
	}
	return float64(n) / (s.Length - s.Warm).Seconds()
}
