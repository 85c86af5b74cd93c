package market

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestBundles(t *testing.T) {
	for _, c := range []struct {
		name   string
		prefix []uint64
		room   int
		want   string
	}{
		{"none shares", []uint64{0, 0, 5}, 4, "[]"},
		{"two prefixes, one alone", []uint64{7, 5, 7, 0, 5, 9}, 4, "[{[0 2]} {[1 4]}]"},
		{"five where four have room: three and two", []uint64{7, 7, 7, 7, 7}, 4, "[{[0 1]} {[2 3 4]}]"},
		{"a piece of one is no bundle", []uint64{7, 7, 7}, 2, "[{[1 2]}]"},
		{"no room for two", []uint64{7, 7}, 1, "[]"},
	} {
		if got := fmt.Sprint(Bundles(c.prefix, c.room)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Of a prefix of 90 tokens three tasks compute it once: each is quoted a third of it.
func TestInBundle(t *testing.T) {
	for _, c := range []struct {
		u            Usage
		shared, size int
		cached       int
	}{
		{Usage{Prompt: 100}, 90, 3, 60}, {Usage{Prompt: 100}, 90, 1, 0}, {Usage{Prompt: 100, Cached: 90}, 90, 3, 90}, {Usage{Prompt: 100, Cached: 60}, 90, 3, 80}, {Usage{Prompt: 50}, 90, 2, 25}, {Usage{Prompt: 100}, 91, 3, 60},
	} {
		if got := c.u.InBundle(c.shared, c.size); got.Cached != c.cached {
			t.Errorf("%+v: %d cached", c, got.Cached)
		}
	}
}

func clearBundles(r Round, bundles []Bundle) (Outcome, error) {
	r.Bundles = bundles
	return Clear(r)
}

func checkBundles(r Round, bundles []Bundle, o Outcome) error {
	r.Bundles = bundles
	return Check(r, o)
}

func randomBundles(rng *rand.Rand, r *Round) []Bundle {
	prefix := make([]uint64, len(r.Tasks))
	for j := range prefix {
		prefix[j] = rng.Uint64N(3)
	}
	return Bundles(prefix, 3)
}

// bruteBundles is the greatest welfare that keeps bundles together, by trying everything.
func bruteBundles(r *Round, bundles []Bundle, without func(task int) bool) Credits {
	of := make(map[int]int)
	for i, b := range bundles {
		for _, j := range b.Tasks {
			of[j] = i + 1
		}
	}
	var free [][]int
	for _, a := range r.Agents {
		var f []int
		for _, tier := range a.Tiers {
			f = append(f, tier.Slots)
		}
		free = append(free, f)
	}
	home, served := make(map[int]int), make(map[int]int)
	var try func(j int) Credits
	try = func(j int) Credits {
		if j == len(r.Tasks) {
			return 0
		}
		best := try(j + 1)
		if without(j) {
			return best
		}
		for _, e := range r.Edges {
			b := of[j]
			if e.Task != j || b > 0 && served[b] > 0 && home[b] != e.Agent {
				continue
			}
			for k, tier := range r.Agents[e.Agent].Tiers {
				if free[e.Agent][k] == 0 {
					continue
				}
				free[e.Agent][k]--
				before := home[b]
				home[b] = e.Agent
				served[b]++
				best = max(best, e.Weight(tier, r.Fee)+try(j+1))
				served[b]--
				home[b] = before
				free[e.Agent][k]++
			}
		}
		return best
	}
	return try(0)
}

// Greatest welfare and every payment, against trying everything.
func TestBundlesAgainstBruteForce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 50))
	apart := 0
	for n := range times(1500) {
		r := randomRound(rng, 5, 3, []int64{6, 30, 1000}[n%3])
		bundles := randomBundles(rng, &r)
		o, err := clearBundles(r, bundles)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, n, err)
		}
		if want := bruteBundles(&r, bundles, func(int) bool { return false }); o.Welfare != want {
			t.Fatalf("seed %d, round %d: welfare %d, want %d\n%+v\n%+v", seed, n, o.Welfare, want, r, bundles)
		}
		for _, a := range o.Awards {
			j := slices.IndexFunc(r.Tasks, func(x Task) bool { return x.ID == a.Task })
			w := a.Value - a.Cost + a.Toll
			if want := bruteBundles(&r, bundles, func(k int) bool { return k == j }) - (o.Welfare - w); a.SlotPrice != want || a.Premium != want-a.Toll {
				t.Fatalf("seed %d, round %d: award %+v, want price %d", seed, n, a, want)
			}
		}
		if err := checkBundles(r, bundles, o); err != nil {
			t.Fatal(err)
		}
		plain, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		if plain.Welfare > o.Welfare {
			apart++
		}
	}
	if apart == 0 {
		t.Error("no bundle was ever pulled apart by plain assignment: the search was not needed")
	}
}

