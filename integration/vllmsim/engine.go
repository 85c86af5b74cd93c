package vllmsim

import (
	"math/rand/v2"
	"slices"
	"time"

	"souk/integration/vllmsim/kv"
)

// engine is vLLM's core as a state machine: requests wait first come, first served; each step gives every
// running request its next token, or part of its prompt, within a budget of tokens; a request that finds no
// free block pushes out the newest one, which starts again later. It reads no clock: the caller says what
// time it is, and so decides whether an hour takes an hour. It follows vllm/v1/core/sched/scheduler.py.
type engine struct {
	cfg     engineConfig
	kv      *kv.Cache
	waiting []*sequence
	running []*sequence // in the order in which they started
	random  rand.PCG    // for noise

	batch  []work    // being computed
	finish time.Time // when the batch is done; zero if none is being computed
	prompt int       // prompt tokens in the batch
	stats  stats

	spare []int32 // scratch for prefix lookups
}

type engineConfig struct {
	profile    Profile
	maxSeqs    int // sequences that run at once
	maxBatched int // tokens in a step
}

// work is one sequence's share of a step.
type work struct {
	seq    *sequence
	tokens int
	prompt bool
}

func newEngine(cfg engineConfig, blocks, blockSize int, seed uint64) *engine {
	return &engine{cfg: cfg, kv: kv.New(blocks, blockSize), stats: newStats(),
		random: *rand.NewPCG(seed, 1)}
}

// unfinished is the number of requests that run or wait.
func (e *engine) unfinished() int { return len(e.waiting) + len(e.running) }

// add queues a sequence.
func (e *engine) add(s *sequence, now time.Time) {
	s.arrived = now
	s.state = waits
	s.cached = -1
	e.waiting = append(e.waiting, s)
}

// abort drops a sequence wherever it is; its blocks are free at once.
func (e *engine) abort(s *sequence) {
	if s.state == ended {
		return
	}
	e.drop(s)
	s.finish("abort")
}

// all are the sequences that run or wait.
func (e *engine) all() []*sequence { return append(slices.Clone(e.running), e.waiting...) }

func (e *engine) drop(s *sequence) {
	e.waiting = without(e.waiting, s)
	e.running = without(e.running, s)
	e.kv.Release(s.blocks)
	s.blocks = s.blocks[:0]
	for i := range e.batch {
		if e.batch[i].seq == s {
			e.batch[i].seq = nil
		}
	}
}

