package economics

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"souk/agentd/vllmsim"
	"souk/cmd/local"
	"souk/cmd/replay"
	"souk/market"
)

// bytesPerToken turns lengths of text into tokens: the usual figure for English.
const bytesPerToken = 4

// block is the unit of an engine's cache: 16 tokens, as vLLM's default.
const block = 16

// domains are the sources of the bundled dialogues; an agent may be a specialist of one.
var domains = []string{"CoQA", "QuAC", "HotpotQA", "mtRAG", "GSM8K", "HumanEval"}

// turn is one request of a conversation, in tokens: prompt includes all turns before.
type turn struct{ prompt, output int }

// conversation is a dialogue as lengths.
type conversation struct {
	domain int
	turns  []turn
}

// source holds the data of which every world is made, read once.
type source struct {
	talks  [][]conversation // by domain
	output []int            // mean answer by domain, in tokens: the predictor's estimate
	cards  []card
	speeds []speed
}

type card struct {
	name  string
	price market.Price
	rank  float64 // 0 to 1 by price of output
}

// speed is an engine's prefill, measured.
type speed struct {
	base, perToken time.Duration
}

// load reads dialogues, price rows and profiles.
func load() (*source, error) {
	ds, err := replay.Bundled()
	if err != nil {
		return nil, err
	}
	s := &source{talks: make([][]conversation, len(domains)), output: make([]int, len(domains))}
	rng := rand.New(rand.NewPCG(1, 0x65636f6e)) // lengths of answers that were not recorded
	for _, d := range ds {
		domain := slices.Index(domains, d.Domain)
		if domain < 0 {
			return nil, fmt.Errorf("economics: dialogue %s: unknown source %q", d.ID, d.Domain)
		}
		c := conversation{domain: domain}
		said := len(d.System)
		for _, t := range d.Turns {
			said += len(t.User)
			out := len(t.Answer)
			if out == 0 {
				out = int(bytesPerToken * 120 * math.Exp(0.5*rng.NormFloat64()))
			}
			c.turns = append(c.turns, turn{1 + said/bytesPerToken, 1 + out/bytesPerToken})
			said += out
		}
		s.talks[domain] = append(s.talks[domain], c)
	}
	for d, talks := range s.talks {
		sum, n := 0, 0
		for _, c := range talks {
			for _, t := range c.turns {
				sum, n = sum+t.output, n+1
			}
		}
		if n == 0 {
			return nil, fmt.Errorf("economics: no dialogue of %s", domains[d])
		}
		s.output[d] = (sum + n/2) / n
	}
	rows, err := local.PriceRows()
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		s.cards = append(s.cards, card{name: r.Provider + "/" + r.Model, price: r.Card()})
	}
	slices.SortFunc(s.cards, func(a, b card) int {
		return cmp.Or(cmp.Compare(a.price.Out, b.price.Out), cmp.Compare(a.name, b.name))
	})
	for i := range s.cards {
		s.cards[i].rank = float64(i) / float64(len(s.cards)-1)
	}
	for _, p := range vllmsim.Profiles() {
		if p.Origin == "" {
			continue // made up, not measured
		}
		s.speeds = append(s.speeds, speed{micros(p.Base), micros(p.Prefill)})
	}
	if len(s.cards) == 0 || len(s.speeds) == 0 {
		return nil, fmt.Errorf("economics: %d price rows and %d profiles: need both", len(s.cards),
			len(s.speeds))
	}
	slices.SortFunc(s.speeds, func(a, b speed) int { return cmp.Compare(a.perToken, b.perToken) })
	return s, nil
}

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }

// node is an agent of a world.
type node struct {
	id        market.AgentID
	price     market.Price
	speed     speed
	special   int // its domain
	quality   []float64
	slots     int
	cacheSize int // tokens
}

// shape says how large a world is.
type shape struct {
	clients, agents, slots int // slots of one agent
	cacheSize              int // tokens of one agent
}

// usual is a contended market: half again as many clients as slots.
var usual = shape{clients: 36, agents: 6, slots: 4, cacheSize: 24_000}

// nodes makes agents: cards in turn, prices that go with speeds, specialists of every domain alike.
func (s *source) nodes(rng *rand.Rand, sh shape) []node {
	out := make([]node, sh.agents)
	order := rng.Perm(len(s.cards))
	for i := range out {
		c := s.cards[order[i%len(order)]]
		n := node{
			id: market.AgentID(fmt.Sprintf("a%03d", i)), price: c.price, special: i % len(domains),
			speed: s.speeds[min(int(c.rank*float64(len(s.speeds))), len(s.speeds)-1)],
			slots: sh.slots, cacheSize: sh.cacheSize,
		}
		for d := range domains {
			q := 0.58 + 0.22*c.rank + 0.02*rng.NormFloat64()
			if d == n.special {
				q += 0.12
			} else {
				q -= 0.10
			}
			n.quality = append(n.quality, min(max(q, 0.05), 0.98))
		}
		out[i] = n
	}
	return out
}
