package virtual

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
	"souk/integration/lab/traces"
)

// Cliffs are traces whose open sessions need more than the caches hold, or nearly so.
var Cliffs = []Trace{
	NewTrace("ring", "mtRAG without passages, 200 conversations in turn, 32 at a time, caches of 207 blocks",
		cliff{kind: "mtrag.jsonl.gz", ring: 200, callers: 32, blocks: 208,
			profile: "rtxpro6000-llama-3.1-8b"}.setting),
	NewTrace("agents", "coding agents, 200 sessions that need 2.75 times what the caches hold, 40 us a token",
		agentic(2.75)),
	NewTrace("agents-1", "the same, once", agentic(1)),
	NewTrace("chat-1", "RAG chat, 400 sessions that need once what the caches hold, 10 s between turns, regular",
		chatting(1, 0.2, 100)),
	NewTrace("chat-2", "the same, twice", chatting(2, 0.2, 100)),
	NewTrace("spare-1", "chat-1 on engines that take 36 us for a token: half of their time is to spare",
		chatting(1, 0.2, 36)),
	NewTrace("people-half", "RAG chat, people's pauses, half of what the caches hold", chatting(0.5, 1, 100)),
	NewTrace("people-1", "the same, once", chatting(1, 1, 100)),
	NewTrace("people-2", "the same, twice", chatting(2, 1, 100)),
	NewTrace("busy", "people-2 on engines that take 500 us for a token", chatting(2, 1, 500)),
	NewTrace("mooncake", "2,000 requests of Mooncake, four times as fast, caches of 596 blocks",
		cliff{kind: "mooncake.jsonl.gz", blocks: 597, prefill: 40}.setting),
	NewTrace("mooncake-4", "the same, caches of 2,384 blocks",
		cliff{kind: "mooncake.jsonl.gz", blocks: 2385, prefill: 40}.setting),
	NewTrace("mix", "half of the sessions have one turn, a tenth twenty, a third begin alike; twice the caches",
		cliff{kind: "mix", callers: 400, pressure: 2, sigma: 1, prefill: 100}.setting),
}

// cliff is a load on engines whose caches are too small.
type cliff struct {
	kind     string // a file, or mix
	callers  int    // each has a session
	ring     int    // or these share so many
	pressure float64
	blocks   int // instead: of each engine
	passages int
	sigma    float64
	prefill  float64 // microseconds a token
	profile  string  // instead
}

func agentic(pressure float64) func(int) (Setting, error) {
	return cliff{kind: "agents.jsonl.gz", callers: 200, pressure: pressure, prefill: 40}.setting
}

func chatting(pressure, sigma, prefill float64) func(int) (Setting, error) {
	return cliff{kind: "mtrag.jsonl.gz", callers: 400, pressure: pressure, passages: 8000, sigma: sigma,
		prefill: prefill}.setting
}

const (
	largeBlock    = 512         // tokens of a block where prompts have a hundred thousand
	longestIdle   = time.Minute // a recorded pause that is longer counts as this
	longestSaid   = 1000        // tokens of an answer
	longestPrompt = 400_000     // tokens: sessions with more are left out
	stepTakes     = 20_000      // microseconds that a step computes prompts, at most
	meanPause     = 10 * time.Second
	recordedTasks = 2000 // of a run, of recorded times; the seed says where it begins
)