// Bundles leave truth best, for clients with several tasks too, and nobody pays more than a task gives it.
func TestLiesDoNotPayInBundles(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 51))
	moved := 0
	for n := range times(1500) {
		r := randomRound(rng, 7, 4, []int64{6, 30, 1000}[n%3])
		r.Rule.Clarke = ClarkeClient
		bundles := randomBundles(rng, &r)
		honest, err := clearBundles(r, bundles)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range honest.Awards {
			if a.Value-a.Cost-a.Premium < 0 || a.Premium < r.Fee {
				t.Fatalf("seed %d, round %d: award %+v", seed, n, a)
			}
		}
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		for range 5 {
			o, err := clearBundles(lie(rng, r, client), bundles)
			if err != nil {
				t.Fatal(err)
			}
			was, is := utility(r, honest, client, false), utility(r, o, client, false)
			if is > was {
				t.Fatalf("seed %d, round %d: %s keeps %d by lying and %d without\n%+v\n%+v", seed, n, client, is, was, r, bundles)
			}
			if is < was {
				moved++
			}
		}
	}
	if moved == 0 {
		t.Error("no lie changed anything: the test sees nothing")
	}
}

// Without bundles it is the plain round, prices and all.
func TestNoBundles(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 52))
	for n := range times(500) {
		r := randomRound(rng, 7, 4, 1000)
		want, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := clearBundles(r, nil)
		if err != nil || got.Welfare != want.Welfare || !slices.EqualFunc(got.Awards, want.Awards, func(a, b Award) bool { return a == b }) {
			t.Fatalf("seed %d, round %d: %v\n%+v\n%+v", seed, n, err, got, want)
		}
	}
}

