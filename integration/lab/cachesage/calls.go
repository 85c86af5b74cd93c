package cachesage

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"souk/bus/policy"
	"souk/cmd/replay"
	"souk/integration/lab/traces"
)

// Call is one call of a model, as every rule sees it.
type Call struct {
	Session, Role, Tool policy.ID
	Start, End          time.Duration
	Prompt              []uint64 // hashes of its full blocks, each of all before it as well
	After               []uint64 // of prompt and answer
	Tokens, Output      int
	Anchor              int // blocks of the prompt that all calls of the role begin with
	Last                bool
}

// Panel is calls on an engine's cache.
type Panel struct {
	Name, About string
	Block       int // tokens
	Blocks      int // of the cache
	Ends        bool
	calls       func(rng *rand.Rand) [][]Call // sessions, each from time 0
	slots       int                           // sessions at a time
	// where set, Blocks are those of all open sessions, divided by this
	fill  float64
	whole bool     // and a session's are all that it has used, not those of its last prompt alone
	even  bool     // every call takes a second, whatever its length
	rules []string // where set, those that are played on it
}

// The engine: seconds for a token of a prompt, and for each before it; and for one of an answer.
const (
	perToken  = 4e-5
	perBefore = 2e-9
	perOutput = 0.01
)

func seconds(tokens, behind int) float64 {
	n := float64(tokens)
	return n * (perToken + perBefore*(float64(behind)+n/2))
}

// takes returns how long a call is in flight: the same under every rule, so that all see the same order.
func takes(tokens, output int) time.Duration {
	return time.Duration((seconds(tokens, 0)/2 + float64(output)*perOutput) * float64(time.Second))
}

func mix(parts ...uint64) (h uint64) {
	for _, p := range parts {
		h = policy.Mixed(h*0x9e3779b97f4a7c15 + p + 1)
	}
	return max(1, h)
}

// evened lets every call of sessions take a second, and follow the one before at once.
func evened(sessions [][]Call) [][]Call {
	for _, s := range sessions {
		for i := range s {
			s[i].Start = time.Duration(i) * time.Second
			s[i].End = s[i].Start + 950*time.Millisecond
		}
	}
	return sessions
}

// schedule lets so many sessions run at a time, in their order, and sorts their calls by when they begin.
func schedule(sessions [][]Call, slots int) (all []Call) {
	free := make([]time.Duration, slots)
	for _, s := range sessions {
		k := 0
		for i := range free {
			if free[i] < free[k] {
				k = i
			}
		}
		for _, c := range s {
			c.Start += free[k]
			c.End += free[k]
			all = append(all, c)
		}
		free[k] += s[len(s)-1].End
	}
	slices.SortStableFunc(all, func(a, b Call) int { return cmp.Compare(a.Start, b.Start) })
	return all
}

// workflow makes the calls of a log in which each role has all that was said before behind its own anchor.
func workflow(w *traces.Workflow, session uint64, block int, anchor func(role string) int,
	pause func(tool string) time.Duration) (calls []Call) {
	said, at := 0, time.Duration(0)
	for _, s := range w.Steps {
		if s.Role == "" {
			said += s.Tokens
			at += pause("")
			continue
		}
		role := mix(7, idOf(s.Role))
		a := anchor(s.Role)
		c := Call{Session: session, Role: role, Tokens: a + said, Output: max(1, s.Tokens), Start: at,
			Anchor: a / block}
		if s.Tool != "" {
			c.Tool = idOf(s.Tool)
		}
		blocks := func(tokens int) (all []uint64) {
			for i := range tokens / block {
				if i < c.Anchor {
					all = append(all, mix(role, uint64(i)))
				} else {
					all = append(all, mix(session, role, uint64(i)))
				}
			}
			return all
		}
		c.Prompt, c.After = blocks(c.Tokens), blocks(c.Tokens+c.Output)
		at += takes(c.Tokens, c.Output)
		c.End = at
		said += c.Output
		at += pause(s.Tool)
		calls = append(calls, c)
	}
	if len(calls) > 0 {
		calls[len(calls)-1].Last = true
	}
	return calls
}

func idOf(name string) (h uint64) {
	for _, c := range []byte(name) {
		h = mix(h, uint64(c))
	}
	return h
}

// quick is a framework that calls the next role at once.
func quick(string) time.Duration { return 50 * time.Millisecond }

// star are workflows of a [traces.Star], whose chances are drawn once for a panel.
func star(prompts []int, steps []int, tasks int) func(rng *rand.Rand) [][]Call {
	return func(rng *rand.Rand) (all [][]Call) {
		s := traces.NewStar(rand.New(rand.NewPCG(11, 1))) // the workload; rng is the run
		anchors := map[string]int{"supervisor": 180}
		for i := range 5 {
			anchors[fmt.Sprint("worker ", i)] = 140 + 20*i
		}
		for t := range tasks {
			w := traces.Workflow{Steps: []traces.Step{{Tokens: prompts[rng.IntN(len(prompts))]}}}
			s.Again()
			for range 1 + steps[rng.IntN(len(steps))]/2 {
				to := s.Next(rng)
				w.Steps = append(w.Steps, traces.Step{Role: "supervisor", Tokens: 10 + rng.IntN(20)},
					traces.Step{Role: fmt.Sprint("worker ", to), Tokens: 30 + rng.IntN(60)})
			}
			w.Steps = append(w.Steps, traces.Step{Role: "supervisor", Tokens: 20 + rng.IntN(40)})
			all = append(all, workflow(&w, mix(3, uint64(t)), 16,
				func(role string) int { return anchors[role] }, quick))
		}
		return all
	}
}

