package market

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func clearBundles(r Round, bundles []Bundle) (Outcome, error) {
	r.Bundles = bundles
	return Clear(r)
}

func checkBundles(r Round, bundles []Bundle, o Outcome) error {
	r.Bundles = bundles
	return Check(r, o)
}

func randomBundles(rng *rand.Rand, r *Round) []Bundle {
	var of [3][]int // the first are in no bundle
	for j := range r.Tasks {
		i := rng.IntN(3)
		of[i] = append(of[i], j)
	}
	var bundles []Bundle
	for _, tasks := range of[1:] {
		if len(tasks) > 1 {
			bundles = append(bundles, Bundle{tasks[:min(3, len(tasks))]})
		}
	}
	slices.SortFunc(bundles, func(a, b Bundle) int { return a.Tasks[0] - b.Tasks[0] })
	return bundles
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
			if want := bruteBundles(&r, bundles,
				func(k int) bool { return k == j }) - (o.Welfare - w); a.SlotPrice != want ||
				a.Premium != want-a.Toll {
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
		if err != nil || got.Welfare != want.Welfare ||
			!slices.EqualFunc(got.Awards, want.Awards, func(a, b Award) bool { return a == b }) {
			t.Fatalf("seed %d, round %d: %v\n%+v\n%+v", seed, n, err, got, want)
		}
	}
}

func TestBadBundles(t *testing.T) {
	r := Round{Domain: "math", Number: 1, Rule: DefaultRule,
		Tasks:  []Task{{ID: "p", Client: "c"}, {ID: "q", Client: "c"}},
		Agents: []Supply{{"a", []Tier{{2, 0}}}}, Edges: []Edge{{0, 0, 9, 2, 0}}}
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
