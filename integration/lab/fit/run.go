package fit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"souk/agentd/vllmsim"
	"souk/bus/follow"
	"souk/cmd/replay"
)

// Plan says what is played on a server and on its stand-in: so many callers, each of whom asks so many turns
// of recorded dialogues, one after another, with a mean pause before each.
type Plan struct {
	Callers, Turns int
	Pause          time.Duration
	Rounds         int // the server and the stand-in in turn, so often
	Seed           uint64
}

// turn is a question: the tokens that it adds to the answer before it, none before the first of a dialogue.
type turn struct {
	begins bool
	says   []uint32
	output int
	pause  time.Duration
}

// longest bounds the tokens of an answer, so that first tokens are not rare.
const longest = 128

// turns lists the turns of each caller. Every dialogue begins with tokens of its own, so that none is found
// by another that was played before; what an engine has room for is not passed.
func (p *Plan) turns(ctx context.Context, s *Server) (all [][]turn, err error) {
	ds, err := replay.BundledSet("mtrag.jsonl.gz")
	if err != nil {
		return nil, err
	}
	for caller := range p.Callers {
		lots := rand.New(rand.NewPCG(p.Seed, uint64(caller)))
		var own []turn
		for n := 0; len(own) < p.Turns; n++ {
			at, begins := 0, true
			for _, t := range ds[lots.IntN(len(ds))].Turns {
				said := t.User + "\n"
				if begins {
					said = fmt.Sprintf("%d %d %d: ", lots.IntN(1000), caller, n) + said
				}
				x := turn{begins: begins, pause: time.Duration(lots.ExpFloat64() * float64(p.Pause))}
				if x.says, err = s.Tokens(ctx, map[string]any{"prompt": said}); err != nil {
					return nil, err
				}
				answer, err := s.Tokens(ctx, map[string]any{"prompt": t.Answer})
				if err != nil {
					return nil, err
				}
				x.output, begins = min(longest, len(answer)+1), false
				if at += len(x.says) + x.output; at > s.Info.MaxModelLen || len(own) == p.Turns {
					break
				}
				own = append(own, x)
			}
		}
		all = append(all, own)
	}
	return all, nil
}

// play has the callers ask their turns of a server, and returns what became of each, caller by caller.
func (p *Plan) play(ctx context.Context, s *Server, turns [][]turn, known func(uint32) uint32) ([]Told,
	error) {
	s.asked++
	salt := s.salt()
	told := make([][]Told, len(turns))
	callers, ctx := errgroup.WithContext(ctx)
	for caller, own := range turns {
		callers.Go(func() error {
			var ids []uint32
			for _, x := range own {
				if !follow.Pause(ctx, x.pause) {
					return ctx.Err()
				}
				if x.begins {
					ids = nil
				}
				for _, id := range x.says {
					ids = append(ids, known(id))
				}
				t, err := s.Ask(ctx, Asked{slices.Clone(ids), x.output, salt})
				if err != nil {
					return fmt.Errorf("caller %d, turn %d: %w", caller, len(told[caller]), err)
				}
				ids, told[caller] = append(ids, t.IDs...), append(told[caller], t)
			}
			return nil
		})
	}
	err := callers.Wait()
	return slices.Concat(told...), err
}

// Round holds what a plan gave on the server and on its stand-in, played once on each.
type Round struct{ Server, StandIn []Told }

// Play plays a plan on a server and on the stand-in of its profile, in turn.
func (f *Fitted) Play(ctx context.Context, s *Server, p Plan) (rounds []Round, err error) {
	turns, err := p.turns(ctx, s)
	if err != nil {
		return nil, err
	}
	sim, err := f.StandIn(s)
	if err != nil {
		return nil, err
	}
	defer sim.Close()
	own, err := Find(ctx, sim.URL())
	if err != nil {
		return nil, err
	}
	for range p.Rounds {
		var r Round
		if r.Server, err = p.play(ctx, s, turns, func(id uint32) uint32 { return id }); err != nil {
			return rounds, err
		}
		if r.StandIn, err = p.play(ctx, own, turns, inVocabulary); err != nil {
			return rounds, err
		}
		rounds = append(rounds, r)
	}
	return rounds, nil
}

// inVocabulary is a plain token of the stand-in's vocabulary: above those with a meaning of their own.
func inVocabulary(id uint32) uint32 {
	const plain = 512
	return plain + id%uint32(vllmsim.Tokens().Len()-plain)
}

// Apart says how far the stand-in is from the server, over all rounds.
type Apart struct {
	Tasks         int
	Prompt        int // tokens
	Cached, Found int // of these, at the server and at the stand-in
	Beyond        int // tasks whose cached tokens differ by more than a block
	First, Other  [2]time.Duration
	Between       [2]time.Duration // server, stand-in: medians
}

// Compare sums up rounds. First has the medians of first tokens, Other what nine in ten stay below.
func Compare(rounds []Round, block int) (a Apart) {
	var first, between [2][]time.Duration
	for _, r := range rounds {
		for i, real := range r.Server {
			sim := r.StandIn[i]
			a.Tasks, a.Prompt = a.Tasks+1, a.Prompt+real.Prompt
			a.Cached, a.Found = a.Cached+real.Cached, a.Found+sim.Cached
			if off := real.Cached - sim.Cached; off > block || off < -block {
				a.Beyond++
			}
			for k, t := range []Told{real, sim} {
				first[k], between[k] = append(first[k], t.First), append(between[k], t.Between)
			}
		}
	}
	for k := range 2 {
		a.First[k], a.Between[k] = median(first[k]), median(between[k])
		if n := len(first[k]); n > 0 {
			slices.Sort(first[k])
			a.Other[k] = first[k][n*9/10]
		}
	}
	return a
}
