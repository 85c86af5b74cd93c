// Package sched decides what an engine computes in its next step, as vLLM does
// (vllm/v1/core/sched/scheduler.py): requests wait first come, first served; each step gives every running
// request its next token, or part of its prompt, within a budget of tokens; a request that finds no free
// block pushes out the newest one, which starts again later. It knows no time.
package sched

import (
	"slices"

	"souk/agentd/vllmsim/kv"
)

// Request is a sequence's state in the scheduler.
type Request struct {
	Prompt    int // tokens
	Tokens    int // of prompt and answer so far
	Computed  int // of these, those whose keys and values are in blocks
	Cached    int // of the prompt, found in the cache when it began; -1 before
	Blocks    []int32
	Preempted int

	// Whoever asks sets these before Add.
	Adapter int32 // that it needs; 0: none
	Handed  int   // tokens whose keys and values come from another engine, and are not computed here
}

// Sequence is a request with its text, of which the hashes of the first n full blocks are needed.
type Sequence interface {
	comparable
	Sched() *Request
	Prefix(n int) []uint64
}

// Work is one sequence's share of a step.
type Work[S Sequence] struct {
	Seq    S // the zero value: dropped meanwhile
	Tokens int
	Prompt bool
}

// Scheduler holds the sequences that wait and run on an engine.
type Scheduler[S Sequence] struct {
	Slots    int // sequences that run at once
	Batched  int // tokens in a step
	Cache    *kv.Cache
	Adapters int // different ones in a step at most; 0: however many
	// is told which of a sequence's blocks can be found from now on; may be nil
	Stored func(s S, from, to int)

	Waiting, Running []S // those that run in the order in which they started
	Batch            []Work[S]
	Preempted        int

	spare []int32 // scratch for prefix lookups
}

// Add queues a new sequence of so many tokens.
func (c *Scheduler[S]) Add(s S, prompt int) {
	r := s.Sched()
	*r = Request{Prompt: prompt, Tokens: prompt, Cached: -1, Adapter: r.Adapter, Handed: r.Handed}
	c.Waiting = append(c.Waiting, s)
}

// Drop takes a sequence away wherever it is; its blocks are free at once.
func (c *Scheduler[S]) Drop(s S) {
	c.Waiting, c.Running = without(c.Waiting, s), without(c.Running, s)
	c.release(s)
	for i := range c.Batch {
		if c.Batch[i].Seq == s {
			var none S
			c.Batch[i].Seq = none
		}
	}
}

func (c *Scheduler[S]) release(s S) {
	r := s.Sched()
	c.Cache.Release(r.Blocks)
	r.Blocks = r.Blocks[:0]
}

