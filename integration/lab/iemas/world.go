package iemas

import (
	"fmt"
	"time"

	"souk/agentd/vllmsim"
	"souk/cmd/replay"
	"souk/integration/lab/traces"
	"souk/integration/lab/virtual"
	"souk/market"
)

// Set holds dialogues of one of the paper's sources.
type Set struct {
	Name, About string
	file        string
	kinds       []string // of recorded questions for which its turns stand
}

// What the recorded questions ask for: knowledge, as questions about a text do, or several steps.
var (
	knowledge = []string{"natural_qa", "trivia_qa", "mmlu", "commonsense_qa", "openbook_qa", "arc_challenge"}
	steps     = []string{"agentverse-logicgrid", "agentverse-mgsm", "gsm8k"}
)

// Sets are the three.
var Sets = []Set{
	{"coqa", "CoQA, 13 conversations about a passage, up to 20 turns", "coqa.jsonl", knowledge},
	{"quac", "QuAC, 32 conversations about a section, up to 10 turns", "quac.jsonl", knowledge},
	{"hotpotqa", "HotpotQA, 60 questions over ten paragraphs, a turn each", "hotpotqa.jsonl.gz", steps},
}

// The paper's setting: requests at once, share of a card's memory, tokens of context.
const (
	slots     = 12
	memory    = 0.6
	tokens    = 4096
	blockSize = 16
)

// model describes what an engine serves: three, of different size. The paper has "LLaMA-3-7B, Qwen-4B, and
// Qwen-8B" on RTX 4090 and RTX 6000; these are the nearest of which answers were recorded.
type model struct {
	name   string  // as recorded
	size   float64 // thousand million parameters, two bytes each
	layers int     // with keys and values of so many numbers of two bytes a token
	keys   int
	card   float64 // thousand million bytes of memory
	price  float64 // dollars a million tokens, in the table of models beside the recorded answers
}

var models = []model{
	{"llama-3.2-3b-instruct", 3.213, 28, 2 * 8 * 128, 24, 0.06},
	{"qwen2.5-7b-instruct", 7.616, 28, 2 * 4 * 128, 48, 0.2},
	{"llama-3.1-8b-instruct", 8.03, 32, 2 * 8 * 128, 48, 0.2},
}

// each counts the engines of a model. The paper does not say how many there were.
const each = 2

// working memory is needed by an engine beside weights and cache, in thousand million bytes.
const working = 1

// blocks of the cache are what the share of memory leaves beside the weights.
func (m *model) blocks() int {
	bytes := memory*m.card - 2*m.size - working
	return int(bytes * 1e9 / float64(2*m.layers*m.keys) / blockSize)
}

func names() (all []string) {
	for _, m := range models {
		all = append(all, m.name)
	}
	return all
}

// modelOf returns the model of an engine.
func modelOf(engine int) int { return engine / each }

// profile is the engine that was measured: Llama 3.1 8B. The others are as much faster as they are smaller.
const profile = "rtxpro6000-llama-3.1-8b"

func fleet(r *Recorded) (f virtual.Fleet) {
	f.Name = "three-sizes"
	for i, m := range models {
		price := market.Credits(m.price * float64(market.Credit))
		for n := range each {
			f.Engines = append(f.Engines, virtual.FleetEngine{Name: fmt.Sprintf("%s-%d", m.name, n+1),
				Model: m.name, Profile: profile, Faster: models[len(models)-1].size / m.size, Slots: slots,
				Blocks:  m.blocks(),
				Context: tokens, Score: r.mean(i), Recorded: m.name,
				Card: market.Price{Miss: price, Hit: price / 10, Out: price}})
		}
	}
	return f
}

// World is a set before the fleet.
type World struct {
	Set
	*Recorded
	Fleet   virtual.Fleet
	Turns   int // of its dialogues
	Left    int // of them left out: longer than the context
	scripts []*virtual.Script
	profile vllmsim.Profile
}

// NewWorld makes the world of a set.
func NewWorld(s Set) (*World, error) {
	rows, err := traces.Questions()
	if err != nil {
		return nil, err
	}
	w := &World{Set: s}
	if w.Recorded, err = record(rows, s.kinds, names()); err != nil {
		return nil, fmt.Errorf("set %s: %w", s.Name, err)
	}
	w.Fleet = fleet(w.Recorded)
	if err := w.Fleet.Validate(); err != nil {
		return nil, err
	}
	if w.profile, err = vllmsim.ProfileNamed(profile); err != nil {
		return nil, err
	}
	ds, err := replay.BundledSet(s.file)
	if err != nil {
		return nil, err
	}
	room := w.Fleet.Engines[0].Blocks
	for _, e := range w.Fleet.Engines {
		room = min(room, e.Blocks)
	}
	w.scripts, w.Left = virtual.Trim(virtual.NewScripts(ds, false, blockSize), (room-1)*blockSize, tokens)
	w.Turns = virtual.Requests(w.scripts)
	return w, nil
}

// setting is a run of so many tasks by so many callers, who ask in a closed loop.
func (w *World) setting(seed uint64, callers, tasks int) virtual.Setting {
	n := len(w.Fleet.Engines)
	return virtual.Setting{Engines: n, Fleet: w.Fleet.Engines, Scripts: w.scripts, Callers: callers,
		Tasks: tasks, Seed: seed, Context: tokens,
		Engine: virtual.EngineConfig{Profile: w.profile, Slots: slots, Blocks: w.Fleet.Engines[0].Blocks,
			BlockSize: blockSize, MaxBatched: w.profile.MaxNumBatchedTokens},
		Think: 200 * time.Millisecond, Hop: 300 * time.Microsecond, Scrape: 250 * time.Millisecond}
}
