package hub

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"souk/hub/line"
	"souk/hub/predict"
	"souk/ledger"
	"souk/market"
)

// Forget has nothing kept of what was quoted and looked up for those who wait.
func (n *Node) Forget() {
	for _, t := range n.known {
		if k := t.notes; k != nil {
			clear(k.quotes[:])
			k.looked = false
		}
	}
}

// What tasks keep while they wait changes nothing: a node that looks everything up anew before each turn
// writes the same frames, to the byte, with a burst of tasks on a fleet that holds some of their prompts.
func TestNothingThatIsKeptChangesABurst(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	play := func(seed uint64, anew bool) (frames []byte) {
		r := rand.New(rand.NewPCG(seed, 44))
		h := burst(t, r)
		for range 40 {
			if anew {
				h.n.Forget()
			}
			h.pass(time.Duration(1+r.IntN(40)) * time.Millisecond)
			if k := len(h.dispatched); k > 0 {
				d := h.dispatched[k-1]
				h.dispatched = h.dispatched[:k-1]
				if anew {
					h.n.Forget()
				}
				h.serve(d, market.Usage{Prompt: 60 + r.IntN(80), Output: 1 + r.IntN(80)})
			}
		}
		for i := range h.frames {
			frames = ledger.AppendFrame(frames, &h.frames[i])
		}
		return frames
	}
	for i := range uint64(12) {
		if kept, anew := play(seed+i, false), play(seed+i, true); !bytes.Equal(kept, anew) {
			t.Fatalf("burst %d: %d bytes of frames, and %d others where nothing is kept", seed+i, len(kept),
				len(anew))
		}
	}
}

// A task that looks at agents as their slots come, and stops where none can be better, waits where it would
// if it had looked at each of them; and where it would rather be, no agent is worth more to it.
func TestATaskThatStopsLookingMissesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 45))
	waited, elsewhere, groups := 0, 0, 0
	for round := range 400 {
		var h *house
		if round%2 == 0 {
			h = crowdedHouse(t, seed+uint64(round))
		} else {
			h = burst(t, r)
			h.now = h.now.Add(20 * time.Millisecond)
			h.n.advance(h.now)
		}
		n := h.n
		n.collect()
		n.lineUp()
		n.meet()
		c := &n.crowd
		if c.quiet {
			continue
		}
		groups = max(groups, len(c.groups))
		for i, x := range n.round.tasks {
			n.prospects(x)
			got, at := n.better(int32(i), 0)
			want, all := n.bestOf(x)
			if got.Loss != want.Loss || got.Agent != want.Agent || got != want ||
				(at == nil) != (want.Loss == 0) {
				t.Fatalf("seed %d, round %d: %s would have %+v by waiting, and finds %+v", seed, round, x.id,
					want,
					got)
			}
			if got.Loss > 0 {
				waited++
			}
			if x.may != nil {
				continue // seats keep it from some agents: it looks at one of those that are alike
			}
			best, chosen := market.Credits(0), x.home
			if rather := n.rather(x); rather != nil {
				elsewhere++
				chosen = rather
			}
			some := false
			for _, worth := range all {
				if !some || worth > best {
					some, best = true, worth
				}
			}
			if worth, ok := all[chosen]; some != ok || worth != best {
				t.Fatalf("seed %d, round %d: where %s would rather be is worth %s, and another agent %s",
					seed,
					round, x.id, worth, best)
			}
		}
	}
	if waited < 100 || elsewhere < 20 || groups < 4 {
		t.Errorf("seed %d: %d would have something by waiting, %d elsewhere, among %d groups at most: "+
			"the test "+
			"sees little", seed, waited, elsewhere, groups)
	}
}

