package vllmsim

import (
	"math/rand/v2"
	"slices"
	"time"

	"souk/agentd/vllmsim/kv"
	"souk/agentd/vllmsim/sched"
)

// engine is vLLM's core as a state machine: package sched says what each step computes, and the profile how
// long that takes. It reads no clock: the caller says what time it is, and so decides whether an hour takes
// an hour.
type engine struct {
	sched.Scheduler[*sequence]
	profile Profile
	random  rand.PCG // for noise

	events   *events   // of the cache; nil if nobody publishes them
	finish   time.Time // when the batch is done; zero if none is being computed
	stats    *stats
	adapters adapters
	now      time.Time
}

type engineConfig struct {
	model      string
	profile    Profile
	maxSeqs    int // sequences that run at once
	maxBatched int // tokens in a step
	adapters   Adapters
}

func newEngine(cfg engineConfig, blocks, blockSize int, seed uint64) *engine {
	e := &engine{profile: cfg.profile, random: *rand.NewPCG(seed, 1),
		Scheduler: sched.Scheduler[*sequence]{Slots: cfg.maxSeqs, Batched: cfg.maxBatched,
			Cache: kv.New(blocks, blockSize)}}
	if len(cfg.adapters.Names) > 0 {
		e.adapters = newAdapters(cfg.adapters)
		e.Adapters = e.adapters.AtOnce
	}
	e.stats = newStats(cfg.model, blocks, blockSize, e.Adapters > 0)
	return e
}

func (e *engine) unfinished() int { return len(e.all()) }

// add queues a sequence.
func (e *engine) add(s *sequence, now time.Time) {
	e.now = now
	s.arrived, s.block = now, e.Cache.Size
	e.Add(s, s.prompt)
}

// abort drops a sequence wherever it is; its blocks are free at once.
func (e *engine) abort(s *sequence) {
	if !s.ended {
		e.Drop(s)
		s.finish("abort")
	}
}

func (e *engine) all() []*sequence {
	return append(slices.Clone(e.Running), e.Waiting...)
}

// lag bounds how late a step may be noticed while the next still begins when it ended. It keeps the average
// speed right although timers wake late; after a longer pause the engine does not catch up.
const lag = 50 * time.Millisecond

// step brings the engine to now: it ends the step that is due, appends to out the sequences that got
// something, and starts the next one. It returns when to call again; zero when there is nothing to do.
func (e *engine) step(now time.Time, out []*sequence) (time.Time, []*sequence) {
	e.now = now
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
	before := e.Preempted
	e.Schedule()
	e.stats.preemptions.Add(float64(e.Preempted - before))
	if len(e.Batch) == 0 {
		return time.Time{}, out
	}
	var loads time.Duration
	for _, w := range e.Batch {
		if w.Seq.scheduled.IsZero() {
			w.Seq.scheduled = start
			e.stats.queried(w.Seq.prompt, w.Seq.run.Cached)
		}
		loads += e.adapters.use(w.Seq.run.Adapter)
	}
	e.finish = start.Add(loads + e.profile.stepTime(e.Sums(), &e.random))
	return e.finish, out
}

// complete hands out what the batch computed.
func (e *engine) complete(now time.Time, out []*sequence) []*sequence {
	for _, w := range e.Batch {
		s := w.Seq
		if s == nil {
			continue // aborted meanwhile
		}
		s.run.Computed += w.Tokens
		if s.run.Computed < s.run.Tokens {
			continue // more of the prompt to come
		}
		if s.run.Tokens == s.prompt {
			e.stats.promptTokens.Add(float64(s.prompt))
		}
		s.append(now, e.stats)
		if s.ended {
			e.Drop(s)
			e.stats.ended(s.reason)
		}
		out = append(out, s)
	}
	return out
}
