package hub

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// alarm is an owner of a timer that says when it rang.
type alarm struct {
	timer
	name int
	rang *[]int
}

func (a *alarm) due(*Node) { *a.rang = append(*a.rang, a.name) }

// Timers against a sorted list, under random setting, moving and clearing.
func TestTimers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var ts timers
	var rang []int
	all := make([]*alarm, 50)
	want := map[int]time.Time{}
	for i := range all {
		all[i] = &alarm{name: i, rang: &rang}
		all[i].owner = all[i]
	}
	for now := 0; now < 2000; now++ {
		a := all[r.IntN(len(all))]
		if r.IntN(5) == 0 {
			ts.set(&a.timer, time.Time{})
			delete(want, a.name)
		} else {
			at := start.Add(time.Duration(now+r.IntN(100)) * time.Millisecond)
			ts.set(&a.timer, at)
			want[a.name] = at
		}
		first := time.Time{}
		for _, at := range want {
			first = earlier(first, at)
		}
		if !ts.next().Equal(first) {
			t.Fatalf("step %d: next at %v, want %v", now, ts.next(), first)
		}
		rang = rang[:0]
		clock := start.Add(time.Duration(now) * time.Millisecond)
		for tm := ts.pop(clock); tm != nil; tm = ts.pop(clock) {
			tm.owner.due(nil)
		}
		for name, at := range want {
			if !at.After(clock) != slices.Contains(rang, name) {
				t.Fatalf("step %d: %v rang, %d is set for %v", now, rang, name, at.Sub(start))
			}
		}
		for _, name := range rang {
			delete(want, name)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := testConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := Default().Validate(); err == nil {
		t.Error("a hub without names")
	}
	c := testConfig()
	c.Journal, c.MaxWaiting, c.Deadline = "treasury", 0, 2*c.MaxDeadline
	c.Batch.MaxBatch, c.Settle = 0, "barter"
	c.MaxAgents = maxSeats + 1 // a round of theirs with one task of market.MaxWorth would not be cleared
	err := c.Validate()
	fields := []string{"journal", "max_waiting", "max_agents", "deadline", "max_batch", "settle"}
	for _, field := range fields {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
