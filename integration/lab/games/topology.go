package games

import (
	"fmt"
	"time"

	"souk/agentd/vllmsim"
	"souk/integration/lab/virtual"
)

// Topology counts the engines that compute prompts, one after another, and those that answer behind them.
type Topology struct {
	Prefill, Decode int
	Rate            float64 // prompts a second that each of those computes: the paper's ceilings
}

// The paper's two for its 70B model.
var (
	Two  = Topology{Prefill: 1, Decode: 2, Rate: 47}
	Five = Topology{Prefill: 1, Decode: 5, Rate: 51}
)

func (t Topology) String() string { return fmt.Sprintf("%dP/%dD", t.Prefill, t.Decode) }

// profile names the profile of engines that answer.
const profile = "b200x4-llama-3.1-70b"

const blockSize = 16

// workload is the paper's: five prompts of 128 tokens, answers of 256.
func workload() []virtual.Template {
	out := make([]virtual.Template, 5)
	for i := range out {
		out[i] = virtual.Template{Prompt: 128, Output: 256}
	}
	return out
}

// setting is a closed loop on a topology.
func (t Topology) setting(crews []virtual.Crew, length time.Duration, seed uint64) (virtual.Setting, error) {
	p, err := vllmsim.ProfileNamed(profile)
	if err != nil {
		return virtual.Setting{}, err
	}
	return virtual.Setting{Engines: t.Decode, Scripts: virtual.NewTemplates(workload(), blockSize),
		Engine: virtual.EngineConfig{Profile: p, Slots: p.MaxNumSeqs, MaxBatched: p.MaxNumBatchedTokens,
			Blocks: 16384, BlockSize: blockSize},
		Crews: crews, Length: length, Seed: seed, Hop: 300 * time.Microsecond, Scrape: 5 * time.Second}, nil
}

// prefilled has every prompt computed before its request comes to the engine that answers.
type prefilled struct {
	virtual.Policy
	takes  time.Duration
	free   []time.Time // of each engine that computes prompts: when it has
	queue  []handed    // by time
	jitter func() float64
}

type handed struct {
	at time.Time
	p  virtual.Placed
}

func (t Topology) before(p virtual.Policy, jitter func() float64) *prefilled {
	return &prefilled{Policy: p, takes: time.Duration(1e9 / t.Rate), free: make([]time.Time, t.Prefill),
		jitter: jitter}
}

// compute queues a request that has its engine.
func (f *prefilled) compute(now time.Time, p virtual.Placed) {
	first := 0
	for i, at := range f.free {
		if at.Before(f.free[first]) {
			first = i
		}
	}
	begin := f.free[first]
	if begin.Before(now) {
		begin = now
	}
	f.free[first] = begin.Add(time.Duration(float64(f.takes) * f.jitter()))
	h := handed{f.free[first], p}
	i := len(f.queue)
	for ; i > 0 && f.queue[i-1].at.After(h.at); i-- {
	}
	f.queue = append(f.queue, handed{})
	copy(f.queue[i+1:], f.queue[i:])
	f.queue[i] = h
}

// Arrive implements virtual.Policy.
func (f *prefilled) Arrive(now time.Time, r *virtual.Request, v *virtual.View) int {
	if engine := f.Policy.Arrive(now, r, v); engine != virtual.Wait {
		f.compute(now, virtual.Placed{Request: r, Engine: engine})
	}
	return virtual.Wait
}

// Wake implements virtual.Policy.
func (f *prefilled) Wake(now time.Time) (place []virtual.Placed, next time.Time) {
	placed, next := f.Policy.Wake(now)
	for _, p := range placed {
		if p.Engine == virtual.Wait {
			place = append(place, p)
			continue
		}
		f.compute(now, p)
	}
	for len(f.queue) > 0 && !f.queue[0].at.After(now) {
		place = append(place, f.queue[0].p)
		f.queue = f.queue[1:]
	}
	if len(f.queue) > 0 && (next.IsZero() || f.queue[0].at.Before(next)) {
		next = f.queue[0].at
	}
	return place, next
}