// Nor does it miss an agent whose first tokens come in time as often as not, and late in the mean.
func TestATaskThatStopsLookingJudgesDeadlinesByTheMedian(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 46))
	late := 0
	for round := range 60 {
		h := burst(t, r)
		h.now = h.now.Add(20 * time.Millisecond)
		h.n.advance(h.now)
		n := h.n
		f := predict.Features{Prompt: 100, Counted: 100, MaxTokens: 100}
		for i := range 400 {
			o := predict.Observation{Prompt: 100, Output: 40, TTFT: 50 * time.Millisecond,
				ITL: 10 * time.Millisecond}
			if i%10 < 3 {
				o.TTFT = 500 * time.Millisecond
			}
			n.roster[i%len(n.roster)].predictor.Learn(f, o)
		}
		for _, x := range n.known {
			n.unquote(x)
		}
		n.collect()
		n.lineUp()
		n.meet()
		if n.crowd.quiet {
			continue
		}
		for i, x := range n.round.tasks {
			n.prospects(x)
			usual, _ := n.bestOf(x)
			if usual.Loss == 0 {
				continue
			}
			x.left = usual.Time - time.Duration(1+r.IntN(150))*time.Millisecond
			got, _ := n.better(int32(i), 0)
			want, _ := n.bestOf(x)
			if got != want {
				t.Fatalf("seed %d, round %d: %s would have %+v by waiting, and finds %+v", seed, round, x.id,
					want, got)
			}
			if want.Time > x.left {
				late++
			}
		}
	}
	if late < 20 {
		t.Errorf("seed %d: %d would wait for a first token that is late in the mean: the test sees little",
			seed, late)
	}
}

// bestOf looks at every agent for the task whose prospects were looked at: what it would have by waiting
// where that is best, and what each agent is worth to it by its usual terms.
func (n *Node) bestOf(t *task) (best market.Wait, usual map[*agent]market.Credits) {
	c := &n.crowd
	type offered struct {
		quote    quote
		held     held
		computes time.Duration
	}
	all, shortest := map[int]offered{}, map[*fastest]time.Duration{}
	for k := range c.stands {
		s := &c.stands[k]
		a := s.agent
		held := a.expect(t)
		if !a.suits(t) || !a.takes(held.tokens+t.carried()) {
			continue
		}
		o := offered{quote: n.quote(t, a, s.backlog, held), held: held}
		o.computes = a.predictor.Work(o.quote.prompt-held.cached, held.cached)
		if was, ok := shortest[a.fastest]; !ok || o.computes < was {
			shortest[a.fastest] = o.computes
		}
		all[k] = o
	}
	usual = map[*agent]market.Credits{}
	for k := range c.stands {
		s := &c.stands[k]
		a := s.agent
		o, ok := all[k]
		if !ok || !t.lets(k) {
			continue
		}
		q := &o.quote
		value := func(terms market.Terms, d time.Duration) (market.Credits, time.Duration) {
			at := line.Stretch(d, t.over) + q.forecast.TTFT - min(d, s.backlog.Queue)
			worth := terms.Value(market.Quote{TTFT: at, Cost: q.cost, Quality: a.quality(t.msg.Domain)})
			return min(worth, q.room(t.reserved)), at
		}
		place := c.board.Len(k) + s.guests
		if t.home == a {
			place = t.place
		}
		if d, ok := n.endsAt(s).Nth(max(1, place+1-s.room)); ok {
			worth, at := value(t.terms, d)
			w := market.Wait{Value: worth, Cost: q.cost, Charge: s.charge, Time: at,
				Agent: market.AgentID(a.id),
				Share: line.LeftOf(t.waited, t.terms.Patience),
				Toll:  c.tolls.Computed(o.computes-shortest[a.fastest]) + n.besideOthers(s, t)}
			w.Price, w.Round = n.priceBefore(a, t.since)
			w.Loss = w.Sum(n.cfg.Fee)
			early := q.forecast.TTFT - a.predictor.Half(q.forecast.TTFT)
			if at-early <= t.left && w.Loss > best.Loss {
				best = w
			}
		}
		d, ok := time.Duration(0), true
		if place >= s.room {
			d, ok = n.endsAt(s).Nth(place + 1 - s.room)
		}
		if ok {
			worth, _ := value(t.usual, d)
			usual[a] = worth - q.cost
		}
	}
	return best, usual
}
