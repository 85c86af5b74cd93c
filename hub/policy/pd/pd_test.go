package pd

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"souk/bus/policy"
	"souk/market"
)

var start = time.Unix(1_800_000_000, 0)

func served(p *PD, role policy.ID, n, prompt, cached, output int) {
	for range n {
		p.Observe(policy.Event{Kind: policy.Served, At: start, Client: 1, Role: role,
			Usage: market.Usage{Prompt: prompt, Cached: cached, Output: output}})
	}
}

func where(p *PD, role policy.ID) string {
	split := p.Score(start, policy.Item{Kind: policy.Pair, Role: role, Split: true})
	single := p.Score(start, policy.Item{Kind: policy.Pair, Role: role})
	switch {
	case split == policy.Never && single == 0:
		return "single"
	case single == policy.Never && split == 0:
		return "split"
	case single == 0 && split == 0:
		return "any"
	}
	return "nowhere"
}

// A role goes by what it computes for what it answers; who is hardly known goes anywhere, and a role of long
// prompts that caches hold is one of answers.
func TestRolesGoByWhatTheyNeed(t *testing.T) {
	p := New()
	for role, c := range []struct {
		n, prompt, cached, output int
		want                      string
	}{
		{3, 8000, 0, 50, "any"}, {10, 8000, 0, 50, "split"}, {10, 8000, 7900, 50, "single"},
		{10, 8000, 0, 2000, "single"}, {10, 300, 0, 3, "single"}, {0, 0, 0, 0, "any"},
	} {
		served(p, policy.ID(role+1), c.n, c.prompt, c.cached, c.output)
		if got := where(p, policy.ID(role+1)); got != c.want {
			t.Errorf("%+v goes to %s", c, got)
		}
	}
	if where(p, 0) != "any" {
		t.Error("without a role a task goes anywhere")
	}
}

// A role at the line does not go to and fro: once it is of prompts it takes clearly less for it not to be.
func TestNoToAndFro(t *testing.T) {
	p := New()
	served(p, 1, 50, 900, 0, 100)
	served(p, 1, 100, 780, 0, 100)
	if got := where(p, 1); got != "split" {
		t.Errorf("a little below the line it goes to %s", got)
	}
	served(p, 1, 200, 500, 0, 100)
	if got := where(p, 1); got != "single" {
		t.Errorf("clearly below it it goes to %s", got)
	}
}

// Where too few engines are of the kind that a role wants, so that it waits, it goes anywhere until it does
// not.
func TestWhoWaitsGoesAnywhere(t *testing.T) {
	p := New()
	turn := func(n int, first time.Duration) string {
		for range n {
			p.Observe(policy.Event{Kind: policy.Served, At: start, Client: 1, Role: 1, TTFT: first,
				Usage: market.Usage{Prompt: 6000, Output: 60}})
		}
		return where(p, 1)
	}
	for i, c := range []struct {
		n     int
		first time.Duration
		want  string
	}{{10, 300 * time.Millisecond, "split"}, {40, 3 * time.Second, "any"}, {10, time.Second, "any"},
		{80, 300 * time.Millisecond, "split"}} {
		if got := turn(c.n, c.first); got != c.want {
			t.Errorf("%d: it goes to %s, want %s", i, got, c.want)
		}
	}
}

// A task that has waited for a second goes anywhere, though its role goes to engines of one kind alone: these
// are full.
func TestNoTaskWaitsForItsKindForEver(t *testing.T) {
	p := New()
	served(p, 1, 10, 8000, 0, 50)
	for age, want := range map[time.Duration]float64{0: policy.Never, time.Second - 1: policy.Never,
		time.Second: 0} {
		if got := p.Score(start, policy.Item{Kind: policy.Pair, Role: 1, Age: age}); got != want {
			t.Errorf("after %v an engine that does both is %v, want %v", age, got, want)
		}
	}
}

// Nonsense says nothing, and a million roles of one client make no other's be forgotten.
func TestNonsense(t *testing.T) {
	if size := unsafe.Sizeof(role{}); size > 32 {
		t.Errorf("%d bytes a role", size)
	}
	p := New()
	p.Observe(policy.Event{Kind: policy.Served, Client: 9, Role: 7,
		Usage: market.Usage{Prompt: 1, Output: 1}})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		p.Observe(policy.Event{Kind: policy.EventKind(rng.IntN(9)), Client: 2, Role: rng.Uint64(),
			Usage: market.Usage{Prompt: rng.IntN(100) - 50, Cached: rng.IntN(100) - 50,
				Output: rng.IntN(9) - 4}})
	}
	if p.roles.Peek(7) == nil || p.roles.Len() > mostRoles {
		t.Errorf("of another's role %v is known, %d in all", p.roles.Peek(7), p.roles.Len())
	}
}

func BenchmarkScore(b *testing.B) {
	p := New()
	for r := range policy.ID(200) {
		served(p, r+1, 5, 1000, 0, 10)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Score(start, policy.Item{Kind: policy.Pair, Role: 1 + policy.ID(i)%200})
	}
}
