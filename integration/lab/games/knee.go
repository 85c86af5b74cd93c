package games

import (
	"fmt"
	"math/rand/v2"
	"time"

	"souk/agentd/vllmsim"
	"souk/integration/lab/virtual"
)

// Crowd describes like engines in front of which the market stands, and the slots of each. Each serves a task
// in the same time, so that it is known how many are served at most.
type Crowd struct{ Engines, Slots int }

// Eight, Four and Pair are the crowds whose regimes are watched.
var (
	Eight = Crowd{8, 8}
	Four  = Crowd{4, 16}
	Pair  = Crowd{2, 8}
)

func (c Crowd) String() string { return fmt.Sprintf("%d of %d slots", c.Engines, c.Slots) }

const (
	kneeProfile = "rtxpro6000-llama-3.1-8b"
	kneeOutput  = 200 // tokens of an answer
)

// knee returns the tasks a second that the engines serve with all slots taken.
func (c Crowd) knee(p vllmsim.Profile) float64 {
	const resident = 128 + kneeOutput/2
	slots := float64(c.Slots)
	step := p.Base + slots*(p.Decode+resident*p.Resident) // us; prompts are cached
	return float64(c.Engines) * slots / (step * kneeOutput / 1e6)
}

// times is a span in which so many times the knee come.
type times struct {
	factor float64
	length time.Duration
}

// at has tasks come at random at multiples of the knee, one after the other.
func (c Crowd) at(seed uint64, loads ...times) (virtual.Setting, error) {
	p, err := vllmsim.ProfileNamed(kneeProfile)
	if err != nil {
		return virtual.Setting{}, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6b6e6565))
	var arrive []time.Duration
	at, end := time.Duration(0), time.Duration(0)
	for _, l := range loads {
		for end += l.length; ; {
			at += time.Duration(rng.ExpFloat64() / (l.factor * c.knee(p)) * 1e9)
			if at >= end {
				at = end
				break
			}
			arrive = append(arrive, at)
		}
	}
	return virtual.Setting{Engines: c.Engines, Arrive: arrive, Seed: seed, Length: at,
		Scripts: virtual.NewTemplates([]virtual.Template{{Prompt: 128, Output: kneeOutput}}, blockSize),
		Engine: virtual.EngineConfig{Profile: p, Slots: c.Slots, MaxBatched: p.MaxNumBatchedTokens,
			Blocks: 8192, BlockSize: blockSize},
		Hop: 300 * time.Microsecond, Scrape: 5 * time.Second}, nil
}

// Half of what can be served comes for the first of these, and then twice as much is watched. Where it is
// asked only how soon that is seen, it is watched for little longer than that may take.
const kneeCalm, kneeWatched, kneeSeen = 30 * time.Second, 30 * time.Second, 16 * time.Second

// job plays loads one after the other, and has the last of them watched.
func (c Crowd) job(load string, loads ...times) job {
	watched := span{}
	for _, l := range loads {
		watched = span{watched.to, watched.to + l.length}
	}
	return job{topology: Topology{Decode: c.Engines}, name: c.String(), rule: ours, load: load,
		setting: func(seed uint64) (virtual.Setting, error) { return c.at(seed, loads...) },
		parts:   []part{{"", watched}}, watched: watched}
}

// knees plays less than can be served, as much, and twice as much.
func (c Crowd) knees() []job {
	const long = 10 * time.Minute
	return []job{c.job("0.5, then 2", times{0.5, kneeCalm}, times{2, kneeWatched}),
		c.job("1, ten minutes", times{1, long}), c.job("0.8, ten minutes", times{0.8, long})}
}

// Detection returns how long it takes to see a load of twice the capacity, after one of half; 16 s if it is
// not seen at all.
func (c Crowd) Detection(seed uint64) (time.Duration, error) {
	j := c.job("", times{0.5, kneeCalm}, times{2, kneeSeen})
	rows, err := j.run(seed)
	if err != nil {
		return 0, err
	}
	return detected(rows), nil
}

// detected returns when the market's own detector first reported it, in rows of one seed.
func detected(rows []Row) time.Duration {
	if at := rows[0].Seen; len(at) > 0 {
		return time.Duration(at[0] * float64(time.Second))
	}
	return kneeSeen
}
