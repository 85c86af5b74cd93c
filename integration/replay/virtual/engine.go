package virtual

import (
	"math"
	"slices"
	"time"

	"souk/integration/vllmsim"
	"souk/integration/vllmsim/kv"
)

// EngineConfig is the size and the speed of an engine.
type EngineConfig struct {
	// what a step takes; its noise is left out, and so are its sizes
	Profile    vllmsim.Profile
	Slots      int // requests that run at once: max_num_seqs
	MaxBatched int // tokens in a step: max_num_batched_tokens
	Blocks     int // of the KV cache, one of which is reserved
	BlockSize  int // tokens in a block
}

// Job is one request as its engine sees it: how long the prompt and the answer are, and which blocks they
// make.
type Job struct {
	Hashes         []uint64 // of every full block of prompt and answer, each for all text up to its end
	Prompt, Output int      // tokens, at least one of each
	Cached         int      // prompt tokens found in the cache when it began

	tokens, computed int // of prompt and answer so far: there are, and have been computed
	blocks           []int32
	began            bool
}

// Said is what came of a step for a job: its first token, its last one, or both.
type Said struct {
	Job         *Job
	First, Last bool
}

// Engine is vLLM's core in virtual time, with the rules of vllmsim's step machine: requests wait first come,
// first served; each step gives every running request its next token, or a part of its prompt, within a
// budget of tokens; a request that finds no free block pushes out the newest one. What that machine does step
// by step is done here at once for as many equal steps as follow each other, so that an answer costs a few of
// them.
type Engine struct {
	cfg              EngineConfig
	cache            *kv.Cache
	waiting, running []*Job // running in the order in which they started
	spare            []int32

	step step // being computed; none if it has no batch

	base, prefill, decode, resident int64 // picoseconds: the profile's

	Prompt, Cached, Output int // tokens of the jobs that began, and of answers
	Preempted              int
}

// step is a number of equal steps. Times are exact: in picoseconds, as whole numbers.
type step struct {
	batch       []work
	begin       int64
	n           int   // steps
	first, rise int64 // what the first takes, and by how much each takes longer than the one before
}

// work is one job's share of a step.
type work struct {
	job    *Job
	tokens int
	prompt bool
}

// after is how long the first k steps take.
func (s *step) after(k int) int64 { return int64(k)*s.first + s.rise*(int64(k)*int64(k-1)/2) }

const picos = 1000 // in a nanosecond

// picoseconds of a number of microseconds.
func picoseconds(us float64) int64 { return int64(math.Round(us * 1e6)) }

// NewEngine is an idle engine with an empty cache.
func NewEngine(cfg EngineConfig) *Engine {
	p := &cfg.Profile
	return &Engine{cfg: cfg, cache: kv.New(cfg.Blocks, cfg.BlockSize),
		base: picoseconds(p.Base), prefill: picoseconds(p.Prefill), decode: picoseconds(p.Decode),
		resident: picoseconds(p.Resident)}
}

// Running and Waiting are how many requests do.
func (e *Engine) Running() int { return len(e.running) }
func (e *Engine) Waiting() int { return len(e.waiting) }

// Usage is the share of the cache that running requests hold.
func (e *Engine) Usage() float64 { return float64(e.cache.Used()) / float64(e.cache.Capacity()) }

// Add queues a job. Steps that were taken as equal may be so no longer: only the one under way is kept.
func (e *Engine) Add(now time.Duration, j *Job) {
	j.tokens = j.Prompt
	e.waiting = append(e.waiting, j)
	s := &e.step
	if len(s.batch) == 0 {
		s.begin = int64(now) * picos
		return
	}
	past := int64(now)*picos - s.begin
	begun, more := 1, s.n
	for begun < more { // the least number of steps that end now or later
		if mid := (begun + more) / 2; s.after(mid) >= past {
			more = mid
		} else {
			begun = mid + 1
		}
	}
	s.n = begun
}

// Next is when Advance has something to do; false if it has not.
func (e *Engine) Next() (time.Duration, bool) {
	s := &e.step
	if len(s.batch) == 0 {
		return time.Duration(s.begin / picos), len(e.waiting) > 0
	}
	return time.Duration((s.begin + s.after(s.n) + picos - 1) / picos), true
}

// Advance ends the steps that are due, begins the next, and appends to out what was said.
func (e *Engine) Advance(now time.Duration, out []Said) []Said {
	at, busy := e.Next()
	if !busy || at > now {
		return out
	}
	s := &e.step
	if len(s.batch) > 0 {
		s.begin += s.after(s.n)
		out = e.complete(out)
	}
	e.schedule()
	return out
}

// complete gives out what the batch computed.
func (e *Engine) complete(out []Said) []Said {
	size := e.cfg.BlockSize
	for range e.step.n - 1 { // the blocks of the first were taken when it began
		for _, w := range e.step.batch {
			w.job.computed++
			if at := w.job.computed % size; at == 0 || at == size-1 { // a block begins or is full
				e.room(w.job, 1, nil)
			}
		}
	}
	for _, w := range e.step.batch {
		j := w.job
		j.computed += w.tokens
		if j.computed < j.tokens {
			continue // more of the prompt to come
		}
		fresh := j.tokens == j.Prompt
		j.tokens += e.step.n
		e.Output += e.step.n
		last := j.tokens-j.Prompt >= j.Output
		if last {
			e.running = without(e.running, j)
			e.cache.Release(j.blocks)
			j.blocks = nil
		}
		if fresh || last {
			out = append(out, Said{j, fresh, last})
		}
	}
	return out
}

