package virtual

import (
	"errors"
	"fmt"
	"time"
)

// Pool is engines that give answers alone: their prompts are computed by others, which hand over keys and
// values. A policy places requests on those that answer; the others are one queue, and each prompt goes to
// the engine with the fewest tokens ahead of it.
//
// As in vLLM (kv_role, NIXL) the last token of a prompt is computed where its answer is given, so a first
// token comes one step after the keys and values, and what an engine that answers holds already is not sent
// again. Other than there, blocks of the engine that computed are free when it has, not when they were sent.
type Pool struct {
	Prefill int           // engines that compute prompts
	Decode  []int         // the engines of the setting that answer
	Engine  *EngineConfig // of those that compute; nil: as the setting's
	Token   int           // bytes of keys and values of a token
	Link    float64       // bytes a second that an engine which computes can send, one prompt after another
}

// pools holds the state of a run's pools.
type pools struct {
	of    []int           // by engine that answers: its pool, from 1
	first []int           // by pool, the place of its first engine that computes
	sent  []time.Duration // by engine: when what it sends has gone
	ahead []int           // by engine: tokens to be computed
	jobs  map[*Job]prefill
}

// prefill is a prompt that is computed for a request elsewhere.
type prefill struct {
	request *Request
	cold    int
}

func (s *Setting) validatePools() error {
	seen := map[int]bool{}
	for i, p := range s.Pools {
		if p.Prefill < 1 || len(p.Decode) < 1 || p.Token < 1 || !(p.Link > 0) {
			return fmt.Errorf("virtual: pool %d has %d engines that compute prompts, %d that answer, %d bytes "+
				"a token and a link of %v bytes a second: all must be above 0", i, p.Prefill, len(p.Decode),
				p.Token, p.Link)
		}
		for _, e := range p.Decode {
			if e < 0 || e >= s.Engines || seen[e] {
				return fmt.Errorf("virtual: engine %d of pool %d is none of %d, or in a pool twice", e, i,
					s.Engines)
			}
			seen[e] = true
		}
		if e := p.Engine; e != nil && (e.BlockSize != s.Engine.BlockSize || e.Blocks < s.Engine.Blocks) {
			return errors.New("virtual: an engine that computes prompts has blocks of the same size as one " +
				"that answers, and no fewer")
		}
	}
	return nil
}

// addPools puts the engines that compute prompts behind those of the setting.
func (r *run) addPools() {
	p := &r.pools
	if len(r.Pools) == 0 {
		return
	}
	p.of, p.jobs = make([]int, r.Engines), map[*Job]prefill{}
	for i, pool := range r.Pools {
		for _, e := range pool.Decode {
			p.of[e] = i + 1
		}
		p.first = append(p.first, len(r.engines))
		cfg := r.Engine
		if pool.Engine != nil {
			cfg = *pool.Engine
		}
		for range pool.Prefill {
			r.engines, r.due = append(r.engines, NewEngine(cfg)), append(r.due, -1)
		}
	}
	p.sent, p.ahead = make([]time.Duration, len(r.engines)), make([]int, len(r.engines))
}

// handed has a request's prompt computed elsewhere, if its engine is in a pool.
func (r *run) handed(now time.Duration, q *Request) bool {
	p := &r.pools
	if p.of == nil || p.of[q.Engine] == 0 {
		return false
	}
	of := p.of[q.Engine] - 1
	best := p.first[of]
	for i := best + 1; i < p.first[of]+r.Pools[of].Prefill; i++ {
		if p.ahead[i] < p.ahead[best] {
			best = i
		}
	}
	j := &Job{Hashes: q.Hashes, Prompt: q.Prompt, Output: 1}
	e, size := r.engines[best], r.Engine.BlockSize
	cold := q.Prompt - e.Cache.Match(q.Hashes[:(q.Prompt-1)/size])*size
	p.ahead[best] += cold
	p.jobs[j] = prefill{q, cold}
	e.Ask(now, j)
	r.step(now, best)
	return true
}

// handOver sends what was computed to the engine that answers.
func (r *run) handOver(now time.Duration, from int, j *Job) {
	p, size := &r.pools, r.Engine.BlockSize
	q := p.jobs[j].request
	p.ahead[from] -= p.jobs[j].cold
	delete(p.jobs, j)
	e := r.engines[q.Engine]
	pool := &r.Pools[p.of[q.Engine]-1]
	tokens := q.Prompt - 1 - e.Cache.Match(q.Hashes[:(q.Prompt-1)/size])*size
	p.sent[from] = max(now, p.sent[from]) +
		time.Duration(float64(tokens)*float64(pool.Token)/pool.Link*float64(time.Second))
	q.found, q.run.Handed = j.Cached, q.Prompt-1
	r.add(p.sent[from], func(now time.Duration) {
		e.Ask(now, &q.Job)
		r.step(now, q.Engine)
	})
}
