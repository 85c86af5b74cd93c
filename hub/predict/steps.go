package predict

import (
	"slices"
	"time"
)

// steps is where an engine stands, as far as a hub can tell by its own dispatches. An engine computes in
// steps, each with the next token of every task that answers and parts of the prompts that had come when it
// began, in their order, up to so many tokens. A prompt that comes during a step waits for its end, and is
// then computed beside others. Whenever an answer ends, a step does, and so a hub hears where steps end. What
// a step takes is a [line] of what it computes:
//
//	step = b0 + b1*u + b2*q + b4*decoding + b5*resident
//
// and b3 is what a first token takes beside its steps. Times are nanoseconds of one clock.
type steps struct {
	b           line
	prompts     []prompt // as they were dispatched, until their tasks end
	began, ends int64    // of the step under way; ends 0: there is none
	heard       int64    // when the last step ended whose end was heard of
	batch       point    // what it computes
	all         point    // what the steps before did
	says        bool     // the agent says which tasks have no first token
	scratch     []prompt
}

// prompt is one of a task in hand.
type prompt struct {
	number         uint64
	sent           int64
	size           int // tokens
	uncached, left int // of them, to compute when it came, and now
	done           int // held, or computed so far
	part           int // of it in the step under way
	answers        bool
	at             point // what had been computed in all when it began to answer
}

const (
	// mostBatched is how many tokens an engine computes in a step, as vLLM does where nobody says otherwise.
	mostBatched = 2048
	// mostSteps bounds how far ahead a path is followed.
	mostSteps = 2000
	// An answer that ended longer ago than that by its own times tells nothing of the step under way.
	stale = 100 * time.Millisecond
	// A step is fresh until such a part of it is over.
	freshPart = 8
	// leastStep is how long a step takes at least, in nanoseconds.
	leastStep = 100_000
)

// Path is what an engine computes until the first token of a task, by the steps that it makes.
type Path struct {
	x     point
	known bool
	// A step has just begun, by an end that was heard of. So where the engine stands is known, and what
	// is sent now waits for all of it. An agent whose slots are all taken gets most of its tasks so, and
	// one that has some left few: how far off forecasts are changes with the load.
	fresh bool
}

// begin begins a step, with what there is.
func (s *steps) begin(now int64) {
	s.batch, s.ends = point{}, 0
	decoding, resident := 0, 0.0
	for i := range s.prompts {
		if p := &s.prompts[i]; p.answers {
			decoding++
			resident += float64(p.size) + max(0, s.all[0]-p.at[0])
		}
	}
	room, tokens, pairs := max(1, mostBatched-decoding), 0, 0.0
	for i := range s.prompts {
		p := &s.prompts[i]
		if p.part = 0; p.answers {
			continue
		}
		p.part = min(p.left, room)
		room -= p.part
		tokens += p.part
		pairs += float64(float64(p.part) * (float64(p.done) + float64(p.part)/2))
	}
	if decoding == 0 && tokens == 0 {
		s.all = point{} // nobody's
		return
	}
	s.batch = point{1, float64(tokens) / 1000, pairs / 1e6, 0, float64(decoding), resident / 1000}
	s.began, s.ends = now, now+max(leastStep, int64(span(s.b.along(&s.batch)/1000)))
}

// end ends it.
func (s *steps) end() {
	s.all.add(&s.batch, 1)
	for i := range s.prompts {
		p := &s.prompts[i]
		if p.answers || p.part == 0 {
			continue
		}
		p.left, p.done = p.left-p.part, p.done+p.part
		if p.left <= 0 {
			p.answers, p.at = true, s.all
		}
	}
}

// add adds so much of another.
func (x *point) add(o *point, share float64) {
	for i := range x {
		x[i] += float64(share * o[i])
	}
}

// advance goes on to a moment. Steps in which all answer are taken to be as long as the first of them.
func (s *steps) advance(now int64) {
	for s.ends > 0 && s.ends <= now {
		if long := s.ends - s.began; now-s.began >= 2*long && s.batch[1] == 0 && !s.waits() {
			n := (now-s.began)/long - 1
			s.all.add(&s.batch, float64(n))
			s.ends += n * long
		}
		s.end()
		s.begin(s.ends)
	}
}

// fresh reports whether the step under way began with an end that was heard of, and hardly any of it is over.
func (s *steps) fresh(now int64) bool {
	return s.ends > 0 && s.heard == s.began && freshPart*(now-s.began) < s.ends-s.began
}

// waits reports whether a prompt waits for a step.
func (s *steps) waits() bool {
	return slices.ContainsFunc(s.prompts, func(p prompt) bool { return !p.answers })
}

