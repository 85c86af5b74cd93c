package replay

import (
	"fmt"
	"math"
	"math/rand/v2"

	"souk/bus"
	"souk/market"
)

// Client is one payer of a replay: its id, and its terms.
type Client struct {
	ID    string
	Kind  string // a word for the report
	Terms bus.Terms
}

// kinds are the tempers of the clients of a replay. Worth is in credits for one answer: a turn of the bundled
// dialogues costs 0.00003 to 0.0003 on the bundled price cards, so that even the thrifty gain by an answer.
var kinds = []struct {
	name               string
	worthMin, worthMax float64 // credits
	delta              float64 // weight of quality against latency
	patienceMS         int64   // a TTFT at which the latency term is spent
}{
	{"hurried", 0.0012, 0.0040, 0.25, 1_000},
	{"exacting", 0.0020, 0.0060, 0.90, 8_000},
	{"balanced", 0.0010, 0.0030, 0.50, 3_000},
	{"thrifty", 0.0006, 0.0015, 0.60, 15_000},
}

// Mix makes n clients whose terms differ: the kinds in turn, and within a kind a worth drawn
// log-uniformly from the seed.
func Mix(seed uint64, n int) []Client {
	rng := rand.New(rand.NewPCG(seed, 0x736f756b))
	clients := make([]Client, n)
	for i := range clients {
		k := kinds[i%len(kinds)]
		worth, err := market.Quantise(k.worthMin * math.Pow(k.worthMax/k.worthMin, rng.Float64()))
		if err != nil {
			panic("replay: a worth of the table is no amount")
		}
		delta, patience := k.delta, k.patienceMS
		clients[i] = Client{
			ID:    fmt.Sprintf("%s-%d", k.name, i/len(kinds)+1),
			Kind:  k.name,
			Terms: bus.Terms{Worth: &worth, Delta: &delta, PatienceMS: &patience},
		}
	}
	return clients
}
