package virtual

import (
	"math"
	"time"

	"souk/agentd/vllmsim"
	"souk/agentd/vllmsim/kv"
	"souk/agentd/vllmsim/sched"
)

// EngineConfig is the size and the speed of an engine.
type EngineConfig struct {
	// how long a step takes; its noise and its sizes are not used
	Profile    vllmsim.Profile
	Slots      int // requests that run at once: max_num_seqs
	MaxBatched int // tokens in a step: max_num_batched_tokens
	Blocks     int // of the KV cache; one is reserved
	BlockSize  int // tokens in a block
	// a token that comes later than this after the one before counts in [Job.Late]; 0: none does
	Late time.Duration
}

// alone returns how long an idle engine takes for the rest of a prompt, of which it holds so many tokens.
func (c *EngineConfig) alone(prompt, held int) (all time.Duration) {
	p := &c.Profile
	for held < prompt {
		n := min(prompt-held, c.MaxBatched)
		us := p.Base + float64(float64(n)*p.Prefill) + float64(float64(held)*p.Resident) +
			float64(float64(n*held+n*n/2)*p.Attention)
		all, held = all+time.Duration(us*1000), held+n
	}
	return all
}

// Job is one request as its engine sees it: the lengths of prompt and answer, and the blocks that they fill.
type Job struct {
	Hashes         []uint64 // of each full block of prompt and answer: a hash of all text up to its end
	Prompt, Output int      // tokens, at least one of each
	Cached         int      // prompt tokens found in the cache when it began

	Began time.Duration // when its engine gave it a slot
	Late  int           // tokens of the answer that came late: see [EngineConfig]

	last  int64 // when its last token came, in picoseconds
	run   sched.Request
	found int // of a prompt that was computed on another engine: Cached there
}

// Sched returns the job's state in the scheduler.
func (j *Job) Sched() *sched.Request { return &j.run }

// Prefix are the hashes of the first n full blocks.
func (j *Job) Prefix(n int) []uint64 { return j.Hashes[:n] }

// Said tells of a job that a step gave it its first token, its last one, or both.
type Said struct {
	Job         *Job
	First, Last bool
}

// Engine is vLLM's core in virtual time, with the scheduler of vllmsim. Steps that follow each other with the
// same batch are computed at once, so that an answer takes a few computations instead of one for each token.
type Engine struct {
	sched.Scheduler[*Job]
	step step // under way; none if the batch is empty

	base, prefill, decode, resident, attention int64 // picoseconds: the profile's
	times                                      int64 // so many as the profile says
	late                                       int64 // picoseconds after which a token is; 0: none is

	Prompt, Cached, Output int // tokens of the jobs that were answered

	// how much longer a step takes that is to begin, as for an adapter that is not loaded; nil: none does
	Longer func(e *Engine) time.Duration
}

// step is n steps with the same batch. Times are exact: whole numbers of picoseconds.
type step struct {
	begin       int64
	n           int   // steps
	first, rise int64 // time of the first step, and by how much each next one takes longer
}

// longer counts the steps after the first that take more than a time.
func (s *step) longer(than int64) int {
	switch {
	case s.first+s.rise*int64(s.n-1) <= than:
		return 0
	case s.first+s.rise > than:
		return s.n - 1
	}
	return s.n - 1 - int((than-s.first)/s.rise)
}

// after is the time that the first k steps take together.
func (s *step) after(k int) int64 { return int64(k)*s.first + s.rise*(int64(k)*int64(k-1)/2) }

const picos = 1000 // in a nanosecond

// picoseconds converts from microseconds.
func picoseconds(us float64) int64 { return int64(math.Round(us * 1e6)) }

// NewEngine is an idle engine with an empty cache.
func NewEngine(cfg EngineConfig) *Engine {
	p := &cfg.Profile
	return &Engine{Scheduler: sched.Scheduler[*Job]{Slots: cfg.Slots, Batched: cfg.MaxBatched,
		Cache: kv.New(cfg.Blocks, cfg.BlockSize)},
		base: picoseconds(p.Base), prefill: picoseconds(p.Prefill), decode: picoseconds(p.Decode),
		resident: picoseconds(p.Resident), attention: picoseconds(p.Attention), times: 1,
		late: int64(cfg.Late) * picos}
}

// Usage is the share of the cache that running requests hold, 0 to 1.
func (e *Engine) Usage() float64 { return float64(e.Cache.Used()) / float64(e.Cache.Capacity()) }