func without(list []*Job, j *Job) []*Job {
	i := slices.Index(list, j)
	return slices.Delete(list, i, i+1)
}

// schedule begins the next step: who runs already goes on, then who waits, in order of arrival.
func (e *Engine) schedule() {
	s := &e.step
	s.batch = s.batch[:0]
	budget := e.cfg.MaxBatched
	pushed := false
	for i := 0; i < len(e.running) && budget > 0; i++ {
		j := e.running[i]
		n := min(j.tokens-j.computed, budget)
		for !e.room(j, n, nil) {
			newest := e.running[len(e.running)-1]
			e.preempt(newest)
			pushed = true
			if newest == j {
				break
			}
		}
		if i == len(e.running) || e.running[i] != j {
			break // pushed out itself
		}
		e.plan(j, n)
		budget -= n
	}
	for !pushed && len(e.waiting) > 0 && budget > 0 && len(e.running) < e.cfg.Slots {
		n := e.admit(e.waiting[0], budget)
		if n == 0 {
			break
		}
		budget -= n
	}
	if len(s.batch) == 0 {
		return
	}
	prompt, decoding, resident := 0, 0, 0
	for _, w := range s.batch {
		resident += w.job.computed
		if w.prompt {
			prompt += w.tokens
		} else {
			decoding++
		}
	}
	s.first = e.base + int64(prompt)*e.prefill + int64(decoding)*e.decode + int64(resident)*e.resident
	s.rise = int64(decoding) * e.resident
	s.n = 1
	if prompt == 0 && !pushed && (len(e.waiting) == 0 || len(e.running) >= e.cfg.Slots) {
		s.n = e.equal()
	}
}

// equal is for how many steps the batch stays as it is: until the first answer ends, if there is room so
// long.
func (e *Engine) equal() int {
	n := math.MaxInt
	for _, w := range e.step.batch {
		n = min(n, w.job.Prompt+w.job.Output-w.job.tokens)
	}
	need := 0
	for _, w := range e.step.batch {
		need += e.blocksFor(w.job.computed+n) - len(w.job.blocks)
	}
	if need > e.cache.Free() || len(e.step.batch) < len(e.running) {
		return 1
	}
	return n
}

func (e *Engine) blocksFor(tokens int) int { return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize }

// admit starts the first job that waits, on what the cache holds of it, and returns how many tokens of it are
// computed in this step: 0 if there is no room for it.
func (e *Engine) admit(j *Job, budget int) int {
	full := (j.tokens - 1) / e.cfg.BlockSize // the last token is always computed: its output is wanted
	hit := e.cache.Find(e.spare[:0], j.Hashes[:full])
	e.spare = hit
	j.computed = len(hit) * e.cfg.BlockSize
	n := min(j.tokens-j.computed, budget)
	if !e.room(j, n, hit) {
		j.computed = 0
		return 0
	}
	e.waiting = slices.Delete(e.waiting, 0, 1)
	e.running = append(e.running, j)
	if !j.began {
		j.began, j.Cached = true, j.computed
		e.Prompt += j.Prompt
		e.Cached += j.Cached
	}
	e.plan(j, n)
	return n
}

// room gives j the blocks for n more tokens, after those of hit, if there are enough.
func (e *Engine) room(j *Job, n int, hit []int32) bool {
	need := e.blocksFor(j.computed+n) - len(j.blocks) - len(hit)
	if need+e.cache.Idle(hit) > e.cache.Free() {
		return false
	}
	e.cache.Hold(hit)
	j.blocks = append(j.blocks, hit...)
	if need > 0 {
		j.blocks = e.cache.Take(j.blocks, need)
	}
	for i := j.computed / e.cfg.BlockSize; i < (j.computed+n)/e.cfg.BlockSize; i++ {
		e.cache.Fill(j.blocks[i], j.Hashes[i])
	}
	return true
}

func (e *Engine) plan(j *Job, n int) {
	prompt := j.computed+n < j.tokens || n > 1 || j.tokens == j.Prompt
	e.step.batch = append(e.step.batch, work{j, n, prompt})
}

// preempt pushes j out: it gives back its blocks and goes to the head of the queue. What it had computed may
// still be in the cache when its turn comes again.
func (e *Engine) preempt(j *Job) {
	if i := slices.IndexFunc(e.step.batch, func(w work) bool { return w.job == j }); i >= 0 {
		e.step.batch = slices.Delete(e.step.batch, i, i+1)
	}
	e.running = without(e.running, j)
	e.cache.Release(j.blocks)
	j.blocks, j.computed = j.blocks[:0], 0
	e.Preempted++
	e.waiting = slices.Insert(e.waiting, 0, j)
}
