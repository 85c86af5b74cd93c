package market

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every bad round is refused with the field and the limit; Clear and Check refuse it too and never panic.
func TestBadRounds(t *testing.T) {
	good := func() Round {
		return Round{Domain: "math", Number: 1, Rule: taskRule,
			Tasks:  []Task{{ID: "p", Client: "c"}, {ID: "q", Client: "c"}},
			Agents: []Supply{{"a", []Seat{{Slots: 1}, {1, 2, true}}}, {"b", nil}},
			Edges:  []Edge{{0, 0, 9, 2, 0, 0}, {0, 1, 9, 2, 0, 0}, {1, 0, 8, 2, 0, 0}}}
	}
	r := good()
	if o, err := Clear(r); err != nil || Check(r, o) != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", MaxID+1)
	for _, c := range []struct {
		want  string
		spoil func(r *Round)
	}{
		{`pricing is ""`, func(r *Round) { r.Rule.Pricing = "" }},
		{`settle is "free"`, func(r *Round) { r.Rule.Settle = "free" }},
		{`clarke is "x"`, func(r *Round) { r.Rule.Clarke = "x" }},
		{"domain has 257 bytes", func(r *Round) { r.Domain = long }},
		{"fee is -0.000000001", func(r *Round) { r.Fee = -1 }},
		{"fee is", func(r *Round) { r.Fee = MaxWorth + 1 }},
		{"task 0: id has 0 bytes", func(r *Round) { r.Tasks[0].ID = "" }},
		{"task 1: id has 257 bytes", func(r *Round) { r.Tasks[1].ID = TaskID(long) }},
		{"task p: client has 257 bytes", func(r *Round) { r.Tasks[0].Client = long }},
		{"task p: client has 0 bytes",
			func(r *Round) { r.Rule.Clarke = ClarkeClient; r.Tasks[0].Client = "" }},
		{"task q: listed twice", func(r *Round) { r.Tasks[0].ID = "q" }},
		{"task q: out of order", func(r *Round) { r.Tasks[0].ID = "z" }},
		{"agent 0: id has 0 bytes", func(r *Round) { r.Agents[0].Agent = "" }},
		{"agent b: listed twice", func(r *Round) { r.Agents[0].Agent = "b" }},
		{"agent b: out of order", func(r *Round) { r.Agents[0].Agent = "c" }},
		{"task p: a second costs it -0.000000001", func(r *Round) { r.Tasks[0].Second = -1 }},
		{"task p: turn is -1, want 0 to 1023", func(r *Round) { r.Tasks[0].Turn = -1 }},
		{"task p: turn is 1024", func(r *Round) { r.Tasks[0].Turn = MaxTurn + 1 }},
		{"task p: a second costs it 1000000000.0", func(r *Round) { r.Tasks[0].Second = MaxCredits + 1 }},
		{"agent b: 4097 seats", func(r *Round) { r.Agents[1].Seats = make([]Seat, MaxSeats+1) }},
		{"seat 0 has 0 slots", func(r *Round) { r.Agents[0].Seats[0].Slots = 0 }},
		{"seat 0 has 1048577 slots", func(r *Round) { r.Agents[0].Seats[0].Slots = MaxSlots + 1 }},
		{"seat 0 comes in -1ns", func(r *Round) { r.Agents[0].Seats[0].In = -1 }},
		{"seat 1 comes in 24h0m0.000000001s", func(r *Round) { r.Agents[0].Seats[1].In = MaxIn + 1 }},
		{"seat 1 comes in 2ns, sooner than", func(r *Round) { r.Agents[0].Seats[0] = Seat{1, 3, true} }},
		{"seat 1 is free, and the seat before it is to come", func(r *Round) {
			r.Agents[0].Seats[0], r.Agents[0].Seats[1] = r.Agents[0].Seats[1], r.Agents[0].Seats[0]
		}},
		{`a seat to come under pricing "posted"`, func(r *Round) { r.Rule.Pricing = PricingPosted }},
		{"task index is 2", func(r *Round) { r.Edges[2].Task = 2 }},
		{"task index is -1", func(r *Round) { r.Edges[0].Task = -1 }},
		{"agent index is 2", func(r *Round) { r.Edges[2].Agent = 2 }},
		{"edge p > a: listed twice", func(r *Round) { r.Edges[1].Agent = 0 }},
		{"edge p > a: out of order", func(r *Round) { r.Edges[0].Agent = 1; r.Edges[1].Agent = 0 }},
		{"edge p > a: value is", func(r *Round) { r.Edges[0].Value = MaxCredits + 1 }},
		{"edge p > a: value is", func(r *Round) { r.Edges[0].Value = -MaxCredits - 1 }},
		{"edge p > a: cost is", func(r *Round) { r.Edges[0].Cost = -1 }},
		{"edge p > a: toll is", func(r *Round) { r.Edges[0].Toll = 1 }},
		{"edge p > a: the client's own part of its toll is 0.000000001, want 0 to 0",
			func(r *Round) { r.Edges[0].Own = 1 }},
		{"edge p > a: the client's own part of its toll is -0.000000001",
			func(r *Round) { r.Edges[0].Own = -1 }},
		{"131073 tasks", func(r *Round) { r.Tasks = make([]Task, MaxTasks+1) }},
		{"16385 agents", func(r *Round) { r.Agents = make([]Supply, MaxAgents+1) }},
		{"1048577 edges", func(r *Round) { r.Edges = make([]Edge, MaxEdges+1) }},
		{"65540 seats of all agents", func(r *Round) { r.Agents, r.Edges = manySeats(1130, 58), nil }},
		{"edges counted once for every seat", func(r *Round) { manySeatEdges(r) }},
		{"edge p > a0000: weight is", func(r *Round) {
			r.Agents, r.Edges = manySeats(64, 64), []Edge{{Value: MaxCredits}}
		}},
		{"weights of all tasks sum to more than", func(r *Round) {
			r.Agents, r.Tasks, r.Edges = []Supply{{"a", open(100)}}, nil, nil
			for j := range 100 {
				r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("t%02d", j))})
				r.Edges = append(r.Edges, Edge{Task: j, Value: MaxCredits})
			}
		}},
	} {
		r := good()
		c.spoil(&r)
		err := r.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "round ") {
			t.Errorf("%v, want an error with %q", err, c.want)
			continue
		}
		if _, err := Clear(r); err == nil {
			t.Errorf("%s: cleared all the same", c.want)
		}
		if Check(r, Outcome{}) == nil {
			t.Errorf("%s: checked all the same", c.want)
		}
	}
}

