package vllmsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"souk/agentd/vllmsim/sched"
)

// Profile says how long a step of an engine takes, and how large the engine is.
type Profile struct {
	Name   string
	About  string // one line for --help
	Origin string // the measurements it was fitted to, with their licence

	// A step with p prompt tokens, a pairs of one and a token before it, d decoding sequences and k tokens in
	// the KV cache of all of them takes Base + p*Prefill + a*Attention + d*Decode + k*Resident microseconds.
	Base, Prefill, Attention, Decode, Resident float64
	Noise                                      float64 // sigma of the log of a factor on each step

	// Defaults for the flags of the same names.
	MaxNumSeqs, MaxNumBatchedTokens, NumGPUBlocks int
}

func (p *Profile) stepTime(s sched.Sums, random *rand.PCG) time.Duration {
	us := p.Base + float64(s.Prompt)*p.Prefill + float64(s.Pairs)*p.Attention + float64(s.Decoding)*p.Decode +
		float64(s.Resident)*p.Resident
	if p.Noise > 0 {
		us *= math.Exp(p.Noise * rand.New(random).NormFloat64())
	}
	return time.Duration(us * float64(time.Microsecond))
}

// Instant takes no time at all. It is for measuring what stands in front of an engine.
var Instant = Profile{Name: "instant", About: "every step takes no time", MaxNumSeqs: 1024,
	MaxNumBatchedTokens: 65536, NumGPUBlocks: 65536}

// Steady gives every running request a token each 10 ms, whatever else happens. It is for measuring a relay
// of streams.
var Steady = Profile{Name: "steady", About: "a token every 10 ms", Base: 10_000, MaxNumSeqs: 1024,
	MaxNumBatchedTokens: 65536, NumGPUBlocks: 65536}

// Profiles returns every known profile, the synthetic ones first.
func Profiles() []Profile { return append([]Profile{Instant, Steady}, fitted...) }

// ProfileNamed finds a profile.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("vllmsim: profile %q is none of %s", name, strings.Join(names, ", "))
}
