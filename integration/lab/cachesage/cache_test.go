package cachesage

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"souk/bus/policy"
	"souk/integration/lab/cachesage/sage"
)

// A cache never holds more than its room unless calls in flight do, gives up nothing that is in use and no
// block before those behind it, and finds what it said it kept, under every rule.
func TestCacheKeepsItsRules(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, r := range Rules {
		if r.make == nil {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		p := &player{panel: &Panel{Block: 16, Blocks: 40, slots: 4}}
		for i := range 300 {
			session, role := 1+rng.Uint64N(6), 1+rng.Uint64N(3)
			c := Call{Session: session, Role: role, Anchor: 3, Output: 1,
				Start: time.Duration(i) * time.Second, End: time.Duration(i)*time.Second +
					time.Duration(rng.IntN(3e9))}
			for b := range 3 + rng.Uint64N(9) {
				if b < 3 {
					c.Prompt = append(c.Prompt, mix(role, b))
				} else {
					c.Prompt = append(c.Prompt, mix(session, role, b))
				}
			}
			c.After, c.Tokens = c.Prompt, 16*len(c.Prompt)
			p.calls = append(p.calls, c)
		}
		p.order = order(p.calls)
		r.make(p)
		if f := p.play(); !(f.Share > 0 && f.Share < 1) || f.Net > f.Share || f.Worst > f.Share+1e-9 {
			t.Errorf("%s: %+v", r.Name, f)
		}
		x := p.caches[0]
		if len(x.nodes) > x.room {
			t.Errorf("%s: %d blocks in a cache of %d", r.Name, len(x.nodes), x.room)
		}
		for hash, n := range x.nodes {
			if n.refs != 0 || n.gone || n.hash != hash {
				t.Fatalf("%s: a block is in use after the last call: %+v", r.Name, n)
			}
			if n.parent != nil && x.nodes[n.parent.hash] != n.parent {
				t.Fatalf("%s: a block was given up before what is behind it", r.Name)
			}
		}
	}
}

// lru does as a list kept in order, and nothing that knows less beats the bound.
func TestLRUAndTheBound(t *testing.T) {
	p := Panels()[0]
	at := func(rule string) float64 {
		f, err := Play(p, rule, 3)
		if err != nil {
			t.Fatal(err)
		}
		return f.Share
	}
	bound := at("belady")
	for _, r := range Rules {
		if got := at(r.Name); got > bound+1e-9 && r.Name != "paper+prefetch" {
			t.Errorf("%s keeps %.4f, and the bound is %.4f", r.Name, got, bound)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	c, list := newCache(8, lru{}), []uint64(nil) // blocks without others behind them, the oldest first
	for range 500 {
		h := 1 + rng.Uint64N(14)
		_, was := c.nodes[h]
		if i := slices.Index(list, h); was != (i >= 0) {
			t.Fatalf("block %d is there: %v, in the list at %d", h, was, i)
		} else if i >= 0 {
			list = slices.Delete(list, i, i+1)
		} else if len(list) == 8 {
			list = list[1:]
		}
		list = append(list, h)
		held, _ := c.take(&Call{Session: policy.ID(h), Role: 1}, []uint64{h}, nil)
		c.release(held)
	}
}

// On the star ours goes at least two fifths of the way from lru to the bound, and is never more than half a
// point below lru.
func TestStarBar(t *testing.T) {
	for _, p := range Panels()[:4] {
		rows, err := Compare(t.Context(), []*Panel{p}, []string{"lru", "ours", "belady"}, []uint64{1, 2},
			func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		if gap, ok := Gap(rows, p.Name, "ours"); !ok || gap < 0.4 {
			t.Errorf("%s: %.2f of the way", p.Name, gap)
		}
	}
	if _, err := Play(Panels()[0], "magic", 1); err == nil {
		t.Error("a rule that there is not was played")
	}
}

// The same seed gives the same figures.
func TestSameFiguresTwice(t *testing.T) {
	p := Panels()[1]
	a, _ := Play(p, "ours", 5)
	b, _ := Play(p, "ours", 5)
	if a != b {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// Runs that go side by side share nothing: they give what they give one after the other.
func TestRunsBesideOthers(t *testing.T) {
	p := Panels()[1]
	rows, err := Compare(t.Context(), []*Panel{p}, []string{"ours"}, []uint64{5, 6}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := Play(p, "ours", 5)
	b, _ := Play(p, "ours", 6)
	if mean, _ := sum([]Figures{a, b}); rows[0].Mean != mean {
		t.Errorf("side by side %+v, alone %+v", rows[0].Mean, mean)
	}
}

// On recorded workflows of agents too, where a call takes as long as its answer.
func TestHandCraftedBar(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	const name = "hand-crafted-4000-4"
	p := Panels()[slices.IndexFunc(Panels(), func(p *Panel) bool { return p.Name == name })]
	rows, err := Compare(t.Context(), []*Panel{p}, []string{"lru", "ours", "belady"}, []uint64{3001, 3002},
		func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if gap, ok := Gap(rows, name, "ours"); !ok || gap < 0.4 {
		t.Errorf("%.3f of the way from lru to the bound, want 0.4", gap)
	}
}

// What the open sessions have is their last prompts, or all that they have used, and nothing of those that
// have ended.
func TestOpenBlocks(t *testing.T) {
	call := func(session policy.ID, blocks ...uint64) Call { return Call{Session: session, After: blocks} }
	calls := []Call{call(1, 1, 2, 3), call(2, 7, 8), call(1, 1, 4), call(1, 1, 4, 5), call(2, 7)}
	if got, want := open(calls, false), (3+5+4+5+1)/5.0; got != want {
		t.Errorf("last prompts: %v blocks, want %v", got, want)
	}
	if got, want := open(calls, true), (3+5+6+7+2)/5.0; got != want {
		t.Errorf("all that was used: %v blocks, want %v", got, want)
	}
}

// The panels of whole sessions have all of them, and play only rules that there are.
func TestWholeSessions(t *testing.T) {
	const name = "coding-open200-P5-ends"
	p := Panels()[slices.IndexFunc(Panels(), func(p *Panel) bool { return p.Name == name })]
	if all := p.calls(rand.New(rand.NewPCG(1, 2))); len(all) != 406 {
		t.Errorf("%d sessions, want 406", len(all))
	}
	played := 0
	for _, r := range Rules {
		if p.Plays(r.Name) {
			played++
		}
	}
	if played != len(p.rules) || p.Plays("magic") {
		t.Errorf("plays %d rules of %v", played, p.rules)
	}
	if p = Panels()[0]; p.Plays(toldRule) || !p.Plays("lru") {
		t.Errorf("%s is played where no end is told", toldRule)
	}
}

// What belongs to a session that is told to have ended goes first, also while the duel is for lru: that is
// told, and not learned.
func TestTheEndedGoFirst(t *testing.T) {
	for name, make := range map[string]func(p *player){
		toldRule: func(p *player) { p.by(told{}) },
		"ours":   func(p *player) { p.learn(sage.Params{}, true); p.duel = -1 },
	} {
		p := &player{panel: &Panel{Block: 16, Blocks: 6}}
		make(p)
		for k, x := range p.caches[:min(2, len(p.caches))] { // the third is what is learned
			for s := range policy.ID(3) {
				held, _ := x.take(&Call{Session: 1 + s, Role: 1}, []uint64{10 * (1 + s), 10*(1+s) + 1}, nil)
				x.release(held)
			}
			x.ended(2)
			held, _ := x.take(&Call{Session: 4, Role: 1}, []uint64{90, 91, 92}, nil)
			if x.nodes[20] != nil || x.nodes[21] != nil || x.nodes[11] != nil || x.nodes[10] == nil {
				t.Errorf("%s, cache %d: of the ended one %v and %v are kept, of the oldest %v and %v", name, k,
					x.nodes[20] != nil, x.nodes[21] != nil, x.nodes[10] != nil, x.nodes[11] != nil)
			}
			x.release(held)
		}
	}
}

// Play plays one rule on a panel.
func Play(panel *Panel, rule string, seed uint64) (Figures, error) {
	return panel.deal(seed).play(rule)
}
