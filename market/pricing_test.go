package market

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever is changed in a posted round's outcome, another assignment or another payment is never taken for
// the line's.
func TestMutatedPostedOutcomes(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 60))
	several, refused := 0, 0
	for n := range times(1500) {
		r := clientRound(rng, n)
		r = asPosted(r)
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(r, o); err != nil {
			t.Fatalf("seed %d, round %d: %v\n%+v\n%+v", seed, n, err, r, o)
		}
		several += len(o.Clients)
		good := o.AppendCanonical(nil)
		for range 8 {
			m, err := DecodeOutcome(good)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + rng.IntN(3) {
				mutatePosted(rng, &r, &m)
			}
			switch err := Check(r, m); {
			case err == nil && !slices.Equal(m.Awards, o.Awards):
				t.Fatalf("seed %d, round %d: a false outcome passes\n%+v\n%+v\ntrue:\n%+v", seed, n, r, m, o)
			case err != nil && !errors.Is(err, ErrOutcome):
				t.Fatalf("seed %d, round %d: %v", seed, n, err)
			case err != nil:
				refused++
			}
		}
	}
	if several == 0 || refused == 0 {
		t.Errorf("%d clients with a proof, %d outcomes refused: the test sees nothing", several, refused)
	}
}

func mutatePosted(rng *rand.Rand, r *Round, m *Outcome) {
	d := rng.Int64N(5) - 2
	if len(m.Clients) > 0 {
		c := &m.Clients[rng.IntN(len(m.Clients))]
		switch rng.IntN(5) {
		case 0:
			if len(c.Prices) > 0 {
				c.Prices[rng.IntN(len(c.Prices))].Price += Credits(d)
			}
		case 1:
			if len(c.Ties) > 0 {
				c.Ties[rng.IntN(len(c.Ties))].Rank += d
			}
		case 2:
			c.Externality += Credits(d)
		case 3:
			m.Clients = slices.Delete(m.Clients, 0, 1)
		}
	}
	if len(m.Awards) == 0 || len(r.Edges) == 0 {
		return
	}
	i := rng.IntN(len(m.Awards))
	switch a := &m.Awards[i]; rng.IntN(4) {
	case 0:
		a.SlotPrice += Credits(d)
		a.Premium += Credits(d)
	case 1: // one goes
		m.Welfare -= a.Value - a.Cost + a.Toll
		m.Awards = slices.Delete(m.Awards, i, i+1)
	default: // to another seat, every figure as it would be there
		e := r.Edges[rng.IntN(len(r.Edges))]
		s := r.Agents[e.Agent]
		if r.Tasks[e.Task].ID != a.Task || len(s.Seats) == 0 {
			return
		}
		m.Welfare -= a.Value - a.Cost + a.Toll
		*a = r.award(e, seat{int32(e.Agent), int32(rng.IntN(len(s.Seats)))}, 0)
		m.Welfare += a.Value - a.Cost + a.Toll
	}
}

// What rounds of the other pricings say comes back as it was, and there is one encoding of it.
func TestEncodingOfMore(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 61))
	ties := 0
	for n := range times(600) {
		r := clientRound(rng, n)
		r.Rule.Pricing = []string{PricingPosted, PricingTariff, PricingVCG}[n%3]
		switch r.Rule.Pricing {
		case PricingPosted:
			r = asPosted(r)
			r.Rule.Instead = []string{"", PricingVCG}[rng.IntN(2)]
		case PricingTariff:
			for i := range r.Agents {
				r.Sellers = append(r.Sellers, Seller{Owner: string(rune('p' + i)), Class: "h200", Tariff: 3})
			}
			for i := range r.Edges {
				r.Edges[i].Cost += 3
			}
		}
		data := r.AppendCanonical(nil)
		got, err := DecodeRound(data)
		if err != nil || !cmp.Equal(got, r) {
			t.Fatalf("seed %d: %v\n%s", seed, err, cmp.Diff(r, got))
		}
		o, err := Clear(r)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, c := range o.Clients {
			ties += len(c.Ties)
		}
		if err := Check(got, o); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		out := o.AppendCanonical(nil)
		back, err := DecodeOutcome(out)
		if err != nil || !cmp.Equal(back, o) || !bytes.Equal(back.AppendCanonical(nil), out) {
			t.Fatalf("seed %d: %v\n%s", seed, err, cmp.Diff(o, back))
		}
		if x, err := Explain(r, o); err != nil || !strings.Contains(x.String(), "pricing "+r.Rule.Pricing) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		s := shuffled(rng, r)
		s.Sort()
		if !cmp.Equal(s.Sellers, r.Sellers) {
			t.Fatalf("seed %d: %+v, want %+v", seed, s.Sellers, r.Sellers)
		}
	}
	if ties == 0 {
		t.Error("no client of a posted round had a tie to prove: the test sees nothing")
	}
}