func manySeats(agents, seats int) (s []Supply) {
	for i := range agents {
		a := Supply{Agent: AgentID(fmt.Sprintf("a%04d", i))}
		for k := range seats {
			a.Seats = append(a.Seats, Seat{Slots: 1, In: time.Duration(k), Later: k > 0})
		}
		s = append(s, a)
	}
	return s
}

func manySeatEdges(r *Round) {
	r.Agents, r.Tasks, r.Edges = manySeats(66, 64), nil, nil
	for j := range 1000 {
		r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprintf("t%04d", j))})
		for i := range r.Agents {
			r.Edges = append(r.Edges, Edge{Task: j, Agent: i, Value: 1})
		}
	}
}

// Weights at the bound still clear and check: no sum overflows.
func TestWeightsAtTheBound(t *testing.T) {
	r := Round{Rule: taskRule}
	for i := range 3 {
		r.Agents = append(r.Agents, Supply{AgentID(fmt.Sprint("a", i)), open(1)})
	}
	top := min(MaxCredits, Credits((1<<62-1)/4))
	for j := range 4 {
		r.Tasks = append(r.Tasks, Task{ID: TaskID(fmt.Sprint("t", j))})
		for i := range 3 {
			r.Edges = append(r.Edges, Edge{Task: j, Agent: i, Value: top - Credits(i*j)})
		}
	}
	o, err := Clear(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(r, o); err != nil {
		t.Fatal(err)
	}
	if want := brute(&r, -1); o.Welfare != want {
		t.Errorf("welfare %d, want %d", o.Welfare, want)
	}
}

func TestSort(t *testing.T) {
	r := Round{
		Tasks:  []Task{{ID: "q"}, {ID: "p"}},
		Agents: []Supply{{Agent: "b"}, {Agent: "a"}},
		Edges: []Edge{{Task: 0, Agent: 0, Value: 1}, {Task: 1, Agent: 1, Value: 2},
			{Task: 0, Agent: 1, Value: 3}, {Task: 7, Agent: -1}},
	}
	r.Sort()
	want := []Edge{{Task: 0, Agent: 0, Value: 2}, {Task: 1, Agent: 0, Value: 3},
		{Task: 1, Agent: 1, Value: 1}, {Task: 7, Agent: -1}}
	if r.Tasks[0].ID != "p" || r.Agents[0].Agent != "a" || !slices.Equal(r.Edges, want) {
		t.Errorf("%+v", r)
	}
}

// Edges that find their places by their tasks stand as those that were compared, whatever order they came in,
// and what stands beside them moves with them.
func TestSortEdges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		tasks := 1 + rng.IntN(20)
		edges := make([]Edge, rng.IntN(60))
		for i := range edges {
			edges[i] = Edge{Task: rng.IntN(tasks), Agent: rng.IntN(8), Value: Credits(i)}
		}
		if len(edges) > 0 && rng.IntN(10) == 0 {
			edges[0].Task = tasks + rng.IntN(2) // which Validate refuses
		}
		want := slices.Clone(edges)
		slices.SortStableFunc(want, compareEdges)
		before := slices.Clone(edges)
		moved := sortEdges(make([]int, 2*few), edges, tasks)
		if !slices.Equal(edges, want) || !slices.Equal(follow(before, moved), want) {
			t.Fatalf("%v are sorted as %v, and beside them %v", before, edges, follow(before, moved))
		}
	}
}

// Tasks stand as text is compared, however much of their ids is the same, or of bytes that are 0. Equal ones
// stand as before.
func TestSortTasks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	text := func(most int) string {
		b := make([]byte, rng.IntN(most))
		for i := range b {
			b[i] = "\x00\x01ab\xff"[rng.IntN(5)]
		}
		return string(b)
	}
	for range 2000 {
		begin, most := text(12), 2+rng.IntN(20)
		tasks := make([]Task, rng.IntN(12))
		for i := range tasks {
			tasks[i] = Task{ID: TaskID(begin + text(most)), Client: fmt.Sprint(i)}
		}
		want, got := slices.Clone(tasks), slices.Clone(tasks)
		wentBy := sortIndexed(make([]int, 2*few), want,
			func(a, b *Task) int { return cmp.Compare(a.ID, b.ID) })
		if went := sortTasks(got); !slices.Equal(got, want) || !slices.Equal(went, wentBy) {
			t.Fatalf("%+v are %+v, not %+v; went %v, not %v", tasks, got, want, went, wentBy)
		}
	}
}
