package market

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func postedRound(rng *rand.Rand, n, m int, spread int64) Round {
	return asPosted(randomRound(rng, n, m, spread))
}

// asPosted is a round under posted prices: all of its seats are free.
func asPosted(r Round) Round {
	r.Rule.Pricing = PricingPosted
	for i := range r.Agents {
		for k := range r.Agents[i].Seats {
			r.Agents[i].Seats[k].Later = false
		}
		slices.SortFunc(r.Agents[i].Seats, func(a, b Seat) int { return cmp.Compare(a.In, b.In) })
	}
	return r
}

// Under posted prices no client gains by any lie about any of its tasks, and none serves at a loss.
func TestLiesDoNotPayPosted(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 30))
	moved := 0
	for n := range times(2000) {
		r := postedRound(rng, 7, 4, []int64{6, 30, 1000}[n%3])
		honest, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range honest.Awards {
			if a.Value-a.Cost-a.Premium < 0 || a.SlotPrice != 0 || a.Premium < r.Fee {
				t.Fatalf("seed %d, round %d: award %+v", seed, n, a)
			}
		}
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		for range 6 {
			told := lie(rng, r, client)
			o, err := Clear(told)
			if err != nil {
				t.Fatal(err)
			}
			was, is := utility(&r, &r, honest, client, false), utility(&r, &told, o, client, false)
			if is > was {
				t.Fatalf("seed %d, round %d: %s keeps %d by lying and %d without\n%+v\n%+v", seed, n, client,
					is, was, r, told)
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

// A line of clients is what it is: each in turn takes the best that is left, found here by trying everything.
func TestPostedAgainstTheLine(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 31))
	for n := range times(1000) {
		r := postedRound(rng, 6, 3, []int64{6, 30, 1000}[n%3])
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		left := r
		left.Agents = slices.Clone(r.Agents)
		for i := range left.Agents {
			left.Agents[i].Seats = slices.Clone(left.Agents[i].Seats)
		}
		for _, tasks := range r.line(r.postedSeed()) {
			var got Credits
			mine := left
			mine.Edges = nil
			for _, e := range r.Edges {
				if slices.Contains(tasks, int32(e.Task)) {
					mine.Edges = append(mine.Edges, e)
				}
			}
			want := brute(&mine, -1)
			for _, a := range o.Awards {
				j := slices.IndexFunc(r.Tasks, func(x Task) bool { return x.ID == a.Task })
				if slices.Contains(tasks, int32(j)) {
					got += a.Value - a.Cost + a.Toll
					i := slices.IndexFunc(r.Agents, func(s Supply) bool { return s.Agent == a.Agent })
					if left.Agents[i].Seats[a.Seat].Slots--; left.Agents[i].Seats[a.Seat].Slots < 0 {
						t.Fatalf("seed %d, round %d: more than its slots at %s", seed, n, a.Agent)
					}
				}
			}
			if got != want {
				t.Fatalf("seed %d, round %d: tasks %v get %d of what was left, want %d\n%+v\n%+v", seed, n,
					tasks, got, want, r, o)
			}
		}
	}
}

// Shuffled inputs, the same outcome; the line moves with the round before, and with no bid.
func TestPostedOrder(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 32))
	first := map[int32]bool{}
	for n := range times(300) {
		r := postedRound(rng, 8, 4, 30)
		r.Prev[0] = byte(n)
		want, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		s := shuffled(rng, r)
		s.Sort()
		got, err := Clear(s)
		if err != nil || !slices.Equal(got.AppendCanonical(nil), want.AppendCanonical(nil)) {
			t.Fatalf("seed %d, round %d: another outcome after shuffling: %v\n%+v\n%+v", seed, n, err, got,
				want)
		}
		if err := Check(r, want); err != nil {
			t.Fatal(err)
		}
		if len(want.Awards) > 0 {
			want.Awards[0].Premium++
			if err := Check(r, want); !errors.Is(err, ErrOutcome) {
				t.Fatalf("a false premium: %v", err)
			}
		}
		two := Round{Domain: "line", Prev: r.Prev,
			Tasks: []Task{{ID: "p", Client: "x"}, {ID: "q", Client: "y"}}}
		before := two.line(two.postedSeed())
		two.Edges = []Edge{{Value: 9}}
		if after := two.line(two.postedSeed()); after[0][0] != before[0][0] {
			t.Fatal("a bid moved the line")
		}
		first[before[0][0]] = true
	}
	if len(first) != 2 {
		t.Errorf("the same client is always first: %v", first)
	}
}

// One rule is never passed off as the other.
func TestPostedIsNamed(t *testing.T) {
	r := Round{Domain: "math", Number: 1, Rule: DefaultRule,
		Tasks:  []Task{{ID: "p", Client: "c"}, {ID: "q", Client: "d"}},
		Agents: []Supply{{"a", open(1)}},
		Edges:  []Edge{{0, 0, 9, 2, 0, 0}, {1, 0, 8, 2, 0, 0}}}
	vcg, err := Clear(r)
	if err != nil || vcg.Awards[0].SlotPrice != 6 {
		t.Fatalf("%+v, %v", vcg, err)
	}
	r.Rule.Pricing = PricingPosted
	posted, err := Clear(r)
	if err != nil || len(posted.Awards) != 1 || posted.Awards[0].Premium != 0 {
		t.Fatalf("%+v, %v", posted, err)
	}
	if err := Check(r, vcg); !errors.Is(err, ErrOutcome) {
		t.Errorf("slot prices in a posted round: %v", err)
	}
	r.Rule.Pricing = PricingVCG
	if err := Check(r, posted); !errors.Is(err, ErrOutcome) {
		t.Errorf("a posted outcome of a vcg round: %v", err)
	}
	r.Rule.Instead = PricingTariff
	if err := r.Validate(); err == nil {
		t.Error("vcg stands in for tariff")
	}
	r.Rule = Rule{Pricing: PricingPosted, Settle: SettleMetered, Clarke: ClarkeClient, Instead: PricingVCG}
	if o, err := Clear(r); err != nil || Check(r, o) != nil {
		t.Errorf("posted instead of vcg: %v", err)
	}
	r.Edges[0].Toll = 1
	if err := Check(r, Outcome{}); err == nil || errors.Is(err, ErrOutcome) {
		t.Errorf("a toll above zero: %v", err)
	}
}