func (c cliff) setting(engines int) (s Setting, err error) {
	s = Setting{Engines: engines, Callers: c.callers * engines / 8, Ring: c.ring * engines / 8,
		Sigma: c.sigma,
		Think: meanPause, Hop: 300 * time.Microsecond, Scrape: 2 * time.Second, Patient: 10 * time.Minute,
		Quiet: time.Second, Returns: true}
	s.Engine = EngineConfig{Slots: 16, BlockSize: blockSize,
		Profile: vllmsim.Profile{Base: 2000, Prefill: c.prefill}}
	s.Engine.MaxBatched = s.Engine.Slots + int(stepTakes/max(1, c.prefill))
	if c.profile != "" {
		if s.Engine.Profile, err = vllmsim.ProfileNamed(c.profile); err != nil {
			return s, err
		}
		s.Engine.Slots, s.Engine.MaxBatched, s.Think = slots, s.Engine.Profile.MaxNumBatchedTokens, 0
	}
	switch c.kind {
	case "agents.jsonl.gz", "mooncake.jsonl.gz":
		s.Engine.BlockSize = largeBlock
		all, err := traces.Chains(c.kind)
		if err != nil {
			return s, err
		}
		for i := range all {
			x := chained(&all[i], largeBlock)
			x.cut()
			if x.longest() <= longestPrompt {
				s.Scripts = append(s.Scripts, x)
			}
		}
		if s.Midway = c.callers > 0; !s.Midway {
			s.Timed, s.Anywhere, s.Tasks = 4, true, recordedTasks
		}
	case "mix":
		s.Scripts = mixture(rand.New(rand.NewPCG(1, 0x6d6978)))
	default:
		ds, err := replay.BundledSet(c.kind)
		if err != nil {
			return s, err
		}
		own := slices.Clone(ds)
		for i := range ds {
			ds[i].System = passages(own, i, c.passages)
		}
		s.Scripts = NewScripts(ds, false, blockSize)
	}
	s.Engine.Blocks = cmp.Or(c.blocks, 1+int(float64(s.Callers)*s.meanBlocks()/(float64(engines)*c.pressure)))
	room := (s.Engine.Blocks - 1) * s.Engine.BlockSize
	s.Scripts = slices.DeleteFunc(s.Scripts, func(x *Script) bool { return x.longest() > room*3/4 })
	s.Context = max(8192, room)
	switch {
	case s.Midway: // all begin at once
		s.Warm, s.Length = 5*time.Minute, 20*time.Minute
	case s.Ring == 0 && s.Timed == 0:
		s.Warm, s.Length = 2*time.Minute, 5*time.Minute
	}
	return s, nil
}

// cut has no answer be longer than is usual, and no pause.
func (s *Script) cut() {
	for i := range s.turns {
		t := &s.turns[i]
		t.output, t.think = min(t.output, longestSaid), min(t.think, longestIdle)
	}
}

// longest is the most tokens that a turn and its answer have.
func (s *Script) longest() (most int) {
	for _, t := range s.turns {
		most = max(most, t.prompt+t.output)
	}
	return most
}

// meanBlocks returns the mean number of blocks of a session, over all its turns.
func (s *Setting) meanBlocks() float64 {
	blocks, turns := 0, 0
	for _, x := range s.Scripts {
		for _, t := range x.turns {
			blocks, turns = blocks+(t.prompt+t.output)/s.Engine.BlockSize, turns+1
		}
	}
	return float64(blocks) / float64(turns)
}

// chained is a session of which the blocks are known, as blocks of another size.
func chained(c *traces.Chain, size int) *Script {
	s := &Script{}
	for i, t := range c.Turns {
		at := time.Duration(t[0]) * time.Millisecond
		out := turn{prompt: max(1, t[1]), output: max(1, t[2])}
		if c.Timed {
			out.at = at
		} else if i > 0 {
			out.think = max(time.Millisecond, at)
		}
		chain := make([]uint64, 0, out.prompt/size)
		parent := uint64(0)
		for k, id := range c.Blocks(i) {
			parent = mix(parent ^ mix(uint64(id)))
			if (k+1)*c.Block%size == 0 && (k+1)*c.Block <= out.prompt {
				chain = append(chain, parent)
			}
		}
		s.turns, s.chains = append(s.turns, out), append(s.chains, chain)
	}
	if known := func(chain []uint64) bool { return len(chain) > 0 }; c.Timed && slices.ContainsFunc(s.chains,
		known) {
		s.common = everyBlock
	}
	return s
}

// mixture are sessions of which half have one turn and a tenth twenty, and a third begin with the same 1,536
// tokens; the others have as many of their own.
func mixture(random *rand.Rand) (all []*Script) {
	for range 300 {
		turns := 2 + random.IntN(7)
		switch p := random.Float64(); {
		case p < 0.5:
			turns = 1
		case p < 0.6:
			turns = 20
		}
		c := traces.Chain{Block: blockSize}
		prompt, alike := 1536, random.IntN(3) == 0
		for range turns {
			prompt += 50 + random.IntN(300)
			c.Turns = append(c.Turns, []int{0, prompt, 20 + random.IntN(200), 1, prompt / blockSize})
			prompt += c.Turns[len(c.Turns)-1][2]
		}
		s := chained(&c, blockSize)
		for i := range s.turns {
			s.turns[i].think = 0
		}
		if alike {
			s.common = 1536 / blockSize
		}
		all = append(all, s)
	}
	return all
}