func without[S comparable](list []S, s S) []S {
	if i := slices.Index(list, s); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// Schedule fills the next batch: who runs already goes on, then who waits, in its order, but nobody new in a
// step that pushed someone out. Who needs one adapter more than a step may have is passed over.
func (c *Scheduler[S]) Schedule() (pushed bool) {
	c.Batch = c.Batch[:0]
	budget := c.Batched
	for i := 0; i < len(c.Running) && budget > 0; i++ {
		s := c.Running[i]
		n := min(s.Sched().Tokens-s.Sched().Computed, budget)
		out := false
		for !out && !c.Room(s, n, nil) {
			newest := c.Running[len(c.Running)-1]
			out, pushed = newest == s, true
			budget += c.preempt(newest)
		}
		if out {
			break
		}
		c.plan(s, n)
		budget -= n
	}
	for at := 0; !pushed && at < len(c.Waiting) && budget > 0 && len(c.Running) < c.Slots; {
		if !c.adapts(c.Waiting[at]) {
			at++
			continue
		}
		n := c.admit(at, budget)
		if n == 0 {
			break
		}
		budget -= n
	}
	return pushed
}

// adapts reports whether a sequence may run beside those that do, as far as adapters go.
func (c *Scheduler[S]) adapts(s S) bool {
	own := s.Sched().Adapter
	if c.Adapters == 0 || own == 0 {
		return true
	}
	var others []int32
	for _, x := range c.Running {
		a := x.Sched().Adapter
		if a == own {
			return true
		}
		if a != 0 && !slices.Contains(others, a) {
			others = append(others, a)
		}
	}
	return len(others) < c.Adapters
}

// admit starts a sequence that waits, on what the cache holds of it, and returns how many tokens of it are
// computed in this step: 0 if there is no room for it.
func (c *Scheduler[S]) admit(at, budget int) int {
	s := c.Waiting[at]
	r := s.Sched()
	// The last token is always computed: its output is wanted.
	hit := c.Cache.Find(c.spare[:0], s.Prefix((r.Tokens-1)/c.Cache.Size))
	c.spare = hit
	r.Computed = max(len(hit)*c.Cache.Size, r.Handed)
	n := min(r.Tokens-r.Computed, budget)
	if !c.Room(s, n, hit) {
		r.Computed = 0
		return 0
	}
	c.Waiting = slices.Delete(c.Waiting, at, at+1)
	c.Running = append(c.Running, s)
	if r.Cached < 0 {
		r.Cached = len(hit) * c.Cache.Size
	}
	c.plan(s, n)
	return n
}

// Room gives s the blocks for n more tokens, after those of hit, if there are enough.
func (c *Scheduler[S]) Room(s S, n int, hit []int32) bool {
	r, size := s.Sched(), c.Cache.Size
	need := (r.Computed+n+size-1)/size - len(r.Blocks) - len(hit)
	if need+c.Cache.Idle(hit) > c.Cache.Free {
		return false
	}
	from, full := r.Computed/size, (r.Computed+n)/size // blocks that are full after this step
	if len(r.Blocks) == 0 {
		from = len(hit) // and those that were handed over
	}
	c.Cache.Hold(hit)
	r.Blocks = append(r.Blocks, hit...)
	if need > 0 {
		r.Blocks = c.Cache.Take(r.Blocks, need)
	}
	for i := from; i < full; i++ {
		c.Cache.Fill(r.Blocks[i], s.Prefix(full)[i])
	}
	if c.Stored != nil && from < full {
		c.Stored(s, from, full)
	}
	return true
}

func (c *Scheduler[S]) plan(s S, n int) {
	r := s.Sched()
	prompt := r.Computed+n < r.Tokens || n > 1 || r.Tokens == r.Prompt
	c.Batch = append(c.Batch, Work[S]{s, n, prompt})
}

// Sums says what a batch is made of.
type Sums struct {
	Prompt   int // tokens of prompts
	Pairs    int // of one of these and a token before it, to which it attends
	Decoding int // sequences
	Resident int // tokens in the cache
}

// Sums says what the batch is made of.
func (c *Scheduler[S]) Sums() (s Sums) {
	for _, w := range c.Batch {
		held := w.Seq.Sched().Computed
		s.Resident += held
		if w.Prompt {
			s.Prompt += w.Tokens
			s.Pairs += w.Tokens*held + w.Tokens*w.Tokens/2
		} else {
			s.Decoding++
		}
	}
	return s
}

// preempt pushes s out: it gives back its blocks and goes to the head of the queue. What it had computed may
// still be in the cache when its turn comes again; what was handed over is computed here then. It returns
// how many tokens of it were to be computed in this step.
func (c *Scheduler[S]) preempt(s S) (tokens int) {
	c.Batch = slices.DeleteFunc(c.Batch, func(w Work[S]) bool {
		if w.Seq == s {
			tokens += w.Tokens
		}
		return w.Seq == s
	})
	c.Running = without(c.Running, s)
	c.release(s)
	r := s.Sched()
	r.Computed, r.Handed = 0, 0
	r.Preempted++
	c.Preempted++
	c.Waiting = slices.Insert(c.Waiting, 0, s)
	return tokens
}
