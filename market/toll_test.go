package market

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A regime acts on a round through the toll alone: tau*scale*(g - max g) - (1-omega)*saved, with seeded
// Gumbel draws g and what a cached prefix saves. It is never above zero and no bid is in it.
func regimeTolls(rng *rand.Rand, r *Round) {
	tau, omega := 2*rng.Float64(), rng.Float64()
	var scale float64
	for _, e := range r.Edges {
		scale += float64(e.Cost) / float64(len(r.Edges))
	}
	draws, most := make([]float64, len(r.Edges)), math.Inf(-1)
	for i := range draws {
		draws[i] = -math.Log(-math.Log(rng.Float64()))
		most = max(most, draws[i])
	}
	for i := range r.Edges {
		saved := float64(rng.Int64N(1 + int64(r.Edges[i].Cost)))
		r.Edges[i].Toll = Credits(min(0, math.Floor(tau*scale*(draws[i]-most)-(1-omega)*saved)))
		r.Edges[i].Own = Credits(rng.Int64N(1 - int64(r.Edges[i].Toll)))
	}
}

// Through this door nobody gains by lying, nobody is served at a loss, and premiums cover the fee.
func TestRegimeTolls(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 40))
	moved, lies := 0, 0
	for n := range times(3000) {
		r := randomRound(rng, 7, 4, []int64{30, 1000}[n%2])
		for j := range r.Tasks {
			r.Tasks[j].Client = string(r.Tasks[j].ID)
		}
		plain := r
		plain.Edges = slices.Clone(r.Edges)
		for i := range plain.Edges {
			plain.Edges[i].Toll, plain.Edges[i].Own = 0, 0
		}
		regimeTolls(rng, &r)
		honest, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		untolled, err := Clear(plain)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(honest.Awards, untolled.Awards,
			func(a, b Award) bool { return a.Task == b.Task && a.Agent == b.Agent }) {
			moved++
		}
		for _, a := range honest.Awards {
			if keeps := a.Value - a.Cost - a.Premium; keeps < 0 || a.Premium < r.Fee+a.SlotPrice {
				t.Fatalf("seed %d, round %d: award %+v leaves its client %d", seed, n, a, keeps)
			}
		}
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		for range 8 {
			told := lie(rng, r, client)
			o, err := Clear(told)
			if err != nil {
				t.Fatal(err)
			}
			lies++
			was, is := utility(&r, &r, honest, client, false), utility(&r, &told, o, client, false)
			if is > was {
				t.Fatalf("seed %d, round %d: %s keeps %d by lying and %d without\n%+v", seed, n, client, is,
					was, r)
			}
		}
	}
	if moved == 0 {
		t.Error("no toll moved anything: the test sees nothing")
	}
	t.Logf("%d lies, 0 paid; tolls moved %d of %d rounds", lies, moved, times(3000))
}

// Why no bid may be in a toll: one that takes a quarter of what a client claims makes claiming less pay.
func TestTollsOnBidsWouldMakeLyingPay(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 41))
	onBids := func(r Round) Round {
		r.Edges = slices.Clone(r.Edges)
		for i, e := range r.Edges {
			r.Edges[i].Toll, r.Edges[i].Own = -max(0, e.Value/4), 0
		}
		return r
	}
	gained := 0
	for range 1000 {
		r := randomRound(rng, 7, 4, 30)
		for j := range r.Tasks {
			r.Tasks[j].Client = string(r.Tasks[j].ID)
		}
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		truth, told := onBids(r), onBids(lie(rng, r, client))
		honest, err := Clear(truth)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Clear(told)
		if err != nil {
			t.Fatal(err)
		}
		if paid(&r, &told, o, client) > paid(&r, &truth, honest, client) {
			gained++
		}
	}
	if gained == 0 {
		t.Error("no lie would have paid")
	}
}

// paid returns a client's gain from its tasks that begin.
func paid(truth, told *Round, o Outcome, client string) (u Credits) {
	for _, p := range placesOf(told, &o) {
		if told.Tasks[p.task].Client == client && p.award != nil {
			e := edgeOf(truth, p.task, p.agent)
			value := e.Value - truth.Tasks[p.task].Delay(truth.Agents[p.agent].Seats[p.seat].In)
			u += value - e.Cost - p.award.Premium
		}
	}
	return u
}

// Why no toll may be above zero, and such rounds are refused: premium is slot price - toll, so that a bonus
// is paid out of money that nobody brought.
func TestTollsAboveZeroWouldOpenDeficits(t *testing.T) {
	r := Round{Domain: "math", Number: 1, Rule: DefaultRule, Tasks: []Task{{ID: "p", Client: "c"}},
		Agents: []Supply{{"a", open(1)}}, Edges: []Edge{{0, 0, 9, 2, 3, 0}}}
	if _, err := Clear(r); err == nil {
		t.Error("a toll above zero was cleared")
	}
	if a := r.award(r.Edges[0], seat{0, 0}, 0); a.Premium >= 0 {
		t.Errorf("it would not have been a deficit: premium %d", a.Premium)
	}
}
