package market

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
)

// times is how often a property is tried: n, or a hundred times as often with SOUK_SOAK=1 in the environment.
func times(n int) int {
	if os.Getenv("SOUK_SOAK") != "" {
		return 100 * n
	}
	return n
}

// Hash names the round, as the next one does in Prev.
func (r *Round) Hash() [32]byte { return sha256.Sum256(r.AppendCanonical(nil)) }

// A hub may learn of tasks, agents and edges in any order: the record is the same to the last byte.
func TestShuffledInputs(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 10))
	for n := range times(500) {
		r := randomRound(rng, 8, 5, []int64{2, 4, 1000}[n%3])
		want, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		s := shuffled(rng, r)
		s.Sort()
		got, err := Clear(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Hash() != r.Hash() {
			t.Fatalf("seed %d, round %d: another hash after shuffling", seed, n)
		}
		if !slices.Equal(got.AppendCanonical(nil), want.AppendCanonical(nil)) {
			t.Fatalf("seed %d, round %d: another outcome after shuffling:\n%+v\n%+v", seed, n, got, want)
		}
	}
}

func shuffled(rng *rand.Rand, r Round) Round {
	task, agent := rng.Perm(len(r.Tasks)), rng.Perm(len(r.Agents))
	s := r
	s.Tasks, s.Agents = make([]Task, len(r.Tasks)), make([]Supply, len(r.Agents))
	s.Edges = slices.Clone(r.Edges)
	for from, to := range task {
		s.Tasks[to] = r.Tasks[from]
	}
	for from, to := range agent {
		s.Agents[to] = r.Agents[from]
	}
	for i, e := range s.Edges {
		s.Edges[i].Task, s.Edges[i].Agent = task[e.Task], agent[e.Agent]
	}
	rng.Shuffle(len(s.Edges), func(i, j int) { s.Edges[i], s.Edges[j] = s.Edges[j], s.Edges[i] })
	s.Sellers = slices.Clone(r.Sellers)
	for i, x := range r.Sellers {
		s.Sellers[agent[i]] = x
	}
	return s
}

// utility returns a client's true gain, settled as quoted: the best of its placed tasks by true value, or
// their sum, less what it pays for all of them. The part of a toll that is not charged counts as the loss
// that it is, and a seat to come as if it were paid: told is what was cleared.
func utility(truth, told *Round, o Outcome, client string, best bool) (u Credits) {
	var most, sum, owed Credits
	later := false
	for _, p := range placesOf(told, &o) {
		if told.Tasks[p.task].Client != client {
			continue
		}
		task := slices.IndexFunc(truth.Tasks, func(x Task) bool { return x.ID == told.Tasks[p.task].ID })
		e := edgeOf(truth, task, p.agent)
		value := e.Value - truth.Tasks[task].Delay(truth.Agents[p.agent].Seats[p.seat].In)
		most, sum = max(most, value), sum+value
		u -= e.Cost - e.Toll + truth.Fee
		owed += p.weight
		if p.award != nil {
			u -= p.award.Premium + p.award.Toll + e.Own
		} else {
			later = true
		}
	}
	if later { // what it owes for all of its seats, by what the others have without it
		for _, a := range o.Awards {
			i := slices.IndexFunc(told.Tasks, func(x Task) bool { return x.ID == a.Task })
			if agent, _ := told.place(a.Agent); told.Tasks[i].Client == client {
				u += a.Premium + a.Toll + edgeOf(told, i, agent).Own
			}
		}
		u -= externality(told, &o, client, owed)
	}
	if best {
		return u + most
	}
	return u + sum
}

// externality returns the cost of a client's tasks to the others, by what these have without it; weight is
// what its seats add. Under clarke: task each task's is its own.
func externality(r *Round, o *Outcome, client string, weight Credits) (sum Credits) {
	if r.Rule.Clarke == ClarkeTask {
		for _, p := range placesOf(r, o) {
			if r.Tasks[p.task].Client == client {
				sum += p.price
			}
		}
		return sum
	}
	others := *r
	others.Edges = slices.DeleteFunc(slices.Clone(r.Edges),
		func(e Edge) bool { return r.Tasks[e.Task].Client == client })
	without, err := Clear(others)
	if err != nil {
		panic(err)
	}
	return without.Welfare - (o.Welfare - weight)
}