func without(list []*sequence, s *sequence) []*sequence {
	for i := range list {
		if list[i] == s {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

// lag is how late a step may be noticed and the next one still begin when it ended. It keeps the average
// speed right although timers wake late; after a longer pause the engine does not catch up.
const lag = 50 * time.Millisecond

// step brings the engine to now: it ends the step that is due, appends to out the sequences that got
// something, and starts the next one. It returns when to call again; zero when there is nothing to do.
func (e *engine) step(now time.Time, out []*sequence) (time.Time, []*sequence) {
	start := now
	if !e.finish.IsZero() {
		if now.Before(e.finish) {
			return e.finish, out
		}
		if now.Sub(e.finish) < lag {
			start = e.finish
		}
		out = e.complete(e.finish, out)
		e.finish = time.Time{}
	}
	e.schedule(start)
	if len(e.batch) == 0 {
		return time.Time{}, out
	}
	decoding, resident := 0, 0
	for _, w := range e.batch {
		resident += w.seq.computed
		if !w.prompt {
			decoding++
		}
	}
	e.finish = start.Add(e.cfg.profile.stepTime(e.prompt, decoding, resident, &e.random))
	return e.finish, out
}

// schedule fills the next batch: who runs already goes on, then who waits, in order of arrival.
func (e *engine) schedule(now time.Time) {
	e.batch, e.prompt = e.batch[:0], 0
	budget := e.cfg.maxBatched
	preempted := false
	for i := 0; i < len(e.running) && budget > 0; i++ {
		s := e.running[i]
		n := min(len(s.tokens)-s.computed, budget)
		for !e.room(s, n, nil) {
			last := e.running[len(e.running)-1]
			e.preempt(last)
			preempted = true
			if last == s {
				break
			}
		}
		if s.state != runs {
			break
		}
		e.plan(s, n)
		budget -= n
	}
	if preempted {
		return // no one new in a step that pushed someone out
	}
	for len(e.waiting) > 0 && budget > 0 && len(e.running) < e.cfg.maxSeqs {
		if !e.admit(e.waiting[0], &budget, now) {
			return
		}
	}
}

// admit starts the first waiting sequence, on what the cache holds of it. It reports false if there is no
// room.
func (e *engine) admit(s *sequence, budget *int, now time.Time) bool {
	// The last token is always computed: its output is wanted.
	most := (len(s.tokens) - 1) / e.kv.Size()
	hit := e.kv.Find(e.spare[:0], s.hashUpTo(most, e.kv.Size()))
	e.spare = hit
	cached := len(hit) * e.kv.Size()
	n := min(len(s.tokens)-cached, *budget)
	s.computed = cached
	if !e.room(s, n, hit) {
		s.computed = 0
		return false
	}
	e.waiting = e.waiting[:copy(e.waiting, e.waiting[1:])]
	e.running = append(e.running, s)
	s.state = runs
	if s.cached < 0 {
		s.cached, s.scheduled = cached, now
		e.stats.queried(len(s.tokens), cached)
	}
	e.plan(s, n)
	*budget -= n
	return true
}

// room gives s the blocks for n more tokens, after those of hit, if there are enough.
func (e *engine) room(s *sequence, n int, hit []int32) bool {
	need := (s.computed+n+e.kv.Size()-1)/e.kv.Size() - len(s.blocks) - len(hit)
	if need+e.kv.Idle(hit) > e.kv.Free() {
		return false
	}
	e.kv.Hold(hit)
	s.blocks = append(s.blocks, hit...)
	if need > 0 {
		s.blocks = e.kv.Take(s.blocks, need)
	}
	full := (s.computed + n) / e.kv.Size()
	for i := s.computed / e.kv.Size(); i < full; i++ {
		e.kv.Fill(s.blocks[i], s.hashUpTo(full, e.kv.Size())[i])
	}
	return true
}

func (e *engine) plan(s *sequence, n int) {
	prompt := s.computed+n < len(s.tokens) || n > 1 || len(s.tokens) == s.prompt
	if prompt {
		e.prompt += n
	}
	e.batch = append(e.batch, work{s, n, prompt})
}

// preempt pushes s out: it gives back its blocks and goes to the head of the queue. What it had computed may
// still be in the cache when its turn comes again.
func (e *engine) preempt(s *sequence) {
	for i := range e.batch {
		if e.batch[i].seq == s {
			e.prompt -= e.promptOf(e.batch[i])
			e.batch = append(e.batch[:i], e.batch[i+1:]...)
			break
		}
	}
	e.running = without(e.running, s)
	e.kv.Release(s.blocks)
	s.blocks, s.computed, s.state = s.blocks[:0], 0, waits
	s.preempted++
	e.stats.preemptions++
	e.waiting = append([]*sequence{s}, e.waiting...)
}

func (e *engine) promptOf(w work) int {
	if w.prompt {
		return w.tokens
	}
	return 0
}

// complete hands out what the batch computed.
func (e *engine) complete(now time.Time, out []*sequence) []*sequence {
	tokens := 0
	for _, w := range e.batch {
		s := w.seq
		if s == nil {
			continue // aborted meanwhile
		}
		s.computed += w.tokens
		if s.computed < len(s.tokens) {
			continue // more of the prompt to come
		}
		if len(s.tokens) == s.prompt {
			e.stats.prefilled(s)
			tokens += s.prompt
		}
		s.append(now, &e.stats)
		tokens++
		if s.state == ended {
			e.drop(s)
			e.stats.ended(s, now)
		}
		out = append(out, s)
	}
	e.stats.iteration(tokens)
	return out
}