// Ask queues a job. Later steps may now have another batch, so of those planned only the one under way is
// kept.
func (e *Engine) Ask(now time.Duration, j *Job) {
	e.Add(j, j.Prompt)
	s := &e.step
	if len(e.Batch) == 0 {
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

// Under returns how much is left of the step under way, how long all of it takes, and whether it computes a
// prompt; zero where there is none.
func (e *Engine) Under(now time.Duration) (left, whole time.Duration, prompts bool) {
	s := &e.step
	if len(e.Batch) == 0 {
		return 0, 0, false
	}
	past, k := int64(now)*picos-s.begin, 1
	for k < s.n && s.after(k) < past {
		k++
	}
	return time.Duration((s.after(k) - past) / picos), time.Duration((s.after(k) - s.after(k-1)) / picos),
		e.Sums().Prompt > 0
}

// Next returns when Advance has something to do next; false if it has nothing.
func (e *Engine) Next() (time.Duration, bool) {
	s := &e.step
	if len(e.Batch) == 0 {
		return time.Duration(s.begin / picos), len(e.Waiting) > 0
	}
	return time.Duration((s.begin + s.after(s.n) + picos - 1) / picos), true
}

// Advance ends the steps that are due, begins the next ones, and appends to out what the ended ones gave.
func (e *Engine) Advance(now time.Duration, out []Said) []Said {
	at, busy := e.Next()
	if !busy || at > now {
		return out
	}
	s := &e.step
	if len(e.Batch) > 0 {
		s.begin += s.after(s.n)
		out = e.complete(out)
	}
	e.schedule()
	return out
}

// complete ends the step and appends what it gave the jobs of its batch.
func (e *Engine) complete(out []Said) []Said {
	size := e.Cache.Size
	for range e.step.n - 1 { // the blocks of the first were taken when it began
		for _, w := range e.Batch {
			w.Seq.run.Computed++
			if at := w.Seq.run.Computed % size; at == 0 || at == size-1 { // a block begins or is full
				e.Room(w.Seq, 1, nil)
			}
		}
	}
	end := e.step.begin
	first, longer := end-e.step.after(e.step.n)+e.step.first, e.step.longer(e.late)
	for _, w := range e.Batch {
		j, r := w.Seq, &w.Seq.run
		r.Computed += w.Tokens
		if r.Computed < r.Tokens {
			continue // more of the prompt to come
		}
		fresh := r.Tokens == r.Prompt
		if e.late > 0 && !fresh {
			if j.Late += longer; first-j.last > e.late {
				j.Late++
			}
		}
		j.last = end
		switch {
		case fresh && r.Handed > 0:
			j.Cached = j.found
		case fresh:
			j.Cached = r.Cached
			e.Prompt, e.Cached = e.Prompt+j.Prompt, e.Cached+j.Cached
		}
		r.Tokens += e.step.n
		e.Output += e.step.n
		last := r.Tokens-r.Prompt >= j.Output
		if last {
			e.Drop(j)
		}
		if fresh || last {
			out = append(out, Said{j, fresh, last})
		}
	}
	return out
}

// schedule begins the next step, together with those that will have the same batch.
func (e *Engine) schedule() {
	pushed := e.Schedule()
	if len(e.Batch) == 0 {
		return
	}
	s := &e.step
	for _, w := range e.Batch {
		if w.Seq.Began == 0 {
			w.Seq.Began = time.Duration(s.begin / picos)
		}
	}
	of := e.Sums()
	s.first = e.base + int64(of.Prompt)*e.prefill + int64(of.Pairs)*e.attention +
		int64(of.Decoding)*e.decode + int64(of.Resident)*e.resident
	s.first *= e.times
	s.rise = int64(of.Decoding) * e.resident * e.times
	s.n = 1
	if of.Prompt == 0 && !pushed && (len(e.Waiting) == 0 || len(e.Running) >= e.Slots) {
		s.n = e.equal()
	}
	if e.Longer != nil {
		if more := e.Longer(e); more > 0 {
			s.first, s.n = s.first+int64(more)*picos, 1
		}
	}
}

// equal returns for how many steps the batch stays the same: until the first answer ends, if the cache has
// room for that; else one.
func (e *Engine) equal() int {
	n := math.MaxInt
	for _, w := range e.Batch {
		n = min(n, w.Seq.Prompt+w.Seq.Output-w.Seq.run.Tokens)
	}
	need := 0
	for _, w := range e.Batch {
		need += (w.Seq.run.Computed+n+e.Cache.Size-1)/e.Cache.Size - len(w.Seq.run.Blocks)
	}
	if need > e.Cache.Free || len(e.Batch) < len(e.Running) {
		return 1
	}
	return n
}