// lie changes what one client says about its tasks, their values or what a second costs them: never costs,
// tolls or others.
func lie(rng *rand.Rand, r Round, client string) Round {
	scale := []Credits{0, 1, 3, 5, 8, 20}[rng.IntN(6)]
	kind := rng.IntN(4)
	s := r
	s.Edges = nil
	if kind == 3 {
		s.Tasks = slices.Clone(r.Tasks)
		for j := range s.Tasks {
			if t := &s.Tasks[j]; t.Client == client {
				t.Second = (t.Second + Credits(rng.IntN(3))) * scale / 4
			}
		}
	}
	for _, e := range r.Edges {
		if r.Tasks[e.Task].Client == client {
			switch {
			case kind == 0:
				e.Value = e.Value * scale / 4
			case kind == 1:
				e.Value += Credits(rng.Int64N(21) - 10)
			case kind == 2 && rng.IntN(2) == 0:
				continue // says it cannot use this agent
			}
		}
		s.Edges = append(s.Edges, e)
	}
	return s
}

// One task a client: no lie about values, settled as quoted, gains anything. Tolls, fees and seats to come
// are at work.
func TestLiesDoNotPay(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 11))
	moved := 0
	for n := range times(12_500) {
		r := randomRound(rng, 7, 4, []int64{6, 30, 1000}[n%3])
		for j := range r.Tasks {
			r.Tasks[j].Client = string(r.Tasks[j].ID)
		}
		honest, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		for range 8 {
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

// A toll that moves the assignment and is not charged would make lying pay, which is why it is part of the
// premium.
func TestUnchargedTollsWouldMakeLyingPay(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 16))
	keeps := func(truth, told *Round, o Outcome, client string) Credits {
		for i := range o.Awards {
			o.Awards[i].Premium = o.Awards[i].SlotPrice
		}
		return utility(truth, told, o, client, false)
	}
	gained := 0
	for range 2000 {
		r := randomRound(rng, 7, 4, 30)
		for j := range r.Tasks {
			r.Tasks[j].Client = string(r.Tasks[j].ID)
		}
		client := r.Tasks[rng.IntN(len(r.Tasks))].Client
		honest, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		told := lie(rng, r, client)
		o, err := Clear(told)
		if err != nil {
			t.Fatal(err)
		}
		if keeps(&r, &told, o, client) > keeps(&r, &r, honest, client) {
			gained++
		}
	}
	if gained == 0 {
		t.Error("no lie would have paid")
	}
	t.Logf("%d of 2000 lies would have paid", gained)
}

// A client that asks for one thing under two names pays for both and gains nothing.
func TestSplitNamesDoNotPay(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 12))
	for n := range times(4000) {
		r := randomRound(rng, 6, 3, []int64{6, 30, 1000}[n%3])
		for j := range r.Tasks {
			r.Tasks[j].Client = string(r.Tasks[j].ID)
		}
		honest, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		j := rng.IntN(len(r.Tasks))
		client := r.Tasks[j].Client
		truth := r
		truth.Tasks = append(slices.Clone(r.Tasks), Task{ID: "z", Client: client, Second: r.Tasks[j].Second,
			Within: r.Tasks[j].Within})
		truth.Edges = slices.Clone(r.Edges)
		for _, e := range r.Edges {
			if e.Task == j {
				e.Task = len(r.Tasks)
				truth.Edges = append(truth.Edges, e)
			}
		}
		told := lie(rng, truth, client)
		told.Sort()
		o, err := Clear(told)
		if err != nil {
			t.Fatal(err)
		}
		was, is := utility(&r, &r, honest, client, true), utility(&truth, &told, o, client, true)
		if is > was {
			t.Fatalf("seed %d, round %d: %s keeps %d under two names and %d under one\n%+v\n%+v", seed, n,
				client, is, was, r, told)
		}
	}
}