func TestBadBundles(t *testing.T) {
	r := Round{Domain: "math", Number: 1, Rule: DefaultRule, Tasks: []Task{{"p", "c"}, {"q", "c"}}, Agents: []Supply{{"a", []Tier{{2, 0}}}}, Edges: []Edge{{0, 0, 9, 2, 0}}}
	for want, bundles := range map[string][]Bundle{
		"bundle 0 has 1 tasks":     {{[]int{0}}},
		"bundle 0: task index 2":   {{[]int{0, 2}}},
		"bundle 0: task index -1":  {{[]int{-1, 0}}},
		"bundle 0: task index 0: ": {{[]int{1, 0}}},
		"bundle 1: task index 1: ": {{[]int{0, 1}}, {[]int{1, 1}}},
	} {
		if _, err := clearBundles(r, bundles); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o, err := clearBundles(r, []Bundle{{[]int{0, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	o.Awards[0].Premium++
	if err := checkBundles(r, []Bundle{{[]int{0, 1}}}, o); !errors.Is(err, ErrOutcome) {
		t.Errorf("a false premium: %v", err)
	}
}

// siblings is a batch of 16 tasks in four families: the tasks of one share all but the last tenth of their prompts, and no agent
// has any of it cached yet. Costs are quoted as if each came alone, or as of bundles.
type siblings struct {
	round  Round
	prefix []uint64
	prompt []int // tokens by family; 9/10 of it shared
	cards  []Price
}

func newSiblings(rng *rand.Rand, bundled bool) siblings {
	s := siblings{round: Round{Domain: "siblings", Number: 1, Rule: DefaultRule}}
	for f := range 4 {
		s.prompt = append(s.prompt, 2000+1000*f)
	}
	for i := range 8 {
		s.round.Agents = append(s.round.Agents, Supply{AgentID(fmt.Sprintf("a%d", i)), []Tier{{4, 0}}})
		miss := Credits(100+rng.IntN(60)) * 1_000_000 // nano-credits per million tokens: 0.1 to 0.16 credits
		s.cards = append(s.cards, Price{Miss: miss, Hit: miss / 10, Out: 4 * miss})
	}
	for j := range 16 {
		family := j % 4
		s.prefix = append(s.prefix, uint64(family+1))
		s.round.Tasks = append(s.round.Tasks, Task{ID: TaskID(fmt.Sprintf("t%02d", j)), Client: fmt.Sprintf("c%02d", j)})
		worth := Credits(400_000 + rng.IntN(400_000))
		for i, card := range s.cards {
			u := Usage{Prompt: s.prompt[family], Output: 100}
			if bundled {
				u = u.InBundle(s.shared(family), 4)
			}
			s.round.Edges = append(s.round.Edges, Edge{Task: j, Agent: i, Value: worth + Credits(rng.IntN(60_000)), Cost: card.Cost(u)})
		}
	}
	return s
}

func (s *siblings) shared(family int) int { return s.prompt[family] * 9 / 10 }

// real is the welfare once served: on each agent the first of a family computes its prefix.
func (s *siblings) real(o Outcome) (welfare Credits, hits, tokens int) {
	seen := map[[2]int]bool{}
	for _, a := range o.Awards {
		j := slices.IndexFunc(s.round.Tasks, func(x Task) bool { return x.ID == a.Task })
		i := slices.IndexFunc(s.round.Agents, func(x Supply) bool { return x.Agent == a.Agent })
		family := j % 4
		u := Usage{Prompt: s.prompt[family], Output: 100}
		if seen[[2]int{family, i}] {
			u.Cached = s.shared(family)
		}
		seen[[2]int{family, i}] = true
		welfare += a.Value - s.cards[i].Cost(u)
		hits, tokens = hits+u.Cached, tokens+u.Prompt
	}
	return welfare, hits, tokens
}

// What bundles gain on batches with shared prefixes: more of the prompts from the cache, and more welfare.
func TestBundlesGain(t *testing.T) {
	var plain, bundled Credits
	var hits, tokens [2]int
	for n := range uint64(50) {
		alone := newSiblings(rand.New(rand.NewPCG(n, 53)), false)
		together := newSiblings(rand.New(rand.NewPCG(n, 53)), true)
		o, err := Clear(alone.round)
		if err != nil {
			t.Fatal(err)
		}
		b, err := clearBundles(together.round, Bundles(together.prefix, 4))
		if err != nil {
			t.Fatal(err)
		}
		w, h, k := alone.real(o)
		plain, hits[0], tokens[0] = plain+w, hits[0]+h, tokens[0]+k
		w, h, k = together.real(b)
		bundled, hits[1], tokens[1] = bundled+w, hits[1]+h, tokens[1]+k
	}
	t.Logf("cached %d %% of prompt tokens against %d %%, welfare %+.1f %%", 100*hits[1]/tokens[1], 100*hits[0]/tokens[0], 100*(float64(bundled)/float64(plain)-1))
	if bundled <= plain || hits[1]*tokens[0] <= hits[0]*tokens[1] {
		t.Errorf("bundles do not gain: welfare %s against %s, cached %v of %v", bundled, plain, hits, tokens)
	}
}

func BenchmarkBundles(b *testing.B) {
	alone := newSiblings(rand.New(rand.NewPCG(1, 53)), false)
	together := newSiblings(rand.New(rand.NewPCG(1, 53)), true)
	bundles := Bundles(together.prefix, 4)
	o, err := Clear(alone.round)
	if err != nil {
		b.Fatal(err)
	}
	plain, _, _ := alone.real(o)
	b.ReportAllocs()
	for b.Loop() {
		if o, err = clearBundles(together.round, bundles); err != nil {
			b.Fatal(err)
		}
	}
	w, _, _ := together.real(o)
	b.ReportMetric(100*(float64(w)/float64(plain)-1), "%welfare-gained")
}
