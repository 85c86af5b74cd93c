package gpus

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"souk/agentd/vllmsim"
	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
	"souk/market"
)

// The promise: of each kind so many are kept.
const (
	keeps   = 0.99
	patient = time.Second           // for a first token, beyond what its uncached prompt takes alone
	gap     = 50 * time.Millisecond // between two tokens
)

// World is a trace of arrivals.
type World struct {
	Name, About string
	Speed       float64 // of its own times; 1: as they are
	Ours        string  // what of it is ours
	Block       int     // tokens
	chains      []traces.Chain
	asked       []asked // all requests of the chains, as they come
	Left        int     // of its requests, longer than an engine's context
	output      int     // tokens of an answer, on the mean
}

// asked is a request of a chain.
type asked struct{ at, chain, turn int }

// Worlds reads the traces.
func Worlds() ([]*World, error) {
	azure, err := traces.Conversations()
	if err != nil {
		return nil, err
	}
	moon, err := traces.Chains("mooncake.jsonl.gz")
	if err != nil {
		return nil, err
	}
	reason, err := traces.Reasoning()
	if err != nil {
		return nil, err
	}
	all := []*World{
		{Name: "azure", About: "conversations with Azure's chat service, 2023", Speed: 4, chains: azure.Chains,
			Ours: "When requests came is the trace's, **four times as fast**. It says nothing of what prompts have in common: each is its own."},
		{Name: "mooncake", About: "conversations with Moonshot's service, 2024", Speed: 1, chains: moon,
			Ours: "When requests came, and which blocks of 512 tokens their prompts had, is the trace's."},
		{Name: "servegen", About: "five clients of DeepSeek-R1 in one hour, ServeGen", Speed: 4, chains: reason.Chains,
			Ours: "When requests come, and how long they are, is **drawn here** from the rates and lengths of the trace, **four times as fast**. It says nothing of what prompts have in common: each is its own."},
	}
	for _, w := range all {
		if err := w.ready(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Bring makes a world of a file that somebody brings, of one of the formats that say when requests came.
func Bring(file string, speed float64) (*World, error) {
	t, err := traces.ReadFile(file, "")
	if err != nil {
		return nil, err
	}
	if !t.Timed || len(t.Chains) == 0 {
		return nil, fmt.Errorf("%s: it does not say when requests came", file)
	}
	said := "When requests came is the trace's"
	if t.Drawn {
		said = "When requests come, and how long they are, is **drawn here** from the rates and lengths of the trace"
	}
	for _, why := range t.Why() {
		said += "; " + why
	}
	w := &World{Name: name(t.Name), About: fmt.Sprintf("%s, %d rows", t.Format, t.Rows), Speed: speed,
		chains: t.Chains, Ours: fmt.Sprintf("%s; %g times as fast.", said, speed)}
	if err := w.ready(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return w, nil
}

// name is the name of a file as that of a plot: letters, digits and hyphens.
func name(file string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, file)
}

// ready puts the requests in the order in which they come, without those that are too long.
func (w *World) ready() error {
	w.Block = 16
	for _, c := range w.chains {
		w.Block = max(w.Block, c.Block)
	}
	for i, c := range w.chains {
		if w.Block%c.Block != 0 {
			return fmt.Errorf("session %s has blocks of %d tokens, no part of %d", c.ID, c.Block, w.Block)
		}
		for k, t := range c.Turns {
			if t[1]+t[1]/16+max(1, t[2]) >= longest-16 { // a hub keeps a sixteenth of a prompt free
				w.Left++
				continue
			}
			w.asked = append(w.asked, asked{t[0], i, k})
			w.output += max(1, t[2])
		}
	}
	if len(w.asked) == 0 {
		return fmt.Errorf("every request is longer than an engine's context of %d tokens", longest)
	}
	w.output /= len(w.asked)
	slices.SortStableFunc(w.asked, func(a, b asked) int { return cmp.Compare(a.at, b.at) })
	return nil
}

// stretch are so many requests that follow one another, from one on that the seed chooses, and the tokens of
// their answers.
func (w *World) stretch(seed uint64, tasks int) (scripts []*virtual.Script, tokens, n int) {
	n = min(tasks, len(w.asked))
	random := rand.New(rand.NewPCG(seed, 0x67707573))
	from := random.IntN(len(w.asked) - n + 1)
	var chains []traces.Chain
	of := map[int]int{} // chain, by that of the trace
	for _, a := range w.asked[from : from+n] {
		k, ok := of[a.chain]
		if !ok {
			k = len(chains)
			of[a.chain] = k
			c := w.chains[a.chain]
			chains = append(chains, traces.Chain{ID: c.ID, Block: c.Block, Timed: true})
		}
		t := slices.Clone(w.chains[a.chain].Turns[a.turn])
		t[0] -= w.asked[from].at
		chains[k].Turns = append(chains[k].Turns, t)
		tokens += max(1, t[2]) - 1
	}
	return virtual.NewChains(chains, w.Block), tokens, n
}

// Terms that callers state who want the promise: their answer is worth several times what it costs at the
// fleet's dearest engine with nothing of its prompt cached, half of that for its quality; and the other half
// is gone after twice as long as the promise lets a prompt wait that is computed whole, so that an answer is
// worth next to nothing to them once the promise is broken.
const (
	worthTimes = 8
	delta      = 0.5
)

// state returns what callers state before a fleet.
func (w *World) state(fleet []virtual.FleetEngine, p vllmsim.Profile) func(prompt, output int) market.Terms {
	return func(prompt, _ int) market.Terms {
		most := market.Credits(0)
		for i := range fleet {
			most = max(most, fleet[i].Card.Cost(market.Usage{Prompt: prompt, Output: w.output}))
		}
		steps := (prompt + p.MaxNumBatchedTokens - 1) / p.MaxNumBatchedTokens
		us := float64(float64(steps)*p.Base) + float64(float64(prompt)*p.Prefill)
		return market.Terms{Worth: most.Times(worthTimes), Delta: delta,
			Patience: 2 * (patient + time.Duration(us)*time.Microsecond)}
	}
}

// setting is a run before a fleet, and the tokens of all answers.
func (w *World) setting(x Player, seed uint64, fleet []Engine, tasks int) (s virtual.Setting, tokens int,
	err error) {
	p, err := vllmsim.ProfileNamed(fleet[0].Profile)
	if err != nil {
		return s, 0, err
	}
	s = virtual.Setting{Engines: len(fleet), Context: longest, Timed: w.Speed, Seed: seed,
		Hop: 300 * time.Microsecond, Scrape: 2 * time.Second,
		Engine: virtual.EngineConfig{Profile: p, Slots: x.Slots, MaxBatched: p.MaxNumBatchedTokens,
			Blocks: 1 + fleet[0].tokens/w.Block, BlockSize: w.Block, Late: gap}}
	for _, e := range fleet {
		e.Slots, e.Blocks = x.Slots, 1+e.tokens/w.Block
		s.Fleet = append(s.Fleet, e.FleetEngine)
	}
	if !x.Silent {
		s.State = w.state(s.Fleet, p)
	}
	s.Scripts, tokens, s.Tasks = w.stretch(seed, tasks)
	return s, tokens, nil
}