// Whatever the predictor said, what clients pay covers what agents are due, with the same integer on both
// sides, and no premium is below the fee.
func TestNoDeficit(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 14))
	price := Price{Miss: 3 * Credit, Hit: Credit, Out: 9 * Credit}
	for n := range times(2000) {
		r := randomRound(rng, 7, 4, 1000)
		o, err := Clear(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, settle := range []string{SettleMetered, SettleQuoted} {
			var paid, due, surplus Credits
			for _, a := range o.Awards {
				hold := Hold(a.Premium, Credits(rng.Int64N(3000)), Credits(rng.Int64N(4000))+a.Premium)
				cost := Settle(settle, price, 0, a.Cost,
					Usage{Prompt: rng.IntN(90), Cached: rng.IntN(90), Output: rng.IntN(50)}, hold-a.Premium)
				if a.Premium < r.Fee || cost < 0 || a.Premium+cost > hold {
					t.Fatalf("seed %d, round %d: premium %d, cost %d, fee %d, hold %d", seed, n, a.Premium,
						cost, r.Fee, hold)
				}
				paid, due, surplus = paid+a.Premium+cost, due+cost, surplus+a.Premium-r.Fee
			}
			if paid != due+surplus+r.Fee*Credits(len(o.Awards)) || surplus < 0 {
				t.Fatalf("seed %d, round %d: paid %d, due %d, surplus %d", seed, n, paid, due, surplus)
			}
		}
	}
}

// Under metered a client that knows its own output length better than the predictor can gain by shading its
// value; under quoted it cannot. This is the price of billing real usage, and it is said in the package
// comment.
func TestPrivateLengthPaysUnderMeteredOnly(t *testing.T) {
	// The task costs 2 on either agent by prediction; the client knows that on a it will really cost 8.
	r := Round{Domain: "math", Rule: taskRule, Tasks: []Task{{ID: "p"}},
		Agents: []Supply{{"a", open(1)}, {"b", open(1)}},
		Edges:  []Edge{{Task: 0, Agent: 0, Value: 10, Cost: 2}, {Task: 0, Agent: 1, Value: 9, Cost: 2}}}
	real := map[AgentID]Credits{"a": 8, "b": 2}
	keeps := func(r Round, settle string) Credits {
		o, err := Clear(r)
		if err != nil || len(o.Awards) != 1 {
			t.Fatal(o, err)
		}
		a := o.Awards[0]
		value := map[AgentID]Credits{"a": 10, "b": 9}[a.Agent]
		cost := Settle(settle, Price{Miss: 1_000_000}, 0, a.Cost, Usage{Prompt: int(real[a.Agent])}, 100)
		return value - cost - a.Premium
	}
	shaded := r
	shaded.Edges = slices.Clone(r.Edges)
	shaded.Edges[0].Value = 4
	if honest, lied := keeps(r, SettleMetered), keeps(shaded, SettleMetered); lied != 7 || honest != 2 {
		t.Errorf("metered: honest %d, lied %d, want 2 and 7", honest, lied)
	}
	if honest, lied := keeps(r, SettleQuoted), keeps(shaded, SettleQuoted); lied >= honest {
		t.Errorf("quoted: honest %d, lied %d: the lie pays", honest, lied)
	}
}

// Rounds cleared side by side come out as rounds cleared one after another.
func TestClearSideBySide(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 15))
	rounds := make([]Round, 64)
	want := make([][]byte, len(rounds))
	for i := range rounds {
		rounds[i] = clientRound(rng, i)
		o, err := Clear(rounds[i])
		if err != nil {
			t.Fatal(err)
		}
		want[i] = o.AppendCanonical(nil)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range rounds {
				i = (i*5 + g) % len(rounds)
				o, err := Clear(rounds[i])
				if err == nil {
					err = Check(rounds[i], o)
				}
				if err != nil || !slices.Equal(o.AppendCanonical(nil), want[i]) {
					t.Errorf("seed %d, round %d differs side by side: %v", seed, i, err)
				}
			}
		})
	}
	wg.Wait()
}

// A stopped round has no outcome; one that is not stopped in time has the usual one.
func TestClearUntil(t *testing.T) {
	r := hubRound(200, 100, 150, 100, 40)
	want, err := Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	if o, err := ClearChecked(&r, func() bool { asked++; return true }); !errors.Is(err, ErrStopped) ||
		len(o.Awards) > 0 || asked == 0 {
		t.Errorf("stopped after asking %d times: %d awards, %v", asked, len(o.Awards), err)
	}
	o, err := ClearChecked(&r, func() bool { return false })
	if err != nil || !slices.Equal(o.AppendCanonical(nil), want.AppendCanonical(nil)) {
		t.Errorf("not stopped: %v, or another outcome", err)
	}
}