// chain are workflows of twelve roles that always follow one another.
func chain(tasks int) func(rng *rand.Rand) [][]Call {
	return func(rng *rand.Rand) (all [][]Call) {
		for t := range tasks {
			w := traces.Workflow{Steps: []traces.Step{{Tokens: 60 + rng.IntN(100)}}}
			for i := range 24 {
				w.Steps = append(w.Steps,
					traces.Step{Role: fmt.Sprint("role ", i%12), Tokens: 20 + rng.IntN(40)})
			}
			all = append(all, workflow(&w, mix(4, uint64(t)), 16, func(string) int { return 400 }, quick))
		}
		return all
	}
}

// logs are recorded workflows, in an order that the run draws.
func logs(file string, anchor int, pause func(rng *rand.Rand) func(string) time.Duration) func(
	rng *rand.Rand) [][]Call {
	return func(rng *rand.Rand) (all [][]Call) {
		list, err := traces.Workflows(file)
		if err != nil {
			panic(err) // they are part of the program
		}
		for i := range list {
			w := &list[i]
			calls := workflow(w, mix(5, uint64(i)), 16, func(role string) int {
				if n := w.Anchors[role]; n > 0 && anchor == 0 {
					return n
				}
				return max(anchor, w.Anchors[role], 100)
			}, pause(rng))
			if len(calls) > 0 {
				all = append(all, calls)
			}
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	}
}

// people answer after some seconds, tools after one.
func people(rng *rand.Rand) func(string) time.Duration {
	return func(tool string) time.Duration {
		if tool != "" {
			return time.Duration(1e9 * math.Exp(0.5*rng.NormFloat64()))
		}
		return time.Duration(8e9 * math.Exp(rng.NormFloat64()))
	}
}

func atOnce(*rand.Rand) func(string) time.Duration { return quick }

// chained makes calls of recorded sessions whose blocks are known, without who said what. Times of the whole
// trace are kept between the turns of a session. coarse blocks of the file become one. The sessions of a
// trace may be in several files.
func chained(files []string, most, turns, coarse int,
	role func(session int) policy.ID) func(rng *rand.Rand) [][]Call {
	return func(rng *rand.Rand) (all [][]Call) {
		var list []traces.Chain
		for _, file := range files {
			more, err := traces.Chains(file)
			if err != nil {
				panic(err)
			}
			list = append(list, more...)
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for i := range list[:min(most, len(list))] {
			s := &list[i]
			var calls []Call
			at, before := time.Duration(0), 0
			for t := range s.Turns[:min(turns, len(s.Turns))] {
				x := s.Turns[t]
				gap := time.Duration(x[0]) * time.Millisecond
				if s.Timed {
					gap = time.Duration(x[0]-before) * time.Millisecond
					if before = x[0]; t == 0 {
						gap = 0
					}
				}
				c := Call{Session: mix(6, idOf(s.ID)), Role: role(i), Tokens: max(1, x[1]),
					Output: max(1, x[2])}
				for i, b := range s.Blocks(t) {
					if i%coarse != coarse-1 {
						continue
					}
					if s.Timed {
						c.Prompt = append(c.Prompt, mix(8, uint64(b)))
					} else {
						c.Prompt = append(c.Prompt, mix(9, idOf(s.ID), uint64(b)))
					}
				}
				if len(c.Prompt) == 0 {
					continue
				}
				if t > 0 && s.Timed { // from turn to turn
					c.Start = max(at, calls[0].Start+time.Duration(x[0]-s.Turns[0][0])*time.Millisecond)
				} else if t > 0 {
					c.Start = at + gap
				}
				c.After = c.Prompt // the answer's blocks, which the next prompt has, are not known here
				c.Tokens = max(c.Tokens, len(c.Prompt)*s.Block*coarse)
				at = c.Start + takes(min(c.Tokens, 20_000), c.Output)
				c.End = at
				calls = append(calls, c)
			}
			if len(calls) > 1 {
				calls[len(calls)-1].Last = true
				all = append(all, calls)
			}
		}
		return all
	}
}

// open returns the mean number of blocks of open sessions over the calls: those of their last prompts, or,
// with whole, all that they have used so far.
func open(calls []Call, whole bool) float64 {
	type state struct {
		blocks, left int
		used         map[uint64]bool
	}
	of := map[policy.ID]*state{}
	for i := range calls {
		s := of[calls[i].Session]
		if s == nil {
			s = &state{used: map[uint64]bool{}}
			of[calls[i].Session] = s
		}
		s.left++
	}
	sum, now := 0.0, 0
	for i := range calls {
		s := of[calls[i].Session]
		has := len(calls[i].After)
		if whole {
			for _, b := range calls[i].After {
				s.used[b] = true
			}
			has = len(s.used)
		}
		now += has - s.blocks
		s.blocks = has
		sum += float64(now)
		if s.left--; s.left == 0 {
			now -= s.blocks
			s.used = nil
		}
	}
	return sum / float64(len(calls))
}

// lengths returns how long the prompts of a bundled set are, in tokens, and Who&When's workflows, in steps.
func lengths(file string) func() []int {
	return func() (out []int) {
		all, err := replay.BundledSet(file)
		if err != nil {
			panic(err)
		}
		for i := range all {
			for _, t := range all[i].Turns[:min(1, len(all[i].Turns))] {
				out = append(out, min(400, len(t.User)/4+8))
			}
		}
		return out
	}
}

func stepsOf(file string) (out []int) {
	all, err := traces.Workflows(file)
	if err != nil {
		panic(err)
	}
	for i := range all {
		out = append(out, min(20, len(all[i].Steps)))
	}
	return out
}