func TestSellers(t *testing.T) {
	good := func() Round {
		return Round{Domain: "math",
			Rule:    Rule{Pricing: PricingTariff, Settle: SettleMetered, Clarke: ClarkeClient},
			Tasks:   []Task{{ID: "p", Client: "c"}},
			Agents:  []Supply{{"a", open(1)}, {"b", open(1)}},
			Edges:   []Edge{{Task: 0, Agent: 0, Value: 9, Cost: 5}},
			Sellers: []Seller{{"o", "h200", 3}, {"q", "h200", 3}}}
	}
	if r := good(); r.Validate() != nil {
		t.Fatal(r.Validate())
	}
	for want, spoil := range map[string]func(*Round){
		"2 sellers of 2 agents under pricing \"vcg\"": func(r *Round) { r.Rule.Pricing = PricingVCG },
		"1 sellers of 2 agents":                       func(r *Round) { r.Sellers = r.Sellers[:1] },
		"0 sellers of 2 agents":                       func(r *Round) { r.Sellers = nil },
		"agent a: owner and class":                    func(r *Round) { r.Sellers[0].Owner = "" },
		"agent b: tariff is -":                        func(r *Round) { r.Sellers[1].Tariff = -1 },
		"agent b: tariff is 0.000000004, and that of another agent of class h200": func(r *Round) { r.Sellers[1].Tariff = 4 },
		"less than the tariff": func(r *Round) { r.Edges[0].Cost = 2 },
		"without a word": func(r *Round) {
			r.Rule.Pricing = PricingPosted
			clear(r.Sellers)
		},
	} {
		r := good()
		spoil(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// What a posted round and one with tariffs say of themselves.
func TestExplanationOfOtherPricings(t *testing.T) {
	r := Round{Domain: "math", Number: 1,
		Rule: Rule{Pricing: PricingPosted, Settle: SettleMetered, Clarke: ClarkeClient,
			Instead: PricingVCG},
		Tasks:  []Task{{ID: "p/1", Client: "p"}, {ID: "q/1", Client: "q"}},
		Agents: []Supply{{"a", open(1)}, {"b", open(1)}},
		Edges:  []Edge{{0, 0, 9, 2, 0, 0}, {0, 1, 5, 1, 0, 0}, {1, 0, 9, 2, 0, 0}}}
	tariff := r
	tariff.Rule = Rule{Pricing: PricingTariff, Settle: SettleMetered, Clarke: ClarkeClient}
	tariff.Sellers = []Seller{{"o", "h200", 1}, {"w", "h200", 1}}
	for _, c := range []struct {
		round Round
		says  []string
	}{
		{r, []string{"pricing posted instead of vcg, whose solve had to be stopped",
			"; its client is 1 of 2 in the line", "; its client is 2 of 2 in the line",
			"prices are posted: whoever comes first takes it"}},
		{tariff, []string{"pricing tariff,", "cost 0.000000002 (tariff 0.000000001 in it)"}},
	} {
		o, err := Clear(c.round)
		if err != nil {
			t.Fatal(err)
		}
		x, err := Explain(c.round, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.says {
			if !strings.Contains(x.String(), want) {
				t.Errorf("it does not say %q:\n%s", want, x)
			}
		}
	}
}

func TestEpochEncoding(t *testing.T) {
	e := Epoch{Class: "h200", Number: 300, Prev: [32]byte{31: 7}, Ceiling: 90, Winners: 2,
		Lost: []string{"c"}}
	for i, owner := range []string{"a", "b", "c"} {
		a := Ask{Owner: owner, Amount: Credits(10 * i), Nonce: [16]byte{byte(i)}}
		e.Opened, e.Seals = append(e.Opened, a), append(e.Seals, Sealed{owner, a.Seal(e.Class, e.Number)})
	}
	tariff, err := e.Clear()
	if err != nil {
		t.Fatal(err)
	}
	data, of := e.AppendCanonical(nil), tariff.AppendCanonical(nil)
	if got, err := DecodeEpoch(data); err != nil || !cmp.Equal(got, e) {
		t.Errorf("%v: %+v", err, got)
	}
	if got, err := DecodeTariff(of); err != nil || !cmp.Equal(got, tariff) {
		t.Errorf("%v: %+v", err, got)
	}
	for n := range data {
		if _, err := DecodeEpoch(data[:n]); !errors.Is(err, ErrEncoding) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	for n := range of {
		if _, err := DecodeTariff(of[:n]); !errors.Is(err, ErrEncoding) {
			t.Fatalf("%d of %d bytes: %v", n, len(of), err)
		}
	}
}