// path is what is computed until the first token of a prompt that comes now: the rest of the step under way,
// and all steps until it has one. Prompts are computed in their order, so each is looked at once, and not in
// every step.
func (s *steps) path(now int64, size, cached int) (x point) {
	s.advance(now)
	waiting, decoding, resident := s.scratch[:0], 0, 0.0
	for i := range s.prompts {
		if p := &s.prompts[i]; p.answers {
			decoding++
			resident += float64(p.size) + max(0, s.all[0]-p.at[0])
		} else {
			waiting = append(waiting, *p)
		}
	}
	waiting = append(waiting, prompted(0, now, size, cached))
	s.scratch = waiting[:0]
	next := 0
	// ended has all that answer have one token more, and those before next begin to.
	ended := func(from int) {
		resident += float64(decoding)
		for i := from; i < next; i++ {
			decoding++
			resident += float64(waiting[i].size)
		}
	}
	if s.ends > 0 {
		x.add(&s.batch, float64(s.ends-now)/float64(s.ends-s.began))
		for i := range waiting {
			p := &waiting[i]
			p.left, p.done = p.left-p.part, p.done+p.part
			if i == next && p.left <= 0 {
				next++
			}
		}
		ended(0)
	}
	for range mostSteps {
		if next == len(waiting) {
			break
		}
		from, room, tokens, pairs := next, max(1, mostBatched-decoding), 0, 0.0
		for next < len(waiting) && room > 0 {
			p := &waiting[next]
			part := min(p.left, room)
			room -= part
			tokens += part
			pairs += float64(float64(part) * (float64(p.done) + float64(part)/2))
			if p.left, p.done = p.left-part, p.done+part; p.left <= 0 {
				next++
			}
		}
		x.add(&point{1, float64(tokens) / 1000, pairs / 1e6, 0, float64(decoding), resident / 1000}, 1)
		ended(from)
	}
	x[3] = 1
	return x
}

func prompted(number uint64, now int64, size, cached int) prompt {
	size = min(max(size, 1), 1e7)
	u := min(max(1, size-cached), size)
	return prompt{number: number, sent: now, size: size, uncached: u, left: u, done: size - u}
}

// sent takes in a dispatch.
func (s *steps) sent(now int64, number uint64, size, cached int) {
	s.advance(now)
	s.prompts = append(s.prompts, prompted(number, now, size, cached))
	if s.ends == 0 {
		s.begin(now)
	}
}

// ended takes in the end of a task. One that answered to its end did so with the end of a step, which was at
// such a time. It returns what a step computed while it answered, on the mean.
func (s *steps) ended(at int64, number uint64, tokens int) (mean Path) {
	i := slices.IndexFunc(s.prompts, func(p prompt) bool { return p.number == number })
	if i < 0 {
		return Path{}
	}
	s.advance(at)
	whole := tokens > 0 && s.ends > 0 && s.began-at < int64(stale)
	if whole && s.ends-at < at-s.began {
		s.end()
	}
	if p := &s.prompts[i]; whole && p.answers && tokens > 1 {
		if n := s.all[0] - p.at[0]; n >= 1 {
			mean.known = true
			for k := range mean.x {
				mean.x[k] = max(0, s.all[k]-p.at[k]) / n
			}
			// A step has a token of the answer, however many there seemed to be; prompts come between all the
			// same.
			mean.x[1] *= n / float64(tokens-1)
			mean.x[2] *= n / float64(tokens-1)
		}
	}
	s.prompts = slices.Delete(s.prompts, i, i+1)
	switch {
	case whole:
		s.begin(at)
		s.heard = at
	case s.ends > 0:
		s.begin(s.began)
	}
	return mean
}

// said takes in how many tasks have no first token yet, by the agent's word: see [Queue.Said].
func (s *steps) said(now, before int64, prefills int) {
	s.advance(now)
	s.says = s.says || prefills > 0
	waiting, fresh, changed := 0, 0, false
	for i := range s.prompts {
		switch p := &s.prompts[i]; {
		case p.sent >= before:
			fresh++
		case !p.answers:
			waiting++
		}
	}
	for i := range s.prompts {
		p := &s.prompts[i]
		if s.says && waiting > max(0, prefills) && p.sent < before && !p.answers {
			p.answers, p.at, p.left, changed = true, s.all, 0, true
			waiting--
		}
	}
	for i := len(s.prompts) - 1; i >= 0 && waiting+fresh < prefills; i-- {
		if p := &s.prompts[i]; p.sent < before && p.answers {
			p.answers, p.left, changed = false, max(1, p.uncached/2), true
			p.done = p.size - p.left
			waiting++
		}
	}
	if changed && s.ends > 0 {
		s.begin(s.began)
	}
}
